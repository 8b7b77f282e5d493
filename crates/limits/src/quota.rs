//! Quotas: a count per window, written `COUNT/[N]UNIT`.

mod parse;
#[cfg(test)]
mod tests;

use std::{fmt, slice, str::FromStr, time::Duration};

pub use self::parse::{QuotaError, QuotaErrorKind};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const MIN: u64 = 60 * S;
const H: u64 = 60 * MIN;
const D: u64 = 24 * H;

/// How many calls in how long.
///
/// Written `COUNT/[N]UNIT`, for example `100/min`, `10/s`, `5000/day`, `100/90s` or `1_000/h`. Units are `ms`, `s`
/// (`sec`, `second`, `seconds`), `min` (`m`, `minute`, `minutes`), `h` (`hr`, `hour`, `hours`) and `d` (`day`, `days`). A
/// quota is at least 1, at most one per nanosecond, over at most 366 days.
///
/// [`Display`](fmt::Display) prints the canonical form, which parses back to the same value:
///
/// ```
/// use std::time::Duration;
/// use sluicegate_limits::Quota;
///
/// let quota: Quota = "1_000/60s".parse()?;
/// assert_eq!(quota.count(), 1_000);
/// assert_eq!(quota.window(), Duration::from_secs(60));
/// assert_eq!(quota.to_string(), "1000/min");
/// assert_eq!(quota.describe(), "1000 requests / 60s");
/// # Ok::<(), sluicegate_limits::QuotaError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    count: u64,
    window_ns: u64,
}

impl Quota {
    /// The longest window: 366 days.
    pub const MAX_WINDOW: Duration = Duration::from_secs(366 * 24 * 60 * 60);

    /// `count` calls in `window`.
    ///
    /// # Errors
    ///
    /// When the count is 0, the window is empty or longer than [`Quota::MAX_WINDOW`], or the rate is above one call per
    /// nanosecond. The windows that can be written, and so printed and parsed again, are whole milliseconds; others are
    /// refused.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate_limits::Quota;
    ///
    /// assert_eq!(Quota::new(10, Duration::from_secs(1))?.to_string(), "10/s");
    /// assert!(Quota::new(0, Duration::from_secs(1)).is_err());
    /// # Ok::<(), sluicegate_limits::QuotaError>(())
    /// ```
    pub fn new(count: u64, window: Duration) -> Result<Self, QuotaError> {
        parse::checked(count, window)
    }

    /// The number of calls, at least 1.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The length of the window.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window_ns)
    }

    /// The window in nanoseconds.
    #[must_use]
    pub const fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// The text that a refused caller reads: `10 requests / 60s`, `5000 requests / 1d`.
    #[must_use]
    pub fn describe(&self) -> String {
        let plural = if self.count == 1 { "" } else { "s" };
        format!("{} request{plural} / {}", self.count, describe_window(self.window_ns))
    }
}

/// A window in words: `60s`, `300s`, `1h`, `1d`, `250ms`.
pub(crate) fn describe_window(window_ns: u64) -> String {
    let (n, unit) = in_units(window_ns, &[(D, "d"), (H, "h"), (S, "s"), (MS, "ms")]);
    format!("{n}{unit}")
}

/// `window_ns` as a whole number of the first unit that divides it.
fn in_units(window_ns: u64, units: &[(u64, &'static str)]) -> (u64, &'static str) {
    units
        .iter()
        .find(|(unit, _)| window_ns.is_multiple_of(*unit))
        .map_or((window_ns, "ns"), |(unit, name)| (window_ns / unit, name))
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(D, "d"), (H, "h"), (MIN, "min"), (S, "s"), (MS, "ms")];
        match in_units(self.window_ns, &units) {
            (1, unit) => write!(f, "{}/{unit}", self.count),
            (n, unit) => write!(f, "{}/{n}{unit}", self.count),
        }
    }
}

impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        parse::quota(text)
    }
}

/// One to eight quotas that hold together, written with commas: `10/s, 1000/h`.
///
/// ```
/// use sluicegate_limits::Quotas;
///
/// let quotas: Quotas = "10/s,1000/60min".parse()?;
/// assert_eq!(quotas.len(), 2);
/// assert_eq!(quotas.to_string(), "10/s, 1000/h");
/// # Ok::<(), sluicegate_limits::QuotaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::len_without_is_empty, reason = "a list of quotas is never empty")]
pub struct Quotas(Vec<Quota>);

impl Quotas {
    /// The most quotas that one limit may carry.
    pub const MAX: usize = 8;

    /// A list of quotas.
    ///
    /// # Errors
    ///
    /// When the list is empty or longer than [`Quotas::MAX`].
    pub fn new(quotas: Vec<Quota>) -> Result<Self, QuotaError> {
        parse::check_list_length(quotas.len()).map(|()| Self(quotas))
    }

    /// The quotas in the order they were written.
    #[must_use]
    pub fn as_slice(&self) -> &[Quota] {
        &self.0
    }

    /// The quotas in the order they were written.
    pub fn iter(&self) -> slice::Iter<'_, Quota> {
        self.0.iter()
    }

    /// How many there are, at least 1.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<'a> IntoIterator for &'a Quotas {
    type Item = &'a Quota;
    type IntoIter = slice::Iter<'a, Quota>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Quota> for Quotas {
    fn from(quota: Quota) -> Self {
        Self(vec![quota])
    }
}

impl fmt::Display for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, quota) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{quota}")?;
        }
        Ok(())
    }
}

impl FromStr for Quotas {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        parse::quotas(text).map(Self)
    }
}
