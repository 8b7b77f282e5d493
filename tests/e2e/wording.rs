//! What a refused caller reads: status, fields, code and data, by protocol version, style and client.

use serde_json::{Value, json};
use sluicegate::{CompatibilityEntry, RefusalCode, RefusalStyle};
use sluicegate_tests::{Answer, Client, Database, TestServer, on_both_databases};

/// Uses acme's five exports up.
async fn used_up(server: &TestServer) -> Client {
    let client = server.client("acme", "u-42").await;
    for _ in 0..5 {
        assert!(client.call("export", json!({ "dataset": "sales" })).await.is_ok());
    }
    client
}

async fn refused(client: &Client) -> Answer {
    client.call("export", json!({ "dataset": "sales" })).await
}

/// What every style says.
fn assert_data(data: &Value) {
    for (name, value) in [
        ("reason", json!("rate_limit_exceeded")),
        ("scope", json!("tool")),
        ("tool", json!("export")),
        ("limit", json!("5 requests / 60s")),
        ("current_usage", json!(5)),
        ("remaining", json!(0)),
        ("retry_after_seconds", json!(12)),
        ("retry_after_ms", json!(12_000)),
        ("retryAfterMs", json!(12_000)),
        ("other_tools_may_work", json!(true)),
    ] {
        assert_eq!(data[name], value, "{name} in {data}");
    }
    assert!(data["suggestion"].as_str().expect("a text").contains("wait 12 seconds"), "{data}");
    assert!(data["request_id"].is_string(), "{data}");
}

on_both_databases! {
    async fn status_fields_and_body_tell_the_same(database: Database) {
        let server = TestServer::start(&database).await;
        let client = used_up(&server).await;
        for id in [json!(42), json!("a \"quoted\" id"), json!(-7)] {
            let answer = client.call_as(id.clone(), "export", json!({ "dataset": "sales" })).await;
            assert_eq!(answer.status, 429);
            assert_eq!(answer.json()["id"], id);
            assert_eq!(answer.header("retry-after"), Some("12"));
            assert_eq!(answer.header("ratelimit"), Some("\"tool\";r=0;t=12"));
            assert_eq!(answer.header("cache-control"), Some("no-store"));
            assert_eq!(answer.header("content-type"), Some("application/json"));
            let error = answer.error();
            assert_eq!(error["message"], "Rate limit exceeded for tool 'export': 5 requests / 60s. Retry in 12 s.");
            assert_data(&error["data"]);
            assert_eq!(answer.header("x-request-id"), error["data"]["request_id"].as_str());
        }
    }

    async fn the_code_follows_the_protocol_version(database: Database) {
        let server = TestServer::start(&database).await;
        let client = used_up(&server).await;
        assert_eq!(refused(&client).await.error()["code"], -32029);
        let older = client.clone().with_header("MCP-Protocol-Version", "2025-11-25");
        assert_eq!(refused(&older).await.error()["code"], -32029);
        let modern = client.call_modern("export", json!({ "dataset": "sales" })).await;
        assert_eq!(modern.status, 429);
        assert_eq!(modern.error()["code"], 429);
        assert_data(&modern.error()["data"]);
    }

    async fn a_modern_call_is_served_as_well(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let answer = client.call_modern("export", json!({ "dataset": "sales" })).await;
        assert_eq!(answer.ok_text(), "sales");
        assert_eq!(answer.json()["result"]["resultType"], "complete");
        assert!(answer.header("ratelimit").is_some());
    }

    async fn one_code_can_be_configured(database: Database) {
        let code = RefusalCode::Fixed(-32023);
        let server = TestServer::start_with(&database, |settings| settings.rate_limit_error_code = code).await;
        let client = used_up(&server).await;
        assert_eq!(refused(&client).await.error()["code"], -32023);
        let modern = client.call_modern("export", json!({ "dataset": "sales" })).await;
        assert_eq!(modern.error()["code"], -32023);
    }

    async fn old_python_clients_get_200(database: Database) {
        let server = TestServer::start(&database).await;
        let client = used_up(&server).await.with_header("User-Agent", "python-httpx/0.28.1");
        let answer = refused(&client).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("retry-after"), Some("12"));
        assert_eq!(answer.error()["code"], -32029);
        assert_data(&answer.error()["data"]);
        let modern = client.call_modern("export", json!({ "dataset": "sales" })).await;
        assert_eq!(modern.status, 429, "their newer releases read errors");
    }

    async fn the_compatibility_list_can_be_extended(database: Database) {
        let entry = CompatibilityEntry {
            user_agent: "fragile".to_owned(),
            older_than: None,
            style: RefusalStyle::ToolResult,
        };
        let server = TestServer::start_with(&database, |settings| settings.compatibility = vec![entry]).await;
        let client = used_up(&server).await.with_header("User-Agent", "fragile/1");
        let answer = refused(&client).await;
        assert_eq!(answer.status, 200);
        assert!(answer.error_text().contains("Retry in 12 s"));
    }

    async fn the_style_can_be_json_rpc(database: Database) {
        let server = TestServer::start_with(&database, |settings| settings.refusal_style = RefusalStyle::Jsonrpc).await;
        let client = used_up(&server).await;
        let answer = refused(&client).await;
        assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (200, Some("12")));
        assert_data(&answer.error()["data"]);
    }

    async fn the_style_can_be_a_tool_result(database: Database) {
        let style = RefusalStyle::ToolResult;
        let server = TestServer::start_with(&database, |settings| settings.refusal_style = style).await;
        let client = used_up(&server).await;
        let answer = refused(&client).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.error_text(), "Rate limit exceeded for tool 'export': 5 requests / 60s. Retry in 12 s.");
        assert_data(&answer.json()["result"]["_meta"]["sluicegate/refusal"]);
        assert!(answer.json()["result"].get("structuredContent").is_none());
    }

    async fn a_tenant_can_have_a_style_of_its_own(database: Database) {
        let server = TestServer::start(&database).await;
        let client = used_up(&server).await;
        let settings = sluicegate::control::TenantSettings {
            refusal_style: Some(RefusalStyle::Jsonrpc),
            ..Default::default()
        };
        let actor = sluicegate_tests::server::actor();
        server.control().tenants().set_settings(&actor, &"acme".into(), settings).await.expect("set");
        server.caught_up().await;
        assert_eq!(refused(&client).await.status, 200);
    }

    async fn without_a_readable_id_a_refusal_is_never_200(database: Database) {
        let server = TestServer::start_with(&database, |settings| {
            settings.refusal_style = RefusalStyle::Jsonrpc;
            settings.requests_per_agent = "1/min".to_owned();
        }).await;
        let client = server.client("acme", "u-42").await;
        for body in ["[]", "nonsense", r#"{"id":1.5,"method":"ping"}"#] {
            let _ = client.send(body).await;
            let answer = client.send(body).await;
            assert_eq!(answer.status, 429, "{body}");
            assert!(answer.json().get("id").is_none(), "{body}: the schema knows no null id");
        }
    }

    async fn an_oversized_body_is_refused_with_json(database: Database) {
        let server = TestServer::start_with(&database, |settings| settings.max_body_bytes = 1_000).await;
        let client = server.client("acme", "u-42").await;
        let answer = client.call("echo", json!({ "text": "x".repeat(2_000) })).await;
        assert_eq!(answer.status, 413);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.error()["data"]["reason"], "body_too_large");
        let chunks = futures::stream::iter((0..20).map(|_| Ok::<_, std::io::Error>("x".repeat(100))));
        let answer = client.send(reqwest::Body::wrap_stream(chunks)).await;
        assert_eq!(answer.status, 413, "also when nobody announced the length");
    }
}
