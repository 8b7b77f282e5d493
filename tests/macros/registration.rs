//! Names, descriptions, receivers, generics and what stays callable.

use std::fmt::Display;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::json;
use sluicegate::prelude::*;
use sluicegate::{FreeTool, ToolSet};
use sluicegate_mcp::Registry;

use sluicegate_macros_tests::{only_tool_of, schema, text, tool, tools_of};

/// Echo a text.
///
/// Exactly as it came:
///     indented lines too.
#[tool(rate_limit = "600/min")]
async fn echo(text: String) -> String {
    text
}

/// A first line that goes on
/// in the second.
#[tool(name = "other.name-2", description = "Said otherwise.")]
async fn renamed() {}

#[tool(title = "A title", crate = "sluicegate")]
pub(crate) async fn titled() {}

#[test]
fn the_doc_comment_is_the_description_and_its_first_line_the_title() {
    let echo = tool::<echo>();
    assert_eq!(echo.name(), "echo");
    assert_eq!(echo.title(), Some("Echo a text"));
    assert_eq!(echo.description(), Some("Echo a text.\n\nExactly as it came:\n    indented lines too."));
    assert_eq!(echo.origin(), "macros::registration::echo");

    let renamed = tool::<renamed>();
    assert_eq!((renamed.name(), renamed.title()), ("other.name-2", None));
    assert_eq!(renamed.description(), Some("Said otherwise."));

    let titled = tool::<titled>();
    assert_eq!((titled.title(), titled.description()), (Some("A title"), None));
}

#[tokio::test]
async fn a_free_tool_stays_a_function() {
    assert_eq!(echo("hello".to_owned()).await, "hello");
    assert_eq!(text(&tool::<echo>(), json!({ "text": "hello" })).await, "hello");
}

/// The facade under another name.
mod vendor {
    pub(crate) use sluicegate as gate;
}

#[tool(crate = "crate::registration::vendor::gate", rate_limit = "5/min")]
#[deprecated(note = "generated code may call it all the same")]
async fn through_another_path() {}

#[test]
fn the_facade_may_have_another_name() {
    assert_eq!(tool::<through_another_path>().name(), "through_another_path");
}

mod elsewhere {
    use sluicegate::prelude::*;

    /// In a module of its own.
    #[tool]
    pub(crate) async fn moved(n: u8) -> u8 {
        n + 1
    }
}

#[tokio::test]
async fn one_import_brings_the_function_and_the_tool() {
    use elsewhere::moved;
    assert_eq!(moved(1).await, 2);
    assert_eq!(<moved as FreeTool>::tool().origin(), "macros::registration::elsewhere::moved");
}

/// Where a generic set of tools keeps its values.
trait Store: Send + Sync + 'static {
    type Key: DeserializeOwned + JsonSchema + Display + Send;
    fn get(&self, key: &Self::Key) -> String;
}

struct Numbers;

impl Store for Numbers {
    type Key = u32;
    fn get(&self, key: &u32) -> String {
        format!("number {key}")
    }
}

struct Lookup<T, const N: usize> {
    store: T,
}

#[tools]
impl<T, const N: usize> Lookup<T, N>
where
    T: Store,
{
    const TIMES: usize = N;

    /// Look a value up.
    #[tool]
    async fn lookup(self: Arc<Self>, key: T::Key) -> String {
        self.found(&key)
    }

    /// No tool.
    fn found(&self, key: &T::Key) -> String {
        self.store.get(key).repeat(Self::TIMES)
    }
}

#[tokio::test]
async fn a_generic_impl_makes_tools_for_every_instance() {
    let lookup = only_tool_of(Lookup::<_, 2> { store: Numbers });
    assert_eq!(text(&lookup, json!({ "key": 4 })).await, "number 4number 4");
    assert_eq!(schema(&lookup)["properties"]["key"]["format"], "uint32");
}

#[derive(Default)]
struct Counter(std::sync::atomic::AtomicU32);

#[tools(crate = "::sluicegate")]
impl Counter {
    /// Count.
    #[tool]
    async fn clone(&self) -> u32 {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }

    /// No receiver.
    #[sluicegate::tool]
    async fn fixed(mut n: u32) -> u32 {
        n += 1;
        n
    }

    /// Never compiled.
    #[cfg(any())]
    #[tool(name = "clone")]
    async fn absent(&self) -> NoSuchType {}
}

#[tokio::test]
async fn the_tools_of_a_value_share_it_and_a_name_like_clone_is_no_trouble() {
    let counter = Arc::new(Counter::default());
    let tools = Arc::clone(&counter).tools();
    assert_eq!(tools.iter().map(sluicegate::Tool::name).collect::<Vec<_>>(), ["clone", "fixed"]);
    assert_eq!(text(&tools[0], json!({})).await, "0");
    assert_eq!(text(&tools[0], json!({})).await, "1");
    assert_eq!(text(&tools[1], json!({ "n": 1 })).await, "2");
    assert_eq!(Counter::clone(&counter).await, 2);
}

#[test]
fn two_tools_of_one_name_are_an_error_that_names_both() {
    #[tool(name = "echo")]
    async fn again() {}

    let error = Registry::new([tool::<echo>(), tool::<again>()]).expect_err("the name is taken twice");
    assert_eq!(
        error.to_string(),
        "the tool name `echo` is taken twice, by `macros::registration::echo` and by `macros::registration::again`: \
         rename one with `name = \"…\"`"
    );
}

#[test]
fn params_of_something_that_is_no_object_are_refused_when_the_server_starts() {
    #[tool]
    async fn impossible(_all: Params<Vec<u8>>) {}

    let error = Registry::new([tool::<impossible>()]).expect_err("no call could ever fit");
    assert_eq!(
        error.to_string(),
        r#"the input schema of the tool `impossible` describes no object (its type is "array"): make `Params<T>` a struct"#
    );
}

#[test]
fn a_registry_is_sorted_and_finds_tools_by_name() {
    let registry =
        Registry::new(tools_of(Counter::default()).into_iter().chain([tool::<echo>()])).expect("three names");
    let names: Vec<_> = registry.iter().map(|(index, tool)| (index.get(), tool.name())).collect();
    assert_eq!(names, [(0, "clone"), (1, "echo"), (2, "fixed")]);
    let (index, tool) = registry.get("echo").expect("echo is there");
    assert_eq!((index.get(), tool.name(), registry.tool(index).name()), (1, "echo", "echo"));
    assert!(registry.get("Echo").is_none());
}

#[derive(serde::Deserialize, JsonSchema)]
struct Doubled<N> {
    /// What to double.
    number: N,
}

async fn double<N: Copy + Display + std::ops::Add<Output = N>>(
    (Params(asked), context, progress): (Params<Doubled<N>>, CallContext, Progress),
) -> Result<String, ToolError> {
    assert!(!progress.is_wanted());
    assert!(context.deadline().is_none());
    Ok((asked.number + asked.number).to_string())
}

#[tokio::test]
async fn a_tool_without_macros_is_made_from_a_function_that_may_be_generic() {
    let whole = sluicegate::Tool::from_fn("double", double::<u32>);
    let broken = sluicegate::Tool::from_fn("halves", double::<f32>);
    assert_eq!(whole.input_schema()["properties"]["number"]["description"], "What to double.");
    assert_eq!(whole.input_schema()["required"], json!(["number"]));
    assert_eq!(text(&whole, json!({ "number": 21 })).await, "42");
    assert_eq!(text(&broken, json!({ "number": 1.5 })).await, "3");
    let asked = sluicegate::Tool::from_fn("asked", async |ask: Ask| ask.require_person().is_err());
    assert_eq!(text(&asked, json!({})).await, "true", "nobody can be asked outside of a server");
}

/// A pair is one argument, although pairs of what is made from a call exist.
#[tool]
async fn span(range: (u32, u32)) -> u32 {
    range.1 - range.0
}

#[tokio::test]
async fn a_tuple_of_plain_values_is_an_argument() {
    assert_eq!(text(&tool::<span>(), json!({ "range": [2, 5] })).await, "3");
}
