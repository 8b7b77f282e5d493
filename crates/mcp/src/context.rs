//! The circumstances of a call: how long it may take, whether anyone still waits, who asked.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Extensions;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::admitted::{Admitted, Outcome, Ticket};
use crate::wire::Wire;

/// The circumstances of a call, as a parameter of a tool.
///
/// Clones are cheap and share everything. **As long as any clone lives, the call's concurrency permit stays taken**: move
/// one into a task that the tool spawns if that work shall count against the limit, and drop it if not.
///
/// A cancelled or overdue tool is dropped at its next `await`; it need not watch the token itself. Work that it spawned
/// goes on, and has to watch [`cancelled`](Self::cancelled).
///
/// ```
/// use sluicegate_mcp::CallContext;
///
/// /// How many rows still fit into the time that is left.
/// fn budget(ctx: &CallContext) -> u128 {
///     ctx.remaining().map_or(10_000, |left| left.as_millis() / 5)
/// }
///
/// assert_eq!(budget(&CallContext::detached()), 10_000);
/// ```
#[derive(Clone)]
pub struct CallContext {
    inner: Arc<Inner>,
}

struct Inner {
    deadline: Option<Instant>,
    /// Who else cancels the call, if anybody can.
    caller: Option<CancellationToken>,
    /// Made when somebody asks for it, or when there is something to say: most calls end before that.
    cancellation: OnceLock<CancellationToken>,
    request_id: Arc<str>,
    extensions: Arc<Extensions>,
    wire: Option<Wire>,
    /// Its drop gives the permits back.
    ticket: Option<Arc<dyn Ticket>>,
}

impl CallContext {
    /// The context of an admitted call whose time starts now, and which `caller` cancels as well.
    pub(crate) fn admitted(admitted: Admitted, caller: Option<&CancellationToken>, wire: Option<Wire>) -> Self {
        // A deadline too far away for the clock is none.
        let deadline = admitted.deadline().and_then(|limit| Instant::now().checked_add(limit));
        let (ticket, request_id, extensions) = admitted.into_parts();
        Self {
            inner: Arc::new(Inner {
                deadline,
                caller: caller.cloned(),
                cancellation: OnceLock::new(),
                request_id,
                extensions,
                wire,
                ticket: Some(ticket),
            }),
        }
    }

    /// A context outside any gate: no deadline, never cancelled, holds nothing. For tests of tools.
    pub fn detached() -> Self {
        Self::detached_with(Extensions::new())
    }

    /// Like [`detached`](Self::detached), with typed values as the gate would have put them there.
    pub fn detached_with(extensions: Extensions) -> Self {
        Self {
            inner: Arc::new(Inner {
                deadline: None,
                caller: None,
                cancellation: OnceLock::new(),
                request_id: Arc::from("detached"),
                extensions: Arc::new(extensions),
                wire: None,
                ticket: None,
            }),
        }
    }

    /// When the call will be cut off, on tokio's clock: fits [`tokio::time::timeout_at`].
    pub fn deadline(&self) -> Option<Instant> {
        self.inner.deadline
    }

    /// How much time is left, zero if none; `None` without a deadline.
    pub fn remaining(&self) -> Option<Duration> {
        self.inner.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// The token that tells spawned work to stop: when the caller goes away or cancels, when the deadline passes, and
    /// when the tool panics. It is not cancelled by an orderly return.
    pub fn cancellation(&self) -> CancellationToken {
        self.token().clone()
    }

    /// Waits until the call is cancelled, see [`cancellation`](Self::cancellation).
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.token().cancelled()
    }

    fn token(&self) -> &CancellationToken {
        let Inner { caller, cancellation, .. } = &*self.inner;
        cancellation.get_or_init(|| caller.as_ref().map(CancellationToken::child_token).unwrap_or_default())
    }

    /// The work has ended: that is recorded, and whatever of it goes on is told to stop, unless it returned in order.
    pub(crate) fn ended(&self, outcome: Outcome) {
        match outcome {
            Outcome::TimedOut | Outcome::Cancelled | Outcome::Panicked => self.token().cancel(),
            Outcome::Ok | Outcome::ToolError | Outcome::InvalidInput | Outcome::InputRequired => {}
        }
        if let Some(ticket) = &self.inner.ticket {
            ticket.ended(outcome);
        }
    }

    /// The correlation id of this call, as it stands in the logs and in messages to the caller.
    pub fn request_id(&self) -> &str {
        &self.inner.request_id
    }

    /// Typed values that the gate attached to the call.
    pub fn extensions(&self) -> &Extensions {
        &self.inner.extensions
    }

    /// The call as it came; `None` outside of a server.
    pub(crate) fn wire(&self) -> Option<&Wire> {
        self.inner.wire.as_ref()
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("request_id", &self.inner.request_id)
            .field("deadline", &self.inner.deadline)
            .field("cancelled", &self.token().is_cancelled())
            .finish_non_exhaustive()
    }
}
