//! Priorities: where a cap is nearly used up, tools that matter less are refused first.

use std::time::Duration;

use serde_json::json;
use sluicegate::control::{NewLimit, Target};
use sluicegate::prelude::*;
use sluicegate_tests::server::actor;
use sluicegate_tests::{Client, Database, TestServer, with_both_engines};

/// A report that can wait.
#[tool(priority = "low", rate_limit = "10000/min")]
async fn report(ms: u64) -> &'static str {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    "reported"
}

/// A search like any other.
#[tool(rate_limit = "10000/min")]
async fn search(ms: u64) -> &'static str {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    "found"
}

/// A payment that must not wait.
#[tool(priority = "high", rate_limit = "10000/min")]
async fn pay(ms: u64) -> &'static str {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    "paid"
}

/// A server whose tenant acme may have so many calls at a time, and a client of it.
async fn server(database: &Database, cap: &str, with_high: bool) -> (TestServer, Client) {
    let tools = |server: Server| {
        let server = server.tool::<report>().tool::<search>();
        if with_high { server.tool::<pay>() } else { server }
    };
    let server = TestServer::start_as(database, tools, |settings| settings.agent_concurrency = 1_000).await;
    let client = server.client("acme", "u-42").await;
    let tenant = server.control().tenants().get(&actor(), &"acme".into()).await.expect("acme").id;
    let cap = NewLimit::concurrency(Target::Tenant { tenant }, cap);
    server.control().limits().set(&actor(), &cap).await.expect("the cap is set");
    server.caught_up().await;
    (server, client)
}

/// Starts more calls that go on until the test is over, and waits until `all` hold their slot.
async fn hold(server: &TestServer, client: &Client, more: usize, all: usize) {
    for _ in 0..more {
        let client = client.clone();
        tokio::spawn(async move { client.call("search", json!({ "ms": 600_000 })).await });
    }
    let held = |metrics: &sluicegate_tests::Exposition| metrics.sum("sluicegate_in_flight", &[("scope", "tenant")]);
    server.metrics_until(|metrics| held(metrics) == all as f64).await;
}

async fn status(client: &Client, tool: &str) -> u16 {
    client.call(tool, json!({ "ms": 1 })).await.status.as_u16()
}

with_both_engines! {
    async fn of_ten_slots_the_last_two_are_not_for_low_priority(database: Database) {
        let (server, client) = server(&database, "10", true).await;
        hold(&server, &client, 7, 7).await;
        assert_eq!(status(&client, "report").await, 200, "the eighth");
        hold(&server, &client, 1, 8).await;
        let refused = client.call("report", json!({ "ms": 1 })).await;
        assert_eq!(refused.status, 429, "the ninth");
        let data = refused.error()["data"].clone();
        assert_eq!((&data["reason"], &data["scope"]), (&json!("concurrency_limit_exceeded"), &json!("tenant")));
        assert_eq!([status(&client, "search").await, status(&client, "pay").await], [200, 200]);
        hold(&server, &client, 1, 9).await;
        assert_eq!(status(&client, "report").await, 429, "at 90 percent");
        assert_eq!([status(&client, "search").await, status(&client, "pay").await], [200, 200]);
    }

    async fn where_no_tool_has_a_high_priority_nothing_is_kept_back(database: Database) {
        let (server, client) = server(&database, "10", false).await;
        hold(&server, &client, 9, 9).await;
        assert_eq!(status(&client, "report").await, 200);
    }

    async fn of_two_slots_none_is_kept_back(database: Database) {
        let (server, client) = server(&database, "2", true).await;
        hold(&server, &client, 1, 1).await;
        assert_eq!(status(&client, "report").await, 200);
    }
}
