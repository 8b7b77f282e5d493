//! Refusals of MCP servers, and calls that ended with one.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use rmcp::model::CallToolResult;
use rmcp::service::ServiceError;

use crate::retry::GaveUp;
use crate::retry_after::whole_seconds;

/// Whose limit refused a call, and with it what else may work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalScope {
    /// Everybody has to wait.
    Server,
    /// Everybody of the tenant has to wait.
    Tenant,
    /// The agent has to wait.
    Agent,
    /// Only this tool has to wait: another may work.
    Tool,
}

/// What a server said when it did not take a call, or when an upstream did not take its tool's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpRefusal {
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
    pub(super) scope: Option<RefusalScope>,
    pub(super) reason: Option<String>,
    pub(super) limit: Option<String>,
}

impl McpRefusal {
    /// The text that came with it, for a model.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The wait that was told.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whose limit it was, if the server says so and the transport keeps it (rmcp's does not in answers with status 429).
    #[must_use]
    pub const fn scope(&self) -> Option<RefusalScope> {
        self.scope
    }

    /// Whether another tool of the server may work meanwhile, as far as is known.
    #[must_use]
    pub fn other_tools_may_work(&self) -> bool {
        self.scope == Some(RefusalScope::Tool)
    }

    /// The server's word for why, such as `rate_limit_exceeded`.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The limit in words, such as `10 requests / 60s`.
    #[must_use]
    pub fn limit(&self) -> Option<&str> {
        self.limit.as_deref()
    }
}

impl fmt::Display for McpRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.retry_after {
            Some(wait) => write!(f, " (retry after {} s)", whole_seconds(wait)),
            None => Ok(()),
        }
    }
}

/// The last that was heard of a call that failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum LastAnswer {
    /// An error of the protocol or of the transport.
    Error(ServiceError),
    /// A result that says that the tool's upstream, or the server, refused.
    Result(Box<CallToolResult>),
    /// Nothing: the time was over.
    Nothing,
}

/// A tool call that failed for good. A tool's own failure (`isError`) is none, but for one that carries a rate limit.
#[derive(Debug)]
pub struct McpCallError {
    pub(super) refusal: Option<McpRefusal>,
    pub(super) attempts: u32,
    pub(super) may_have_run: bool,
    pub(super) gave_up: GaveUp,
    pub(super) last: LastAnswer,
}

impl McpCallError {
    /// The refusal that it ended with, if it was one.
    #[must_use]
    pub const fn refusal(&self) -> Option<&McpRefusal> {
        self.refusal.as_ref()
    }

    /// How many requests were made.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether the tool may have run, although no result says so.
    #[must_use]
    pub const fn may_have_run(&self) -> bool {
        self.may_have_run
    }

    /// Why it was not repeated any more.
    #[must_use]
    pub const fn gave_up(&self) -> GaveUp {
        self.gave_up
    }

    /// The last answer, whole.
    #[must_use]
    pub const fn last(&self) -> &LastAnswer {
        &self.last
    }
}

impl fmt::Display for McpCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.refusal, &self.last) {
            (Some(refusal), _) => write!(f, "{refusal}")?,
            (None, LastAnswer::Error(error)) => write!(f, "{error}")?,
            (None, _) => f.write_str("no answer came in time")?,
        }
        write!(f, ", given up after {} attempts", self.attempts)
    }
}

impl Error for McpCallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.last {
            LastAnswer::Error(error) => Some(error),
            _ => None,
        }
    }
}
