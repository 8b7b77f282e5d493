//! What one limit allows: a rate, or a number of calls at a time.

use std::{fmt, num::NonZeroU32, str::FromStr};

use thiserror::Error;

use crate::{Algorithm, Quota, quota::describe_window};

/// The most time a full bucket may take to drain, about 73 years: it leaves room to add to any clock reading.
const MAX_BUCKET_NS: u64 = 1 << 61;

/// A combination of numbers that makes no limit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitError {
    /// A bucket that nothing fits into.
    #[error("burst of 0: a token bucket holds at least 1 call; leave burst out to get the count of the quota")]
    BurstZero,
    /// A bucket that would take more than 73 years to drain.
    #[error("burst of {burst} at {quota} is too large: at most {most}")]
    BurstTooLarge {
        /// The burst that was asked for.
        burst: u32,
        /// The quota it was asked with.
        quota: Quota,
        /// The largest burst of this quota.
        most: u64,
    },
    /// A burst on an algorithm that has none.
    #[error(
        "burst of {0} with algorithm sliding_window: a sliding window has no burst; use algorithm token_bucket or leave burst out"
    )]
    BurstOnWindow(u32),
    /// A call that costs nothing.
    #[error("cost of 0: a call costs at least 1")]
    CostZero,
    /// A call that could never be admitted.
    #[error(
        "cost of {cost} is above what the limit {limit} can ever hold ({capacity}): lower the cost or raise the {}",
        raise(limit)
    )]
    CostAboveCapacity {
        /// The cost of the call.
        cost: u32,
        /// The limit that it exceeds.
        limit: RateLimit,
        /// The most that limit holds.
        capacity: u64,
    },
    /// A cap that is not a whole number of calls.
    #[error("bad concurrency `{0}`: write a whole number of calls at a time, at least 1 and at most 4294967295")]
    BadConcurrency(String),
}

fn raise(limit: &RateLimit) -> &'static str {
    if limit.burst.is_some() { "burst" } else { "quota" }
}

/// A rate: a quota, the algorithm that counts it and, for a token bucket, how much it holds.
///
/// ```
/// use sluicegate_limits::{Algorithm, RateLimit};
///
/// let bucket = RateLimit::new("100/min".parse()?, Some(20), Algorithm::TokenBucket)?;
/// assert_eq!(bucket.capacity(), 20);
/// assert_eq!(bucket.worst_case_in_any_window(), 120);
///
/// let window = RateLimit::new("100/min".parse()?, None, Algorithm::SlidingWindow)?;
/// assert_eq!(window.worst_case_in_any_window(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RateLimit {
    quota: Quota,
    burst: Option<u32>,
    algorithm: Algorithm,
}

impl RateLimit {
    /// A limit from its parts. `burst` belongs to token buckets and is the quota's count when left out.
    ///
    /// # Errors
    ///
    /// When the burst is 0, absurdly large, or given to a sliding window.
    pub fn new(quota: Quota, burst: Option<u32>, algorithm: Algorithm) -> Result<Self, LimitError> {
        let limit = Self { quota, burst, algorithm };
        match (burst, algorithm) {
            (Some(0), _) => Err(LimitError::BurstZero),
            (Some(burst), Algorithm::SlidingWindow) => Err(LimitError::BurstOnWindow(burst)),
            (Some(burst), Algorithm::TokenBucket) if u64::from(burst) > MAX_BUCKET_NS / limit.interval_ns() => {
                Err(LimitError::BurstTooLarge { burst, quota, most: MAX_BUCKET_NS / limit.interval_ns() })
            }
            _ => Ok(limit),
        }
    }

    /// The quota.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// The burst as it was written; [`RateLimit::capacity`] fills in the default.
    #[must_use]
    pub const fn burst(&self) -> Option<u32> {
        self.burst
    }

    /// The algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The most that can be admitted at one instant: the burst of a bucket, the count of a window.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        match self.burst {
            Some(burst) => burst as u64,
            None => self.quota.count(),
        }
    }

    /// The most that can be admitted in any trailing window.
    ///
    /// A full bucket can be emptied at once and goes on refilling, so a token bucket of burst `B` at `N/W` lets up to
    /// `B + N` calls through in one window: twice the quota by default. A sliding window never exceeds its count.
    #[must_use]
    pub const fn worst_case_in_any_window(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket => self.capacity().saturating_add(self.quota.count()),
            Algorithm::SlidingWindow => self.quota.count(),
        }
    }

    /// The worst case as people read it.
    ///
    /// ```
    /// use sluicegate_limits::{Algorithm, RateLimit};
    ///
    /// let bucket = RateLimit::new("100/min".parse()?, None, Algorithm::TokenBucket)?;
    /// assert_eq!(bucket.describe_worst_case(), "up to 200 in any 60s");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn describe_worst_case(&self) -> String {
        format!("up to {} in any {}", self.worst_case_in_any_window(), describe_window(self.quota.window_ns()))
    }

    /// Whether a call of this cost could ever be admitted.
    ///
    /// # Errors
    ///
    /// When the cost is 0 or above [`RateLimit::capacity`].
    ///
    /// ```
    /// use sluicegate_limits::{Algorithm, RateLimit};
    ///
    /// let limit = RateLimit::new("3/s".parse()?, None, Algorithm::TokenBucket)?;
    /// assert!(limit.check_cost(3).is_ok());
    /// assert_eq!(
    ///     limit.check_cost(5).unwrap_err().to_string(),
    ///     "cost of 5 is above what the limit 3/s can ever hold (3): lower the cost or raise the quota",
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_cost(&self, cost: u32) -> Result<(), LimitError> {
        match cost {
            0 => Err(LimitError::CostZero),
            _ if u64::from(cost) > self.capacity() => {
                Err(LimitError::CostAboveCapacity { cost, limit: *self, capacity: self.capacity() })
            }
            _ => Ok(()),
        }
    }

    /// The time between two calls at the quota's rate, rounded up so that a bucket never grants more than was asked.
    pub(crate) const fn interval_ns(&self) -> u64 {
        self.quota.window_ns().div_ceil(self.quota.count())
    }
}

impl fmt::Display for RateLimit {
    /// The quota, and the burst where one was written: `100/min`, `100/min burst 20`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.quota)?;
        self.burst.map_or(Ok(()), |burst| write!(f, " burst {burst}"))
    }
}

/// How many calls may run at a time, at least 1.
///
/// ```
/// use sluicegate_limits::Concurrency;
///
/// let cap: Concurrency = "2".parse()?;
/// assert_eq!(cap.describe(), "2 concurrent");
/// assert!("0".parse::<Concurrency>().is_err());
/// # Ok::<(), sluicegate_limits::LimitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Concurrency(NonZeroU32);

impl Concurrency {
    /// A cap of `calls` at a time.
    #[must_use]
    pub const fn new(calls: NonZeroU32) -> Self {
        Self(calls)
    }

    /// The number of calls.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The text that a refused caller reads: `2 concurrent`.
    #[must_use]
    pub fn describe(self) -> String {
        format!("{self} concurrent")
    }
}

impl From<NonZeroU32> for Concurrency {
    fn from(calls: NonZeroU32) -> Self {
        Self(calls)
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Concurrency {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        text.trim().parse().map(Self).map_err(|_| LimitError::BadConcurrency(text.to_owned()))
    }
}

/// A limit of either sort, as refusals and reports carry it.
///
/// [`Display`](fmt::Display) is the text for people: `10 requests / 60s` or `2 concurrent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// So many calls in so long.
    Rate(RateLimit),
    /// So many calls at a time.
    Concurrency(Concurrency),
}

impl Limit {
    /// The number: the most that can be admitted at one instant.
    #[must_use]
    pub const fn value(&self) -> u64 {
        match self {
            Self::Rate(limit) => limit.capacity(),
            Self::Concurrency(cap) => cap.get() as u64,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(limit) => f.write_str(&limit.quota().describe()),
            Self::Concurrency(cap) => f.write_str(&cap.describe()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(text: &str) -> Quota {
        text.parse().expect("a quota")
    }

    #[test]
    fn a_burst_of_zero_and_a_burst_on_a_window_are_refused() {
        let zero = RateLimit::new(quota("1/s"), Some(0), Algorithm::TokenBucket);
        assert_eq!(zero, Err(LimitError::BurstZero));
        let window = RateLimit::new(quota("1/s"), Some(5), Algorithm::SlidingWindow);
        assert_eq!(window, Err(LimitError::BurstOnWindow(5)));
    }

    #[test]
    fn a_burst_that_would_take_a_century_to_drain_is_refused() {
        let error = RateLimit::new(quota("1/366d"), Some(u32::MAX), Algorithm::TokenBucket).unwrap_err();
        assert_eq!(error.to_string(), "burst of 4294967295 at 1/366d is too large: at most 72");
        assert!(RateLimit::new(quota("1/366d"), Some(72), Algorithm::TokenBucket).is_ok());
    }

    #[test]
    fn the_emission_interval_is_rounded_up() {
        let limit = RateLimit::new(quota("3/s"), None, Algorithm::TokenBucket).expect("a limit");
        assert_eq!(limit.interval_ns(), 333_333_334);
    }

    #[test]
    fn concurrency_is_a_plain_positive_number() {
        assert_eq!(" 4 ".parse::<Concurrency>().map(Concurrency::get), Ok(4));
        for text in ["", "0", "-1", "1.5", "4294967296", "two"] {
            let error = text.parse::<Concurrency>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn limits_describe_themselves_to_people() {
        let rate = Limit::Rate(RateLimit::new(quota("10/min"), Some(3), Algorithm::TokenBucket).expect("a limit"));
        assert_eq!((rate.to_string().as_str(), rate.value()), ("10 requests / 60s", 3));
        let cap = Limit::Concurrency("2".parse().expect("a cap"));
        assert_eq!((cap.to_string().as_str(), cap.value()), ("2 concurrent", 2));
    }
}
