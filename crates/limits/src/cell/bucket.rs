//! The token bucket as GCRA: one timestamp.

use std::num::NonZeroU64;

use super::{Check, Usage};

/// A bucket is empty at its theoretical arrival time: each call moves it one interval on, and it may run ahead of the clock
/// by the depth of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket {
    arrival: u64,
    stamp: Stamp,
}

/// What `arrival` was counted with: the interval in the low 55 bits (366 days fit), and above them nine bits that tell
/// windows apart, so that `60/min` and `1/s` are not the same numbers.
///
/// Never 0, which leaves [`Cell`](super::Cell) a value to tell its variants apart without growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(NonZeroU64);

const INTERVAL_BITS: u32 = 55;
const INTERVAL: u64 = (1 << INTERVAL_BITS) - 1;

/// Nine bits that differ, nearly always, between windows of different lengths.
pub(crate) fn window_tag(window_ns: u64) -> u16 {
    (window_ns.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> INTERVAL_BITS) as u16
}

impl Stamp {
    pub(crate) fn new(interval: u64, window_ns: u64) -> Self {
        let stamp = u64::from(window_tag(window_ns)) << INTERVAL_BITS | interval.clamp(1, INTERVAL);
        Self(NonZeroU64::new(stamp).unwrap_or(NonZeroU64::MIN))
    }

    #[inline(always)]
    pub(crate) fn interval(self) -> u64 {
        self.0.get() & INTERVAL
    }

    pub(crate) fn window_tag(self) -> u16 {
        (self.0.get() >> INTERVAL_BITS) as u16
    }
}

impl Bucket {
    pub(crate) fn new(stamp: Stamp) -> Self {
        Self { arrival: 0, stamp }
    }

    #[inline(always)]
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    #[inline(always)]
    pub(crate) fn interval(&self) -> u64 {
        self.stamp.interval()
    }

    #[inline(always)]
    pub(crate) fn backlog(&self, now: u64) -> u64 {
        self.arrival.saturating_sub(now)
    }

    #[inline(always)]
    pub(crate) fn fits(&self, stamp: Stamp, depth: u64, now: u64) -> bool {
        self.stamp == stamp && self.backlog(now) <= depth
    }

    /// `ceil((arrival - now) / interval)` calls are in use; as many of the new interval, at most a bucket full, stay so.
    pub(crate) fn converted(&self, stamp: Stamp, depth: u64, now: u64) -> Self {
        let interval = stamp.interval();
        let backlog =
            if self.interval() == interval { self.backlog(now) } else { self.used(now).saturating_mul(interval) };
        Self { arrival: now + backlog.min(depth), stamp }
    }

    pub(crate) fn used(&self, now: u64) -> u64 {
        self.backlog(now).div_ceil(self.interval())
    }

    #[inline(always)]
    pub(crate) fn check(&self, now: u64, depth: u64, charge: u64) -> Check {
        let after = self.backlog(now) + charge;
        Check { wait: after.saturating_sub(depth), after }
    }

    #[inline(always)]
    pub(crate) fn charge(&mut self, now: u64, charge: u64) {
        self.arrival = self.arrival.max(now) + charge;
    }

    /// Adds calls, up to a backlog of `most`.
    pub(crate) fn charge_up_to(&mut self, now: u64, calls: u64, most: u64) {
        let backlog = self.backlog(now).saturating_add(self.interval().saturating_mul(calls));
        self.arrival = self.arrival.max(now + backlog.min(most));
    }

    /// Whether `other`, charged for the same calls from now on, has never more of them in use than this one.
    pub(crate) fn outlasts(&self, other: &Self, now: u64) -> bool {
        let share = |one: &Self, of: &Self| u128::from(one.backlog(now)) * u128::from(of.interval());
        self.interval() >= other.interval() && share(self, other) >= share(other, self)
    }

    pub(crate) fn usage(&self, now: u64) -> Usage {
        Usage::of_backlog(self.backlog(now), self.interval())
    }

    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        self.arrival <= now
    }
}
