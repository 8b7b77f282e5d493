//! The scope in which a tool runs: it ends by itself, by a panic, by cancellation or at its deadline, and in every case
//! the end is recorded once.
//!
//! rmcp spawns its handlers detached, cancels nothing but a token, and lets a client wait for ever for a handler that
//! panicked. So the scope is ours.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::admitted::{Admitted, Outcome, Ticket};
use crate::call::Call;
use crate::context::CallContext;
use crate::error::ToolError;
use crate::tool::Tool;

/// Runs an admitted call to its end and says what to send.
///
/// * The tool's own failure, a panic, a missed deadline and a cancellation are results with `isError: true`; nobody waits
///   for the last one, but a caller that does gets an answer.
/// * The tool's future is dropped at its next `await` when the deadline passes or `cancellation` is cancelled. The
///   [`CallContext`]'s own token is cancelled then, and also on a panic, for work that the tool spawned.
/// * [`Ticket::ended`] is called exactly once, also when the returned future is dropped before its end.
///
/// The caller has made sure that `admitted` is for this `tool`.
pub async fn call_scope(
    tool: &Tool,
    arguments: JsonObject,
    admitted: Admitted,
    cancellation: &CancellationToken,
) -> CallToolResult {
    let limit = admitted.deadline();
    let request_id = Arc::clone(admitted.request_id());
    let mut end = End::of(&admitted, cancellation.child_token());
    let context = CallContext::admitted(admitted, end.cancellation.clone());
    let deadline = context.deadline();
    let call = Call::new(arguments, context);

    // The closure of a tool is the author's code as well, so it runs inside.
    let mut work = Box::pin(AssertUnwindSafe(async { tool.run(call).await }).catch_unwind());
    let ended = tokio::select! {
        biased;
        () = cancellation.cancelled() => Ended::Cancelled,
        done = &mut work => match done {
            Ok(returned) => Ended::Returned(returned),
            Err(panic) => Ended::Panicked(panic),
        },
        () = passed(deadline) => Ended::TimedOut,
    };
    // What the author's destructors do is not ours to trust either.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
    let ended = match dropped {
        Ok(()) => ended,
        Err(panic) => Ended::Panicked(panic),
    };

    let (outcome, result) = conclude(ended, tool, &request_id, limit);
    end.outcome = outcome;
    result
}

/// What came first.
enum Ended {
    Returned(Result<CallToolResult, ToolError>),
    Panicked(Box<dyn Any + Send>),
    TimedOut,
    Cancelled,
}

/// Completes at the deadline; never without one.
async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The outcome to record and the result to send; logs what the caller is not told.
fn conclude(ended: Ended, tool: &Tool, request_id: &str, limit: Option<Duration>) -> (Outcome, CallToolResult) {
    let tool = tool.name();
    match ended {
        Ended::Returned(Ok(result)) if result.is_error == Some(true) => (Outcome::ToolError, result),
        Ended::Returned(Ok(result)) => (Outcome::Ok, result),
        Ended::Returned(Err(error)) if error.is_invalid_input() => (Outcome::InvalidInput, error.into_result()),
        Ended::Returned(Err(error)) => {
            if let Some(source) = error.source() {
                tracing::warn!(tool, request_id, error = %error, source = chain(source), "tool failed");
            }
            (Outcome::ToolError, error.into_result())
        }
        Ended::Panicked(panic) => {
            tracing::error!(tool, request_id, panic = message(&*panic), "tool panicked");
            let text = format!("the tool failed unexpectedly; its operator finds the reason under {request_id}");
            (Outcome::Panicked, failure(text))
        }
        Ended::TimedOut => {
            tracing::warn!(tool, request_id, ?limit, "tool did not finish in time");
            let limit = limit.unwrap_or_default().as_secs_f64();
            (Outcome::TimedOut, failure(format!("the tool did not finish within {limit} s and was stopped")))
        }
        Ended::Cancelled => (Outcome::Cancelled, failure("the call was cancelled".to_owned())),
    }
}

fn failure(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// An error with everything below it, on one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let links = std::iter::successors(Some(error), |&error| error.source());
    links.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}

/// Records the end when it is dropped, so that there is no way around it.
struct End {
    ticket: Arc<dyn Ticket>,
    cancellation: CancellationToken,
    outcome: Outcome,
}

impl End {
    fn of(admitted: &Admitted, cancellation: CancellationToken) -> Self {
        Self { ticket: Arc::clone(admitted.ticket()), cancellation, outcome: Outcome::Cancelled }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        match self.outcome {
            Outcome::TimedOut | Outcome::Cancelled | Outcome::Panicked => {
                self.cancellation.cancel();
            }
            Outcome::Ok | Outcome::ToolError | Outcome::InvalidInput => {}
        }
        self.ticket.ended(self.outcome);
    }
}

#[cfg(test)]
mod tests;
