//! What is an rmcp handler's: resources, prompts, completion, subscriptions, tasks.

#![expect(deprecated, reason = "the suite subscribes and sets log levels as revisions before 2026-07-28 do")]

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult, CompletionInfo,
    ContentBlock, ElicitRequest, ElicitRequestParams, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    GetTaskParams, GetTaskResult, Implementation, InputRequest, InputRequiredResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt, PromptArgument,
    PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate, Role, ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::listeners::Listeners;
use crate::tasks::Tasks;
use crate::tools::PNG;

/// The handler.
pub(crate) struct Handler {
    listeners: Listeners,
    tasks: Tasks,
}

impl Handler {
    pub(crate) fn new(listeners: Listeners) -> Self {
        Self { listeners, tasks: Tasks::default() }
    }
}

type Context = RequestContext<RoleServer>;

/// The red dot as the protocol carries it.
fn dot(uri: &str) -> ResourceContents {
    let block = sluicegate::Content::into_block(sluicegate::Image::png(PNG));
    let data = block.as_image().map(|image| image.data.clone()).unwrap_or_default();
    ResourceContents::blob(data, uri).with_mime_type("image/png")
}

/// A question to a person, with one text to fill in.
pub(crate) fn form(message: &str, field: &str, kind: &str) -> InputRequest {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    InputRequest::Elicitation(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: serde_json::from_value(schema).expect("a form"),
    }))
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tasks()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("sluicegate-conformance", "1"))
    }

    async fn set_level(&self, _request: SetLevelRequestParams, _context: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.listeners.listen(context).await;
        Ok(())
    }

    async fn subscribe(&self, _request: SubscribeRequestParams, _context: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _request: UnsubscribeRequestParams, _context: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![
            Resource::new("test://static-text", "Static Text Resource")
                .with_description("A static text resource for testing")
                .with_mime_type("text/plain"),
            Resource::new("test://static-binary", "Static Binary Resource")
                .with_description("A static binary/blob resource for testing")
                .with_mime_type("image/png"),
        ]))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("test://template/{id}/data", "Dynamic Resource")
            .with_description("A dynamic resource with parameter substitution")
            .with_mime_type("application/json");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &*request.uri;
        let filled = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (uri, filled) {
            ("test://static-text", _) => {
                ResourceContents::text("This is the content of the static text resource.", uri)
            }
            ("test://static-binary", _) => dot(uri),
            (_, Some(id)) => {
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
            }
            _ => return Err(ErrorData::resource_not_found(format!("no {uri} here"), Some(json!({ "uri": uri })))),
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let arguments = vec![
            PromptArgument::new("arg1").with_description("First test argument").with_required(true),
            PromptArgument::new("arg2").with_description("Second test argument").with_required(false),
        ];
        Ok(ListPromptsResult::with_all_items(vec![
            Prompt::new("test_simple_prompt", Some("A simple test prompt with no arguments"), None),
            Prompt::new("test_prompt_with_arguments", Some("A test prompt that accepts arguments"), Some(arguments)),
            Prompt::new("test_prompt_with_embedded_resource", Some("A test prompt with an embedded resource"), None),
            Prompt::new("test_prompt_with_image", Some("A test prompt that includes an image"), None),
            Prompt::new("test_input_required_result_prompt", Some("A test prompt that asks first"), None),
        ]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let say = |text: &str| PromptMessage::new_text(Role::User, text);
        let show = |content: ContentBlock| PromptMessage::new(Role::User, content);
        let messages = match &*request.name {
            "test_simple_prompt" => vec![say("This is a simple prompt for testing.")],
            "test_prompt_with_arguments" => {
                let arguments = request.arguments.unwrap_or_default();
                let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                vec![say(&format!("Prompt with arguments: arg1='{}', arg2='{}'", text("arg1"), text("arg2")))]
            }
            "test_prompt_with_embedded_resource" => {
                let arguments = request.arguments.unwrap_or_default();
                let uri = arguments.get("resourceUri").and_then(Value::as_str).unwrap_or("test://static-text");
                let resource = ResourceContents::text("Embedded resource content for testing.", uri);
                vec![show(ContentBlock::resource(resource)), say("Please process the embedded resource above.")]
            }
            "test_prompt_with_image" => {
                let image = sluicegate::Content::into_block(sluicegate::Image::png(PNG));
                vec![show(image), say("Please analyze the image above.")]
            }
            "test_input_required_result_prompt" => {
                let answer = request.input_responses.unwrap_or_default().remove("user_context");
                let Some(answer) = answer.filter(Value::is_object) else {
                    let question = form("What context should the prompt use?", "context", "string");
                    let questions = [("user_context".to_owned(), question)].into();
                    return Ok(InputRequiredResult::from_input_requests(questions).into());
                };
                vec![say(&format!("Prompt with context: {}", answer["content"]["context"].as_str().unwrap_or("none")))]
            }
            name => return Err(ErrorData::invalid_params(format!("no prompt is called {name}"), None)),
        };
        Ok(GetPromptResult::new(messages).into())
    }

    async fn complete(&self, request: CompleteRequestParams, _context: Context) -> Result<CompleteResult, ErrorData> {
        let known = ["paris", "park", "party", "1", "2", "3"].map(str::to_owned);
        let fitting = known.into_iter().filter(|value| value.starts_with(&request.argument.value)).collect();
        let completion = CompletionInfo::new(fitting).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(Tasks::tools()))
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let has_tasks = context.client_capabilities().is_some_and(|offered| offered.supports_tasks());
        self.tasks.call(request, has_tasks).await
    }

    async fn get_task(&self, request: GetTaskParams, _context: Context) -> Result<GetTaskResult, ErrorData> {
        self.tasks.manager.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(&self, request: UpdateTaskParams, _context: Context) -> Result<(), ErrorData> {
        self.tasks.manager.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _context: Context) -> Result<(), ErrorData> {
        self.tasks.manager.cancel_task(&request.task_id)
    }
}
