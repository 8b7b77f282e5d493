//! What a monitoring system sees: the same numbers as the callers.

use std::time::Duration;

use serde_json::json;
use sluicegate::control::{KeyScopes, ToolGlob};
use sluicegate_tests::server::{actor, get};
use sluicegate_tests::{Client, Database, Exposition, TestServer, on_both_databases};

fn calls(metrics: &Exposition, labels: &[(&str, &str)]) -> f64 {
    metrics.sum("sluicegate_calls_total", labels)
}

on_both_databases! {
    async fn calls_are_counted_as_their_callers_saw_them(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let mut seen = [0.0, 0.0];
        for _ in 0..9 {
            let answer = client.call("export", json!({ "dataset": "sales" })).await;
            seen[usize::from(answer.status == 429)] += 1.0;
        }
        assert_eq!(seen, [5.0, 4.0]);
        client.call_modern("echo", json!({ "text": "x" })).await;
        client.call("broken", json!({})).await;
        client.call("endless", json!({})).await;
        client.call("echo", json!({ "text": 7 })).await;
        client.call("no-such-tool", json!({})).await;
        client.request(json!(1), "tools/list", json!({})).await;
        let row = |tool, outcome| [("tenant", "acme"), ("agent", "u-42"), ("tool", tool), ("outcome", outcome)];
        let metrics = server.metrics_until(|metrics| calls(metrics, &[]) >= 14.0).await;
        for (tool, outcome, count) in [
            ("export", "ok", 5.0),
            ("export", "throttled", 4.0),
            ("echo", "ok", 1.0),
            ("echo", "tool_error", 1.0),
            ("broken", "panic", 1.0),
            ("endless", "timeout", 1.0),
            ("unknown", "denied", 1.0),
        ] {
            assert_eq!(calls(&metrics, &row(tool, outcome)), count, "{tool} {outcome}");
        }
        assert_eq!(calls(&metrics, &[]), 14.0, "what is no call of a tool is not counted as one");
        let throttled = [("tool", "export"), ("scope", "tool"), ("reason", "rate_limit_exceeded")];
        assert_eq!(metrics.sum("sluicegate_throttled_total", &throttled), 4.0);
        assert_eq!(metrics.sum("sluicegate_throttled_total", &[]), 4.0);
        assert_eq!(metrics.sum("sluicegate_call_seconds_count", &[("tool", "export")]), 5.0);
        assert!(metrics.sum("sluicegate_call_seconds_sum", &[("tool", "endless")]) >= 0.15);
        assert_eq!(metrics.sum("sluicegate_admission_seconds_count", &[]), 15.0);
        assert!(metrics.sum("sluicegate_keys_live", &[]) >= 3.0);
        assert_eq!(metrics.sum("sluicegate_in_flight", &[]), 0.0);
        assert_eq!(metrics.sum("sluicegate_engine_degraded", &[]), 0.0);
        assert!(metrics.sum("sluicegate_policy_age_seconds", &[]) < 10.0);
        assert!(metrics.sum("sluicegate_policy_reloads_total", &[("result", "ok")]) >= 1.0);
    }

    async fn it_is_counted_how_often_an_agent_has_to_try(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let export = async || client.call("export", json!({ "dataset": "sales" })).await.status.as_u16();
        for _ in 0..5 {
            assert_eq!(export().await, 200);
        }
        assert_eq!([export().await, export().await, export().await], [429, 429, 429]);
        server.advance(Duration::from_secs(12));
        assert_eq!(export().await, 200, "the fourth attempt");
        let count = |metrics: &Exposition| metrics.sum("sluicegate_retry_attempts_count", &[]);
        let metrics = server.metrics_until(|metrics| count(metrics) > 0.0).await;
        assert_eq!(count(&metrics), 1.0);
        assert_eq!(metrics.sum("sluicegate_retry_attempts_sum", &[]), 4.0);
        assert_eq!(metrics.sum("sluicegate_retry_attempts_bucket", &[("le", "3")]), 0.0);
        assert_eq!(metrics.sum("sluicegate_retry_attempts_bucket", &[("le", "5")]), 1.0);
    }

    async fn permits_are_seen_while_they_are_held(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let (one, other) = (client.clone(), client.clone());
        let slow = tokio::spawn(async move { one.call("slow", json!({ "ms": 60_000 })).await });
        let second = tokio::spawn(async move { other.call("slow", json!({ "ms": 60_000 })).await });
        let held = |metrics: &Exposition, scope| metrics.sum("sluicegate_in_flight", &[("scope", scope)]);
        let metrics = server.metrics_until(|metrics| held(metrics, "tool") == 2.0).await;
        assert_eq!(["server", "tenant", "agent"].map(|scope| held(&metrics, scope)), [2.0, 0.0, 2.0]);
        let third = client.call("slow", json!({ "ms": 1 })).await;
        assert_eq!(third.status, 429);
        slow.abort();
        second.abort();
        let ended = |metrics: &Exposition| calls(metrics, &[("outcome", "cancelled")]) == 2.0;
        let metrics = server.metrics_until(|metrics| ended(metrics) && held(metrics, "tool") == 0.0).await;
        let throttled = [("tool", "slow"), ("scope", "tool"), ("reason", "concurrency_limit_exceeded")];
        assert_eq!(metrics.sum("sluicegate_throttled_total", &throttled), 1.0);
    }

    async fn who_is_refused_before_any_limit_is_counted_by_reason(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        for _ in 0..3 {
            assert_eq!(client.clone().with_key("sg_live_nonsense").call("echo", json!({})).await.status, 401);
        }
        let suspended = ("acme".into(), "u-42".into());
        server.control().agents().suspend(&actor(), &suspended.0, &suspended.1).await.expect("it is suspended");
        server.caught_up().await;
        assert_eq!(client.call("echo", json!({ "text": "x" })).await.status, 403);
        let metrics = server.metrics().await;
        let refused = |reason| metrics.sum("sluicegate_refused_total", &[("reason", reason)]);
        assert_eq!((refused("unauthenticated"), refused("suspended")), (3.0, 1.0));
        assert_eq!(calls(&metrics, &[("tool", "echo"), ("outcome", "denied"), ("agent", "u-42")]), 1.0);
    }

    async fn names_in_labels_are_what_they_are(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "a \"quoted\\ name").await;
        client.call("echo", json!({ "text": "x" })).await;
        server.metrics_until(|metrics| calls(metrics, &[("agent", "a \"quoted\\ name"), ("outcome", "ok")]) == 1.0).await;
    }
}

/// 10 000 invented tool names, and more callers than have labels of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invented_names_do_not_become_labels() {
    let database = Database::sqlite().await;
    let server = TestServer::start_with(&database, |settings| {
        settings.metrics_series = 20;
        for limit in [&mut settings.limit_tenant, &mut settings.limit_agent, &mut settings.requests_per_agent] {
            "1000000/min".clone_into(limit);
        }
        settings.agent_concurrency = 1_000;
    })
    .await;
    let none: ToolGlob = "nothing".parse().expect("a glob");
    let scopes = KeyScopes::new(vec![none]).expect("scopes");
    let (nosy, _) = server.client_with("acme", "nosy", scopes).await;
    let invent = |name: String| {
        let nosy = nosy.clone();
        async move { nosy.call(&name, json!({})).await.status }
    };
    for batch in 0..100 {
        let statuses = (0..100).map(|name| invent(format!("invented-{batch}-{name}")));
        futures::future::join_all(statuses).await;
    }
    let mut clients = Vec::new();
    for agent in 0..40 {
        clients.push(server.client("acme", &format!("agent-{agent}")).await);
    }
    futures::future::join_all(clients.iter().map(|client: &Client| client.call("echo", json!({ "text": "x" })))).await;
    let metrics = server.metrics_until(|metrics| calls(metrics, &[("outcome", "ok")]) == 40.0).await;
    assert_eq!(calls(&metrics, &[("agent", "nosy"), ("tool", "unknown"), ("outcome", "denied")]), 10_000.0);
    assert_eq!(calls(&metrics, &[("tenant", "other"), ("agent", "other"), ("tool", "echo")]), 21.0);
    assert_eq!(metrics.samples("sluicegate_calls_total").len(), 21);
    assert!(metrics.series() < 400, "{}", metrics.series());
}

#[tokio::test]
async fn metrics_may_have_a_port_of_their_own() {
    let database = Database::sqlite().await;
    let mut settings = sluicegate_tests::server::settings(&database);
    "127.0.0.1:0".clone_into(&mut settings.metrics_bind);
    let server = sluicegate::Server::new("test").start(&settings).await.expect("it starts");
    let own = server.metrics_address().expect("a port");
    assert_eq!(get(&format!("http://{}/metrics", server.address())).await.0, 404);
    assert_eq!(get(&format!("http://{own}/mcp")).await.0, 404);
    let (status, text) = get(&format!("http://{own}/metrics")).await;
    assert_eq!(status, 200);
    Exposition::read(&text).expect("Prometheus reads it");
    for port in [own, server.address()] {
        assert_eq!(get(&format!("http://{port}/healthz")).await, (200, "ok".to_owned()));
        let (status, ready) = get(&format!("http://{port}/readyz")).await;
        assert_eq!(status, 200);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&ready).expect("JSON")["status"], "ready");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_not_passed_on_by_a_proxy_on_this_machine() {
    let server = TestServer::start(&Database::sqlite().await).await;
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = format!("http://{}/metrics", server.address());
    for (name, value) in [("x-forwarded-for", "192.0.2.7"), ("forwarded", "for=192.0.2.7"), ("host", "mcp.example")] {
        let answer = http.get(&url).header(name, value).send().await.expect("an answer");
        assert_eq!(answer.status(), 403, "{name}");
    }
}
