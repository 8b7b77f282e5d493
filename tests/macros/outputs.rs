//! What a tool may return.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use sluicegate::prelude::*;
use sluicegate::{CallToolResult, ContentBlock};

use sluicegate_macros_tests::{call, text_of, tool};

#[derive(Serialize, JsonSchema)]
struct Exported {
    rows: u64,
    note: Option<String>,
}

#[tool]
async fn structured() -> Result<Json<Exported>, ToolError> {
    Ok(Json(Exported { rows: 3, note: None }))
}

#[tool]
async fn list() -> Json<Vec<u8>> {
    Json(vec![1, 2])
}

#[tokio::test]
async fn json_is_structured_content_with_a_schema_and_the_same_as_text() {
    let tool = tool::<structured>();
    let result = call(&tool, json!({})).await.expect("the call succeeds");
    assert_eq!(result.structured_content, Some(json!({ "rows": 3, "note": null })));
    assert_eq!(text_of(&result), r#"{"rows":3,"note":null}"#);
    let schema = tool.output_schema().expect("structured output has a schema");
    // The schema says what is written: `note` is always there.
    assert_eq!(schema["required"], json!(["rows", "note"]));
    assert_eq!((schema["type"].as_str(), schema.get("title")), (Some("object"), None));
}

#[tokio::test]
async fn output_that_is_no_object_keeps_its_schema_for_peers_that_know_it() {
    let tool = tool::<list>();
    assert_eq!(call(&tool, json!({})).await.expect("the call succeeds").structured_content, Some(json!([1, 2])));
    assert_eq!(tool.output_schema().expect("a schema")["type"], "array");
}

struct Values;

#[tools]
impl Values {
    #[tool]
    async fn a_string() -> String {
        "text".to_owned()
    }
    #[tool]
    async fn b_str() -> &'static str {
        "text"
    }
    #[tool]
    async fn c_number() -> i64 {
        -3
    }
    #[tool]
    async fn d_float() -> f64 {
        0.5
    }
    #[tool]
    async fn e_bool() -> bool {
        true
    }
    #[tool]
    async fn f_block() -> ContentBlock {
        ContentBlock::text("text")
    }
    #[tool]
    async fn g_result() -> Result<u8, String> {
        Ok(7)
    }
    #[tool]
    async fn h_whole() -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::success(vec![ContentBlock::text("text")]))
    }
}

#[tokio::test]
async fn text_numbers_blocks_and_results_are_one_text_block() {
    let mut texts = Vec::new();
    for tool in sluicegate_macros_tests::tools_of(Values) {
        let result = call(&tool, json!({})).await.expect("the call succeeds");
        assert_eq!((result.is_error, tool.output_schema()), (Some(false), None), "{tool:?}");
        texts.push(text_of(&result));
    }
    assert_eq!(texts, ["text", "text", "-3", "0.5", "true", "text", "7", "text"]);
}

#[tool]
async fn unit() {}

#[tool]
async fn blocks() -> Vec<ContentBlock> {
    vec![ContentBlock::text("a"), ContentBlock::image("aGk=", "image/png")]
}

#[tokio::test]
async fn nothing_is_an_empty_result_and_blocks_are_sent_as_they_are() {
    assert_eq!(call(&tool::<unit>(), json!({})).await.expect("the call succeeds").content, vec![]);
    assert_eq!(call(&tool::<blocks>(), json!({})).await.expect("the call succeeds").content.len(), 2);
}

#[tool]
async fn failing(how: u8) -> Result<String, ToolError> {
    if how == 0 {
        Err("no such dataset")?;
    }
    let parsed: u8 = "x".parse().or_tool_error("the counter is unreadable")?;
    Ok(parsed.to_string())
}

#[tokio::test]
async fn a_failure_is_text_for_the_model_and_a_source_for_the_log() {
    let tool = tool::<failing>();
    let error = call(&tool, json!({ "how": 0 })).await.expect_err("it fails");
    assert_eq!((error.message(), error.is_invalid_input()), ("no such dataset", false));
    let error = call(&tool, json!({ "how": 1 })).await.expect_err("it fails");
    assert_eq!(error.message(), "the counter is unreadable");
    let source = std::error::Error::source(&error).expect("the source is kept");
    assert_eq!(source.to_string(), "invalid digit found in string");
    let result = error.into_result();
    assert_eq!((result.is_error, text_of(&result).as_str()), (Some(true), "the counter is unreadable"));
}
