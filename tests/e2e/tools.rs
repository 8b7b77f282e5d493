//! Tools as callers meet them: results, bad arguments, deadlines, panics, and what they learn of the caller.

use serde_json::json;
use sluicegate_tests::{Database, TestServer, on_both_databases};

on_both_databases! {
    async fn a_tool_past_its_deadline_says_so(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let answer = client.call("endless", json!({})).await;
        assert_eq!(answer.status, 200);
        assert!(answer.error_text().contains("did not finish within 0.15 s"), "{answer:?}");
    }

    async fn a_panic_is_answered_with_a_reference_and_without_its_text(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let answer = client.call("broken", json!({})).await;
        assert_eq!(answer.status, 200);
        let text = answer.error_text();
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains(answer.header("x-request-id").expect("an id")), "{text}");
    }

    async fn arguments_that_do_not_fit_name_their_path(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let wrong = client.call("slow", json!({ "ms": "soon" })).await.error_text();
        assert!(wrong.contains("ms") && wrong.contains("soon"), "{wrong}");
        let missing = client.call("slow", json!({})).await.error_text();
        assert!(missing.contains("ms"), "{missing}");
    }

    async fn a_tool_knows_its_caller(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        assert_eq!(client.call("whoami", json!({})).await.ok_text(), "u-42 of acme with a key");
    }

    async fn a_list_is_private_sorted_and_without_hints_for_old_peers(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let answer = client.request(json!(1), "tools/list", json!({})).await.json();
        let tools = answer["result"]["tools"].as_array().expect("a list");
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
        assert_eq!(names, ["broken", "confirm", "costly", "echo", "endless", "export", "narrate", "settle", "settle_aloud", "slow", "whoami"]);
        assert!(answer["result"].get("cacheScope").is_none(), "{answer}");
        let confirm = &tools[1];
        assert_eq!(confirm["annotations"], json!({ "destructiveHint": true }));
        assert_eq!(confirm["icons"][0]["src"], "https://example.com/bin.svg");
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let modern = client.with_header("MCP-Protocol-Version", "2026-07-28").with_header("Mcp-Method", "tools/list");
        let answer = modern.request(json!(1), "tools/list", json!({ "_meta": meta })).await.json();
        assert_eq!(answer["result"]["cacheScope"], "private");
        assert_eq!(answer["result"]["ttlMs"], 0);
    }
}
