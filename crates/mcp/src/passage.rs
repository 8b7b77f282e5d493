//! What the gate decided about a request, as the protocol engine carries it to the tools.

use std::sync::Arc;

use http::request::Parts;
use rmcp::model::Extensions;
use tokio_util::sync::CancellationToken;

use crate::admitted::Admitted;
use crate::registry::ToolIndex;

/// What the gate decided about one `tools/call`. Without a passage no tool is reached.
#[derive(Clone, Debug)]
pub enum Passage {
    /// Let through.
    Admitted(Admitted),
    /// The caller has no tool of this name: there is none, or it may not see it. Both are answered alike.
    NoSuchTool(Arc<str>),
}

/// Which tools the caller of a request may see.
#[derive(Clone)]
pub struct Visible(Arc<dyn Fn(ToolIndex) -> bool + Send + Sync>);

impl Visible {
    /// Visible are the tools for which `see` is true.
    pub fn new(see: impl Fn(ToolIndex) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(see))
    }

    pub(crate) fn shows(&self, tool: ToolIndex) -> bool {
        (self.0)(tool)
    }
}

/// What the gate says about every request that it let through. A request without it reaches no handler.
#[derive(Clone)]
pub struct Visit {
    /// Which tools the caller may see.
    pub visible: Visible,
    /// Whose sessions and tasks the request may touch.
    pub owner: Owner,
    /// Our own correlation id, for the log and for messages about failures.
    pub request_id: Arc<str>,
    /// When it is cancelled, what the request opened has to end; only for requests that are answered by a stream.
    pub ends: Option<CancellationToken>,
}

/// Whoever a session or a task belongs to. Only its owner can use it; to everybody else it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Those who share a cap on sessions.
    pub group: Arc<str>,
    /// One of the group.
    pub member: Arc<str>,
}

/// Finds what the gate attached: over HTTP in the request's parts, which rmcp puts into the extensions, else directly.
pub(crate) fn attached<T: Send + Sync + 'static>(extensions: &Extensions) -> Option<&T> {
    extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<T>()).or_else(|| extensions.get::<T>())
}
