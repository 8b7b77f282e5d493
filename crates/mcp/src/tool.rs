//! A tool: what clients are told about it, and how it is run.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::Extensions;
use rmcp::model::{CallToolResult, Icon, JsonObject, MetaObject, ToolAnnotations};
use serde_json::Value;

use crate::call::Call;
use crate::error::ToolError;
use crate::from_call::FromCall;
use crate::output::ToolOutput;
use crate::schema::InputSchema;
use crate::validation::Validation;

type Run = dyn Fn(Call) -> BoxFuture<'static, Result<CallToolResult, ToolError>> + Send + Sync;

/// A tool: what clients are told about it, and how it is run.
///
/// Usually written by `#[tools]` or `#[tool]`. Without macros it is made [from a function](Self::from_fn), or, where even
/// the schema is known only at run time, by [`Tool::new`].
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
    annotations: Option<ToolAnnotations>,
    icons: Vec<Icon>,
    meta: Option<MetaObject>,
    needs_peer: bool,
    /// Whether an argument has a header of its own.
    has_headers: bool,
    work: Work,
}

/// Who does a tool's work.
#[derive(Clone)]
enum Work {
    /// The tool itself.
    Own(Arc<Run>),
    /// The rmcp handler that the tool was learnt from.
    Handler,
}

impl Tool {
    /// A tool from any async function or closure of one parameter: a [`FromCall`] such as [`Params`](crate::Params), or a
    /// tuple of up to five. Schemas follow from the types, as with the macros, and generic functions work as well.
    ///
    /// ```
    /// use sluicegate_mcp::{Call, CallContext, JsonObject, Params, Progress, Tool, ToolError};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Double {
    ///     /// What to double.
    ///     number: u32,
    /// }
    ///
    /// let double = Tool::from_fn("double", async |(Params(asked), _progress): (Params<Double>, Progress)| {
    ///     asked.number.checked_mul(2).ok_or(ToolError::new("too large"))
    /// })
    /// .with_description("Double a number.");
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let arguments = JsonObject::from_iter([("number".to_owned(), 21.into())]);
    /// let result = double.run(Call::new(arguments, CallContext::detached())).await.unwrap();
    /// assert_eq!(result.content[0].as_text().unwrap().text, "42");
    /// # });
    /// ```
    pub fn from_fn<P, F, W>(name: impl Into<Cow<'static, str>>, run: F) -> Self
    where
        P: FromCall + Send + 'static,
        F: Fn(P) -> W + Send + Sync + 'static,
        W: Future<Output: ToolOutput> + Send + 'static,
    {
        let mut input = InputSchema::new();
        P::describe(&mut input);
        let tool = Self::new(name, input.finish(), move |call| match P::from_call(&call) {
            Ok(parameters) => {
                drop(call);
                let work = run(parameters);
                Box::pin(async move { work.await.into_result() })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        });
        tool.with_output_schema(<W::Output as ToolOutput>::output_schema()).needing_peer(P::NEEDS_PEER)
    }

    /// A tool that is called by `name`. What is wrong with the name or the schema is reported by
    /// [`Registry::new`](crate::Registry::new).
    pub fn new<F>(name: impl Into<Cow<'static, str>>, input_schema: Arc<JsonObject>, run: F) -> Self
    where
        F: Fn(Call) -> BoxFuture<'static, Result<CallToolResult, ToolError>> + Send + Sync + 'static,
    {
        Self::with_work(name.into(), input_schema, Work::Own(Arc::new(run)))
    }

    /// A tool of an rmcp handler, as the handler lists it.
    pub(crate) fn of_handler(listed: rmcp::model::Tool) -> Self {
        let mut tool = Self::with_work(listed.name, listed.input_schema, Work::Handler);
        tool.title = listed.title.map(Cow::Owned);
        tool.description = listed.description;
        tool.output_schema = listed.output_schema;
        tool.annotations = listed.annotations;
        tool.icons = listed.icons.unwrap_or_default();
        tool.meta = listed.meta;
        tool.origin = Cow::Borrowed("the rmcp handler");
        tool
    }

    fn with_work(name: Cow<'static, str>, input_schema: Arc<JsonObject>, work: Work) -> Self {
        Self {
            has_headers: input_schema.values().any(names_header),
            needs_peer: true,
            origin: name.clone(),
            name,
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            extensions: Extensions::new(),
            validation: None,
            annotations: None,
            icons: Vec::new(),
            meta: None,
            work,
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

    /// Says how the tool behaves: whether it only reads, destroys, may be repeated, reaches outside.
    #[must_use]
    pub fn with_annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.annotations = Some(annotations);
        self
    }

    /// Adds an icon that clients may show.
    #[must_use]
    pub fn with_icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// Says whether the tool's work may involve the caller's end of the connection, see
    /// [`FromCall::NEEDS_PEER`]. Supposed of a tool that is made by [`Tool::new`] until it says otherwise.
    #[must_use]
    pub fn needing_peer(mut self, needed: bool) -> Self {
        self.needs_peer = needed;
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

    /// How the tool says that it behaves.
    pub fn annotations(&self) -> Option<&ToolAnnotations> {
        self.annotations.as_ref()
    }

    /// The icons that clients may show.
    pub fn icons(&self) -> &[Icon] {
        &self.icons
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

    /// Whether the tool says that a second call with the same arguments changes nothing more.
    pub(crate) fn is_idempotent(&self) -> bool {
        self.annotations.as_ref().is_some_and(ToolAnnotations::is_idempotent)
    }

    /// Whether an rmcp handler does the work.
    pub(crate) fn is_of_handler(&self) -> bool {
        matches!(self.work, Work::Handler)
    }

    /// Whether a call of the tool is nothing but arguments in and a result out.
    pub(crate) fn is_plain(&self) -> bool {
        !self.needs_peer && !self.has_headers && !self.is_of_handler()
    }

    /// Whether an argument of the tool has a header of its own.
    pub(crate) fn has_headers(&self) -> bool {
        self.has_headers
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
        match &self.work {
            Work::Own(run) => run(call),
            Work::Handler => Box::pin(std::future::ready(Err("only its rmcp handler can run this tool".into()))),
        }
    }
}

/// Whether a schema says `x-mcp-header` anywhere (MCP 2026-07-28, "Custom headers from tool parameters").
fn names_header(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.contains_key("x-mcp-header") || members.values().any(names_header),
        Value::Array(items) => items.iter().any(names_header),
        _ => false,
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
        listed.annotations.clone_from(&tool.annotations);
        listed.icons = (!tool.icons.is_empty()).then(|| tool.icons.clone());
        listed.meta.clone_from(&tool.meta);
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
