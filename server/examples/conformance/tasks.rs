//! Calls that become tasks (SEP-2663), which rmcp manages.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult,
    InputRequiredResult, JsonObject, Tool,
};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use serde_json::{Value, json};

use crate::handler::form;

/// The tasks of this server.
#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) manager: TaskManager,
}

/// The tools that cannot do without tasks.
const NEED_TASKS: &[&str] = &["failing_job", "test_tool_with_task", "confirm_delete", "multi_input"];

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// What a person filled in.
fn filled(answer: &Value, field: &str) -> String {
    match &answer["content"][field] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Tasks {
    /// What clients are told of the tools.
    pub(crate) fn tools() -> Vec<Tool> {
        let tool = |name: &'static str, description: &'static str, properties: Value| {
            let schema = json!({ "type": "object", "properties": properties });
            Tool::new(name, description, schema.as_object().cloned().unwrap_or_default())
        };
        vec![
            tool("greet", "Greets at once.", json!({ "name": { "type": "string" } })),
            tool(
                "slow_compute",
                "Takes some seconds.",
                json!({ "seconds": { "type": "number" }, "label": { "type": "string" } }),
            ),
            tool("failing_job", "Fails as a tool does.", json!({})),
            tool("protocol_error_job", "Fails as the protocol does.", json!({})),
            tool("confirm_delete", "Asks while it runs.", json!({ "filename": { "type": "string" } })),
            tool("multi_input", "Asks two things while it runs.", json!({})),
            tool("test_tool_with_task", "Asks first and then runs.", json!({})),
        ]
    }

    /// Calls a tool; with `has_tasks` the caller knows what to do with a task.
    pub(crate) async fn call(
        &self,
        request: CallToolRequestParams,
        has_tasks: bool,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = &*request.name;
        if NEED_TASKS.contains(&name) && !has_tasks {
            let needed = ClientCapabilities::builder().enable_tasks().build();
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        let arguments = request.arguments.unwrap_or_default();
        match name {
            "greet" => {
                let name = arguments.get("name").and_then(Value::as_str).unwrap_or("friend");
                Ok(text(format!("Hello, {name}!")).into())
            }
            "slow_compute" if has_tasks => Ok(self.slow_compute(&arguments)),
            "slow_compute" => {
                tokio::time::sleep(seconds(&arguments)).await;
                Ok(text("slow_compute is done").into())
            }
            "failing_job" => Ok(self.task(async |()| {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(CallToolResult::error(vec![ContentBlock::text("failing_job fails")]))
            })),
            "protocol_error_job" if has_tasks => Ok(self.task(async |()| Err(protocol_error()))),
            "protocol_error_job" => Err(protocol_error()),
            "confirm_delete" => Ok(self.confirm_delete(&arguments)),
            "multi_input" => Ok(self.multi_input()),
            "test_tool_with_task" => {
                let answer = request.input_responses.unwrap_or_default().remove("user_name");
                let Some(answer) = answer.filter(Value::is_object) else {
                    let question = form("What is your name?", "name", "string");
                    let questions = [("user_name".to_owned(), question)].into();
                    return Ok(InputRequiredResult::from_input_requests(questions).into());
                };
                let name = filled(&answer, "name");
                Ok(self.task(async move |()| {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    Ok(text(format!("Hello, {name}! (async)")))
                }))
            }
            name => Err(ErrorData::invalid_params(format!("no tool is called {name}"), None)),
        }
    }

    /// A task that asks nobody and cannot be cancelled half-way.
    fn task<W>(&self, work: impl FnOnce(()) -> W + Send + 'static) -> CallToolResponse
    where
        W: Future<Output = Result<CallToolResult, ErrorData>> + Send + 'static,
    {
        let task = self.manager.spawn(TaskOptions::default(), move |_task| {
            Box::pin(async move { work(()).await.map_err(TaskExit::Error) })
        });
        CreateTaskResult::new(task).into()
    }

    fn slow_compute(&self, arguments: &JsonObject) -> CallToolResponse {
        let seconds = seconds(arguments);
        let task = self.manager.spawn(TaskOptions::default(), move |task| {
            Box::pin(async move {
                tokio::select! {
                    () = task.cancelled() => Err(TaskExit::Cancelled),
                    () = tokio::time::sleep(seconds) => Ok(text("slow_compute is done")),
                }
            })
        });
        CreateTaskResult::new(task).into()
    }

    fn confirm_delete(&self, arguments: &JsonObject) -> CallToolResponse {
        let file = arguments.get("filename").and_then(Value::as_str).unwrap_or("file.txt").to_owned();
        let task = self.manager.spawn(TaskOptions::default(), move |task| {
            Box::pin(async move {
                let question = form(&format!("Delete {file}?"), "confirm", "boolean");
                let answer = task.request_input("confirm", question).await?;
                Ok(text(format!("confirm_delete({file}): confirmed = {}", filled(&answer, "confirm"))))
            })
        });
        CreateTaskResult::new(task).into()
    }

    fn multi_input(&self) -> CallToolResponse {
        let task = self.manager.spawn(TaskOptions::default(), move |task| {
            Box::pin(async move {
                let first = task.request_input("input-a", form("Provide value A", "value", "string"));
                let second = task.request_input("input-b", form("Provide value B", "value", "string"));
                let (first, second) = tokio::join!(first, second);
                let (first, second) = (filled(&first?, "value"), filled(&second?, "value"));
                Ok(text(format!("multi_input: a = {first}, b = {second}")))
            })
        });
        CreateTaskResult::new(task).into()
    }
}

fn seconds(arguments: &JsonObject) -> Duration {
    Duration::from_secs_f64(arguments.get("seconds").and_then(Value::as_f64).unwrap_or(1.0).clamp(0.0, 60.0))
}

fn protocol_error() -> ErrorData {
    ErrorData::internal_error("protocol_error_job fails", None)
}
