//! Streamable HTTP: rmcp's service over our tools, stateless, with JSON answers.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::handler::{Handler, ServerInfo};
use crate::registry::Registry;

/// The MCP endpoint of a server over HTTP. Cheap to clone.
///
/// It speaks 2026-07-28 and the older revisions that rmcp knows. Host, origin and body size are the edge's business and
/// are not checked again here; bodies arrive whole.
#[derive(Clone)]
pub struct HttpEndpoint {
    service: StreamableHttpService<Handler, NeverSessionManager>,
}

impl HttpEndpoint {
    /// Serves the tools of `registry`. Cancelling `shutdown` ends every stream.
    #[must_use]
    pub fn new(registry: Arc<Registry>, info: ServerInfo, shutdown: CancellationToken) -> Self {
        let handler = Handler::new(registry, info);
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(usize::MAX)
            .with_cancellation_token(shutdown);
        let sessions = Arc::new(NeverSessionManager::default());
        Self { service: StreamableHttpService::new(move || Ok(handler.clone()), sessions, config) }
    }

    /// Answers one request. What the gate attached to its extensions reaches the tools.
    pub async fn handle(&self, request: Request<Full<Bytes>>) -> Response<BoxBody<Bytes, Infallible>> {
        // rmcp's future is several kilobytes; without the box every future around it would carry and copy them.
        Box::pin(self.service.handle(request)).await
    }
}
