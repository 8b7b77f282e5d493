//! Parameters: what becomes a property, what is made from the call, and what callers are told about mistakes.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sluicegate::prelude::*;
use sluicegate::{Call, FromCall};

use sluicegate_macros_tests::{call_in, only_tool_of, refusal, schema, text, tool};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Csv,
    Parquet,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Filter {
    column: String,
    from: Option<u64>,
}

struct Reports {
    prefix: &'static str,
}

#[tools]
impl Reports {
    /// Export a dataset.
    #[tool]
    async fn export(
        &self,
        /// Which dataset.
        dataset: String,
        /// How to write it.
        format: Option<Format>,
        ctx: CallContext,
        /// Rows to keep.
        ///
        /// All must hold.
        filters: Vec<Filter>,
    ) -> String {
        let froms: Vec<_> = filters.iter().map(|filter| (filter.column.as_str(), filter.from)).collect();
        format!("{}{dataset} {format:?} {froms:?} {}", self.prefix, ctx.request_id())
    }
}

fn export() -> sluicegate::Tool {
    only_tool_of(Reports { prefix: "> " })
}

#[tokio::test]
async fn every_plain_parameter_is_one_argument_and_the_context_is_none() {
    let arguments = json!({ "dataset": "sales", "format": "csv", "filters": [{ "column": "n", "from": 3 }] });
    assert_eq!(text(&export(), arguments).await, r#"> sales Some(Csv) [("n", Some(3))] detached"#);
}

#[tokio::test]
async fn an_option_may_be_left_out_or_null() {
    let arguments = json!({ "dataset": "sales", "filters": [] });
    assert_eq!(text(&export(), arguments).await, "> sales None [] detached");
    let arguments = json!({ "dataset": "sales", "filters": [], "format": null });
    assert_eq!(text(&export(), arguments).await, "> sales None [] detached");
}

#[test]
fn the_schema_has_the_properties_in_order_with_their_docs_and_shared_types_at_its_root() {
    let expected = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "dataset": { "type": "string", "description": "Which dataset." },
            "format": {
                "anyOf": [{ "$ref": "#/$defs/Format" }, { "type": "null" }],
                "description": "How to write it.",
            },
            "filters": {
                "type": "array",
                "items": { "$ref": "#/$defs/Filter" },
                "description": "Rows to keep.\n\nAll must hold.",
            },
        },
        "required": ["dataset", "filters"],
        "$defs": {
            "Format": { "type": "string", "enum": ["csv", "parquet"] },
            "Filter": {
                "type": "object",
                "properties": {
                    "column": { "type": "string" },
                    "from": { "type": ["integer", "null"], "format": "uint64", "minimum": 0 },
                },
                "required": ["column"],
            },
        },
    });
    assert_eq!(schema(&export()), expected);
    let in_order = schema(&export())["properties"].to_string();
    let places: Vec<_> = ["dataset", "format", "filters"].map(|name| in_order.find(name)).into();
    assert!(places.is_sorted(), "{in_order}");
}

#[tokio::test]
async fn a_mistake_is_named_by_the_path_of_its_field() {
    let wrong = json!({ "dataset": "sales", "filters": [{ "column": "a" }, { "column": "b" }, { "column": "c", "from": "x" }] });
    assert_eq!(
        refusal(&export(), wrong).await,
        r#"invalid arguments: filters[2].from: invalid type: string "x", expected u64"#
    );
    assert_eq!(refusal(&export(), json!({ "filters": [] })).await, "invalid arguments: dataset: required, but missing");
    assert_eq!(
        refusal(&export(), json!({ "dataset": "sales", "format": "xls", "filters": [] })).await,
        "invalid arguments: format: unknown variant `xls`, expected `csv` or `parquet`"
    );
    assert_eq!(
        refusal(&export(), json!({ "dataset": "sales", "filters": [{}] })).await,
        "invalid arguments: filters[0]: missing field `column`"
    );
}

#[tokio::test]
async fn a_mistake_does_not_echo_a_whole_payload() {
    let message = refusal(&export(), json!({ "dataset": "sales", "format": "é".repeat(100_000), "filters": [] })).await;
    assert!(message.len() < 400, "{} bytes", message.len());
    assert!(message.ends_with('…'), "{message}");
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Words to look for.
    query: String,
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100))]
    limit: u32,
    within: Option<Box<Search>>,
}

fn ten() -> u32 {
    10
}

/// Search.
#[tool]
async fn search(Params(search): Params<Search>) -> String {
    format!("{} {} {}", search.query, search.limit, search.within.is_some())
}

/// Search.
#[tool(validate = true)]
async fn search_checked(Params(search): Params<Search>) -> String {
    format!("{} {} {}", search.query, search.limit, search.within.is_some())
}

#[tokio::test]
async fn params_takes_all_arguments_as_one_struct() {
    let search = tool::<search>();
    assert_eq!(text(&search, json!({ "query": "rust" })).await, "rust 10 false");
    assert_eq!(
        refusal(&search, json!({ "query": "rust", "within": { "query": 1 } })).await,
        "invalid arguments: within.query: invalid type: integer `1`, expected a string"
    );
    assert_eq!(
        refusal(&search, json!({ "query": "rust", "limt": 3 })).await,
        "invalid arguments: limt: unknown field `limt`, expected one of `query`, `limit`, `within`"
    );
    assert_eq!(refusal(&search, json!({})).await, "invalid arguments: missing field `query`");
}

#[test]
fn params_brings_the_schema_of_the_struct_along() {
    let search = schema(&tool::<search>());
    assert_eq!(search["type"], "object");
    assert_eq!(search["additionalProperties"], false);
    assert_eq!(search["required"], json!(["query"]));
    assert_eq!(search["properties"]["query"], json!({ "type": "string", "description": "Words to look for." }));
    assert_eq!(search["properties"]["limit"]["maximum"], 100);
    // A type that holds itself is found under `$defs`, not at the root, whose `properties` may be more than its own.
    assert_eq!(search["properties"]["within"]["anyOf"][0]["$ref"], "#/$defs/Search");
    assert_eq!(search["$defs"]["Search"]["required"], json!(["query"]));
    assert_eq!(search.get("title"), None);
}

#[tokio::test]
async fn validate_reports_every_mistake_and_what_types_do_not_hold() {
    let checked = tool::<search_checked>();
    assert!(checked.is_validated() && !tool::<search>().is_validated());
    assert_eq!(text(&checked, json!({ "query": "rust", "limit": 3 })).await, "rust 3 false");
    assert_eq!(
        refusal(&checked, json!({ "query": 1, "limit": 1000 })).await,
        r#"invalid arguments: query: 1 is not of type "string"; limit: 1000 is greater than the maximum of 100"#
    );
}

/// Who calls, for these tests: any type can be made from the call.
#[derive(Clone)]
struct Who(&'static str);

impl FromCall for Who {
    fn from_call(call: &Call) -> Result<Self, ToolError> {
        call.context.extensions().get::<Self>().cloned().or_tool_error("nobody calls")
    }
}

/// A type that could be an argument as well; made from the call wins.
#[derive(Deserialize, JsonSchema)]
struct Both;

impl FromCall for Both {
    fn from_call(_call: &Call) -> Result<Self, ToolError> {
        Ok(Self)
    }
}

type Caller = Option<String>;

#[tool]
async fn anywhere(
    before: Who,
    a: u8,
    _both: Both,
    Params(all): Params<sluicegate::JsonObject>,
    between: Who,
    b: u8,
    after: Who,
) -> String {
    format!("{} {} {} {a} {b} {}", before.0, between.0, after.0, all.len())
}

/// A type alias is what it stands for, whatever it is called.
#[tool]
async fn alias(caller: Caller, r#type: String) -> String {
    format!("{caller:?} {type}")
}

#[tokio::test]
async fn what_is_made_from_the_call_may_stand_anywhere_and_is_no_property() {
    let tool = tool::<anywhere>();
    assert_eq!(
        schema(&tool)["properties"].as_object().map(|all| all.keys().cloned().collect()),
        Some(vec!["a".to_owned(), "b".to_owned()])
    );
    let mut extensions = http::Extensions::new();
    extensions.insert(Who("me"));
    let arguments = json!({ "a": 1, "b": 2, "c": 3 });
    let context = CallContext::detached_with(extensions);
    let result = call_in(&tool, arguments.clone(), context).await.expect("the call succeeds");
    assert_eq!(sluicegate_macros_tests::text_of(&result), "me me me 1 2 3");

    let error = call_in(&tool, arguments, CallContext::detached()).await.expect_err("nobody calls");
    assert_eq!(error.message(), "nobody calls");
}

#[tokio::test]
async fn parameters_are_recognised_by_trait_and_not_by_name() {
    let tool = tool::<alias>();
    assert_eq!(schema(&tool)["required"], json!(["type"]));
    assert_eq!(text(&tool, json!({ "caller": "me", "type": "t" })).await, r#"Some("me") t"#);
}

#[tool]
async fn nothing() {}

#[test]
fn a_tool_without_arguments_has_the_empty_object_schema() {
    assert_eq!(schema(&tool::<nothing>()), json!({ "type": "object", "properties": {} }));
}

/// Any JSON at all, including what has no `type`.
#[tool]
async fn anything(value: serde_json::Value, map: std::collections::BTreeMap<String, u8>, pair: (u8, bool)) -> String {
    format!("{value} {map:?} {pair:?}")
}

#[tokio::test]
async fn maps_tuples_and_free_form_values_are_arguments_too() {
    let anything = tool::<anything>();
    let arguments = json!({ "value": { "x": [1] }, "map": { "a": 1 }, "pair": [2, true] });
    assert_eq!(text(&anything, arguments).await, r#"{"x":[1]} {"a": 1} (2, true)"#);
    assert_eq!(
        refusal(&anything, json!({ "value": 1, "map": { "a": 256 }, "pair": [2, true] })).await,
        "invalid arguments: map.a: invalid value: integer `256`, expected u8"
    );
    assert_eq!(schema(&anything)["required"], json!(["value", "map", "pair"]));
}
