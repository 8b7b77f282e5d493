//! The strict sliding window for counts up to [`MAX_RING`](super::MAX_RING): the time of every call in it.

use std::collections::VecDeque;

use super::Check;

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

    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.times.iter().map(|time| (*time, 1))
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    pub(crate) fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// When an entry leaves the window.
    #[inline(always)]
    fn leaves(&self, at: usize) -> u64 {
        self.times[at] + self.window
    }

    /// How many entries have left the window.
    #[inline(always)]
    fn expired(&self, now: u64) -> usize {
        if self.all_are_live(now) { 0 } else { self.search(now) }
    }

    /// Whether no entry has left the window.
    #[inline(always)]
    fn all_are_live(&self, now: u64) -> bool {
        self.times.front().is_none_or(|time| time + self.window > now)
    }

    fn search(&self, now: u64) -> usize {
        let len = self.times.len();
        let stepped = (0..len.min(STEPS)).take_while(|at| self.leaves(*at) <= now).count();
        if stepped < STEPS { stepped } else { self.times.partition_point(|time| time + self.window <= now) }
    }

    /// `cost` is at most `count`.
    #[inline(always)]
    pub(crate) fn check(&self, now: u64, count: u64, cost: u64) -> Check {
        let expired = self.expired(now);
        let after = (self.times.len() - expired) as u64 + cost;
        let wait = match after.saturating_sub(count) {
            0 => 0,
            // So many of the oldest have to leave first.
            excess => self.leaves(expired + excess as usize - 1) - now,
        };
        Check { wait, after }
    }

    /// Adds a call and says when the oldest leaves.
    #[inline(always)]
    pub(crate) fn charge(&mut self, now: u64, cost: u64) -> u64 {
        while !self.all_are_live(now) {
            self.times.pop_front();
        }
        for _ in 0..cost {
            self.times.push_back(now);
        }
        self.times.front().map_or(0, |oldest| oldest + self.window - now)
    }

    /// How many calls are in the window.
    #[inline(always)]
    pub(crate) fn used(&self, now: u64) -> u64 {
        (self.times.len() - self.expired(now)) as u64
    }

    /// When the oldest of them leaves it, 0 when there is none.
    #[inline(always)]
    pub(crate) fn reset(&self, now: u64) -> u64 {
        self.times.get(self.expired(now)).map_or(0, |time| time + self.window - now)
    }

    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        self.times.back().is_none_or(|time| time + self.window <= now)
    }
}
