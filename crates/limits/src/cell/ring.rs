//! The strict sliding window for counts up to [`MAX_RING`](super::MAX_RING): the time of every call in it.

use std::collections::VecDeque;

use super::Usage;

/// The times of the calls that were in the window at the last admission, oldest first. A call at `t` has left the window
/// at `t + window`.
///
/// There may be more entries than a lowered count allows. They decide nothing that the newest `count` do not decide, but
/// raising the count again would give a free burst without them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ring {
    times: VecDeque<u64>,
    window: u64,
}

/// How many expired entries are stepped over one by one before searching.
const STEPS: usize = 4;

impl Ring {
    pub(crate) fn new(window: u64) -> Self {
        Self { times: VecDeque::new(), window }
    }

    /// Of entries `(time, calls)`, oldest first.
    pub(crate) fn from_entries(window: u64, entries: impl Iterator<Item = (u64, u64)>) -> Self {
        let times = entries.flat_map(|(time, calls)| (0..calls).map(move |_| time)).collect();
        Self { times, window }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.times.iter().map(|time| (*time, 1))
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    pub(crate) fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// How many entries have left the window.
    #[inline]
    fn expired(&self, now: u64) -> usize {
        let left = |time: &u64| time + self.window <= now;
        let stepped = self.times.iter().take(STEPS).take_while(|time| left(time)).count();
        if stepped < STEPS { stepped } else { self.times.partition_point(left) }
    }

    /// The wait and, if it is 0, what is left. `cost` is at most `count`.
    #[inline]
    pub(crate) fn check(&self, now: u64, count: u64, cost: u64) -> (u64, u64) {
        let expired = self.expired(now);
        let after = (self.times.len() - expired) as u64 + cost;
        match after.checked_sub(count) {
            None | Some(0) => (0, count - after),
            // So many of the oldest have to leave first.
            Some(excess) => (self.times[expired + excess as usize - 1] + self.window - now, 0),
        }
    }

    #[inline]
    pub(crate) fn charge(&mut self, now: u64, cost: u64) {
        while self.times.front().is_some_and(|time| time + self.window <= now) {
            self.times.pop_front();
        }
        for _ in 0..cost {
            self.times.push_back(now);
        }
    }

    pub(crate) fn usage(&self, now: u64) -> Usage {
        let expired = self.expired(now);
        let oldest = self.times.get(expired).map_or(0, |time| time + self.window - now);
        Usage { used: (self.times.len() - expired) as u64, reset: oldest }
    }

    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        self.times.back().is_none_or(|time| time + self.window <= now)
    }
}
