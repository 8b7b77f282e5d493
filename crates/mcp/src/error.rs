//! What a tool returns when it fails: text for the model, the cause for the operator's log.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, InputRequiredResult, JsonObject, MetaObject};
use serde_json::Value;

/// The failure of one tool call, as a result with `isError: true` that a model can read and act on.
///
/// It has an outside and an inside: [`message`](Self::message) is sent to the caller, so it must be safe to show and
/// should say what to do; [`with_source`](Self::with_source) keeps the underlying error for the log and never sends it.
///
/// ```
/// use sluicegate_mcp::{OrToolError, ToolError};
///
/// fn rows(dataset: &str) -> Result<u64, ToolError> {
///     if dataset.is_empty() {
///         return Err("name a dataset, for example `sales`".into());
///     }
///     "12".parse().or_tool_error("the row count of this dataset is unreadable")
/// }
/// # assert_eq!(rows("sales").unwrap(), 12);
/// # assert_eq!(rows("").unwrap_err().message(), "name a dataset, for example `sales`");
/// ```
pub struct ToolError {
    message: Cow<'static, str>,
    kind: Kind,
    /// Boxed, since errors travel by value and few have any.
    meta: Option<Box<JsonObject>>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

#[derive(Debug)]
enum Kind {
    Failed,
    InvalidInput,
    /// The request cannot be served: an error of the protocol instead of a result.
    Protocol(Box<ErrorData>),
    /// No failure at all: the call ends here so that the caller can be asked, and runs again with the answer.
    Question(Box<InputRequiredResult>),
}

impl ToolError {
    /// A failure that shows `message` to the caller.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), kind: Kind::Failed, meta: None, source: None }
    }

    /// A failure of the caller's input rather than of the tool; it is metered as [`Outcome::InvalidInput`].
    ///
    /// [`Outcome::InvalidInput`]: crate::Outcome::InvalidInput
    pub fn invalid_input(message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: Kind::InvalidInput, ..Self::new(message) }
    }

    /// Ends the call with a question to the caller.
    pub(crate) fn question(question: InputRequiredResult) -> Self {
        Self { kind: Kind::Question(Box::new(question)), ..Self::new("the tool asks for input") }
    }

    /// Answers with an error of the protocol.
    pub(crate) fn protocol(error: ErrorData) -> Self {
        Self { message: error.message.clone(), kind: Kind::Protocol(Box::new(error)), ..Self::new("") }
    }

    /// What is answered instead of a result, if anything is.
    pub(crate) fn into_answer(self) -> Result<Result<InputRequiredResult, ErrorData>, Self> {
        match self.kind {
            Kind::Question(question) => Ok(Ok(*question)),
            Kind::Protocol(error) => Ok(Err(*error)),
            _ => Err(self),
        }
    }

    /// Keeps the underlying error for the operator's log. It is not sent to the caller.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds one entry to the result's `_meta`, for clients that read more than text.
    ///
    /// Structured data of a failure belongs here and not into `structuredContent`, which has to fit the tool's output
    /// schema. Keys follow the specification's `_meta` rules: prefix your own with a domain of yours.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    /// The text that the caller sees.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the caller's input is at fault.
    pub fn is_invalid_input(&self) -> bool {
        matches!(self.kind, Kind::InvalidInput)
    }

    /// The result that is sent: `isError: true`, one text block, and `_meta` if there is any. The source stays behind.
    pub fn into_result(self) -> CallToolResult {
        let meta = self.meta.map(|meta| MetaObject(*meta));
        CallToolResult::error(vec![ContentBlock::text(self.message)]).with_meta(meta)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolError")
            .field("message", &self.message)
            .field("kind", &self.kind)
            .field("meta", &self.meta)
            .field("source", &self.source)
            .finish()
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ToolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<&'static str> for ToolError {
    fn from(message: &'static str) -> Self {
        Self::new(message)
    }
}

impl From<String> for ToolError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

/// Gives a failure the two messages that it needs: a text for the caller, and the error itself for the log.
///
/// On an `Option` it turns `None` into a failure with that text.
pub trait OrToolError<T> {
    /// Replaces the error by a [`ToolError`] with this `message`; the error becomes its source.
    fn or_tool_error(self, message: impl Into<Cow<'static, str>>) -> Result<T, ToolError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrToolError<T> for Result<T, E> {
    fn or_tool_error(self, message: impl Into<Cow<'static, str>>) -> Result<T, ToolError> {
        self.map_err(|error| ToolError::new(message).with_source(error))
    }
}

impl<T> OrToolError<T> for Option<T> {
    fn or_tool_error(self, message: impl Into<Cow<'static, str>>) -> Result<T, ToolError> {
        self.ok_or_else(|| ToolError::new(message))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_source_is_kept_for_the_log_and_not_sent() {
        let error = ToolError::new("the warehouse is down").with_source("password=hunter2 refused");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("password=hunter2 refused"));
        let sent = serde_json::to_value(error.into_result()).expect("a result serialises");
        assert_eq!(
            sent,
            json!({
                "resultType": "complete",
                "content": [{ "type": "text", "text": "the warehouse is down" }],
                "isError": true,
            })
        );
    }

    #[test]
    fn data_for_programs_travels_in_meta() {
        let error = ToolError::from("busy").with_meta("example.com/throttled", json!({ "retry_after_seconds": 3 }));
        let sent = serde_json::to_value(error.into_result()).expect("a result serialises");
        assert_eq!(sent["_meta"], json!({ "example.com/throttled": { "retry_after_seconds": 3 } }));
        assert_eq!(sent.get("structuredContent"), None);
    }

    #[test]
    fn a_missing_value_becomes_a_failure_with_the_given_text() {
        let error = None::<u8>.or_tool_error("no such dataset").expect_err("None is a failure");
        assert_eq!(error.message(), "no such dataset");
        assert!(!error.is_invalid_input());
    }
}
