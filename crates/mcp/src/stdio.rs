//! The stdio transport: one peer, one caller, the same gate.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ErrorData, Extensions, ProtocolVersion, ServerConfig, ServerResult,
};
use rmcp::service::{DynService, NotificationContext, RequestContext, Service};
use rmcp::transport::io::stdio_pipes;
use rmcp::{RoleServer, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::envelope::Attempt;
use crate::passage::{Passage, Visit};

/// A request as the gate sees it on stdio.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StdioRequest<'a> {
    /// The JSON-RPC method.
    pub method: &'a str,
    /// The tool that a `tools/call` names.
    pub tool: Option<&'a str>,
    /// The protocol version that the peer speaks, if it has said so.
    pub protocol_version: Option<&'a str>,
    /// What a caller that repeats its calls says of this one.
    pub attempt: Attempt<'a>,
}

/// What the gate attaches to a request that it lets through.
#[derive(Clone)]
pub struct StdioPassage {
    /// The decision about a `tools/call`.
    pub passage: Option<Passage>,
    /// What holds for every request.
    pub visit: Visit,
    /// Held until the answer is made.
    pub held: Arc<dyn Any + Send + Sync>,
}

/// A refusal as JSON-RPC carries it.
#[derive(Debug, Clone, PartialEq)]
pub struct StdioRefusal {
    /// The error code.
    pub code: i32,
    /// The text, which many callers see alone.
    pub message: String,
    /// The details.
    pub data: Option<serde_json::Value>,
}

/// Decides about every request on stdio.
pub trait StdioGate: Send + Sync + 'static {
    /// Lets the request through or refuses it.
    ///
    /// # Errors
    /// The refusal that the peer gets as the error of its request.
    fn admit(&self, request: StdioRequest<'_>) -> impl Future<Output = Result<StdioPassage, StdioRefusal>> + Send;
}

/// Serves the peer on standard input and output until it hangs up or `shutdown` is cancelled.
///
/// # Errors
/// When the peer never opens the protocol, or the streams fail.
pub async fn serve_stdio(
    engine: &Engine,
    gate: impl StdioGate,
    shutdown: CancellationToken,
) -> Result<(), std::io::Error> {
    let (reader, writer) = stdio_pipes();
    serve_stream(engine, gate, shutdown, reader, writer).await
}

/// Serves the peer behind any pair of streams: what [`serve_stdio`] does, for pipes and sockets.
///
/// # Errors
/// See [`serve_stdio`].
pub async fn serve_stream(
    engine: &Engine,
    gate: impl StdioGate,
    shutdown: CancellationToken,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), std::io::Error> {
    let gated = Gated { handler: engine.handler.service(Arc::clone(&engine.shared)), gate };
    let running = gated.serve_with_ct((reader, writer), shutdown).await.map_err(std::io::Error::other)?;
    running.waiting().await.map_err(std::io::Error::other)?;
    Ok(())
}

struct Gated<G> {
    handler: Box<dyn DynService<RoleServer>>,
    gate: G,
}

impl<G: StdioGate> Service<RoleServer> for Gated<G> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let version = match &request {
            ClientRequest::InitializeRequest(initialize) => Some(initialize.params.protocol_version.clone()),
            _ => context.protocol_version(),
        };
        let tool = match &request {
            ClientRequest::CallToolRequest(call) => Some(&*call.params.name),
            _ => None,
        };
        let asked = StdioRequest {
            method: request.method(),
            tool,
            protocol_version: version.as_ref().map(ProtocolVersion::as_str),
            attempt: Attempt::of_meta(&context.meta.0.0),
        };
        let passage = self.gate.admit(asked).await.map_err(|refusal| ErrorData {
            code: ErrorCode(refusal.code),
            message: Cow::Owned(refusal.message),
            data: refusal.data,
        })?;
        let _held = attach(&mut context.extensions, passage);
        Service::handle_request(&self.handler, request, context).await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Service::handle_notification(&self.handler, notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.handler)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.handler)
    }
}

fn attach(extensions: &mut Extensions, passed: StdioPassage) -> Arc<dyn Any + Send + Sync> {
    extensions.insert(passed.visit);
    if let Some(passage) = passed.passage {
        extensions.insert(passage);
    }
    passed.held
}
