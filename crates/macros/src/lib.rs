//! The attribute macros of Sluicegate: `#[tools]` and `#[tool]`. Use them through the facade crate, `sluicegate`.
//!
//! Everything that can be checked while compiling is checked: a misspelt limit, an impossible cost or an unknown key is
//! an error at the words in question, and all mistakes of an item are reported together. The limits' own grammar comes
//! from `sluicegate-limits`, as at run time.

mod attribute;
mod declared;
mod documentation;
mod errors;
mod expansion;
mod free_tool;
mod literal;
mod signature;
#[cfg(test)]
mod tests;
mod tool_set;

use proc_macro::TokenStream;

/// Makes the `#[tool]` methods of an impl block tools, by implementing `ToolSet` for its type.
///
/// ```
/// use sluicegate::prelude::*;
///
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] enum Format { Csv }
/// # #[derive(serde::Serialize, schemars::JsonSchema)] struct Exported { rows: u64 }
/// struct Reports;
///
/// #[tools]
/// impl Reports {
///     /// Export a dataset.
///     #[tool(rate_limit = "5/min", timeout = "30s", concurrency = 4)]
///     async fn export(
///         &self,
///         /// Which dataset.
///         dataset: String,
///         format: Option<Format>,
///         ctx: CallContext,
///     ) -> Result<Json<Exported>, ToolError> {
///         // …
/// #       Ok(Json(Exported { rows: 0 }))
///     }
/// }
/// # fn registered(_: impl sluicegate::ToolSet) {}
/// # registered(Reports);
/// ```
///
/// `Server::new("demo").tools(Reports)` then serves them.
///
/// The methods stay as they are and can be called as such. A tool is an `async fn` with `&self`, `self: Arc<Self>` or no
/// receiver at all; the impl block may be generic. Methods without `#[tool]` are left alone. A type has one such block.
///
/// The only key is `crate = "path"`, for a `sluicegate` dependency that goes by another name.
///
/// See [`macro@tool`] for parameters, results and keys.
#[proc_macro_attribute]
pub fn tools(arguments: TokenStream, item: TokenStream) -> TokenStream {
    tool_set::expand(arguments.into(), &item.into()).into()
}

/// Makes an `async fn` a tool: a free function, or a method of an impl block with [`macro@tools`].
///
/// ```
/// use sluicegate::prelude::*;
///
/// /// Echo a text.
/// #[tool(rate_limit = "600/min")]
/// async fn echo(text: String) -> String {
///     text
/// }
/// # fn registered<T: sluicegate::FreeTool>() {}
/// # registered::<echo>();
/// ```
///
/// `Server::new("demo").tool::<echo>()` then serves it.
///
/// The function stays as it is. Beside a free function a type of the same name is declared, for `tool::<echo>()`.
///
/// # Parameters
///
/// Every parameter is one argument, a property of the arguments object with the parameter's name, of any type that is
/// `serde::Deserialize` and `schemars::JsonSchema`. An `Option` need not be sent, and what is not asked for is ignored.
/// Doc comments on parameters describe the properties. The exceptions are types that implement `FromCall`, such as
/// `Caller`, `CallContext` and `Params<T>`, which takes all arguments as one struct.
///
/// # Result
///
/// Any `ToolOutput`: text, numbers, `Json<T>` for structured content with a schema, `Image`, `Audio`, resources, tuples of
/// these, `()`, or a `Result` of any with `ToolError`.
///
/// # Keys
///
/// | key | value | default |
/// |---|---|---|
/// | `name` | what clients call, 1–128 of `A-Z a-z 0-9 _ - .` | the function's name |
/// | `title` | what people see | the first line of the doc comment, if it is a paragraph of its own |
/// | `description` | what the model reads | the doc comment |
/// | `rate_limit` | `"100/min"` or `["10/s", "1000/h"]` | the server's |
/// | `burst` | how much a token bucket holds | the count of the rate |
/// | `algorithm` | `"token_bucket"` or `"sliding_window"` | `"token_bucket"` |
/// | `per` | who shares the limit: `"agent"`, `"tenant"` or `"server"` | `"agent"` |
/// | `cost` | what one call takes from every limit | 1 |
/// | `concurrency` | how many calls may run at a time | the server's |
/// | `timeout` | how long a call may take, `"30s"`, `"5min"` | the server's |
/// | `priority` | `"low"`, `"normal"` or `"high"` | `"normal"` |
/// | `on_outage` | what becomes of calls while instances cannot count together: `"local_share"`, `"closed"` or `"open"` | the server's |
/// | `scopes` | what the caller's key must carry, `["reports:write"]` | none |
/// | `icons` | addresses of images, `["https://example.com/export.svg"]` | none |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | `true` or `false`: hints for clients | not said |
/// | `validate` | `true` checks the arguments against the whole schema first | `false` |
/// | `crate` | the path of the facade, on free functions | `"::sluicegate"` |
///
/// A token bucket of 100/min can let up to 200 calls through in one minute: a full bucket and its refill.
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    free_tool::expand(arguments.into(), &item.into()).into()
}
