//! The scope in which a tool runs: it ends by itself, by a panic, by cancellation or at its deadline, and in every case
//! the end is recorded once.
//!
//! rmcp spawns its handlers detached, cancels nothing but a token, and lets a client wait for ever for a handler that
//! panicked. So the scope is ours.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt as _;
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ErrorCode, JsonObject};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::admitted::{Admitted, Outcome};
use crate::call::Call;
use crate::context::CallContext;
use crate::error::ToolError;
use crate::panic::{Panic, said};
use crate::tool::Tool;
use crate::wire::Wire;

/// What the work of a call comes to: a response, or why there is none.
pub(crate) type Returned = Result<CallToolResponse, Failure>;

/// Why a call has no response of its own.
pub(crate) enum Failure {
    /// The tool failed: a result that a model can read.
    Tool(ToolError),
    /// An rmcp handler answered with an error of the protocol, which passes as it is.
    Protocol(ErrorData),
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

/// Runs an admitted call of one of our tools to its end and says what to send.
///
/// * The tool's own failure, a panic, a missed deadline and a cancellation are results with `isError: true`; nobody waits
///   for the last one, but a caller that does gets an answer.
/// * The tool's future is dropped at its next `await` when the deadline passes or `cancellation` is cancelled. The
///   [`CallContext`]'s own token is cancelled then, and also on a panic, for work that the tool spawned.
/// * [`Ticket::ended`](crate::Ticket::ended) is called exactly once, also when the returned future is dropped before its end.
///
/// The caller has made sure that `admitted` is for this `tool`. Nobody can be asked for input here: that needs a peer.
pub async fn call_scope(
    tool: &Tool,
    arguments: JsonObject,
    admitted: Admitted,
    cancellation: &CancellationToken,
) -> CallToolResult {
    let work = |context| run(tool, Call::new(arguments, context));
    match scope(tool.name(), admitted, None, Some(cancellation), work).await {
        Ok(CallToolResponse::Complete(result)) => result,
        Ok(_) => failure("the tool asks for input, and nobody can be asked".to_owned()),
        Err(error) => failure(error.message.into_owned()),
    }
}

/// The work of one of our tools.
pub(crate) async fn run(tool: &Tool, call: Call) -> Returned {
    Ok(tool.run(call).await?.into())
}

/// The scope itself, for any work: see [`call_scope`]. Without a `cancellation` nobody cancels but by dropping the future.
pub(crate) async fn scope<W: Future<Output = Returned>>(
    tool: &str,
    admitted: Admitted,
    wire: Option<Wire>,
    cancellation: Option<&CancellationToken>,
    work: impl FnOnce(CallContext) -> W,
) -> Result<CallToolResponse, ErrorData> {
    let limit = admitted.deadline();
    let context = CallContext::admitted(admitted, cancellation, wire);
    let deadline = context.deadline();
    let mut end = End { context: context.clone(), outcome: Outcome::Cancelled };

    // What makes the future is the author's code as well, so it runs inside.
    let mut work = Box::pin(AssertUnwindSafe(async { work(context).await }).catch_unwind());
    let ended = tokio::select! {
        biased;
        () = cancelled(cancellation) => Ended::Cancelled,
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

    let (outcome, answer) = conclude(ended, tool, end.context.request_id(), limit);
    end.outcome = outcome;
    answer
}

/// What came first.
#[expect(clippy::large_enum_variant, reason = "it lives for one match")]
enum Ended {
    Returned(Returned),
    Panicked(Panic),
    TimedOut,
    Cancelled,
}

/// Completes when somebody cancels; never where nobody can.
async fn cancelled(cancellation: Option<&CancellationToken>) {
    match cancellation {
        Some(cancellation) => cancellation.cancelled().await,
        None => std::future::pending().await,
    }
}

/// Completes at the deadline; never without one.
async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The outcome to record and the answer to send; logs what the caller is not told.
fn conclude(
    ended: Ended,
    tool: &str,
    request_id: &str,
    limit: Option<Duration>,
) -> (Outcome, Result<CallToolResponse, ErrorData>) {
    let (outcome, result) = match ended {
        Ended::Returned(Ok(response)) => return (outcome(&response), Ok(response)),
        Ended::Returned(Err(Failure::Protocol(error))) => return protocol(error),
        Ended::Returned(Err(Failure::Tool(error))) => match error.into_answer() {
            Ok(Ok(question)) => return (Outcome::InputRequired, Ok(question.into())),
            Ok(Err(error)) => return protocol(error),
            Err(error) if error.is_invalid_input() => (Outcome::InvalidInput, error.into_result()),
            Err(error) => {
                if let Some(source) = error.source() {
                    tracing::warn!(tool, request_id, error = %error, source = chain(source), "tool failed");
                }
                (Outcome::ToolError, error.into_result())
            }
        },
        Ended::Panicked(panic) => {
            tracing::error!(tool, request_id, panic = said(&*panic), "tool panicked");
            let text = format!("the tool failed unexpectedly; its operator finds the reason under {request_id}");
            (Outcome::Panicked, failure(text))
        }
        Ended::TimedOut => {
            tracing::warn!(tool, request_id, ?limit, "tool did not finish in time");
            let limit = limit.unwrap_or_default().as_secs_f64();
            (Outcome::TimedOut, failure(format!("the tool did not finish within {limit} s and was stopped")))
        }
        Ended::Cancelled => (Outcome::Cancelled, failure("the call was cancelled".to_owned())),
    };
    (outcome, Ok(result.into()))
}

fn protocol(error: ErrorData) -> (Outcome, Result<CallToolResponse, ErrorData>) {
    let is_callers = matches!(error.code, ErrorCode::INVALID_PARAMS | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY);
    (if is_callers { Outcome::InvalidInput } else { Outcome::ToolError }, Err(error))
}

/// What a response counts as.
fn outcome(response: &CallToolResponse) -> Outcome {
    match response {
        CallToolResponse::Complete(result) if result.is_error == Some(true) => Outcome::ToolError,
        CallToolResponse::InputRequired(_) => Outcome::InputRequired,
        _ => Outcome::Ok,
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

/// Records the end when it is dropped, so that there is no way around it.
struct End {
    context: CallContext,
    outcome: Outcome,
}

impl Drop for End {
    fn drop(&mut self) {
        self.context.ended(self.outcome);
    }
}

#[cfg(test)]
mod tests;
