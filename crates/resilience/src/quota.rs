//! How often an upstream may be called.

use std::fmt;
use std::time::Duration;

use crate::options::OptionsError;

/// So many calls per period, with no more than that in *any* stretch of that length.
///
/// ```
/// use sluicegate_resilience::Quota;
///
/// assert_eq!(Quota::per_minute(100)?.to_string(), "100 requests / 60s");
/// assert!(Quota::per_second(10)?.with_burst(11).is_err());
/// # Ok::<_, sluicegate_resilience::OptionsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    count: u32,
    period: Duration,
    burst: u32,
}

impl Quota {
    /// `count` calls per `period`, a tenth of them (but at least one) at once.
    ///
    /// # Errors
    /// When the count is 0, or the period is not between a millisecond and 31 days.
    pub fn new(count: u32, period: Duration) -> Result<Self, OptionsError> {
        OptionsError::unless(count > 0, "quota.count", count, "it must be at least 1")?;
        let kept = (Duration::from_millis(1)..=Duration::from_hours(31 * 24)).contains(&period);
        OptionsError::unless(kept, "quota.period", period, "it must be between a millisecond and 31 days")?;
        Ok(Self { count, period, burst: (count / 10).max(1) })
    }

    /// So many calls per second.
    ///
    /// # Errors
    /// When the count is 0.
    pub fn per_second(count: u32) -> Result<Self, OptionsError> {
        Self::new(count, Duration::from_secs(1))
    }

    /// So many calls per minute.
    ///
    /// # Errors
    /// When the count is 0.
    pub fn per_minute(count: u32) -> Result<Self, OptionsError> {
        Self::new(count, Duration::from_mins(1))
    }

    /// So many calls per hour.
    ///
    /// # Errors
    /// When the count is 0.
    pub fn per_hour(count: u32) -> Result<Self, OptionsError> {
        Self::new(count, Duration::from_hours(1))
    }

    /// How many calls may be made at once after a rest. They count like all others, so the larger the burst, the slower
    /// what follows: with a burst of the whole count it takes a whole period until the next call.
    ///
    /// # Errors
    /// When the burst is 0 or larger than the count.
    pub fn with_burst(self, burst: u32) -> Result<Self, OptionsError> {
        let kept = (1..=self.count).contains(&burst);
        OptionsError::unless(kept, "quota.burst", burst, "it must be from 1 to the count")?;
        Ok(Self { burst, ..self })
    }

    pub(crate) const fn period(&self) -> Duration {
        self.period
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// The quota as governor's bucket, which refills one by one. `carried` calls may be made later than they are counted.
    ///
    /// In a stretch of the period there are at most `burst` calls at once, `carried` from before it, and those that are
    /// refilled in it. These make up the count when one is refilled in `period / (count - burst - carried + 1)`.
    pub(crate) fn bucket(&self, carried: u32) -> governor::Quota {
        let refills = (self.count + 1).saturating_sub(self.burst + carried).max(1);
        let burst = std::num::NonZeroU32::new(self.burst).unwrap_or(std::num::NonZeroU32::MIN);
        // Rounded up: a refill that is a nanosecond early is one call too many.
        let nanos = self.period.as_nanos().div_ceil(u128::from(refills));
        let refill = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        governor::Quota::with_period(refill)
            .map_or_else(|| governor::Quota::per_second(burst), |quota| quota.allow_burst(burst))
    }
}

/// As limits are shown to callers: `100 requests / 60s`.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = if self.count == 1 { "request" } else { "requests" };
        write!(f, "{} {requests} / {}s", self.count, self.period.as_secs_f64())
    }
}
