//! Sessions of peers before 2026-07-28: kept in memory, each bound to the caller that opened it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::Stream;
use http::HeaderName;
use http::request::Parts;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions as _, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::session::{RestoreOutcome, ServerSseMessage, SessionId, SessionManager};

use crate::passage::{Owner, Visit};

pub(crate) const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// How sessions are kept.
#[derive(Debug, Clone, Copy)]
pub struct SessionOptions {
    /// How many sessions the owners of one group may have at a time.
    pub most_per_group: usize,
    /// A session in which nothing has happened for so long is closed.
    pub idle: Duration,
}

/// The sessions of a server: rmcp's, and who owns them.
pub(crate) struct Sessions {
    local: LocalSessionManager,
    owners: Mutex<HashMap<SessionId, Owner>>,
    most_per_group: usize,
}

impl Sessions {
    pub(crate) fn new(options: SessionOptions) -> Self {
        let mut config = SessionConfig::default();
        config.keep_alive = Some(options.idle);
        let mut local = LocalSessionManager::default();
        local.session_config = config;
        Self { local, owners: Mutex::default(), most_per_group: options.most_per_group }
    }

    pub(crate) fn belongs_to(&self, id: &str, owner: &Owner) -> bool {
        self.owners().get(id) == Some(owner)
    }

    pub(crate) fn is_full_for(&self, owner: &Owner) -> bool {
        let owners = self.owners();
        owners.len() >= self.most_per_group
            && owners.values().filter(|other| other.group == owner.group).count() >= self.most_per_group
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<SessionId, Owner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who sent a message, as the gate said.
fn sender(message: &ClientJsonRpcMessage) -> Option<Owner> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let parts = request.request.extensions().get::<Parts>()?;
    parts.extensions.get::<Visit>().map(|visit| visit.owner.clone())
}

type Error = <LocalSessionManager as SessionManager>::Error;

impl SessionManager for Sessions {
    type Error = Error;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Error> {
        self.local.create_session().await
    }

    /// The first message says who opens the session. Without an owner nobody can use it, and it ends idle.
    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Error> {
        if let Some(owner) = sender(&message) {
            self.owners().insert(Arc::clone(id), owner);
        }
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Error> {
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Error> {
        self.owners().remove(id);
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        self.local.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Error> {
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        self.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        self.local.resume(id, last_event_id).await
    }

    async fn restore_session(&self, _id: SessionId) -> Result<RestoreOutcome<Self::Transport>, Error> {
        Ok(RestoreOutcome::NotSupported)
    }
}
