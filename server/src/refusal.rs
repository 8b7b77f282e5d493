//! Why a request is not served, and the one place that says so to the caller.
//!
//! Every step of the gate that refuses returns a [`Refusal`]; [`http`] and [`stdio`] render it for the transport at
//! hand, both from the same [`Report`](report::Report). Nothing else in the house writes a refusal.

use std::sync::Arc;

use sluicegate_limits::{RuleSet, Scope, Wait};

pub(crate) mod fields;
pub(crate) mod http;
mod json;
pub(crate) mod report;
pub(crate) mod stdio;
pub(crate) mod style;

/// Why a request is not served.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// No credentials.
    Unauthenticated(&'static str),
    /// None that are good. The text says what is wrong without saying whether a key exists.
    InvalidToken(&'static str),
    /// Neither, from an address that has failed too often: how long it takes until it may fail again.
    TooManyFailures { seconds: u64 },
    /// A good token that speaks for no tenant of this server.
    NoTenant(&'static str),
    /// A good token that does not say who calls.
    NoAgent(&'static str),
    /// A tool asks for scopes that the token lacks: these, separated by spaces.
    InsufficientScope(String),
    /// The tenant or the agent is suspended.
    Suspended(&'static str),
    /// The request comes from, or addresses, a place that is not allowed: the text names it.
    Forbidden(String),
    /// A limit, a cap or the server itself is full.
    Throttled(Box<Throttled>),
    /// The server cannot serve anybody now; the sentence says why. Try again, perhaps elsewhere.
    Unavailable(&'static str),
    /// The body is larger than `limit` bytes.
    BodyTooLarge { limit: usize },
    /// The body did not arrive in time.
    BodyTimeout,
    /// The body could not be read to its end.
    BodyBroken,
    /// The tenant has as many sessions as it may have.
    TooManySessions,
    /// The agent or the tenant has as many streams open as it may have.
    TooManyStreams { whose: &'static str, most: u32 },
    /// A request other than a tool call ran past the deadline.
    TimedOut { seconds: f64 },
}

impl Refusal {
    /// The words of all refusals that are not by a limit.
    pub(crate) const REASONS: [&'static str; 14] = [
        "unauthenticated",
        "too_many_failures",
        "no_tenant",
        "no_agent",
        "insufficient_scope",
        "suspended",
        "forbidden",
        "overloaded",
        "body_too_large",
        "body_timeout",
        "body_incomplete",
        "too_many_sessions",
        "too_many_streams",
        "timed_out",
    ];

    /// Whether the request had been let in, and its end is metered as that of a served one.
    pub(crate) const fn comes_after_admission(&self) -> bool {
        matches!(self, Self::TooManySessions | Self::TimedOut { .. } | Self::InsufficientScope(_))
    }
}

/// A request that a limit refused: the limit with the longest wait, and what the caller may know about it.
#[derive(Debug)]
pub(crate) struct Throttled {
    pub(crate) reason: Reason,
    pub(crate) scope: Scope,
    /// The tool that was called; `None` for other requests.
    pub(crate) tool: Option<Arc<str>>,
    /// The limit in words: `10 requests / 60s`, `2 concurrent`.
    pub(crate) limit: Arc<str>,
    pub(crate) current_usage: u64,
    pub(crate) remaining: u64,
    /// `None` when waiting does not help.
    pub(crate) wait: Option<Wait>,
    /// The `RateLimit` and `RateLimit-Policy` fields.
    pub(crate) fields: fields::Fields,
    /// The limits in observe mode that would have refused it too.
    pub(crate) would_throttle: RuleSet,
}

/// Which kind of limit refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Too many in a window.
    RateLimit,
    /// Too many at once.
    Concurrency,
    /// The call costs more than the limit ever holds.
    Cost,
    /// The server has all the work it takes.
    Overloaded,
}

impl Reason {
    pub(crate) const ALL: [Self; 4] = [Self::RateLimit, Self::Concurrency, Self::Cost, Self::Overloaded];

    /// The word on the wire and in the log.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit_exceeded",
            Self::Concurrency => "concurrency_limit_exceeded",
            Self::Cost => "cost_above_limit",
            Self::Overloaded => "overloaded",
        }
    }
}
