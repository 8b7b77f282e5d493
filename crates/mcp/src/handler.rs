//! Our tools as an rmcp server handler: lists them per caller, runs the admitted ones.

use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool as ToolDescription,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use serde_json::Value;

use crate::call_scope::call_scope;
use crate::passage::{Passage, Visible, attached};
use crate::registry::Registry;

/// How the server presents itself to its peers.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// The server's name.
    pub name: String,
    /// The server's version.
    pub version: String,
    /// What a model should know before it uses the tools.
    pub instructions: Option<String>,
    /// How long a peer may keep the list of tools, in milliseconds.
    pub tools_list_ttl_ms: u64,
}

/// The handler behind every transport. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Handler {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Arc<Registry>,
    /// What peers see of each tool, in the registry's order.
    descriptions: Box<[ToolDescription]>,
    /// The same of the tools that have `Mcp-Param-*` headers.
    with_headers: Box<[Option<ToolDescription>]>,
    config: ServerConfig,
    tools_list_ttl_ms: u64,
}

impl Handler {
    pub(crate) fn new(registry: Arc<Registry>, info: ServerInfo) -> Self {
        let descriptions: Box<[ToolDescription]> = registry.iter().map(|(_, tool)| tool.into()).collect();
        let with_headers = descriptions.iter().map(|tool| names_headers(tool).then(|| tool.clone())).collect();
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(info.name, info.version));
        config.instructions = info.instructions;
        Self {
            shared: Arc::new(Shared {
                registry,
                descriptions,
                with_headers,
                config,
                tools_list_ttl_ms: info.tools_list_ttl_ms,
            }),
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.shared.config.clone()
    }

    /// rmcp asks for the schema of every call, to find the arguments that have a header of their own; without such an
    /// argument there is nothing to find.
    fn get_tool(&self, name: &str) -> Option<ToolDescription> {
        let (index, _) = self.shared.registry.get(name)?;
        self.shared.with_headers.get(index.get() as usize).cloned().flatten()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let Some(visible) = attached::<Visible>(&context.extensions) else {
            return Err(bypassed("tools/list"));
        };
        let shown = self.shared.registry.iter().zip(&self.shared.descriptions);
        let tools = shown.filter(|((index, _), _)| visible.shows(*index)).map(|(_, tool)| tool.clone()).collect();
        let mut result = ListToolsResult::with_all_items(tools);
        // One caller's list must never be handed to another by a cache on the way. Revisions before 2026-07-28 know no
        // hints.
        if context.protocol_version().is_some_and(|version| version.as_str() >= "2026-07-28") {
            result = result.with_cache_scope(CacheScope::Private).with_ttl_ms(self.shared.tools_list_ttl_ms);
        }
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let admitted = match attached::<Passage>(&context.extensions) {
            Some(Passage::Admitted(admitted)) => admitted.clone(),
            Some(Passage::NoSuchTool(name)) if **name == *request.name => {
                return Err(ErrorData::invalid_params("tool not found", None));
            }
            _ => return Err(bypassed("tools/call")),
        };
        let tool = self.shared.registry.tool(admitted.tool());
        if tool.name() != request.name {
            return Err(bypassed("tools/call"));
        }
        let arguments = request.arguments.unwrap_or_default();
        Ok(call_scope(tool, arguments, admitted, &context.ct).await.into())
    }
}

/// Whether a schema says `x-mcp-header` anywhere (MCP 2026-07-28, "Custom headers from tool parameters").
fn names_headers(tool: &ToolDescription) -> bool {
    fn within(value: &Value) -> bool {
        match value {
            Value::Object(members) => members.contains_key("x-mcp-header") || members.values().any(within),
            Value::Array(items) => items.iter().any(within),
            _ => false,
        }
    }
    tool.input_schema.values().any(within)
}

/// The gate and the engine read the request differently. Nothing runs.
fn bypassed(method: &str) -> ErrorData {
    tracing::error!(method, "a request reached the tools without the gate's passage and was stopped");
    ErrorData::internal_error("the request was not admitted", None)
}
