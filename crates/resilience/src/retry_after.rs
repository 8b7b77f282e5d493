//! The `Retry-After` field.

use std::time::{Duration, SystemTime};

/// What a `Retry-After` field says (RFC 9110, section 10.2.3).
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use sluicegate_resilience::RetryAfter;
///
/// let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
/// let wait = |text| RetryAfter::parse(text).map(|retry_after| retry_after.wait(now).as_secs());
/// assert_eq!(wait("120"), Some(120));
/// assert_eq!(wait("Sun, 06 Nov 1994 08:49:47 GMT"), Some(10));
/// assert_eq!(wait("Sun, 06 Nov 1994 08:49:07 GMT"), Some(0));
/// assert_eq!(wait("-1"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// So long after the answer.
    Delay(Duration),
    /// Not before this time.
    Date(SystemTime),
}

impl RetryAfter {
    /// No wait is taken to be longer; who says so means something else, such as the time of day in seconds.
    pub const MAX: Duration = Duration::from_hours(24);

    /// Reads the field: whole seconds, seconds with a fraction (which some servers send), or a date in any of the three
    /// forms of RFC 9110, section 5.6.7. `None` for anything else, negative numbers included: it is as if the field
    /// were missing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            let seconds = text.parse::<f64>().ok()?;
            return Some(Self::Delay(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)));
        }
        httpdate::parse_http_date(text).ok().map(Self::Date)
    }

    /// How long to wait from `now`: nothing after a date that has passed, and never longer than [`MAX`](Self::MAX).
    #[must_use]
    pub fn wait(self, now: SystemTime) -> Duration {
        let wait = match self {
            Self::Delay(delay) => delay,
            Self::Date(date) => date.duration_since(now).unwrap_or_default(),
        };
        wait.min(Self::MAX)
    }
}

/// Whole seconds, rounded up and never 0: what a waiting caller is told.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    fn wait(text: &str) -> Option<Duration> {
        RetryAfter::parse(text).map(|retry_after| retry_after.wait(now()))
    }

    #[test]
    fn seconds_are_read_with_and_without_fraction() {
        for (text, millis) in [("0", 0), ("1", 1000), (" 120 ", 120_000), ("007", 7000), ("0.25", 250), ("1.5", 1500)] {
            assert_eq!(wait(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn all_three_forms_of_dates_are_read() {
        for date in ["Sun, 06 Nov 1994 08:49:47 GMT", "Sunday, 06-Nov-94 08:49:47 GMT", "Sun Nov  6 08:49:47 1994"] {
            assert_eq!(wait(date), Some(Duration::from_secs(10)), "{date}");
        }
    }

    #[test]
    fn a_date_that_has_passed_means_no_wait() {
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
    }

    #[test]
    fn absurd_waits_are_a_day() {
        for absurd in ["86401", "1700000000", "99999999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
            assert_eq!(wait(absurd), Some(RetryAfter::MAX), "{absurd}");
        }
        assert_eq!(wait("86400"), Some(RetryAfter::MAX));
    }

    #[test]
    fn what_is_no_wait_is_as_if_it_were_missing() {
        let nonsense = ["", " ", "-1", "-0", "+1", ".", "1.2.3", "1e3", "0x10", "inf", "NaN", "soon", "12 s", "١٢"];
        for text in nonsense.into_iter().chain(["Sun, 31 Feb 1994 08:49:37 GMT", "Mon, 06 Nov 1994 08:49:37 GMT"]) {
            assert_eq!(wait(text), None, "{text}");
        }
    }

    #[test]
    fn a_told_wait_is_rounded_up_and_never_nothing() {
        let told = [(0, 1), (1, 1), (999_999_999, 1), (1_000_000_000, 1), (1_000_000_001, 2)];
        for (nanos, seconds) in told {
            assert_eq!(whole_seconds(Duration::from_nanos(nanos)), seconds, "{nanos} ns");
        }
    }
}
