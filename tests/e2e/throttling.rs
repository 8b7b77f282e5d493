//! Limits as callers meet them: whose limit refuses, what it leaves alone, and how long it lasts.

use std::time::Duration;

use serde_json::json;
use sluicegate::control::{Target, TenantRef};
use sluicegate_tests::server::actor;
use sluicegate_tests::{Answer, Client, Database, TestServer, with_both_engines};

async fn export(client: &Client) -> Answer {
    client.call("export", json!({ "dataset": "sales" })).await
}

async fn echo(client: &Client) -> Answer {
    client.call("echo", json!({ "text": "hello" })).await
}

/// Calls until refused; how many calls got in, and the refusal.
async fn exhaust(client: &Client, most: usize) -> (usize, Answer) {
    for admitted in 0..most {
        let answer = export(client).await;
        if !answer.is_ok() {
            return (admitted, answer);
        }
    }
    panic!("{most} calls and none was refused");
}

with_both_engines! {
    async fn the_sixth_export_is_refused_and_nobody_else_is(database: Database) {
        let server = TestServer::start(&database).await;
        let (acme, globex) = (server.client("acme", "u-42").await, server.client("globex", "u-42").await);
        let (admitted, refusal) = exhaust(&acme, 10).await;
        assert_eq!(admitted, 5);
        assert_eq!(refusal.status, 429);
        assert_eq!(refusal.error()["data"]["scope"], "tool");
        assert_eq!(echo(&acme).await.ok_text(), "hello");
        assert_eq!(export(&globex).await.ok_text(), "sales");
        assert_eq!(server.ran.exports(), 6);
    }

    async fn after_exactly_retry_after_the_call_works_again(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let (_, refusal) = exhaust(&client, 10).await;
        let data = refusal.error()["data"].clone();
        let seconds = data["retry_after_seconds"].as_u64().expect("a number");
        assert_eq!(refusal.header("retry-after"), Some(seconds.to_string().as_str()));
        assert!(seconds >= 1);
        let exact = Duration::from_millis(data["retry_after_ms"].as_u64().expect("a number"));
        server.advance(exact - Duration::from_millis(1));
        assert_eq!(export(&client).await.status, 429);
        server.advance(Duration::from_millis(1));
        assert!(export(&client).await.is_ok());
    }

    async fn whoever_ignores_its_waits_is_told_longer_ones_and_is_never_locked_out(database: Database) {
        let minute = "1min".parse().expect("a length of time");
        let server = TestServer::start_with(&database, |settings| settings.escalate_waits_to = minute).await;
        let client = server.client("acme", "u-42").await;
        let told = |answer: &Answer| {
            let data = answer.error()["data"].clone();
            let seconds = data["retry_after_seconds"].as_u64().expect("a number");
            assert_eq!(answer.header("retry-after"), Some(&*seconds.to_string()));
            (seconds, data["exact"].as_bool().expect("a truth"))
        };
        let (admitted, first) = exhaust(&client, 10).await;
        assert_eq!((admitted, told(&first)), (5, (12, true)));
        for _ in 0..10 {
            assert_eq!(told(&export(&client).await), (12, true), "it may have sent them all at once");
        }
        let (seconds, exact) = told(&export(&client).await);
        assert!((24..=30).contains(&seconds) && !exact, "{seconds}");
        for _ in 0..5 {
            let (seconds, exact) = told(&export(&client).await);
            assert!((48..=60).contains(&seconds) && !exact, "{seconds}");
        }
        server.advance(Duration::from_secs(12));
        assert!(export(&client).await.is_ok(), "the limit lets it in, whatever it was told");
        let (seconds, exact) = told(&export(&client).await);
        assert!((48..=60).contains(&seconds) && !exact, "it has not waited: {seconds}");
        server.advance(Duration::from_secs(60));
        let (admitted, refusal) = exhaust(&client, 10).await;
        assert_eq!((admitted, told(&refusal)), (5, (12, true)), "it has waited");
    }

    async fn a_tenant_limit_holds_over_fifty_agents(database: Database) {
        let server = TestServer::start(&database).await;
        let mut clients = Vec::new();
        for agent in 0..50 {
            clients.push(server.client("acme", &format!("agent-{agent}")).await);
        }
        let tenant = server.control().tenants().get(&actor(), &TenantRef::from("acme")).await.expect("acme").id;
        server.set_rate(Target::Tenant { tenant }, "20/min").await;
        let answers = futures::future::join_all(clients.iter().map(echo)).await;
        let admitted = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(admitted, 20);
        let refusal = answers.iter().find(|answer| answer.status == 429).expect("somebody is refused");
        assert_eq!(refusal.error()["data"]["scope"], "tenant");
        assert_eq!(refusal.error()["data"]["other_tools_may_work"], false);
        assert!(echo(&server.client("globex", "agent-1").await).await.is_ok());
    }

    async fn a_call_refused_by_its_tool_leaves_tenant_and_agent_untouched(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        exhaust(&client, 10).await;
        let before = usage(&server).await;
        for _ in 0..20 {
            assert_eq!(export(&client).await.status, 429);
        }
        assert_eq!(usage(&server).await, before);
        assert_eq!(before["tenant"], 5);
        assert_eq!(before["agent"], 5);
        assert_eq!(before["tool"], 5);
    }

    async fn a_raised_limit_keeps_what_was_used(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        assert_eq!(exhaust(&client, 10).await.0, 5);
        let tenant = server.control().tenants().get(&actor(), &TenantRef::from("acme")).await.expect("acme").id;
        server.set_rate(Target::TenantTool { tenant, tool: "export".to_owned() }, "50/min").await;
        assert_eq!(exhaust(&client, 100).await.0, 45);
    }

    async fn a_call_that_costs_four_takes_four(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let costly = || client.call("costly", json!({}));
        assert!(costly().await.is_ok() && costly().await.is_ok());
        let refusal = costly().await;
        assert_eq!(refusal.error()["data"]["current_usage"], 8);
        assert_eq!(refusal.error()["data"]["remaining"], 2);
    }

    async fn a_cost_above_the_limit_is_not_worth_retrying(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        server.set_rate(Target::Tool { tool: "costly".to_owned() }, "3/min").await;
        let refusal = client.call("costly", json!({})).await;
        assert_eq!(refusal.status, 429);
        assert_eq!(refusal.header("retry-after"), None);
        let data = refusal.error()["data"].clone();
        assert_eq!(data["reason"], "cost_above_limit");
        assert!(data.get("retry_after_seconds").is_none(), "{data}");
    }

    async fn lists_have_a_limit_of_their_own(database: Database) {
        let server = TestServer::start_with(&database, |settings| settings.requests_per_agent = "3/min".to_owned()).await;
        let client = server.client("acme", "u-42").await;
        for _ in 0..3 {
            assert_eq!(client.request(json!(1), "tools/list", json!({})).await.status, 200);
        }
        let refusal = client.request(json!("list-4"), "tools/list", json!({})).await;
        assert_eq!(refusal.status, 429);
        assert_eq!(refusal.json()["id"], "list-4");
        assert_eq!(refusal.error()["data"]["scope"], "agent");
        assert!(echo(&client).await.is_ok(), "calls are charged elsewhere");
        let initialized = client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        assert_eq!(initialized.status, 202, "notifications are never refused for their rate");
    }

    async fn what_ends_work_is_never_refused_for_its_rate(database: Database) {
        let server = TestServer::start_with(&database, |settings| settings.requests_per_agent = "1/min".to_owned()).await;
        let client = server.client("acme", "u-42").await;
        for method in ["tasks/update", "tasks/cancel", "tasks/cancel"] {
            assert_ne!(client.request(json!(1), method, json!({ "taskId": "t-1" })).await.status, 429, "{method}");
        }
        client.request(json!(1), "tools/list", json!({})).await;
        assert_eq!(client.request(json!(1), "tasks/get", json!({ "taskId": "t-1" })).await.status, 429);
    }

    async fn served_calls_say_how_much_is_left(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let answer = export(&client).await;
        assert_eq!(answer.header("ratelimit"), Some("\"tool\";r=4;t=12"));
        let policy = answer.header("ratelimit-policy").expect("a policy");
        assert_eq!(policy, r#""tenant";q=600;w=60, "agent";q=120;w=60, "tool";q=5;w=60"#);
    }
}

/// How much of every rate limit of acme's `u-42` on `export` is used, by scope.
async fn usage(server: &TestServer) -> serde_json::Value {
    let explanation = server.explain("acme", "u-42", "export").await;
    let limits = explanation["limits"].as_array().expect("a list").iter();
    let rates = limits.filter(|limit| limit["kind"] == "rate");
    rates.map(|limit| (limit["scope"].as_str().expect("a scope").to_owned(), limit["usage"]["used"].clone())).collect()
}
