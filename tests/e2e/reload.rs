//! Changes while the server runs: obeyed within a second, never a free burst, explained.

use serde_json::json;
use sluicegate::control::{LimitKindName, NewLimit, Target};
use sluicegate_tests::server::actor;
use sluicegate_tests::{Database, TestServer, with_both_engines};

with_both_engines! {
    async fn an_override_is_explained_with_its_author_and_what_it_shadows(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        assert!(client.call("export", json!({ "dataset": "x" })).await.is_ok());
        let tenant = server.control().tenants().get(&actor(), &"acme".into()).await.expect("acme").id;
        let entry = server.set_rate(Target::TenantTool { tenant, tool: "export".to_owned() }, "50/min").await;
        let explained = server.explain("acme", "u-42", "export").await;
        let limits = explained["limits"].as_array().expect("a list");
        let tool = limits.iter().find(|limit| limit["scope"] == "tool" && limit["kind"] == "rate").expect("a tool limit");
        assert_eq!(tool["text"], "50/min");
        assert_eq!(tool["worst_case"], "up to 100 in any 60s");
        assert_eq!(tool["source"]["from"], "override");
        assert_eq!(tool["source"]["id"], entry.id.to_string());
        assert_eq!(tool["source"]["author"], "system:test");
        assert_eq!(tool["shadows"][0]["text"], "5/min");
        assert_eq!(tool["shadows"][0]["source"]["from"], "declared");
        assert_eq!(tool["usage"]["used"], 1);
        assert_eq!(tool["usage"]["remaining"], 49);
    }

    async fn the_most_specific_override_holds_and_taking_it_away_uncovers_the_next(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let agent = server.control().agents().get(&actor(), &"acme".into(), &"u-42".into()).await.expect("u-42");
        let (tenant, agent, tool) = (agent.tenant_id, agent.id, "export".to_owned());
        let of_agent = Target::AgentTool { tenant, agent, tool: tool.clone() };
        server.set_rate(Target::Tool { tool: tool.clone() }, "1/min").await;
        server.set_rate(Target::TenantTool { tenant, tool }, "2/min").await;
        server.set_rate(of_agent.clone(), "3/min").await;
        let limit = async |left: &str| {
            let answer = client.call("export", json!({ "dataset": "x" })).await;
            assert!(answer.header("ratelimit-policy").expect("a policy").contains(left), "{answer:?}");
        };
        limit("\"tool\";q=3").await;
        server.control().limits().unset(&actor(), &of_agent, LimitKindName::Rate).await.expect("taken away");
        server.caught_up().await;
        limit("\"tool\";q=2").await;
    }

    async fn a_temporary_limit_ends_by_itself(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let now = sluicegate::control::WallClock::from(server.wall.clone()).now_ms();
        let tool = Target::Tool { tool: "export".to_owned() };
        let new = NewLimit { expires_at: Some(now + 50), ..NewLimit::rate(tool, "100/min") };
        server.control().limits().set(&actor(), &new).await.expect("set");
        server.caught_up().await;
        let policy = async || client.call("whoami", json!({})).await.status;
        assert_eq!(policy().await, 200);
        let explained = server.explain("acme", "u-42", "export").await;
        assert!(explained.to_string().contains("100/min"), "{explained}");
        server.wall.advance(std::time::Duration::from_millis(50));
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(1);
        while server.explain("acme", "u-42", "export").await.to_string().contains("100/min") {
            assert!(tokio::time::Instant::now() < deadline, "the temporary limit goes on");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    async fn a_wrong_limit_is_refused_with_the_parsers_words(database: Database) {
        let server = TestServer::start(&database).await;
        let refused = server.control().limits().set(&actor(), &NewLimit::rate(Target::Server, "100/mn")).await;
        let parser = "100/mn".parse::<sluicegate::limits::Quota>().expect_err("no limit");
        assert_eq!(refused.expect_err("no limit").to_string(), parser.to_string());
    }
}
