//! Sessions of older clients: each belongs to the agent that opened it.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use sluicegate::{SessionMode, Settings};
use sluicegate_tests::{Answer, Client, Database, TestServer, on_both_databases};

async fn server(database: &Database, change: impl FnOnce(&mut Settings)) -> TestServer {
    TestServer::start_with(database, |settings| {
        settings.sessions = SessionMode::Memory;
        change(settings);
    })
    .await
}

async fn hello(client: &Client) -> Answer {
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "test", "version": "1" },
    });
    client.request(json!(0), "initialize", hello).await
}

/// Opens a session; the client names it from then on.
async fn open(client: &Client) -> Client {
    let hello = hello(client).await;
    let id = hello.header("mcp-session-id").unwrap_or_else(|| panic!("no session in {hello:?}")).to_owned();
    let client = client.clone().with_header("Mcp-Session-Id", &id);
    let ready = client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()).await;
    assert_eq!(ready.status, StatusCode::ACCEPTED);
    client
}

async fn echo(client: &Client) -> Answer {
    client.call("echo", json!({ "text": "hello" })).await
}

on_both_databases! {
    async fn a_session_exists_for_its_owner_alone(database: Database) {
        let server = server(&database, |_| {}).await;
        let owner = open(&server.client("acme", "u-42").await).await;
        assert!(echo(&owner).await.text.contains("hello"));
        let nowhere = server.client("acme", "u-42").await.with_header("Mcp-Session-Id", "no-such-session");
        let unknown = echo(&nowhere).await;
        for (tenant, agent) in [("acme", "u-43"), ("globex", "u-42")] {
            let stranger = owner.clone().with_key(server.client(tenant, agent).await.key());
            let answer = echo(&stranger).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND);
            assert_eq!((answer.status, answer.text), (unknown.status, unknown.text.clone()));
        }
        // Another key of the same agent is the same agent.
        let same = owner.clone().with_key(server.client("acme", "u-42").await.key());
        assert!(echo(&same).await.text.contains("hello"));
    }

    async fn a_tenant_has_only_so_many_sessions(database: Database) {
        let server = server(&database, |settings| settings.sessions_per_tenant = 2).await;
        let client = server.client("acme", "u-42").await;
        open(&client).await;
        open(&server.client("acme", "u-43").await).await;
        let refused = hello(&client).await;
        assert_eq!(refused.status, 429);
        assert_eq!(refused.error()["data"]["reason"], "too_many_sessions");
        assert!(refused.header("retry-after").is_some());
        open(&server.client("globex", "u-42").await).await;
    }

    async fn a_session_that_nobody_uses_ends(database: Database) {
        let server = server(&database, |settings| settings.session_idle = "200ms".parse().expect("a span")).await;
        let client = open(&server.client("acme", "u-42").await).await;
        assert!(echo(&client).await.text.contains("hello"));
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(echo(&client).await.status, StatusCode::NOT_FOUND);
    }

    async fn limits_hold_in_sessions_too(database: Database) {
        let server = server(&database, |_| {}).await;
        let client = open(&server.client("acme", "u-42").await).await;
        for _ in 0..5 {
            assert_eq!(client.call("export", json!({ "dataset": "x" })).await.status, 200);
        }
        let other = open(&server.client("acme", "u-42").await).await;
        assert_eq!(other.call("export", json!({ "dataset": "x" })).await.status, 429, "a new session is no new bucket");
    }

    async fn a_person_is_asked_while_the_call_runs(database: Database) {
        let server = server(&database, |_| {}).await;
        let client = open(&server.client("acme", "u-42").await).await;
        let body = Client::call_body(sluicegate_tests::Era::Legacy, "confirm", json!({ "dataset": "sales" }), json!({}));
        let mut asked = client.post(body).send().await.expect("an answer");
        let question = event(&mut asked).await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let content = json!({ "action": "accept", "content": { "really": true } });
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": content });
        assert_eq!(client.send(answer.to_string()).await.status, StatusCode::ACCEPTED);
        assert_eq!(event(&mut asked).await["result"]["content"][0]["text"], "sales is deleted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_makes_room_for_another() {
    let server = server(&Database::sqlite().await, |settings| {
        settings.sessions_per_tenant = 1;
        settings.session_idle = "300ms".parse().expect("a span");
    })
    .await;
    let client = server.client("acme", "u-42").await;
    let first = open(&client).await;
    assert_eq!(hello(&client).await.status, 429);
    let ended = first.send_as(http::Method::DELETE).await;
    assert!(ended.status.is_success(), "{ended:?}");
    open(&client).await;
    assert_eq!(hello(&client).await.status, 429);
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if hello(&client).await.status == 200 {
            return;
        }
    }
    panic!("the idle session still counts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_loses_the_connection_gets_the_rest_by_the_id_of_the_last_event() {
    let server = server(&Database::sqlite().await, |_| {}).await;
    let client = open(&server.client("acme", "u-42").await).await;
    let meta = json!({ "_meta": { "progressToken": "p" } });
    let body = Client::call_body(sluicegate_tests::Era::Legacy, "narrate", json!({ "ms": 400 }), meta);
    let mut call = client.post(body).send().await.expect("an answer");
    let mut seen = String::new();
    while !seen.contains("notifications/progress") {
        seen += &String::from_utf8_lossy(&call.chunk().await.expect("the stream goes on").expect("an event"));
    }
    let id = seen.lines().filter_map(|line| line.strip_prefix("id:")).next_back().expect("events have ids").trim();
    drop(call);

    let stranger = client.clone().with_key(server.client("globex", "u-42").await.key());
    let resumed = |client: &Client| client.clone().with_header("Last-Event-ID", id);
    assert_eq!(resumed(&stranger).send_as(http::Method::GET).await.status, StatusCode::NOT_FOUND);
    let mut rest = resumed(&client).open_stream().await;
    let mut text = String::new();
    let told = async {
        while !text.contains("told") {
            text += &String::from_utf8_lossy(&rest.chunk().await.expect("the stream goes on").expect("an event"));
        }
    };
    tokio::time::timeout(Duration::from_secs(5), told).await.expect("the result comes");
    assert_eq!(server.ran.sleeping(), 0, "the call was not cancelled: it has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_server_goes_streams_of_sessions_end_and_running_calls_are_answered() {
    let server = server(&Database::sqlite().await, |_| {}).await;
    let client = open(&server.client("acme", "u-42").await).await;
    let mut listening = client.open_stream().await;
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call("slow", json!({ "ms": 400 })).await }
    });
    while server.ran.sleeping() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stopping = tokio::spawn(server.stop());
    let ended = async { while let Ok(Some(_)) = listening.chunk().await {} };
    tokio::time::timeout(Duration::from_secs(2), ended).await.expect("the stream ends");
    assert!(call.await.expect("it ran").text.contains("slept"), "what runs is answered");
    tokio::time::timeout(Duration::from_secs(5), stopping).await.expect("sessions do not keep it").expect("stopped");
}

/// The next message of an event stream.
async fn event(stream: &mut reqwest::Response) -> Value {
    loop {
        let piece = stream.chunk().await.expect("the stream goes on").expect("another event");
        let text = String::from_utf8(piece.to_vec()).expect("text");
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        if let Some(message) = data.filter_map(|data| serde_json::from_str(data.trim()).ok()).next() {
            return message;
        }
    }
}
