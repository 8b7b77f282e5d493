//! Everything that serves peers, as one rmcp handler: our tools, and all that an author's own rmcp handler brings.
//!
//! Every method of rmcp's trait is here, and a test of the house compares: one that was missing would fall back to
//! rmcp's default instead of the author's handler. Requests are answered only if the gate let them through, and a panic
//! in the author's code is an answer.

// Subscribing and logging as revisions before 2026-07-28 have them.
#![expect(deprecated, reason = "legacy peers still speak what rmcp has deprecated")]

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam, CompleteRequestParams,
    CompleteResult, CustomNotification, CustomRequest, CustomResult, DiscoverResult, GetPromptRequestParams,
    GetPromptResponse, GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListSkillsResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
    ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
    Tool as ToolDescription, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use crate::ask::Seal;
use crate::log::LogLevel;
use crate::panic::{answered, noted};
use crate::passage::{Visit, attached};
use crate::registry::Registry;
use crate::replay::Replays;

mod tasks;
mod tools;

use tasks::Tasks;

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

/// The handler behind every transport, around an author's own.
pub(crate) struct Handler<H> {
    inner: Arc<H>,
    shared: Arc<Shared>,
    /// Of the session that this value serves.
    log_level: LogLevel,
}

/// What all handlers of a server share.
pub(crate) struct Shared {
    pub(crate) registry: Arc<Registry>,
    /// What peers see of each tool, in the registry's order.
    descriptions: Box<[ToolDescription]>,
    has_foreign_tools: bool,
    info: ServerInfo,
    tasks: Tasks,
    seal: Seal,
    pub(crate) replays: Replays,
}

impl Shared {
    pub(crate) fn new(registry: Arc<Registry>, info: ServerInfo, seal: Seal) -> Self {
        let descriptions = registry.iter().map(|(_, tool)| tool.into()).collect();
        let has_foreign_tools = registry.iter().any(|(_, tool)| tool.is_of_handler());
        let (tasks, replays) = (Tasks::default(), Replays::new());
        Self { registry, descriptions, has_foreign_tools, info, tasks, seal, replays }
    }

    /// The author's handler presents itself; what it leaves open is the server's.
    fn present(&self, presented: &mut ServerConfig) {
        if presented.server_info == Implementation::from_build_env() {
            presented.server_info = Implementation::new(&*self.info.name, &*self.info.version);
        }
        if presented.instructions.is_none() {
            presented.instructions.clone_from(&self.info.instructions);
        }
        self.add_tools(&mut presented.capabilities);
    }

    fn add_tools(&self, capabilities: &mut ServerCapabilities) {
        capabilities.tools.get_or_insert_default();
    }
}

impl<H: ServerHandler> Handler<H> {
    /// A handler for one session, or for all requests where there are no sessions.
    pub(crate) fn new(inner: Arc<H>, shared: Arc<Shared>) -> Self {
        Self { inner, shared, log_level: LogLevel::default() }
    }
}

/// What the gate said about a request. Without it nothing is served: gate and engine read the request differently.
fn visit(context: &RequestContext<RoleServer>, method: &str) -> Result<Visit, ErrorData> {
    attached::<Visit>(&context.extensions).cloned().ok_or_else(|| bypassed(method))
}

fn bypassed(method: &str) -> ErrorData {
    tracing::error!(method, "a request reached the tools without the gate's passage and was stopped");
    ErrorData::internal_error("the request was not admitted", None)
}

/// Requests that the author's handler answers alone.
macro_rules! forward {
    ($($method:ident($params:ty) -> $result:ty;)+) => {$(
        async fn $method(
            &self,
            request: $params,
            context: RequestContext<RoleServer>,
        ) -> Result<$result, ErrorData> {
            let visit = visit(&context, stringify!($method))?;
            answered(stringify!($method), &visit.request_id, async { self.inner.$method(request, context).await }).await
        }
    )+};
}

/// Notifications.
macro_rules! forward_notification {
    ($($method:ident($params:ty);)+) => {$(
        async fn $method(&self, notification: $params, context: NotificationContext<RoleServer>) {
            noted(stringify!($method), async { self.inner.$method(notification, context).await }).await;
        }
    )+};
}

impl<H: ServerHandler> ServerHandler for Handler<H> {
    forward! {
        complete(CompleteRequestParams) -> CompleteResult;
        get_prompt(GetPromptRequestParams) -> GetPromptResponse;
        list_prompts(Option<PaginatedRequestParams>) -> ListPromptsResult;
        list_resources(Option<PaginatedRequestParams>) -> ListResourcesResult;
        list_resource_templates(Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
        read_resource(ReadResourceRequestParams) -> ReadResourceResponse;
        subscribe(SubscribeRequestParams) -> ();
        unsubscribe(UnsubscribeRequestParams) -> ();
        on_custom_request(CustomRequest) -> CustomResult;
        list_skills(Option<PaginatedRequestParams>) -> ListSkillsResult;
        get_skill(GetSkillRequestParams) -> GetSkillResult;
        read_resource_directory(ReadResourceDirectoryRequestParams) -> ReadResourceDirectoryResult;
    }

    forward_notification! {
        on_cancelled(CancelledNotificationParam);
        on_progress(ProgressNotificationParam);
        on_custom_notification(CustomNotification);
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        noted("on_initialized", async { self.inner.on_initialized(context).await }).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        noted("on_roots_list_changed", async { self.inner.on_roots_list_changed(context).await }).await;
    }

    async fn ping(&self, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        let visit = visit(&context, "ping")?;
        answered("ping", &visit.request_id, async { self.inner.ping(context).await }).await
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let visit = visit(&context, "initialize")?;
        let answer = async { self.inner.initialize(request, context).await };
        let mut result = answered("initialize", &visit.request_id, answer).await?;
        self.shared.present(&mut result);
        Ok(result)
    }

    fn negotiate_initialize(&self, request: &InitializeRequestParams) -> Result<InitializeResult, ErrorData> {
        let mut result = self.inner.negotiate_initialize(request)?;
        self.shared.present(&mut result);
        Ok(result)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.inner.supported_protocol_versions()
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let visit = visit(&context, "discover")?;
        let mut result = answered("discover", &visit.request_id, async { self.inner.discover(context).await }).await?;
        if result.server_info().is_none_or(|info| info == Implementation::from_build_env()) {
            result.set_server_info(self.get_info().server_info);
        }
        if result.instructions.is_none() {
            result.instructions.clone_from(&self.shared.info.instructions);
        }
        self.shared.add_tools(&mut result.capabilities);
        Ok(result)
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let visit = visit(&context, "set_level")?;
        let level = request.level;
        answered("set_level", &visit.request_id, async { self.inner.set_level(request, context).await }).await?;
        self.log_level.set(level);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.inner.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let visit = visit(context.request_context(), "listen")?;
        answered("listen", &visit.request_id, async { self.inner.listen(context).await }).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.list(context).await
    }

    fn get_tool(&self, name: &str) -> Option<ToolDescription> {
        let (index, tool) = self.shared.registry.get(name)?;
        if tool.is_of_handler()
            && let Some(current) = self.inner.get_tool(name)
        {
            return Some(current);
        }
        // rmcp asks for the schema of every call, to find the arguments that have a header of their own; without such an
        // argument there is nothing to find.
        if !tool.has_headers() {
            return None;
        }
        self.shared.descriptions.get(index.get() as usize).cloned()
    }

    fn get_info(&self) -> ServerConfig {
        let mut info = self.inner.get_info();
        self.shared.present(&mut info);
        info
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let visit = visit(&context, "get_task")?;
        self.shared.tasks.check(&request.task_id, &visit.owner)?;
        answered("get_task", &visit.request_id, async { self.inner.get_task(request, context).await }).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let visit = visit(&context, "update_task")?;
        self.shared.tasks.check(&request.task_id, &visit.owner)?;
        answered("update_task", &visit.request_id, async { self.inner.update_task(request, context).await }).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let visit = visit(&context, "cancel_task")?;
        self.shared.tasks.check(&request.task_id, &visit.owner)?;
        answered("cancel_task", &visit.request_id, async { self.inner.cancel_task(request, context).await }).await
    }
}
