//! Streams of changes: few for each caller, no calls' permits, and an end when their caller may no longer call.

use std::time::{Duration, Instant};

use http::StatusCode;
use rmcp::ServerHandler;
use rmcp::model::{ServerCapabilities, ServerConfig, SubscriptionFilter};
use serde_json::{Value, json};
use sluicegate::{SessionMode, Settings};
use sluicegate_tests::server::actor;
use sluicegate_tests::{Client, Database, TestServer, on_both_databases};

/// Whoever subscribes to its lists is kept.
struct Library;

impl ServerHandler for Library {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_resources().enable_resources_list_changed().build())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }
}

async fn server(database: &Database, change: impl FnOnce(&mut Settings)) -> TestServer {
    TestServer::start_as(
        database,
        |server| server.rmcp(Library),
        |settings| {
            settings.agent_concurrency = 1;
            change(settings);
        },
    )
    .await
}

async fn listen(client: &Client) -> reqwest::Response {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "notifications": { "resourcesListChanged": true }, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": "listen-1", "method": "subscriptions/listen", "params": params });
    let client = client.clone().with_header("MCP-Protocol-Version", "2026-07-28");
    let client = client.with_header("Mcp-Method", "subscriptions/listen");
    client.post(body.to_string()).send().await.expect("an answer")
}

/// What still comes on a stream until it ends, and how long that took.
async fn rest(mut stream: reqwest::Response) -> (String, Duration) {
    let (start, mut text) = (Instant::now(), String::new());
    let read = async {
        while let Some(piece) = stream.chunk().await.expect("a stream ends in order") {
            text.push_str(std::str::from_utf8(&piece).expect("text"));
        }
    };
    tokio::time::timeout(Duration::from_secs(5), read).await.expect("it ends");
    (text, start.elapsed())
}

async fn is_open(stream: &mut reqwest::Response) -> bool {
    stream.status() == StatusCode::OK && stream.chunk().await.expect("a stream").is_some()
}

on_both_databases! {
    async fn an_agent_has_only_so_many_streams_and_its_calls_go_on(database: Database) {
        let server = server(&database, |settings| settings.streams_per_tenant = 10).await;
        let client = server.client("acme", "u-42").await;
        let mut open = Vec::new();
        for _ in 0..8 {
            let mut stream = listen(&client).await;
            assert!(is_open(&mut stream).await);
            open.push(stream);
        }
        let refused = listen(&client).await;
        assert_eq!(refused.status(), 429);
        assert!(refused.headers().contains_key("retry-after"));
        let refused: Value = refused.json().await.expect("JSON");
        assert_eq!((&refused["id"], &refused["error"]["data"]["reason"]), (&json!("listen-1"), &json!("too_many_streams")));
        assert!(client.call("echo", json!({ "text": "x" })).await.is_ok(), "streams hold no permit of calls");
        let other = server.client("acme", "u-43").await;
        let (mut ninth, mut tenth) = (listen(&other).await, listen(&other).await);
        assert!(is_open(&mut ninth).await && is_open(&mut tenth).await);
        assert_eq!(listen(&other).await.status(), 429, "the tenant has ten");
        assert!(is_open(&mut listen(&server.client("globex", "u-42").await).await).await);
        open.pop();
        server.metrics_until(|metrics| metrics.sum("sluicegate_streams", &[]) == 9.0).await;
        assert!(is_open(&mut listen(&client).await).await, "whoever hangs up makes room");
    }

    async fn a_stream_ends_within_a_second_of_revocation_and_suspension(database: Database) {
        let server = server(&database, |_| {}).await;
        let (client, key) = server.client_with("acme", "u-42", sluicegate::control::KeyScopes::all()).await;
        let other = server.client("acme", "u-43").await;
        let (mut revoked, mut suspended) = (listen(&client).await, listen(&other).await);
        assert!(is_open(&mut revoked).await && is_open(&mut suspended).await);
        server.control().keys().revoke(&actor(), key).await.expect("revoked");
        let (text, took) = rest(revoked).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert!(text.contains("listen-1") && text.contains("result"), "it takes its leave: {text}");
        server.metrics_until(|metrics| metrics.sum("sluicegate_streams", &[]) == 1.0).await;
        server.control().tenants().suspend(&actor(), &"acme".into()).await.expect("suspended");
        let (_, took) = rest(suspended).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
    }

    async fn streams_of_older_clients_end_too_and_hold_no_permit(database: Database) {
        let server = server(&database, |settings| settings.sessions = SessionMode::Memory).await;
        let (client, key) = server.client_with("acme", "u-42", sluicegate::control::KeyScopes::all()).await;
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let hello = client.request(json!(0), "initialize", hello).await;
        let session = hello.header("mcp-session-id").expect("a session").to_owned();
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let stream = || async {
            let get = http.get(server.endpoint()).bearer_auth(client.key()).header("mcp-session-id", &session);
            get.header("accept", "text/event-stream").send().await.expect("an answer")
        };
        let open = stream().await;
        assert_eq!(open.status(), 200);
        let in_session = client.clone().with_header("Mcp-Session-Id", &session);
        assert!(in_session.call("echo", json!({ "text": "x" })).await.text.contains('x'));
        server.control().keys().revoke(&actor(), key).await.expect("revoked");
        let (_, took) = rest(open).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
    }

    async fn streams_take_their_leave_when_the_server_goes(database: Database) {
        let server = server(&database, |_| {}).await;
        let mut stream = listen(&server.client("acme", "u-42").await).await;
        assert!(is_open(&mut stream).await);
        let start = Instant::now();
        let ((text, _), ()) = tokio::join!(rest(stream), server.stop());
        assert!(text.contains("listen-1") && text.contains("result"), "{text}");
        assert!(start.elapsed() < Duration::from_secs(3), "the drain does not wait for streams");
    }
}
