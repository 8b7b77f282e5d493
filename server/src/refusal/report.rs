//! A refusal in words and numbers: message, code and data, the same for every transport.

use super::json::{Object, number};
use super::{Reason, Refusal, Throttled};
use crate::settings::RefusalCode;
use sluicegate_limits::{Scope, Wait};

/// The first revision that reserves -32020..-32099 for the specification (MCP 2026-07-28, "Error codes").
pub(crate) const MODERN: &str = "2026-07-28";

/// What a refusal says.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) code: i32,
    pub(crate) status: u16,
    pub(crate) message: String,
    /// The JSON object that is `error.data` of JSON-RPC, and in `_meta` of a tool result.
    pub(crate) data: String,
}

/// Enough for the data of nearly every refusal, so that it is written without growing.
const DATA_BYTES: usize = 512;
/// The same for the message.
const MESSAGE_BYTES: usize = 160;

impl Refusal {
    /// Whole seconds after which to try again, as `Retry-After` says it.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::Throttled(throttled) => throttled.wait.map(Wait::retry_after_seconds),
            Self::Unavailable(_) => Some(UNAVAILABLE_RETRY_SECONDS),
            Self::TooManyFailures { seconds } => Some(*seconds),
            Self::TooManySessions | Self::TooManyStreams { .. } => Some(SESSION_RETRY_SECONDS),
            _ => None,
        }
    }

    /// The word for it on the wire and in the log.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Unauthenticated(_) | Self::InvalidToken(_) => "unauthenticated",
            Self::TooManyFailures { .. } => "too_many_failures",
            Self::NoTenant(_) => "no_tenant",
            Self::NoAgent(_) => "no_agent",
            Self::InsufficientScope(_) => "insufficient_scope",
            Self::Suspended(_) => "suspended",
            Self::Forbidden(_) => "forbidden",
            Self::Throttled(throttled) => throttled.reason.as_str(),
            Self::Unavailable(_) => "overloaded",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BodyTimeout => "body_timeout",
            Self::BodyBroken => "body_incomplete",
            Self::TooManySessions => "too_many_sessions",
            Self::TooManyStreams { .. } => "too_many_streams",
            Self::TimedOut { .. } => "timed_out",
        }
    }

    /// The refusal in words and numbers, for a peer of this protocol version.
    pub(crate) fn report(&self, code: RefusalCode, version: Option<&str>, request_id: &str) -> Report {
        let (status, message) = match self {
            Self::Throttled(throttled) => return throttled.report(error_code(code, version), request_id),
            Self::Unauthenticated(what) | Self::InvalidToken(what) => (401, (*what).to_owned()),
            Self::TooManyFailures { seconds } => {
                (429, format!("Authentication has failed too often from this address. Retry in {seconds} s."))
            }
            Self::NoTenant(what) | Self::NoAgent(what) => (403, (*what).to_owned()),
            Self::InsufficientScope(scope) => {
                (403, format!("This tool asks for scopes that the token lacks: {scope}."))
            }
            Self::Suspended(who) => (403, format!("This {who} is suspended. Ask the operator of this server.")),
            Self::Forbidden(what) => (403, what.clone()),
            Self::BodyTooLarge { limit } => (413, format!("The request body is larger than {limit} bytes.")),
            Self::BodyTimeout => (408, "The request body did not arrive in time.".to_owned()),
            Self::BodyBroken => (400, "The request body ended before it was complete.".to_owned()),
            Self::TimedOut { seconds } => {
                (504, format!("The request did not finish within {seconds} s and was stopped."))
            }
            Self::TooManySessions => {
                (429, format!("This tenant has too many sessions. Retry in {SESSION_RETRY_SECONDS} s."))
            }
            Self::TooManyStreams { whose, most } => (
                429,
                format!(
                    "This {whose} has {most} streams open, as many as it may have. Retry in {SESSION_RETRY_SECONDS} s."
                ),
            ),
            Self::Unavailable(why) => (503, format!("{why} Retry in {UNAVAILABLE_RETRY_SECONDS} s.")),
        };
        let mut data = String::with_capacity(DATA_BYTES);
        Object::write(&mut data, |data| {
            data.text("reason", self.reason());
            if let Some(suggestion) = self.suggestion() {
                data.text("suggestion", suggestion);
            }
            data.text("request_id", request_id);
        });
        Report { code: i32::from(status), status, message, data }
    }

    /// What to do about a refusal that no limit made.
    const fn suggestion(&self) -> Option<&'static str> {
        match self {
            Self::TooManySessions => Some("end sessions that are no longer used, or wait for idle ones to expire"),
            Self::TooManyFailures { .. } => Some("check the credentials; good ones are served at once"),
            Self::InsufficientScope(_) => Some("get a token with these scopes, or use another tool"),
            Self::TooManyStreams { .. } => Some("close streams that are no longer needed"),
            Self::Unavailable(_) => Some("wait a second before retrying"),
            _ => None,
        }
    }
}

const UNAVAILABLE_RETRY_SECONDS: u64 = 1;
/// A guess: nobody knows when another session or stream ends.
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
    fn report(&self, code: i32, request_id: &str) -> Report {
        let mut data = String::with_capacity(DATA_BYTES);
        Object::write(&mut data, |data| {
            data.text("reason", self.reason.as_str());
            data.text("scope", self.scope.as_str());
            if let Some(tool) = &self.tool {
                data.text("tool", tool);
            }
            data.text("limit", &self.limit);
            data.number("current_usage", self.current_usage);
            data.number("remaining", self.remaining);
            data.boolean("other_tools_may_work", self.other_tools_may_work());
            if let Some(wait) = self.wait {
                data.number("retry_after_seconds", wait.retry_after_seconds());
                data.number("retry_after_ms", wait.retry_after_ms());
                // The name that SEP-3304 proposes.
                data.number("retryAfterMs", wait.retry_after_ms());
                data.boolean("exact", wait.is_exact());
            }
            data.text("suggestion", &self.suggestion());
            data.text("request_id", request_id);
        });
        Report { code, status: 429, message: self.message(), data }
    }

    fn other_tools_may_work(&self) -> bool {
        self.scope == Scope::Tool
    }

    /// Wait and scope stand in the message too: many callers see nothing else.
    fn message(&self) -> String {
        let mut text = String::with_capacity(MESSAGE_BYTES);
        text.push_str(match self.reason {
            Reason::RateLimit => "Rate limit exceeded for ",
            Reason::Concurrency => "Too many calls at once for ",
            Reason::Overloaded => "The server has all the work it takes",
            Reason::Cost => "This call costs more than the limit of ",
        });
        match (self.reason, self.scope, &self.tool) {
            (Reason::Overloaded, ..) => {}
            (_, Scope::Tool, Some(tool)) => text.extend(["tool '", tool, "'"]),
            (_, scope, _) => text.extend(["this ", scope.as_str()]),
        }
        if self.reason == Reason::Cost {
            text.push_str(" ever allows");
        }
        text.extend([": ", &*self.limit, "."]);
        match self.wait {
            _ if self.reason == Reason::Cost => text.push_str(" Waiting does not help."),
            Some(wait) => {
                text.push_str(" Retry in ");
                number(&mut text, wait.retry_after_seconds());
                text.push_str(" s.");
            }
            None => {}
        }
        text
    }

    fn suggestion(&self) -> String {
        let Some(wait) = self.wait else {
            return "do not retry; ask for less at a time or for a higher limit".to_owned();
        };
        let mut text = String::with_capacity(MESSAGE_BYTES);
        let seconds = wait.retry_after_seconds();
        text.push_str("wait ");
        number(&mut text, seconds);
        text.push_str(if seconds == 1 { " second" } else { " seconds" });
        text.push_str(" before retrying");
        text.push_str(if self.other_tools_may_work() {
            "; other tools may work meanwhile"
        } else {
            "; other tools are limited as well"
        });
        text
    }
}
