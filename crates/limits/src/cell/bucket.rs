//! The token bucket as GCRA: one timestamp.

use std::num::NonZeroU64;

use super::{Check, Usage};

/// A bucket is empty at its theoretical arrival time: each call moves it one interval on, and it may run ahead of the clock
/// by the depth of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket {
    arrival: u64,
    /// The interval that `arrival` was counted with. Never 0, which leaves [`Cell`](super::Cell) a value to tell its
    /// variants apart without growing.
    interval: NonZeroU64,
}

impl Bucket {
    pub(crate) fn new(interval: u64) -> Self {
        Self { arrival: 0, interval: NonZeroU64::new(interval).unwrap_or(NonZeroU64::MIN) }
    }

    pub(crate) fn interval(&self) -> u64 {
        self.interval.get()
    }

    pub(crate) fn backlog(&self, now: u64) -> u64 {
        self.arrival.saturating_sub(now)
    }

    pub(crate) fn fits(&self, interval: u64, depth: u64, now: u64) -> bool {
        self.interval() == interval && self.backlog(now) <= depth
    }

    /// `ceil((arrival - now) / interval)` calls are in use; as many of the new interval, at most a bucket full, stay so.
    pub(crate) fn convert(&mut self, interval: u64, depth: u64, now: u64) {
        let backlog =
            if self.interval() == interval { self.backlog(now) } else { self.used(now).saturating_mul(interval) };
        *self = Self { arrival: now + backlog.min(depth), ..Self::new(interval) };
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

    pub(crate) fn usage(&self, now: u64) -> Usage {
        Usage::of_backlog(self.backlog(now), self.interval())
    }

    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        self.arrival <= now
    }
}
