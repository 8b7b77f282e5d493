//! How long to wait before trying again when nobody says it.

use std::time::Duration;

use crate::options::OptionsError;
use crate::random::Random;

/// Exponential backoff with full jitter: before retry `n` (from 0) wait `random(0, min(cap, base * 2^n))`.
///
/// The whole interval is drawn from, so that callers who were refused together do not come back together
/// ("Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
///
/// ```
/// use std::time::Duration;
///
/// use sluicegate_resilience::{Backoff, Random};
///
/// let backoff = Backoff::default();
/// assert_eq!(backoff.ceiling(0), Duration::from_millis(500));
/// assert_eq!(backoff.ceiling(2), Duration::from_secs(2));
/// assert_eq!(backoff.ceiling(u32::MAX), Duration::from_secs(30));
/// assert!(backoff.delay(2, &Random::system()) <= Duration::from_secs(2));
///
/// assert!(Backoff::new(Duration::from_secs(2), Duration::from_secs(1), 3).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    retries: u32,
}

impl Backoff {
    /// Waits of at most `base`, doubling up to `cap`, before at most `retries` retries; 0 retries means one attempt.
    ///
    /// # Errors
    /// When `base` is zero or larger than `cap`.
    pub fn new(base: Duration, cap: Duration, retries: u32) -> Result<Self, OptionsError> {
        OptionsError::unless(!base.is_zero(), "backoff.base", base, "it must be longer than nothing")?;
        OptionsError::unless(cap >= base, "backoff.cap", cap, "it must be at least the base")?;
        Ok(Self { base, cap, retries })
    }

    /// The longest wait before a retry; the first is 0. Saturates at the cap.
    #[must_use]
    pub fn ceiling(&self, retry: u32) -> Duration {
        let doubled = 2_u32.checked_pow(retry).and_then(|factor| self.base.checked_mul(factor));
        doubled.map_or(self.cap, |wait| wait.min(self.cap))
    }

    /// The wait before a retry; the first is 0.
    #[must_use]
    pub fn delay(&self, retry: u32, random: &Random) -> Duration {
        random.up_to(self.ceiling(retry))
    }

    /// The wait at most before the first retry.
    #[must_use]
    pub const fn base(&self) -> Duration {
        self.base
    }

    /// How often a call is repeated at most.
    #[must_use]
    pub const fn retries(&self) -> u32 {
        self.retries
    }
}

/// 500 ms, doubling up to 30 s, 5 retries.
impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(500), cap: Duration::from_secs(30), retries: 5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_ceiling_doubles_and_stops_at_the_cap() {
        let ceilings = (0..9).map(|retry| Backoff::default().ceiling(retry).as_millis());
        assert_eq!(ceilings.collect::<Vec<_>>(), [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
    }

    #[test]
    fn nothing_overflows() {
        let backoff = Backoff::new(Duration::MAX / 2, Duration::MAX, 5).expect("valid");
        assert_eq!(backoff.ceiling(1), Duration::MAX - Duration::from_nanos(1));
        for retry in [2, 31, 32, 63, 64, u32::MAX] {
            assert_eq!(backoff.ceiling(retry), Duration::MAX);
        }
        assert!(backoff.delay(u32::MAX, &Random::seeded(1)) > Duration::ZERO);
    }

    #[test]
    fn a_backoff_that_makes_no_sense_cannot_be_made() {
        assert_eq!(
            Backoff::new(Duration::ZERO, MS, 1).expect_err("no base").to_string(),
            "`backoff.base` cannot be 0ns: it must be longer than nothing"
        );
        assert_eq!(
            Backoff::new(2 * MS, MS, 1).expect_err("a cap below the base").to_string(),
            "`backoff.cap` cannot be 1ms: it must be at least the base"
        );
        let backoff = Backoff::new(MS, MS, 0).expect("a cap at the base");
        assert_eq!((backoff.base(), backoff.retries(), backoff.ceiling(3)), (MS, 0, MS));
    }
}
