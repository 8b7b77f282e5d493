//! The gate on stdio: one caller, whose key is checked again at every request, and the same admission.

use std::sync::Arc;

use http::Method;
use sluicegate_mcp::{Kind, StdioGate, StdioPassage, StdioRefusal, StdioRequest};

use super::{Arrived, Trip, dispatch};
use crate::refusal::{Refusal, stdio};

/// The gate of a server for the one caller on stdio.
pub(crate) struct Gate {
    gate: Arc<super::Gate>,
    /// The text of the caller's API key or token; not needed with `auth = "none"`.
    key: String,
}

impl Gate {
    pub(crate) fn new(gate: Arc<super::Gate>, key: String) -> Self {
        Self { gate, key }
    }

    async fn pass(&self, trip: &Trip, request: StdioRequest<'_>) -> Result<StdioPassage, Refusal> {
        let principal = self.gate.authenticator.authenticate_text(Some(&self.key), None).await?;
        let policy = self.gate.admission.policy_of(&principal);
        let arrived = Arrived { principal, policy, body: bytes::Bytes::new() };
        let kind = match request.tool {
            Some(tool) => Kind::ToolCall(tool.into()),
            None => Kind::Request(request.method.into()),
        };
        let asked = self.gate.admission.asked(&arrived.policy, &Method::POST, &kind);
        let admitted = self.gate.admission.admit(&arrived.principal, &arrived.policy, asked).await;
        let admitted = admitted.inspect_err(|refusal| {
            let who = (&*arrived.principal, arrived.limits(asked));
            self.gate.meter.refused(refusal, trip, Some(who));
        })?;
        let stream = self.gate.streams.open(&arrived.principal, asked)?;
        let ticket = admitted.into_ticket(trip, &arrived, &request.attempt, &self.gate.meter, stream);
        Ok(StdioPassage {
            passage: self.gate.passage(&kind, &request.attempt, &ticket),
            visit: dispatch::visit(&arrived, &ticket),
            held: ticket,
        })
    }
}

impl StdioGate for Gate {
    async fn admit(&self, request: StdioRequest<'_>) -> Result<StdioPassage, StdioRefusal> {
        let trip = Trip::without_headers();
        let version = request.protocol_version;
        self.pass(&trip, request)
            .await
            .map_err(|refusal| stdio::render(&refusal, self.gate.wording.code, version, &trip.request_id))
    }
}
