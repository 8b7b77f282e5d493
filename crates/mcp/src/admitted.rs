//! The proof that a call was let through, and what is held for as long as it lives.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;

use crate::envelope::UnusableKey;
use crate::registry::ToolIndex;
use crate::replay::IdempotencyKey;

/// Proof that the gate let a call through.
///
/// It travels in `http::request::Parts::extensions` and in rmcp's `RequestContext::extensions`, from the gate to the
/// place where the tool is run. A call without it, or with one for another tool, is never run.
#[derive(Clone)]
pub struct Admitted {
    tool: ToolIndex,
    deadline: Option<Duration>,
    ticket: Arc<dyn Ticket>,
    request_id: Arc<str>,
    extensions: Option<Arc<Extensions>>,
    /// Shared, since most calls have none and an admission is cloned.
    idempotency_key: Option<Result<Arc<IdempotencyKey>, UnusableKey>>,
}

impl Admitted {
    /// Admits one call of `tool`. `request_id` is our own correlation id, not the JSON-RPC id, which the caller picks.
    pub fn new(tool: ToolIndex, ticket: Arc<dyn Ticket>, request_id: impl Into<Arc<str>>) -> Self {
        Self { tool, deadline: None, ticket, request_id: request_id.into(), extensions: None, idempotency_key: None }
    }

    /// Bounds the time that the tool may run, counted from its start.
    #[must_use]
    pub fn with_deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Hands typed values to the tool, such as who calls.
    #[must_use]
    pub fn with_extensions(mut self, extensions: impl Into<Arc<Extensions>>) -> Self {
        self.extensions = Some(extensions.into());
        self
    }

    /// Makes the call one with all others of the tool that have the same key: an idempotent tool runs once for them, and
    /// not at all for a key that cannot be used.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: Result<IdempotencyKey, UnusableKey>) -> Self {
        self.idempotency_key = Some(key.map(Arc::new));
        self
    }

    /// The tool that may be called.
    pub fn tool(&self) -> ToolIndex {
        self.tool
    }

    /// How long the tool may run.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The correlation id of the call.
    pub fn request_id(&self) -> &Arc<str> {
        &self.request_id
    }

    /// What is held while the call lives; clone it into the response body.
    pub fn ticket(&self) -> &Arc<dyn Ticket> {
        &self.ticket
    }

    /// The typed values for the tool, if there are any.
    pub fn extensions(&self) -> Option<&Extensions> {
        self.extensions.as_deref()
    }

    pub(crate) fn idempotency_key(&self) -> Option<Result<&Arc<IdempotencyKey>, UnusableKey>> {
        Some(self.idempotency_key.as_ref()?.as_ref().map_err(|unusable| *unusable))
    }

    /// Takes it apart: what is held, the correlation id and the typed values for the tool.
    pub(crate) fn into_parts(self) -> (Arc<dyn Ticket>, Arc<str>, Arc<Extensions>) {
        (self.ticket, self.request_id, self.extensions.unwrap_or_default())
    }
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted")
            .field("tool", &self.tool)
            .field("deadline", &self.deadline)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

/// What is held while a call lives: permits, and the place where its end is recorded.
///
/// The `Arc` around it is shared by the work and by the response body, so its `Drop` runs when both have ended. That is
/// where permits go back.
pub trait Ticket: Send + Sync + 'static {
    /// The tool's work has ended. Called exactly once per run, also when the work was dropped half-way; the response
    /// body may still be on its way.
    fn ended(&self, outcome: Outcome);
}

/// How the work of a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The tool returned a result.
    Ok,
    /// The tool returned an error.
    ToolError,
    /// The arguments did not fit the tool's input schema.
    InvalidInput,
    /// The deadline passed first.
    TimedOut,
    /// The caller went away or cancelled, or the work was dropped.
    Cancelled,
    /// The tool panicked.
    Panicked,
    /// The tool asks its caller for something; the caller calls again with the answer.
    InputRequired,
}

impl Outcome {
    /// The word for it in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::InvalidInput => "invalid_input",
            Self::TimedOut => "timeout",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panic",
            Self::InputRequired => "input_required",
        }
    }
}
