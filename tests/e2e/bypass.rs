//! No way around the gate: whatever the gate and the protocol engine read differently never reaches a tool un-admitted.

use serde_json::json;
use sluicegate_tests::{Database, TestServer, on_both_databases};

on_both_databases! {
    async fn ambiguous_messages_never_reach_a_tool(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let call = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let export = r#"{"name":"export","arguments":{"dataset":"x"}}"#;
        for body in [
            call(r#"{"name":"echo","name":"export","arguments":{"dataset":"x"}}"#),
            call(r#"{"name":"export","name":"echo","arguments":{"dataset":"x"}}"#),
            call(r#"["export",{"dataset":"x"}]"#),
            call(r#"{"name":["export"],"arguments":{"dataset":"x"}}"#),
            call(r#"{"arguments":{"dataset":"x"}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{export}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{export}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{export}}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{export}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{export}}}"#),
            format!(r#"[{}]"#, call(export)),
            format!(r#"["2.0",1,"tools/call",{export}]"#),
            format!("\u{feff}{}", call(export)),
            format!("{}{}", call(export), call(export)),
            call(r#"{"name":"export ","arguments":{"dataset":"x"}}"#),
            call(r#"{"name":"EXPORT","arguments":{"dataset":"x"}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"METHOD":"tools/call","params":{export}}}"#),
        ] {
            let answer = client.send(body.clone()).await;
            assert!(!answer.text.contains(r#""isError":false"#), "{body} was served: {answer:?}");
        }
        assert_eq!(server.ran.exports(), 0);
    }

    async fn headers_that_contradict_the_body_reach_no_tool(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        for (name, value) in [("Mcp-Name", "echo"), ("Mcp-Method", "tools/list"), ("MCP-Protocol-Version", "2025-06-18")] {
            let answer = client.clone().with_header(name, value).call_modern("export", json!({ "dataset": "x" })).await;
            assert_eq!(answer.status, 400, "{name}: {answer:?}");
        }
        assert_eq!(server.ran.exports(), 0);
    }

    async fn an_escaped_name_is_admitted_as_the_tool_it_names(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\u0065xport","arguments":{"dataset":"x"}}}"#;
        for _ in 0..5 {
            assert!(client.send(body).await.is_ok());
        }
        assert_eq!(client.send(body).await.status, 429);
        assert_eq!(client.call("export", json!({ "dataset": "x" })).await.status, 429, "it is the same limit");
    }

    async fn names_and_pages_that_are_not_ours_are_kept_out(database: Database) {
        let server = TestServer::start_with(&database, |settings| {
            settings.allowed_origins = "https://app.example".to_owned();
        }).await;
        let client = server.client("acme", "u-42").await;
        let foreign_host = client.clone().with_header("Host", "evil.example").call("echo", json!({ "text": "x" })).await;
        assert_eq!(foreign_host.status, 403);
        let foreign_page = client.clone().with_header("Origin", "https://evil.example");
        assert_eq!(foreign_page.call("echo", json!({ "text": "x" })).await.status, 403);
        let own_page = client.with_header("Origin", "https://app.example");
        assert_eq!(own_page.call("echo", json!({ "text": "x" })).await.status, 200);
    }

    async fn what_is_malformed_gets_the_engines_own_answer(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        assert_eq!(client.send("nonsense").await.status, 415);
        assert_eq!(client.send("[]").await.status, 415);
        let unknown = client.with_header("MCP-Protocol-Version", "1999-01-01").call("echo", json!({ "text": "x" })).await;
        assert_eq!(unknown.status, 400);
    }
}
