//! From the gate to the protocol engine, with the gate's decision attached.

use std::sync::Arc;

use http::request::Parts;
use http::{Request, Response};
use http_body_util::Full;
use sluicegate_mcp::{Admitted, Attempt, Envelope, IdempotencyKey, Kind, Passage, Visible, Visit};

use super::respond::Answer;
use super::ticket::Ticket;
use super::{Arrived, Gate, emptied, streams};
use crate::refusal::Refusal;

/// Lets the engine answer: a plain call on its short path, everything else by rmcp. A tool has its own deadline inside;
/// everything else has the server's here, since a handler that panics leaves rmcp waiting for ever.
pub(crate) async fn dispatch(
    gate: &Gate,
    parts: &mut Parts,
    arrived: &Arrived,
    envelope: &Envelope<'_>,
    ticket: &Arc<Ticket>,
) -> Result<Response<Answer>, Refusal> {
    let mut passage = gate.passage(&envelope.kind, &envelope.attempt, ticket);
    if let Some(Passage::Admitted(admitted)) = passage {
        if let Some(call) = gate.endpoint.recognise(parts, envelope, admitted.tool()) {
            return Ok(gate.endpoint.run(call, admitted, emptied(parts)).await.map(Answer::Whole));
        }
        passage = Some(Passage::Admitted(admitted));
    }
    // In a box, so that plain calls do not carry it along.
    Box::pin(delegate(gate, parts, arrived, envelope, ticket, passage)).await
}

/// Lets rmcp answer.
async fn delegate(
    gate: &Gate,
    parts: &mut Parts,
    arrived: &Arrived,
    envelope: &Envelope<'_>,
    ticket: &Arc<Ticket>,
    passage: Option<Passage>,
) -> Result<Response<Answer>, Refusal> {
    if matches!(&envelope.kind, Kind::Request(method) if method == "initialize")
        && gate.endpoint.is_full_for(&arrived.principal.owner)
    {
        return Err(Refusal::TooManySessions);
    }
    parts.extensions.insert(visit(arrived, ticket));
    let runs_a_tool = matches!(passage, Some(Passage::Admitted(_)));
    if let Some(passage) = passage {
        parts.extensions.insert(passage);
    }
    let parts = std::mem::replace(parts, Request::new(()).into_parts().0);
    let answer = gate.endpoint.handle(Request::from_parts(parts, Full::new(arrived.body.clone())));
    if runs_a_tool {
        return Ok(answer.await.map(Answer::Streamed));
    }
    let limit = ticket.limits.deadline;
    let answer = tokio::time::timeout(limit, answer).await;
    let answer = answer.map(|answer| match &ticket.stream {
        Some(stream) => answer.map(|body| streams::ending(body, stream.ends.clone())),
        None => answer,
    });
    answer.map(|answer| answer.map(Answer::Streamed)).map_err(|_| Refusal::TimedOut { seconds: limit.as_secs_f64() })
}

/// What holds for every request of the caller.
pub(crate) fn visit(arrived: &Arrived, ticket: &Ticket) -> Visit {
    let policy = Arc::clone(&arrived.policy);
    Visit {
        visible: Visible::new(move |tool| policy.sees(tool)),
        owner: arrived.principal.owner.clone(),
        request_id: Arc::clone(&ticket.request_id),
        ends: ticket.stream.as_ref().map(|stream| stream.ends.clone()),
    }
}

impl Gate {
    /// The decision about a tool call, as the tools will look for it; `None` for everything else.
    pub(crate) fn passage(&self, kind: &Kind<'_>, attempt: &Attempt<'_>, ticket: &Arc<Ticket>) -> Option<Passage> {
        let Kind::ToolCall(name) = kind else { return None };
        let Some(tool) = ticket.limits.tool_index else {
            return Some(Passage::NoSuchTool(Arc::from(&**name)));
        };
        let held = Arc::clone(ticket) as Arc<dyn sluicegate_mcp::Ticket>;
        let mut admitted = Admitted::new(tool, held, Arc::clone(&ticket.request_id))
            .with_deadline(ticket.limits.deadline)
            .with_extensions(Arc::clone(&ticket.principal.for_tools));
        if let Some(key) = &attempt.key {
            let own = |text| IdempotencyKey { owner: ticket.principal.owner.clone(), text: Arc::from(text) };
            admitted = admitted.with_idempotency_key(key.as_deref().map(own).map_err(|unusable| *unusable));
        }
        Some(Passage::Admitted(admitted))
    }
}
