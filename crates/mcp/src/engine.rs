//! What answers on every transport: the registry's tools and an author's handler, put together once.

use std::sync::Arc;

use crate::ask::Seal;
use crate::handler::{ServerInfo, Shared};
use crate::registry::Registry;
use crate::rmcp_handler::RmcpHandler;

/// What answers on every transport. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) handler: RmcpHandler,
    pub(crate) shared: Arc<Shared>,
}

impl Engine {
    /// Serves the tools of `registry` and all else that `handler` brings. The handler's own tools are in the registry:
    /// see [`RmcpHandler::tools`].
    ///
    /// `state_key` seals what tools keep between the rounds of a call; several instances of a server need the same.
    /// Without one, calls must be answered by the process that asked.
    ///
    /// # Errors
    ///
    /// When the key is too short.
    pub fn new(
        registry: Arc<Registry>,
        info: ServerInfo,
        handler: RmcpHandler,
        state_key: Option<&str>,
    ) -> Result<Self, StateKeyError> {
        let seal = Seal::new(state_key).map_err(|_| StateKeyError)?;
        Ok(Self { handler, shared: Arc::new(Shared::new(registry, info, seal)) })
    }
}

/// A state key that seals nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the state key is shorter than 32 bytes")]
pub struct StateKeyError;
