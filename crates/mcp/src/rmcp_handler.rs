//! An author's rmcp handler, whatever its type.

#![expect(deprecated, reason = "peers before 2026-07-28 have no other way to ask for log messages")]

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::model::{ProtocolVersion, ServerCapabilities, ServerConfig, SetLevelRequestParams};
use rmcp::service::{DynService, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;

use crate::handler::{Handler, Shared};
use crate::http::{self, Endpoint};
use crate::learn::{LearnError, learn};
use crate::sessions::Sessions;
use crate::tool::Tool;

/// An rmcp handler whose type is forgotten, so that a server need not be generic. Cheap to clone.
///
/// The default is one that has nothing of its own: a server of our tools alone.
#[derive(Clone)]
pub struct RmcpHandler(Arc<dyn Erased>);

impl RmcpHandler {
    /// Takes any handler.
    pub fn new(handler: impl ServerHandler) -> Self {
        Self(Arc::new(Known(Arc::new(handler))))
    }

    /// Asks the handler for its tools, as a peer would. They become entries of the registry; their work stays with the
    /// handler.
    ///
    /// # Errors
    ///
    /// When the handler refuses, panics or does not answer.
    pub async fn tools(&self) -> Result<Vec<Tool>, LearnError> {
        let listed = self.0.learn().await?;
        Ok(listed.into_iter().map(Tool::of_handler).collect())
    }

    pub(crate) fn endpoint(
        &self,
        shared: Arc<Shared>,
        sessions: Option<Arc<Sessions>>,
        shutdown: CancellationToken,
    ) -> Arc<dyn Endpoint> {
        self.0.endpoint(shared, sessions, shutdown)
    }

    pub(crate) fn speaks(&self, version: &ProtocolVersion) -> bool {
        self.0.speaks(version)
    }

    pub(crate) fn service(&self, shared: Arc<Shared>) -> Box<dyn DynService<RoleServer>> {
        self.0.service(shared)
    }
}

impl Default for RmcpHandler {
    fn default() -> Self {
        Self::new(Nothing)
    }
}

impl fmt::Debug for RmcpHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RmcpHandler").field(&self.0.type_name()).finish()
    }
}

/// What is done with a handler while its type is known.
trait Erased: Send + Sync {
    fn learn(&self) -> BoxFuture<'static, Result<Vec<rmcp::model::Tool>, LearnError>>;
    fn endpoint(
        &self,
        shared: Arc<Shared>,
        sessions: Option<Arc<Sessions>>,
        shutdown: CancellationToken,
    ) -> Arc<dyn Endpoint>;
    fn service(&self, shared: Arc<Shared>) -> Box<dyn DynService<RoleServer>>;
    fn speaks(&self, version: &ProtocolVersion) -> bool;
    fn type_name(&self) -> &'static str;
}

struct Known<H>(Arc<H>);

impl<H: ServerHandler> Erased for Known<H> {
    fn learn(&self) -> BoxFuture<'static, Result<Vec<rmcp::model::Tool>, LearnError>> {
        Box::pin(learn(Arc::clone(&self.0)))
    }

    fn endpoint(
        &self,
        shared: Arc<Shared>,
        sessions: Option<Arc<Sessions>>,
        shutdown: CancellationToken,
    ) -> Arc<dyn Endpoint> {
        let inner = Arc::clone(&self.0);
        http::endpoint(move || Handler::new(Arc::clone(&inner), Arc::clone(&shared)), sessions, shutdown)
    }

    fn service(&self, shared: Arc<Shared>) -> Box<dyn DynService<RoleServer>> {
        Box::new(Handler::new(Arc::clone(&self.0), shared))
    }

    fn speaks(&self, version: &ProtocolVersion) -> bool {
        ServerHandler::supported_protocol_versions(&*self.0).contains(version)
    }

    fn type_name(&self) -> &'static str {
        std::any::type_name::<H>()
    }
}

/// A handler with nothing of its own. It takes log levels, since any of our tools may write log messages to its caller.
struct Nothing;

impl ServerHandler for Nothing {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_logging().build())
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }
}
