//! Limits in observe mode: what they would refuse is counted and shown, and nobody is refused.

use serde_json::{Value, json};
use sluicegate::control::{LimitKindName, LimitValue, NewLimit, Target};
use sluicegate::limits::Mode;
use sluicegate_tests::server::actor;
use sluicegate_tests::{Answer, Client, Database, Exposition, TestServer, with_both_engines};

async fn export(client: &Client) -> Answer {
    client.call("export", json!({ "dataset": "sales" })).await
}

async fn observe(server: &TestServer, target: Target, value: LimitValue) {
    let new = NewLimit { value, mode: Mode::Observe, ..NewLimit::rate(target, "") };
    server.control().limits().set(&actor(), &new).await.expect("the limit is set");
    server.caught_up().await;
}

fn rate(quotas: &str) -> LimitValue {
    LimitValue::Rate { quotas: quotas.to_owned(), burst: None, algorithm: None, per: None }
}

async fn tool_of(server: &TestServer, tenant: &str, tool: &str) -> Target {
    let tenant = server.control().tenants().get(&actor(), &tenant.into()).await.expect("the tenant").id;
    Target::TenantTool { tenant, tool: tool.to_owned() }
}

/// The rates of one scope, as `explain` has them.
async fn explained(server: &TestServer, scope: &str) -> Vec<Value> {
    let explanation = server.explain("acme", "u-42", "export").await;
    let limits = explanation["limits"].as_array().expect("a list").iter();
    limits.filter(|limit| limit["scope"] == scope && limit["kind"] == "rate").cloned().collect()
}

/// Waits until so many calls with these labels would have been refused.
async fn would_throttle(server: &TestServer, labels: &[(&str, &str)], count: f64) -> Exposition {
    server.metrics_until(|metrics| metrics.sum("sluicegate_would_throttle_total", labels) == count).await
}

with_both_engines! {
    async fn an_observed_limit_stands_beside_the_declared_one_and_refuses_nobody(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let target = tool_of(&server, "acme", "export").await;
        observe(&server, target.clone(), rate("2/min")).await;
        for call in 0..5 {
            let answer = export(&client).await;
            assert!(answer.is_ok(), "call {call}");
            let policy = answer.header("ratelimit-policy").expect("a policy");
            assert!(policy.ends_with(r#""tool";q=5;w=60"#), "only what is enforced is advertised: {policy}");
        }
        let refusal = export(&client).await;
        assert_eq!(refusal.error()["data"]["limit"], "5 requests / 60s", "what is enforced goes on being enforced");
        let lines = explained(&server, "tool").await;
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["mode"], &lines[0]["text"]), (&json!("enforce"), &json!("5/min")));
        assert_eq!((&lines[1]["mode"], &lines[1]["text"]), (&json!("observe"), &json!("2/min")));
        assert_eq!((&lines[1]["usage"]["used"], &lines[1]["usage"]["refuses"]), (&json!(2), &json!(true)));
        assert_eq!(lines[1]["shadows"][0]["text"], "5/min", "what it would replace");
        let would = [("agent", "u-42"), ("tool", "export"), ("scope", "tool"), ("reason", "rate_limit_exceeded")];
        let metrics = would_throttle(&server, &would, 4.0).await;
        assert_eq!(metrics.sum("sluicegate_throttled_total", &would), 1.0);
        let limits = server.control().limits();
        limits.unset_mode(&actor(), &target, LimitKindName::Rate, Mode::Observe).await.expect("it is taken away");
        server.caught_up().await;
        assert_eq!(explained(&server, "tool").await.len(), 1);
        assert_eq!(export(&client).await.status, 429, "and what was used stays used");
    }

    async fn an_observed_limit_and_an_override_of_one_target_hold_together(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let target = tool_of(&server, "acme", "export").await;
        server.set_rate(target.clone(), "3/min").await;
        observe(&server, target, rate("1/min")).await;
        let admitted = [export(&client).await, export(&client).await, export(&client).await, export(&client).await];
        assert_eq!(admitted.map(|answer| answer.is_ok()), [true, true, true, false]);
        would_throttle(&server, &[], 3.0).await;
    }

    async fn an_observed_limit_below_a_more_specific_one_covers_nothing(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let other = server.client("globex", "u-42").await;
        server.set_rate(tool_of(&server, "acme", "export").await, "4/min").await;
        observe(&server, Target::Tool { tool: "export".to_owned() }, rate("1/min")).await;
        for _ in 0..3 {
            assert!(export(&client).await.is_ok() && export(&other).await.is_ok());
        }
        would_throttle(&server, &[("tenant", "globex")], 2.0).await;
        would_throttle(&server, &[], 2.0).await;
    }

    async fn an_observed_cap_looks_at_the_calls_that_run(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let target = tool_of(&server, "acme", "slow").await;
        observe(&server, target, LimitValue::Concurrency { cap: "1".to_owned() }).await;
        let slow = || client.call("slow", json!({ "ms": 300 }));
        let (one, other) = tokio::join!(slow(), slow());
        assert!(one.is_ok() && other.is_ok());
        let would = [("tool", "slow"), ("scope", "tool"), ("reason", "concurrency_limit_exceeded")];
        would_throttle(&server, &would, 1.0).await;
    }
}
