//! What the protocol engine knows of a call beyond its arguments: the peer, and what the peer sent along.

use std::sync::Arc;

use crate::ask::Seal;
use crate::log::LogLevel;
use crate::passage::{Owner, Visit, attached};
use crate::sessions::MCP_SESSION_ID;
use http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, ClientCapabilities, InputResponses, ProtocolVersion, RequestMetaObject};
use rmcp::service::{Peer, RequestContext};

/// One call as it came over the wire.
#[derive(Clone)]
pub(crate) struct Wire {
    /// The name that was called.
    pub(crate) tool: Arc<str>,
    pub(crate) peer: Peer<RoleServer>,
    /// What the caller offers to be asked for.
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) meta: RequestMetaObject,
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) owner: Option<Owner>,
    /// Answers to what the tool asked for in an earlier round, by key.
    pub(crate) answers: Option<InputResponses>,
    /// What the tool gave along in an earlier round; in the caller's hands meanwhile.
    pub(crate) state: Option<String>,
    pub(crate) log_level: LogLevel,
    pub(crate) seal: Seal,
    /// Whether a request of ours could be answered while the call runs.
    is_reachable: bool,
}

impl Wire {
    pub(crate) fn of(
        request: &mut CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        log_level: &LogLevel,
        seal: &Seal,
    ) -> Self {
        let parts = context.extensions.get::<Parts>();
        Self {
            tool: Arc::from(&*request.name),
            peer: context.peer.clone(),
            capabilities: context.client_capabilities().unwrap_or_default(),
            meta: context.meta.clone(),
            version: context.protocol_version(),
            owner: attached::<Visit>(&context.extensions).map(|visit| visit.owner.clone()),
            answers: request.input_responses.take(),
            state: request.request_state.take(),
            log_level: log_level.clone(),
            seal: seal.clone(),
            // Without a session there is no way back over HTTP.
            is_reachable: parts.is_none_or(|parts| parts.headers.contains_key(&MCP_SESSION_ID)),
        }
    }

    /// Whether the peer speaks 2026-07-28 or later, where a tool asks by ending its call.
    pub(crate) fn is_modern(&self) -> bool {
        self.version.as_ref().is_some_and(|version| *version >= ProtocolVersion::V_2026_07_28)
    }

    /// Whether a request of ours would reach the peer and be answered.
    pub(crate) fn is_reachable(&self) -> bool {
        self.is_reachable && !self.is_modern()
    }
}
