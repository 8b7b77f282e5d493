//! Existing rmcp handlers behind the gate: limits by name, nothing hidden shown, all the rest passed on.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, ListPromptsResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt,
    PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    Role, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use sluicegate::control::{KeyScopes, Target};
use sluicegate::{CallContext, Caller};
use sluicegate_tests::{Answer, Client, Database, TestServer, on_both_databases};

#[path = "../../server/examples/rmcp_wrap/main.rs"]
#[expect(dead_code, unreachable_pub, reason = "the example is a program of its own")]
mod rmcp_wrap;

/// A handler with tools on two pages, resources and prompts, and a resource that panics.
struct Library;

fn tool(name: &'static str) -> Tool {
    let schema = json!({ "type": "object", "properties": { "title": { "type": "string" } } });
    Tool::new(name, "A tool of the library.", schema.as_object().cloned().unwrap_or_default())
}

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

impl ServerHandler for Library {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
        ServerConfig::new(capabilities).with_instructions("Be quiet.")
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        match page.and_then(|page| page.cursor).as_deref() {
            None => {
                let mut first = ListToolsResult::with_all_items(vec![tool("lend"), tool("doze")]);
                first.next_cursor = Some("second".to_owned());
                Ok(first)
            }
            Some(_) => {
                let renew = tool("renew").annotate(ToolAnnotations::new().idempotent(true));
                Ok(ListToolsResult::with_all_items(vec![tool("burn"), tool("collapse"), tool("audit"), renew]))
            }
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match &*request.name {
            "lend" => {
                let call = context.extensions.get::<CallContext>().expect("the gate's context");
                let caller = call.extensions().get::<Caller>().expect("the caller");
                Ok(text(format!("lent to {}", caller.agent())).into())
            }
            "renew" => {
                let call = context.extensions.get::<CallContext>().expect("the gate's context");
                Ok(text(format!("renewed by {}", call.request_id())).into())
            }
            "doze" => {
                tokio::time::sleep(Duration::from_mins(10)).await;
                Ok(text("awake").into())
            }
            "audit" => Err(ErrorData::invalid_params("no such ledger", None)),
            "collapse" => panic!("the roof"),
            name => Ok(text(name).into()),
        }
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("book://moby-dick", "Moby-Dick")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        assert_ne!(request.uri, "book://necronomicon", "not to be opened");
        Ok(ReadResourceResult::new(vec![ResourceContents::text("Call me Ishmael.", request.uri)]).into())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new("recommend", Some("Recommend a book."), None)]))
    }

    async fn get_prompt(
        &self,
        _request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, "Recommend a book.")]).into())
    }
}

async fn library(database: &Database) -> TestServer {
    TestServer::start_as(database, |server| server.rmcp(Library), |_| {}).await
}

async fn ask(client: &Client, method: &str, params: Value) -> Answer {
    client.request(json!(1), method, params).await
}

fn names(answer: &Answer) -> Vec<String> {
    let tools = answer.json()["result"]["tools"].as_array().cloned().expect("a list");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

on_both_databases! {
    async fn the_stock_server_of_the_example_obeys_limits_that_are_set(database: Database) {
        let server = TestServer::start_as(&database, |server| server.rmcp(rmcp_wrap::Greeter), |_| {}).await;
        let client = server.client("acme", "u-42").await;
        let greet = async || client.call("greet", json!({ "name": "Ada" })).await;
        assert_eq!(greet().await.ok_text(), "Hello, Ada!");
        server.set_rate(Target::Tool { tool: "greet".to_owned() }, "2/min").await;
        assert!(greet().await.is_ok());
        let refused = greet().await;
        assert_eq!(refused.status, 429);
        assert_eq!(refused.error()["data"]["scope"], "tool");
        assert_eq!(refused.error()["data"]["limit"], "2 requests / 60s");
        assert_eq!(client.call("see_off", json!({ "name": "Ada" })).await.ok_text(), "Good night, Ada.");
    }

    async fn tools_of_both_kinds_are_listed_as_one(database: Database) {
        let server = library(&database).await;
        let client = server.client("acme", "u-42").await;
        let listed = names(&ask(&client, "tools/list", json!({})).await);
        assert!(listed.is_sorted(), "{listed:?}");
        for name in ["audit", "burn", "collapse", "doze", "echo", "export", "lend"] {
            assert!(listed.iter().any(|listed| listed == name), "{name} is missing in {listed:?}");
        }
        assert_eq!(client.call("lend", json!({})).await.ok_text(), "lent to u-42");
        assert_eq!(client.call("echo", json!({ "text": "x" })).await.ok_text(), "x");
    }

    async fn a_hidden_tool_of_a_handler_is_neither_listed_nor_told_from_one_that_does_not_exist(database: Database) {
        let server = library(&database).await;
        let scopes = KeyScopes::new(vec!["lend".parse().expect("a pattern")]).expect("scopes");
        let (client, _) = server.client_with("acme", "u-42", scopes).await;
        assert_eq!(names(&ask(&client, "tools/list", json!({})).await), ["lend"]);
        let (hidden, unknown) = (client.call("burn", json!({})).await, client.call("nothing", json!({})).await);
        assert_eq!((hidden.status, hidden.error()), (unknown.status, unknown.error()));
        assert!(client.call("lend", json!({})).await.is_ok());
    }

    async fn resources_and_prompts_pass_through_with_the_handlers_own_words(database: Database) {
        let server = library(&database).await;
        let client = server.client("acme", "u-42").await;
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let hello = ask(&client, "initialize", hello).await.json();
        assert_eq!(hello["result"]["instructions"], "Be quiet.");
        assert_eq!(hello["result"]["serverInfo"]["name"], "test", "a handler without a name gets the server's");
        for capability in ["tools", "resources", "prompts"] {
            assert!(hello["result"]["capabilities"][capability].is_object(), "{hello}");
        }
        let resources = ask(&client, "resources/list", json!({})).await.json();
        assert_eq!(resources["result"]["resources"][0]["uri"], "book://moby-dick");
        let book = ask(&client, "resources/read", json!({ "uri": "book://moby-dick" })).await.json();
        assert_eq!(book["result"]["contents"][0]["text"], "Call me Ishmael.");
        let prompt = ask(&client, "prompts/get", json!({ "name": "recommend" })).await.json();
        assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Recommend a book.");
    }

    async fn a_handler_that_panics_answers_at_once(database: Database) {
        let server = library(&database).await;
        let client = server.client("acme", "u-42").await;
        let broken = ask(&client, "resources/read", json!({ "uri": "book://necronomicon" }));
        let broken = tokio::time::timeout(Duration::from_secs(5), broken).await.expect("it does not hang");
        let message = broken.error()["message"].as_str().expect("a message").to_owned();
        assert!(message.contains(broken.header("x-request-id").expect("an id")), "{message}");
        assert!(!message.contains("opened"), "{message}");
        let collapsed = client.call("collapse", json!({})).await.error_text();
        assert!(!collapsed.contains("roof"), "{collapsed}");
        assert_eq!(client.call("audit", json!({})).await.error()["message"], "no such ledger");
    }

    async fn a_handlers_tool_has_a_deadline_and_gives_its_permit_back(database: Database) {
        let short = |settings: &mut sluicegate::Settings| {
            settings.call_timeout = "200ms".parse().expect("a span");
            settings.agent_concurrency = 1;
        };
        let server = TestServer::start_as(&database, |server| server.rmcp(Library), short).await;
        let client = server.client("acme", "u-42").await;
        for _ in 0..2 {
            let text = client.call("doze", json!({})).await.error_text();
            assert!(text.contains("did not finish within 0.2 s"), "{text}");
        }
    }

    async fn an_idempotent_tool_of_a_handler_runs_once_for_a_key(database: Database) {
        let server = library(&database).await;
        let client = server.client("acme", "u-42").await;
        let renew = async |key: &str| {
            let params = json!({ "name": "renew", "_meta": { "sluicegate/idempotencyKey": key } });
            ask(&client, "tools/call", params).await.ok_text()
        };
        let first = renew("k").await;
        assert_eq!(renew("k").await, first);
        assert_ne!(renew("another").await, first);
    }

    async fn a_handlers_tools_are_known_to_the_command_line(database: Database) {
        let server = library(&database).await;
        let client = server.client("acme", "u-42").await;
        let explained = server.explain("acme", "u-42", "lend").await;
        assert!(explained.to_string().contains("60/min"), "{explained}");
        assert!(client.call("lend", json!({})).await.is_ok());
    }
}
