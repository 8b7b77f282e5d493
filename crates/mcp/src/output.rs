//! What a tool may return.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ToolError;
use crate::schema;

/// What a tool may return: text, numbers, [`Json`], content blocks, a whole [`CallToolResult`], nothing (`()`), or a
/// `Result` of any of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the output of a tool",
    label = "not a `ToolOutput`",
    note = "return text, a number, `ContentBlock`s, a `CallToolResult` or `()`; wrap other values in `Json(…)`, which asks for `serde::Serialize` and `schemars::JsonSchema`",
    note = "a tool that can fail returns `Result<_, ToolError>`"
)]
pub trait ToolOutput: Sized {
    /// The result that is sent.
    ///
    /// # Errors
    ///
    /// If the tool failed.
    fn into_result(self) -> Result<CallToolResult, ToolError>;

    /// The schema of `structuredContent`, for outputs that have it.
    fn output_schema() -> Option<Arc<JsonObject>> {
        None
    }
}

/// A structured output: `structuredContent` with an output schema, and the same JSON as text for clients that read only
/// text.
///
/// Peers from before 2026-07-28 know only objects there; for other values they get the text alone.
///
/// ```
/// use sluicegate_mcp::{Json, ToolOutput};
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Exported {
///     rows: u64,
/// }
///
/// let result = Json(Exported { rows: 3 }).into_result().unwrap();
/// assert_eq!(result.structured_content.unwrap()["rows"], 3);
/// assert_eq!(result.content[0].as_text().unwrap().text, r#"{"rows":3}"#);
/// assert!(Json::<Exported>::output_schema().is_some());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> ToolOutput for Json<T> {
    fn into_result(self) -> Result<CallToolResult, ToolError> {
        serde_json::to_value(self.0)
            .map(CallToolResult::structured)
            .map_err(|error| ToolError::new("the tool's output cannot be written as JSON").with_source(error))
    }

    fn output_schema() -> Option<Arc<JsonObject>> {
        Some(schema::output_schema_of::<T>())
    }
}

impl ToolOutput for () {
    fn into_result(self) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::success(Vec::new()))
    }
}

impl ToolOutput for CallToolResult {
    fn into_result(self) -> Result<CallToolResult, ToolError> {
        Ok(self)
    }
}

impl ToolOutput for Vec<ContentBlock> {
    fn into_result(self) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::success(self))
    }
}

impl ToolOutput for ContentBlock {
    fn into_result(self) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::success(vec![self]))
    }
}

impl<T: ToolOutput, E: Into<ToolError>> ToolOutput for Result<T, E> {
    fn into_result(self) -> Result<CallToolResult, ToolError> {
        self.map_err(Into::into)?.into_result()
    }

    fn output_schema() -> Option<Arc<JsonObject>> {
        T::output_schema()
    }
}

/// Types that are sent as one text block, the way `Display` writes them.
macro_rules! as_text {
    ($($text:ty)*) => {$(
        impl ToolOutput for $text {
            fn into_result(self) -> Result<CallToolResult, ToolError> {
                Ok(CallToolResult::success(vec![ContentBlock::text(self.to_string())]))
            }
        }
    )*};
}

impl ToolOutput for String {
    fn into_result(self) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::success(vec![ContentBlock::text(self)]))
    }
}

as_text! {
    &'static str Cow<'static, str> Box<str> Arc<str>
    bool char
    i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize
    f32 f64
}

/// The output type of a tool as the macros need it: functions instead of a trait bound, so that a type that is no
/// [`ToolOutput`] is one error.
pub struct OutputKind<T> {
    schema: fn() -> Option<Arc<JsonObject>>,
    into_result: fn(T) -> Result<CallToolResult, ToolError>,
}

impl<T> OutputKind<T> {
    /// The schema of `structuredContent`.
    pub fn schema(self) -> Option<Arc<JsonObject>> {
        (self.schema)()
    }

    /// The result that is sent.
    ///
    /// # Errors
    ///
    /// If the tool failed.
    pub fn into_result(self, output: T) -> Result<CallToolResult, ToolError> {
        (self.into_result)(output)
    }
}

impl<T> Clone for OutputKind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for OutputKind<T> {}

/// Names the output type of a tool.
pub fn output<T: ToolOutput>() -> OutputKind<T> {
    OutputKind { schema: T::output_schema, into_result: T::into_result }
}
