//! Calling a tool without a server around it.

use std::sync::Arc;

use serde_json::Value;
use sluicegate::{Call, CallContext, CallToolResult, FreeTool, JsonObject, Tool, ToolError, ToolSet};

/// The tools of a value.
pub fn tools_of(set: impl ToolSet) -> Vec<Tool> {
    Arc::new(set).tools()
}

/// The only tool of a value.
pub fn only_tool_of(set: impl ToolSet) -> Tool {
    let mut tools = tools_of(set);
    assert_eq!(tools.len(), 1, "{tools:?}");
    tools.remove(0)
}

/// A free function as a tool.
pub fn tool<T: FreeTool>() -> Tool {
    T::tool()
}

/// Calls a tool outside any gate.
pub async fn call(tool: &Tool, arguments: Value) -> Result<CallToolResult, ToolError> {
    call_in(tool, arguments, CallContext::detached()).await
}

/// Calls a tool in a context.
pub async fn call_in(tool: &Tool, arguments: Value, context: CallContext) -> Result<CallToolResult, ToolError> {
    tool.run(Call::new(object(arguments), context)).await
}

/// Calls a tool that returns one text.
pub async fn text(tool: &Tool, arguments: Value) -> String {
    text_of(&call(tool, arguments).await.expect("the call succeeds"))
}

/// Calls a tool that refuses its arguments, and returns what it says.
pub async fn refusal(tool: &Tool, arguments: Value) -> String {
    let error = call(tool, arguments).await.expect_err("the arguments are refused");
    assert!(error.is_invalid_input(), "{error:?}");
    error.message().to_owned()
}

/// The text of a result that is one text block.
pub fn text_of(result: &CallToolResult) -> String {
    let [block] = &*result.content else { panic!("not one block: {result:?}") };
    block.as_text().expect("a text block").text.clone()
}

/// A JSON object.
pub fn object(value: Value) -> JsonObject {
    let Value::Object(object) = value else { panic!("not an object: {value}") };
    object
}

/// A tool's input schema.
pub fn schema(tool: &Tool) -> Value {
    Value::Object(tool.input_schema().as_ref().clone())
}
