//! A refusal in words and numbers: message, code and data, the same for every transport.

use super::json::{Object, Text, member};
use super::{Reason, Refusal, Throttled};
use crate::settings::RefusalCode;
use sluicegate_limits::{Scope, Wait};

/// The first revision that reserves -32020..-32099 for the specification (MCP 2026-07-28, "Error codes").
pub(crate) const MODERN: &str = "2026-07-28";

/// What a refusal says. It is written piece by piece into the answer, since refusals are written by the thousand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'a> {
    refusal: &'a Refusal,
    request_id: &'a str,
    code: i32,
    pub(crate) status: u16,
}

impl Report<'_> {
    /// Writes the members of a JSON-RPC error.
    pub(crate) fn error(&self, error: &mut Object<'_>) {
        error.number(member!("code"), self.code);
        error.text_of(member!("message"), |text| self.message(text));
        error.object(member!("data"), |data| self.data(data));
    }

    /// Writes the sentence for whoever reads nothing else.
    pub(crate) fn message(&self, text: &mut Text<'_>) {
        self.refusal.message(text);
    }

    /// The same for those who take no JSON.
    pub(crate) fn sentence(&self) -> String {
        let mut json = String::new();
        Text::write(&mut json, |text| self.message(text));
        serde_json::from_str(&json).unwrap_or_default()
    }

    /// Writes the members of what is `error.data` of JSON-RPC, and in `_meta` of a tool result.
    pub(crate) fn data(&self, data: &mut Object<'_>) {
        data.own_text(member!("reason"), self.refusal.reason());
        if let Refusal::Throttled(throttled) = self.refusal {
            throttled.data(data);
        } else if let Some(suggestion) = self.refusal.suggestion() {
            data.text(member!("suggestion"), suggestion);
        }
        // Letters, digits and `-_.`, whoever made it.
        data.own_text(member!("request_id"), self.request_id);
    }
}

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
    pub(crate) fn report<'a>(&'a self, code: RefusalCode, version: Option<&str>, request_id: &'a str) -> Report<'a> {
        let status = self.status();
        let code = match self {
            Self::Throttled(_) => error_code(code, version),
            _ => i32::from(status),
        };
        Report { refusal: self, request_id, code, status }
    }

    const fn status(&self) -> u16 {
        match self {
            Self::Unauthenticated(_) | Self::InvalidToken(_) => 401,
            Self::Suspended(_)
            | Self::Forbidden(_)
            | Self::NoTenant(_)
            | Self::NoAgent(_)
            | Self::InsufficientScope(_) => 403,
            Self::BodyTooLarge { .. } => 413,
            Self::BodyTimeout => 408,
            Self::BodyBroken => 400,
            Self::TimedOut { .. } => 504,
            Self::Throttled(_) | Self::TooManyFailures { .. } | Self::TooManySessions | Self::TooManyStreams { .. } => {
                429
            }
            Self::Unavailable(_) => 503,
        }
    }

    fn message(&self, text: &mut Text<'_>) {
        match self {
            Self::Throttled(throttled) => throttled.message(text),
            Self::Unauthenticated(what) | Self::InvalidToken(what) | Self::NoTenant(what) | Self::NoAgent(what) => {
                text.push(what);
            }
            Self::TooManyFailures { seconds } => {
                text.push(&format!("Authentication has failed too often from this address. Retry in {seconds} s."));
            }
            Self::InsufficientScope(scope) => {
                text.push(&format!("This tool asks for scopes that the token lacks: {scope}."));
            }
            Self::Suspended(who) => {
                text.push(&format!("This {who} is suspended. Ask the operator of this server."));
            }
            Self::Forbidden(what) => text.push(what),
            Self::BodyTooLarge { limit } => text.push(&format!("The request body is larger than {limit} bytes.")),
            Self::BodyTimeout => text.push("The request body did not arrive in time."),
            Self::BodyBroken => text.push("The request body ended before it was complete."),
            Self::TimedOut { seconds } => {
                text.push(&format!("The request did not finish within {seconds} s and was stopped."));
            }
            Self::TooManySessions => {
                text.push(&format!("This tenant has too many sessions. Retry in {SESSION_RETRY_SECONDS} s."));
            }
            Self::TooManyStreams { whose, most } => text.push(&format!(
                "This {whose} has {most} streams open, as many as it may have. Retry in {SESSION_RETRY_SECONDS} s."
            )),
            Self::Unavailable(why) => text.push(&format!("{why} Retry in {UNAVAILABLE_RETRY_SECONDS} s.")),
        }
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
    fn data(&self, data: &mut Object<'_>) {
        data.own_text(member!("scope"), self.scope.as_str());
        if let Some(tool) = &self.tool {
            data.text(member!("tool"), tool);
        }
        data.own_text(member!("limit"), &self.limit);
        data.number(member!("current_usage"), self.current_usage);
        data.number(member!("remaining"), self.remaining);
        data.boolean(member!("other_tools_may_work"), self.other_tools_may_work());
        if let Some(wait) = self.wait {
            data.number(member!("retry_after_seconds"), wait.retry_after_seconds());
            data.number(member!("retry_after_ms"), wait.retry_after_ms());
            // The name that SEP-3304 proposes.
            data.number(member!("retryAfterMs"), wait.retry_after_ms());
            data.boolean(member!("exact"), wait.is_exact());
        }
        data.text_of(member!("suggestion"), |text| self.suggestion(text));
    }

    fn other_tools_may_work(&self) -> bool {
        self.scope == Scope::Tool
    }

    /// Wait and scope stand in the message too: many callers see nothing else.
    fn message(&self, text: &mut Text<'_>) {
        text.push_own(match self.reason {
            Reason::RateLimit => "Rate limit exceeded for ",
            Reason::Concurrency => "Too many calls at once for ",
            Reason::Overloaded => "The server has all the work it takes",
            Reason::Cost => "This call costs more than the limit of ",
        });
        match (self.reason, self.scope, &self.tool) {
            (Reason::Overloaded, ..) => {}
            (_, Scope::Tool, Some(tool)) => {
                text.push_own("tool '");
                text.push(tool);
                text.push_own("'");
            }
            (_, scope, _) => {
                text.push_own("this ");
                text.push_own(scope.as_str());
            }
        }
        if self.reason == Reason::Cost {
            text.push_own(" ever allows");
        }
        text.push_own(": ");
        text.push_own(&self.limit);
        text.push_own(".");
        match self.wait {
            _ if self.reason == Reason::Cost => text.push_own(" Waiting does not help."),
            Some(wait) => {
                text.push_own(" Retry in ");
                text.number(wait.retry_after_seconds());
                text.push_own(" s.");
            }
            None => {}
        }
    }

    fn suggestion(&self, text: &mut Text<'_>) {
        let Some(wait) = self.wait else {
            text.push_own("do not retry; ask for less at a time or for a higher limit");
            return;
        };
        let seconds = wait.retry_after_seconds();
        text.push_own("wait ");
        text.number(seconds);
        text.push_own(if seconds == 1 { " second" } else { " seconds" });
        text.push_own(if self.other_tools_may_work() {
            " before retrying; other tools may work meanwhile"
        } else {
            " before retrying; other tools are limited as well"
        });
    }
}
