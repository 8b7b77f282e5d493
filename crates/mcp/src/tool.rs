//! A tool: what clients are told about it, and how it is run.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::Extensions;
use rmcp::model::{CallToolResult, JsonObject};

use crate::call::Call;
use crate::error::ToolError;
use crate::validation::Validation;

type Run = dyn Fn(Call) -> BoxFuture<'static, Result<CallToolResult, ToolError>> + Send + Sync;

/// A tool: what clients are told about it, and how it is run.
///
/// Usually written by `#[tools]` or `#[tool]`. By hand it looks like this:
///
/// ```
/// use sluicegate_mcp::{Call, CallContext, InputSchema, JsonObject, Tool, ToolOutput};
///
/// let ping = Tool::new("ping", InputSchema::new().finish(), |_call: Call| {
///     Box::pin(async { "pong".into_result() })
/// })
/// .with_description("Answer pong.");
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let result = ping.run(Call::new(JsonObject::new(), CallContext::detached())).await.unwrap();
/// assert_eq!(result.content[0].as_text().unwrap().text, "pong");
/// # });
/// ```
#[derive(Clone)]
pub struct Tool {
    name: Cow<'static, str>,
    title: Option<Cow<'static, str>>,
    description: Option<Cow<'static, str>>,
    input_schema: Arc<JsonObject>,
    output_schema: Option<Arc<JsonObject>>,
    origin: Cow<'static, str>,
    extensions: Extensions,
    validation: Option<Validation>,
    run: Arc<Run>,
}

impl Tool {
    /// A tool that is called by `name`. What is wrong with the name or the schema is reported by
    /// [`Registry::new`](crate::Registry::new).
    pub fn new<F>(name: impl Into<Cow<'static, str>>, input_schema: Arc<JsonObject>, run: F) -> Self
    where
        F: Fn(Call) -> BoxFuture<'static, Result<CallToolResult, ToolError>> + Send + Sync + 'static,
    {
        let name = name.into();
        Self {
            origin: name.clone(),
            name,
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            extensions: Extensions::new(),
            validation: None,
            run: Arc::new(run),
        }
    }

    /// Sets the name that people see.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<Cow<'static, str>>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets what the tool does, for the model.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<Cow<'static, str>>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the schema of `structuredContent`.
    #[must_use]
    pub fn with_output_schema(mut self, schema: impl Into<Option<Arc<JsonObject>>>) -> Self {
        self.output_schema = schema.into();
        self
    }

    /// Says where the tool is written, for messages about it: a path such as `reports::Reports::export`.
    #[must_use]
    pub fn with_origin(mut self, origin: impl Into<Cow<'static, str>>) -> Self {
        self.origin = origin.into();
        self
    }

    /// Attaches a typed value, such as the limits that its author declared. One value per type.
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Checks the arguments of every call against the input schema first, so that the caller learns of every mistake at
    /// once and of constraints that types do not hold (`minimum`, `pattern`, …).
    #[must_use]
    pub fn validated(mut self) -> Self {
        self.validation = Some(Validation::new(&self.input_schema));
        self
    }

    /// The name that clients call.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name that people see.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// What the tool does, for the model.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The JSON Schema (2020-12) of the arguments object.
    pub fn input_schema(&self) -> &Arc<JsonObject> {
        &self.input_schema
    }

    /// The JSON Schema (2020-12) of `structuredContent`, if the tool returns any.
    pub fn output_schema(&self) -> Option<&Arc<JsonObject>> {
        self.output_schema.as_ref()
    }

    /// Where the tool is written; its name if that is not known.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The typed values attached to the tool.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Whether the arguments of every call are checked against the input schema.
    pub fn is_validated(&self) -> bool {
        self.validation.is_some()
    }

    pub(crate) fn validation(&self) -> Option<&Validation> {
        self.validation.as_ref()
    }

    /// Runs the tool. The future neither watches the deadline nor catches panics: that is [`call_scope`]'s part.
    ///
    /// # Errors
    ///
    /// What the tool's author returned, or that the arguments do not fit.
    ///
    /// [`call_scope`]: crate::call_scope
    pub fn run(&self, mut call: Call) -> BoxFuture<'static, Result<CallToolResult, ToolError>> {
        if let Some(validation) = &self.validation {
            match validation.check(call.arguments) {
                Ok(arguments) => call.arguments = arguments,
                Err(error) => return Box::pin(std::future::ready(Err(error))),
            }
        }
        (self.run)(call)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// What a client is told about the tool. Declared limits and other extensions stay here.
impl From<&Tool> for rmcp::model::Tool {
    fn from(tool: &Tool) -> Self {
        let mut listed =
            Self::new_with_raw(tool.name.clone(), tool.description.clone(), Arc::clone(&tool.input_schema));
        listed.title = tool.title.as_ref().map(ToString::to_string);
        listed.output_schema.clone_from(&tool.output_schema);
        listed
    }
}

/// A value with tools on it: what `#[tools]` on an impl block implements.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no tools",
    label = "no impl block of this type has `#[tools]`",
    note = "put `#[tools]` on its impl block and `#[tool]` on the methods, or register an `async fn` that has `#[tool]` with `.tool::<name>()`"
)]
pub trait ToolSet: Send + Sync + 'static {
    /// The tools, each sharing this value.
    fn tools(self: Arc<Self>) -> Vec<Tool>;
}

/// A free function that is a tool: what `#[tool]` implements for the type that it puts beside the function.
///
/// The type has the function's name and no values, so `echo` stays callable and `tool::<echo>()` names the tool.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a function with `#[tool]`",
    note = "put `#[tool]` on the `async fn`, or register an impl block that has `#[tools]` with `.tools(value)`"
)]
pub trait FreeTool {
    /// The tool.
    fn tool() -> Tool;
}
