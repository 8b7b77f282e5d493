//! Results of every kind, progress, log messages, schemas.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sluicegate::prelude::*;
use sluicegate::{Call, JsonObject, ResourceContents, Tool, ToolOutput as _};

/// A red dot.
pub(crate) const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00,
    0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53, 0xde, 0x00, 0x00, 0x00, 0x0c, 0x49,
    0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0x00, 0x00, 0x03, 0x01, 0x01, 0x00, 0xc9, 0xfe, 0x92, 0xef,
    0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// Silence.
const WAV: &[u8] = &[
    b'R', b'I', b'F', b'F', 0x24, 0, 0, 0, b'W', b'A', b'V', b'E', b'f', b'm', b't', b' ', 0x10, 0, 0, 0, 1, 0, 1, 0,
    0x44, 0xac, 0, 0, 0x88, 0x58, 1, 0, 2, 0, 0x10, 0, b'd', b'a', b't', b'a', 0, 0, 0, 0,
];

/// How long a tool waits between two messages, so that they arrive as several.
const PAUSE: Duration = Duration::from_millis(50);

/// The tools of this file.
pub(crate) struct Tools;

/// An argument that travels in a header as well (SEP-2243).
#[derive(Deserialize, JsonSchema)]
struct InHeader {
    #[schemars(extend("x-mcp-header" = "Value"))]
    value: String,
}

#[tools]
impl Tools {
    /// Answer at once. The suite tries headers on the first tool of the list, which must need nothing.
    #[tool(read_only = true)]
    async fn answer(&self) -> u8 {
        42
    }

    /// A text.
    #[tool(read_only = true)]
    async fn test_simple_text(&self) -> &'static str {
        "This is a simple text response for testing."
    }

    /// A picture.
    #[tool(read_only = true)]
    async fn test_image_content(&self) -> Image {
        Image::png(PNG)
    }

    /// Sound.
    #[tool(read_only = true)]
    async fn test_audio_content(&self) -> Audio {
        Audio::wav(WAV)
    }

    /// A resource in a result.
    #[tool(read_only = true)]
    async fn test_embedded_resource(&self) -> ResourceContents {
        ResourceContents::text("This is an embedded resource content.", "test://embedded-resource")
    }

    /// A text, a picture and a resource in one result.
    #[tool(read_only = true)]
    async fn test_multiple_content_types(&self) -> (&'static str, Image, ResourceContents) {
        let resource = ResourceContents::text(r#"{"test":"data","value":123}"#, "test://mixed-content-resource");
        ("Multiple content types test:", Image::png(PNG), resource.with_mime_type("application/json"))
    }

    /// Log messages while it runs.
    #[tool]
    async fn test_tool_with_logging(&self, log: Log) -> &'static str {
        for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
            log.info(message).await;
            tokio::time::sleep(PAUSE).await;
        }
        "Logging test completed"
    }

    /// A log message for those who want one.
    #[tool]
    async fn test_logging_tool(&self, log: Log) -> &'static str {
        log.error("a log level was asked for").await;
        "Logging tool completed"
    }

    /// A failure.
    #[tool]
    async fn test_error_handling(&self) -> Result<(), ToolError> {
        Err(ToolError::new("This tool intentionally returns an error for testing"))
    }

    /// Progress while it runs.
    #[tool]
    async fn test_tool_with_progress(&self, progress: Progress) -> &'static str {
        for (done, message) in [(0.0, "Starting"), (50.0, "Halfway"), (100.0, "Complete")] {
            progress.report_with(done, 100.0, message).await;
            tokio::time::sleep(PAUSE).await;
        }
        "Progress test completed"
    }

    /// An argument that stands in a header too.
    #[tool]
    async fn test_custom_header(&self, Params(asked): Params<InHeader>) -> String {
        asked.value
    }

    /// A result after a while.
    #[tool]
    async fn test_reconnection(&self) -> &'static str {
        tokio::time::sleep(2 * PAUSE).await;
        "Reconnection test completed"
    }
}

/// A tool whose schema no Rust type has: written by hand, and kept to the letter.
pub(crate) fn json_schema_2020_12() -> Tool {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "address",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
        "allOf": [{ "anyOf": [{ "required": ["name"] }, { "required": ["address"] }] }],
        "if": { "required": ["address"] },
        "then": { "properties": { "address": { "required": ["street"] } } },
        "else": { "required": ["name"] },
        "additionalProperties": false,
    });
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    Tool::new("json_schema_2020_12_tool", Arc::new(schema), |call: Call| {
        let name = call.arguments.get("name").and_then(|name| name.as_str()).unwrap_or("world").to_owned();
        Box::pin(async move { format!("Hello, {name}!").into_result() })
    })
    .with_description("A tool with what JSON Schema 2020-12 can say.")
    .validated()
}
