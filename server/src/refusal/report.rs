//! A refusal in words and numbers: message, code and data, the same for every transport.

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::{Reason, Refusal, Throttled};
use crate::settings::RefusalCode;
use sluicegate_limits::{Scope, Wait};

/// The first revision that reserves -32020..-32099 for the specification (MCP 2026-07-28, "Error codes").
pub(crate) const MODERN: &str = "2026-07-28";

/// What a refusal says. Serialises to `error.data` of JSON-RPC and to `_meta` of a tool result.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) code: i32,
    pub(crate) status: u16,
    pub(crate) message: String,
    reason: &'static str,
    throttled: Option<&'a Throttled>,
    suggestion: Option<String>,
    request_id: &'a str,
}

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut data = serializer.serialize_map(None)?;
        data.serialize_entry("reason", self.reason)?;
        if let Some(throttled) = self.throttled {
            data.serialize_entry("scope", throttled.scope.as_str())?;
            if let Some(tool) = &throttled.tool {
                data.serialize_entry("tool", &**tool)?;
            }
            data.serialize_entry("limit", &throttled.limit)?;
            data.serialize_entry("current_usage", &throttled.current_usage)?;
            data.serialize_entry("remaining", &throttled.remaining)?;
            data.serialize_entry("other_tools_may_work", &throttled.other_tools_may_work())?;
        }
        if let Some(wait) = self.throttled.and_then(|throttled| throttled.wait) {
            data.serialize_entry("retry_after_seconds", &wait.retry_after_seconds())?;
            data.serialize_entry("retry_after_ms", &wait.retry_after_ms())?;
            // The name that SEP-3304 proposes.
            data.serialize_entry("retryAfterMs", &wait.retry_after_ms())?;
            data.serialize_entry("exact", &wait.is_exact())?;
        }
        if let Some(suggestion) = &self.suggestion {
            data.serialize_entry("suggestion", suggestion)?;
        }
        data.serialize_entry("request_id", self.request_id)?;
        data.end()
    }
}

impl Refusal {
    /// Whole seconds after which to try again, as `Retry-After` says it.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::Throttled(throttled) => throttled.wait.map(Wait::retry_after_seconds),
            Self::Unavailable(_) => Some(UNAVAILABLE_RETRY_SECONDS),
            Self::TooManySessions => Some(SESSION_RETRY_SECONDS),
            _ => None,
        }
    }

    /// The word for it on the wire and in the log.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Unauthenticated(_) => "unauthenticated",
            Self::Suspended(_) => "suspended",
            Self::Forbidden(_) => "forbidden",
            Self::Throttled(throttled) => throttled.reason.as_str(),
            Self::Unavailable(_) => "overloaded",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BodyTimeout => "body_timeout",
            Self::BodyBroken => "body_incomplete",
            Self::TooManySessions => "too_many_sessions",
            Self::TimedOut { .. } => "timed_out",
        }
    }

    /// The refusal in words and numbers, for a peer of this protocol version.
    pub(crate) fn report<'a>(&'a self, code: RefusalCode, version: Option<&str>, request_id: &'a str) -> Report<'a> {
        let plain = |status: u16, message: String| Report {
            code: i32::from(status),
            status,
            message,
            reason: self.reason(),
            throttled: None,
            suggestion: None,
            request_id,
        };
        match self {
            Self::Unauthenticated(what) => plain(401, (*what).to_owned()),
            Self::Suspended(who) => plain(403, format!("This {who} is suspended. Ask the operator of this server.")),
            Self::Forbidden(what) => plain(403, what.clone()),
            Self::BodyTooLarge { limit } => plain(413, format!("The request body is larger than {limit} bytes.")),
            Self::BodyTimeout => plain(408, "The request body did not arrive in time.".to_owned()),
            Self::BodyBroken => plain(400, "The request body ended before it was complete.".to_owned()),
            Self::TimedOut { seconds } => {
                plain(504, format!("The request did not finish within {seconds} s and was stopped."))
            }
            Self::TooManySessions => Report {
                suggestion: Some("end sessions that are no longer used, or wait for idle ones to expire".to_owned()),
                ..plain(429, format!("This tenant has too many sessions. Retry in {SESSION_RETRY_SECONDS} s."))
            },
            Self::Unavailable(why) => Report {
                suggestion: Some("wait a second before retrying".to_owned()),
                ..plain(503, format!("{why} Retry in {UNAVAILABLE_RETRY_SECONDS} s."))
            },
            Self::Throttled(throttled) => throttled.report(error_code(code, version), request_id),
        }
    }
}

const UNAVAILABLE_RETRY_SECONDS: u64 = 1;
/// A guess: nobody knows when another session ends.
const SESSION_RETRY_SECONDS: u64 = 30;

/// -32029 is what guides for older revisions use; 2026-07-28 reserves that range, so its peers get 429.
fn error_code(configured: RefusalCode, version: Option<&str>) -> i32 {
    match configured {
        RefusalCode::Fixed(code) => code,
        RefusalCode::Auto if version.is_some_and(|version| version >= MODERN) => 429,
        RefusalCode::Auto => -32029,
    }
}

impl Throttled {
    fn report<'a>(&'a self, code: i32, request_id: &'a str) -> Report<'a> {
        Report {
            code,
            status: 429,
            message: self.message(),
            reason: self.reason.as_str(),
            throttled: Some(self),
            suggestion: Some(self.suggestion()),
            request_id,
        }
    }

    fn other_tools_may_work(&self) -> bool {
        self.scope == Scope::Tool
    }

    /// Wait and scope stand in the message too: many callers see nothing else.
    fn message(&self) -> String {
        let whom = match (self.scope, &self.tool) {
            (Scope::Tool, Some(tool)) => format!("tool '{tool}'"),
            (scope, _) => format!("this {}", scope.as_str()),
        };
        let limit = &self.limit;
        let what = match self.reason {
            Reason::RateLimit => format!("Rate limit exceeded for {whom}: {limit}."),
            Reason::Concurrency => format!("Too many calls at once for {whom}: {limit}."),
            Reason::Overloaded => format!("The server has all the work it takes: {limit}."),
            Reason::Cost => {
                return format!(
                    "This call costs more than the limit of {whom} ever allows: {limit}. Waiting does not help."
                );
            }
        };
        match self.wait {
            Some(wait) => format!("{what} Retry in {} s.", wait.retry_after_seconds()),
            None => what,
        }
    }

    fn suggestion(&self) -> String {
        let Some(wait) = self.wait else {
            return "do not retry; ask for less at a time or for a higher limit".to_owned();
        };
        let seconds = wait.retry_after_seconds();
        let unit = if seconds == 1 { "second" } else { "seconds" };
        let rest = if self.other_tools_may_work() {
            "; other tools may work meanwhile"
        } else {
            "; other tools are limited as well"
        };
        format!("wait {seconds} {unit} before retrying{rest}")
    }
}
