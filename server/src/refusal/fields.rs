//! The `RateLimit` and `RateLimit-Policy` response fields of draft-ietf-httpapi-ratelimit-headers-11.
//!
//! Both are structured lists (RFC 9651). The draft still moves; this is the one place that writes its syntax.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The two fields of one response.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    /// All rate limits that apply, written once per policy.
    pub(crate) policy: Option<HeaderValue>,
    /// The one nearest to refusing.
    pub(crate) nearest: Option<Nearest>,
}

/// Where the limit nearest to refusing stands.
#[derive(Debug, Clone)]
pub(crate) struct Nearest {
    /// Its name in `RateLimit-Policy`.
    pub(crate) name: Arc<str>,
    /// What is left.
    pub(crate) remaining: u64,
    /// Whole seconds until more is there.
    pub(crate) seconds: u64,
}

impl Fields {
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        if let Some(policy) = &self.policy {
            headers.insert(RATELIMIT_POLICY, policy.clone());
        }
        if let Some(Nearest { name, remaining, seconds }) = &self.nearest
            && let Some(value) = nearest(name, *remaining, *seconds)
        {
            headers.insert(RATELIMIT, value);
        }
    }
}

/// Writes `RateLimit`: at every call, so into one piece of memory of just the right size.
fn nearest(name: &str, remaining: u64, seconds: u64) -> Option<HeaderValue> {
    let (mut remaining_digits, mut seconds_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (remaining, seconds) = (remaining_digits.format(remaining), seconds_digits.format(seconds));
    let pieces = ["\"", name, "\";r=", remaining, ";t=", seconds].map(str::as_bytes);
    HeaderValue::from_maybe_shared(Bytes::from(pieces.concat())).ok()
}

/// A whole number as the value of a field.
pub(crate) fn number(number: u64) -> Option<HeaderValue> {
    HeaderValue::from_str(itoa::Buffer::new().format(number)).ok()
}

/// Writes `RateLimit-Policy` for limits of these names, counts and windows. A window below a second counts as one.
pub(crate) fn policy(limits: impl Iterator<Item = (impl AsRef<str>, u64, Duration)>) -> Option<HeaderValue> {
    let mut text = String::new();
    for (name, count, window) in limits {
        let separator = if text.is_empty() { "" } else { ", " };
        let seconds = window.as_millis().div_ceil(1000).max(1);
        let _ = write!(text, "{separator}\"{}\";q={count};w={seconds}", name.as_ref());
    }
    if text.is_empty() { None } else { HeaderValue::try_from(text).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_read_as_the_draft_shows_them() {
        let limits = [("tenant", 1000, Duration::from_secs(60)), ("tool", 5, Duration::from_millis(500))];
        let mut headers = HeaderMap::new();
        let nearest = Nearest { name: "tool".into(), remaining: 0, seconds: 12 };
        Fields { policy: policy(limits.into_iter()), nearest: Some(nearest) }.write(&mut headers);
        assert_eq!(headers["ratelimit-policy"], r#""tenant";q=1000;w=60, "tool";q=5;w=1"#);
        assert_eq!(headers["ratelimit"], r#""tool";r=0;t=12"#);
    }

    #[test]
    fn without_limits_there_are_no_fields() {
        let mut headers = HeaderMap::new();
        Fields { policy: policy(std::iter::empty::<(&str, u64, Duration)>()), nearest: None }.write(&mut headers);
        assert!(headers.is_empty());
    }
}
