//! Why a call to an upstream failed, in words for a model and in data for a program.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::retry_after::whole_seconds;

const LATER: &str = "Try again later, or go on without it.";

/// A call to an upstream that failed for good.
///
/// It has three sides: [`text`](Self::text) tells a model what happened and what to do, [`meta`](Self::meta) says the
/// same to programs, and [`source`](Error::source) is for the operator's log and shown to nobody else. With the feature
/// `tools` it becomes a `ToolError` by `?`.
#[derive(Debug)]
pub struct UpstreamError {
    pub(crate) upstream: Arc<str>,
    pub(crate) kind: UpstreamErrorKind,
    pub(crate) attempts: u32,
    pub(crate) may_have_run: bool,
    pub(crate) source: Option<Box<dyn Error + Send + Sync>>,
}

/// What kind of failure an [`UpstreamError`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpstreamErrorKind {
    /// The upstream is called too often: it said so itself, or our own limiter did before it had to.
    Throttled {
        /// When to try again.
        retry_after: Duration,
        /// The quota of ours that is used up; `None` if the upstream refused.
        limit: Option<Arc<str>>,
    },
    /// The upstream fails and is left alone; it was not called.
    CircuitOpen {
        /// When to try again.
        retry_after: Duration,
    },
    /// No answer came in time.
    TimedOut,
    /// The upstream answered that it failed, with this status.
    Failed {
        /// The status, 500 to 599.
        status: u16,
    },
    /// The upstream could not be reached, or the connection broke.
    Unreachable,
    /// The call cannot succeed, however often it is made.
    Rejected,
}

impl UpstreamError {
    /// The upstream's name.
    #[must_use]
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// What kind of failure it is.
    #[must_use]
    pub const fn kind(&self) -> &UpstreamErrorKind {
        &self.kind
    }

    /// How many requests were made.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether the upstream may have done what was asked, although no answer says so.
    #[must_use]
    pub const fn may_have_run(&self) -> bool {
        self.may_have_run
    }

    /// When to try again, if that is known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            UpstreamErrorKind::Throttled { retry_after, .. } | UpstreamErrorKind::CircuitOpen { retry_after } => {
                Some(retry_after)
            }
            _ => None,
        }
    }

    /// What happened and what to do about it, safe to show to whoever made the call.
    #[must_use]
    pub fn text(&self) -> String {
        let upstream = &self.upstream;
        let wait = self.retry_after().map_or(0, whole_seconds);
        let seconds = if wait == 1 { "second" } else { "seconds" };
        let tried = match self.attempts {
            0 | 1 => String::new(),
            attempts => format!(" ({attempts} attempts)"),
        };
        let (what, advice) = match &self.kind {
            UpstreamErrorKind::Throttled { limit: Some(limit), .. } => (
                format!("`{upstream}` may not be called more often: {limit}."),
                format!("Wait {wait} {seconds} before trying again."),
            ),
            UpstreamErrorKind::Throttled { limit: None, .. } => (
                format!("`{upstream}` limits how often it is called."),
                format!("Wait {wait} {seconds} before trying again."),
            ),
            UpstreamErrorKind::CircuitOpen { .. } => (
                format!("`{upstream}` is failing and is left alone, to let it recover."),
                format!("Go on without it, or try again in {wait} {seconds}."),
            ),
            UpstreamErrorKind::TimedOut => (format!("`{upstream}` did not answer in time{tried}."), LATER.to_owned()),
            UpstreamErrorKind::Failed { status } => {
                (format!("`{upstream}` failed with status {status}{tried}."), LATER.to_owned())
            }
            UpstreamErrorKind::Unreachable => (format!("`{upstream}` could not be reached{tried}."), LATER.to_owned()),
            UpstreamErrorKind::Rejected => {
                (format!("The request to `{upstream}` cannot succeed."), "Repeating it does not help.".to_owned())
            }
        };
        let check = if self.may_have_run { " It may have done what was asked: check before asking again." } else { "" };
        format!("{what} {advice}{check}")
    }

    /// The same as data, for the `_meta` of a tool result. `type` is `rate_limited`, `circuit_open`, `upstream_timeout`,
    /// `upstream_failed`, `upstream_unreachable` or `upstream_rejected`; with the first come `retry_after_seconds` and
    /// `limit`.
    #[must_use]
    pub fn meta(&self) -> Map<String, Value> {
        let mut meta = Map::new();
        meta.insert("type".to_owned(), self.kind.word().into());
        meta.insert("upstream".to_owned(), (*self.upstream).into());
        if let Some(wait) = self.retry_after() {
            meta.insert("retry_after_seconds".to_owned(), whole_seconds(wait).into());
        }
        match &self.kind {
            UpstreamErrorKind::Throttled { limit, .. } => {
                let limit = limit.as_deref().map_or_else(|| format!("set by {}", self.upstream), str::to_owned);
                meta.insert("limit".to_owned(), limit.into());
            }
            UpstreamErrorKind::Failed { status } => {
                meta.insert("status".to_owned(), (*status).into());
            }
            _ => {}
        }
        meta
    }
}

impl UpstreamErrorKind {
    /// The word for it in `_meta`, in metrics and in the log.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Throttled { .. } => "rate_limited",
            Self::CircuitOpen { .. } => "circuit_open",
            Self::TimedOut => "upstream_timeout",
            Self::Failed { .. } => "upstream_failed",
            Self::Unreachable => "upstream_unreachable",
            Self::Rejected => "upstream_rejected",
        }
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl Error for UpstreamError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
