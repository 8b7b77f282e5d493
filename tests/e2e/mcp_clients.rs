//! A real MCP client, rmcp's, over HTTP in both eras and over stdio.

use std::process::Stdio;

use rmcp::model::{CallToolRequestParams, CallToolResult, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientServiceExt as _, RoleClient};
use serde_json::{Value, json};
use sluicegate::control::{Control, KeyScopes};
use sluicegate_tests::{Database, TestServer, on_both_databases, server};

type McpClient = RunningService<RoleClient, ()>;

fn legacy() -> ClientLifecycleMode {
    ClientLifecycleMode::Initialize
}

fn modern() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

async fn over_http(server: &TestServer, era: ClientLifecycleMode) -> McpClient {
    let key = server.client("acme", "u-42").await.key().to_owned();
    let config = StreamableHttpClientTransportConfig::with_uri(server.endpoint()).auth_header(key);
    ().serve_with_lifecycle(StreamableHttpClientTransport::from_config(config), era).await.expect("it connects")
}

/// A server as a child process with a key in its environment.
async fn over_stdio(database: &Database, era: ClientLifecycleMode) -> McpClient {
    let control = Control::connect(&database.url(), Default::default()).await.expect("the database opens");
    control.migrate().await.expect("the database is migrated");
    let (key, _) = server::mint(&control, "acme", "u-42", KeyScopes::all()).await.expect("the key is made");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["--database-url", &database.url(), "serve", "--stdio", "--data"]).arg(database.folder());
    command.env("SLUICEGATE_API_KEY", key).stderr(Stdio::inherit());
    ().serve_with_lifecycle(TokioChildProcess::new(command).expect("it starts"), era).await.expect("it connects")
}

async fn export(client: &McpClient) -> Result<CallToolResult, ServiceError> {
    let arguments = json!({ "dataset": "sales" }).as_object().cloned().unwrap_or_default();
    client.call_tool(CallToolRequestParams::new("export").with_arguments(arguments)).await
}

/// Lists, calls until refused, and goes on with another tool. Gives the refusal.
async fn walk(client: &McpClient) -> ServiceError {
    let tools = client.list_all_tools().await.expect("the tools are listed");
    assert!(tools.iter().any(|tool| tool.name == "export"));
    for _ in 0..5 {
        let result = export(client).await.expect("a result");
        assert_ne!(result.is_error, Some(true));
    }
    let refusal = export(client).await.expect_err("the sixth is refused");
    let arguments = json!({ "text": "hello" }).as_object().cloned().unwrap_or_default();
    let echo = client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await;
    assert_ne!(echo.expect("another tool works").is_error, Some(true));
    refusal
}

/// An idempotent tool, called twice with one key and once with another.
async fn settle(client: &McpClient) -> Vec<String> {
    let mut texts = Vec::new();
    for key in ["k", "k", "other"] {
        let params = json!({
            "name": "settle", "arguments": { "invoice": "7" }, "_meta": { "sluicegate/idempotencyKey": key },
        });
        let params = serde_json::from_value::<CallToolRequestParams>(params).expect("a call");
        let result = client.call_tool(params).await.expect("a result");
        texts.push(result.content[0].as_text().expect("a text").text.clone());
    }
    texts
}

const SETTLED: [&str; 3] = ["7 by run 1", "7 by run 1", "7 by run 2"];

fn data(refusal: &ServiceError) -> (i32, Value) {
    let ServiceError::McpError(error) = refusal else { panic!("{refusal:?} carries no error") };
    (error.code.0, error.data.clone().expect("data"))
}

on_both_databases! {
    async fn a_legacy_client_over_http(database: Database) {
        let server = TestServer::start(&database).await;
        let client = over_http(&server, legacy()).await;
        let refusal = walk(&client).await;
        assert!(format!("{refusal:?}").contains("429"), "{refusal:?}");
        server.advance(std::time::Duration::from_secs(12));
        assert!(export(&client).await.is_ok(), "after the wait it works again");
    }

    async fn a_modern_client_over_http(database: Database) {
        let server = TestServer::start(&database).await;
        let client = over_http(&server, modern()).await;
        let refusal = walk(&client).await;
        assert!(format!("{refusal:?}").contains("429"), "{refusal:?}");
        server.advance(std::time::Duration::from_secs(12));
        assert!(export(&client).await.is_ok(), "after the wait it works again");
    }

    async fn a_legacy_client_over_stdio(database: Database) {
        let client = over_stdio(&database, legacy()).await;
        let (code, data) = data(&walk(&client).await);
        assert_eq!(code, -32029);
        for (name, value) in [("scope", json!("tool")), ("limit", json!("5 requests / 60s")), ("current_usage", json!(5))] {
            assert_eq!(data[name], value, "{data}");
        }
        assert!(data["retry_after_seconds"].as_u64() >= Some(1));
        assert_eq!(settle(&client).await, SETTLED);
        client.cancel().await.expect("the client ends");
    }

    async fn a_modern_client_over_stdio(database: Database) {
        let client = over_stdio(&database, modern()).await;
        let (code, data) = data(&walk(&client).await);
        assert_eq!(code, 429);
        assert_eq!(data["scope"], "tool");
        assert_eq!(settle(&client).await, SETTLED);
        client.cancel().await.expect("the client ends");
    }
}
