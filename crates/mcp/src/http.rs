//! Streamable HTTP: rmcp's service over our handler, with JSON answers; stateless, or with sessions for older peers.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use rmcp::ServerHandler;
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::admitted::Admitted;
use crate::engine::Engine;
use crate::envelope::Envelope;
use crate::handler::Shared;
use crate::passage::{Owner, Visit};
use crate::plain::{PlainCall, Recogniser};
use crate::registry::ToolIndex;
use crate::sessions::{MCP_SESSION_ID, SessionOptions, Sessions};

/// The MCP endpoint of a server over HTTP. Cheap to clone.
///
/// It speaks 2026-07-28 and the older revisions that rmcp knows. Host, origin and body size are the edge's business and
/// are not checked again here; bodies arrive whole.
#[derive(Clone)]
pub struct HttpEndpoint {
    service: Arc<dyn Endpoint>,
    sessions: Option<Arc<Sessions>>,
    recogniser: Arc<Recogniser>,
    shared: Arc<Shared>,
}

impl HttpEndpoint {
    /// Serves what `engine` answers; without `sessions` every request stands alone. Cancelling `shutdown` ends every
    /// stream and session.
    #[must_use]
    pub fn new(engine: &Engine, sessions: Option<SessionOptions>, shutdown: CancellationToken) -> Self {
        let sessions = sessions.map(|options| Arc::new(Sessions::new(options)));
        let shared = Arc::clone(&engine.shared);
        let speaks_modern = engine.handler.speaks(&ProtocolVersion::V_2026_07_28);
        Self {
            recogniser: Arc::new(Recogniser::new(speaks_modern, sessions.is_some())),
            service: engine.handler.endpoint(Arc::clone(&shared), sessions.clone(), shutdown),
            shared,
            sessions,
        }
    }

    /// Recognises a plain call of `tool`, for [`run`](Self::run); anything else is for [`handle`](Self::handle).
    #[must_use]
    pub fn recognise(&self, parts: &Parts, envelope: &Envelope<'_>, tool: ToolIndex) -> Option<PlainCall> {
        self.recogniser.recognise(parts, envelope, self.shared.registry.tool(tool))
    }

    /// Runs a plain call of the tool that was admitted and recognised, and answers as [`handle`](Self::handle) would. The
    /// answer's fields are added to `headers`.
    pub async fn run(&self, call: PlainCall, admitted: Admitted, headers: HeaderMap) -> Response<Full<Bytes>> {
        let tool = self.shared.registry.tool(admitted.tool());
        call.answer(tool, admitted, &self.shared.replays, headers).await
    }

    /// Answers one request. What the gate attached to its extensions reaches the tools.
    pub async fn handle(&self, request: Request<Full<Bytes>>) -> Response<BoxBody<Bytes, Infallible>> {
        if let Some(sessions) = &self.sessions
            && names_session_of_another(sessions, request.headers(), request.extensions().get::<Visit>())
        {
            return no_such_session();
        }
        self.service.handle(request).await
    }

    /// Whether one more session of `owner`'s group would be one too many.
    #[must_use]
    pub fn is_full_for(&self, owner: &Owner) -> bool {
        self.sessions.as_ref().is_some_and(|sessions| sessions.is_full_for(owner))
    }
}

/// Whoever does not own a session learns nothing of it, not even that it exists.
fn names_session_of_another(sessions: &Sessions, headers: &HeaderMap, visit: Option<&Visit>) -> bool {
    let Some(named) = headers.get(&MCP_SESSION_ID) else { return false };
    let owner = visit.map(|visit| &visit.owner);
    !named.to_str().is_ok_and(|id| owner.is_some_and(|owner| sessions.belongs_to(id, owner)))
}

/// What rmcp answers to the id of a session that does not exist.
fn no_such_session() -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::from("Not Found: Session not found").boxed());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// rmcp's service, whose type depends on the author's handler.
pub(crate) trait Endpoint: Send + Sync {
    fn handle(&self, request: Request<Full<Bytes>>) -> BoxFuture<'_, Response<BoxBody<Bytes, Infallible>>>;
}

impl<S, M> Endpoint for StreamableHttpService<S, M>
where
    S: ServerHandler,
    M: SessionManager,
{
    fn handle(&self, request: Request<Full<Bytes>>) -> BoxFuture<'_, Response<BoxBody<Bytes, Infallible>>> {
        Box::pin(StreamableHttpService::handle(self, request))
    }
}

/// Puts rmcp's service together around a handler, of which every session gets its own.
pub(crate) fn endpoint<S: ServerHandler>(
    make: impl Fn() -> S + Send + Sync + 'static,
    sessions: Option<Arc<Sessions>>,
    shutdown: CancellationToken,
) -> Arc<dyn Endpoint> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(sessions.is_some())
        .with_json_response(true)
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(usize::MAX)
        .with_cancellation_token(shutdown);
    let make = move || Ok(make());
    match sessions {
        Some(sessions) => Arc::new(StreamableHttpService::new(make, sessions, config)),
        None => Arc::new(StreamableHttpService::new(make, Arc::new(NeverSessionManager::default()), config)),
    }
}
