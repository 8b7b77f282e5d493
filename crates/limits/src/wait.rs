//! How long a refused caller should wait.

use std::time::Duration;

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// A time to wait, kept in nanoseconds and rounded **up** when it is told to somebody.
///
/// ```
/// use sluicegate_limits::Wait;
///
/// let wait = Wait::exact(1_200_000_001);
/// assert_eq!(wait.retry_after_ms(), 1_201);
/// assert_eq!(wait.retry_after_seconds(), 2);
/// assert!(wait.is_exact());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    ns: u64,
    exact: bool,
}

impl Wait {
    /// The earliest instant at which the same call would be admitted if nobody else called.
    #[must_use]
    pub const fn exact(ns: u64) -> Self {
        Self { ns, exact: true }
    }

    /// A guess: nobody knows when a running call ends.
    ///
    /// ```
    /// assert!(!sluicegate_limits::Wait::estimated(1_000_000_000).is_exact());
    /// ```
    #[must_use]
    pub const fn estimated(ns: u64) -> Self {
        Self { ns, exact: false }
    }

    /// Nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.ns
    }

    /// The same as a [`Duration`].
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.ns)
    }

    /// Whole milliseconds, rounded up.
    #[must_use]
    pub const fn retry_after_ms(self) -> u64 {
        self.ns.div_ceil(NS_PER_MS)
    }

    /// Whole seconds, rounded up, at least 1: the value of an HTTP `Retry-After`.
    #[must_use]
    pub const fn retry_after_seconds(self) -> u64 {
        let seconds = self.ns.div_ceil(NS_PER_S);
        if seconds == 0 { 1 } else { seconds }
    }

    /// Whether waiting exactly this long is enough for a caller who is alone; `false` marks an estimate.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        self.exact
    }

    /// The wait, longer by up to a quarter, so that callers refused together do not come back together.
    ///
    /// `random` is any random number; jitter only ever adds.
    ///
    /// ```
    /// use sluicegate_limits::Wait;
    ///
    /// let wait = Wait::exact(4_000);
    /// assert_eq!(wait.with_jitter(0), wait);
    /// assert_eq!(wait.with_jitter(u64::MAX).as_nanos(), 5_000);
    /// ```
    #[must_use]
    pub const fn with_jitter(self, random: u64) -> Self {
        let most = self.ns / 4;
        // The high half of the product spreads `random` over 0..=most without a division or its bias.
        let added = ((random as u128 * (most as u128 + 1)) >> 64) as u64;
        Self { ns: self.ns.saturating_add(added), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_and_never_to_zero_seconds() {
        for (ns, ms, seconds) in [(0, 0, 1), (1, 1, 1), (1_000_000, 1, 1), (1_000_001, 2, 1), (NS_PER_S + 1, 1001, 2)] {
            let wait = Wait::exact(ns);
            assert_eq!((wait.retry_after_ms(), wait.retry_after_seconds()), (ms, seconds), "{ns} ns");
        }
    }

    #[test]
    fn jitter_only_ever_adds() {
        for random in [0, 1, 77, u64::MAX / 2, u64::MAX] {
            for ns in [0, 1, 3, 4, 999, u64::MAX] {
                let jittered = Wait::estimated(ns).with_jitter(random);
                assert!(jittered.as_nanos() >= ns && jittered.as_nanos() - ns <= ns / 4);
                assert!(!jittered.is_exact());
            }
        }
    }
}
