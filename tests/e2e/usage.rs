//! What was called is in the database, to the last call, and so is what was refused.

use std::collections::BTreeMap;

use serde_json::json;
use sluicegate::control::{
    Control, EventFilter, EventKind, MatrixQuery, PageRequest, Period, Question, UsageRange, UsageScope,
};
use sluicegate_tests::server::{START_MS, actor};
use sluicegate_tests::{Client, Database, TestServer, on_both_databases};

/// What a client has counted of its own answers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Own {
    calls: i64,
    ok: i64,
    throttled: i64,
}

/// Calls a tool some times, all at once, and adds the answers up.
async fn call(client: &Client, tool: &str, times: usize, own: &mut Own) {
    let arguments = if tool == "echo" { json!({ "text": "x" }) } else { json!({ "dataset": "sales" }) };
    let answers = futures::future::join_all((0..times).map(|_| client.call(tool, arguments.clone()))).await;
    for answer in answers {
        own.calls += 1;
        if answer.is_ok() {
            own.ok += 1;
        } else {
            assert_eq!(answer.status, 429, "{}", answer.text);
            own.throttled += 1;
        }
    }
}

fn range() -> UsageRange {
    UsageRange::last(Period::Hour, START_MS)
}

/// What the database has of an agent and a tool.
async fn recorded(control: &Control, tenant: &str, agent: &str, tool: &str) -> Own {
    let scope = UsageScope { tenant: Some(tenant.into()), agent: Some(agent.into()), tool: Some(tool.to_owned()) };
    let counts = control.usage().totals(&actor(), &scope, range()).await.expect("totals").current;
    assert_eq!(counts.calls, counts.ok + counts.throttled, "{counts:?}");
    Own { calls: counts.calls, ok: counts.ok, throttled: counts.throttled }
}

async fn reopen(database: &Database) -> Control {
    Control::connect(&database.url(), Default::default()).await.expect("the database is there")
}

on_both_databases! {
    async fn after_a_stop_the_database_has_exactly_what_the_clients_have_counted(database: Database) {
        let (one, other) = (TestServer::start(&database).await, TestServer::start(&database).await);
        let callers = [("acme", "a-1"), ("acme", "a-2"), ("globex", "a-1")];
        let mut owns = BTreeMap::<(&str, &str, &str), Own>::new();
        let mut clients = Vec::new();
        for (tenant, agent) in callers {
            let client = one.client(tenant, agent).await;
            let elsewhere = Client::new(other.endpoint(), client.key().to_owned());
            other.caught_up().await;
            clients.push((tenant, agent, [client, elsewhere]));
        }
        for (tenant, agent, both) in &clients {
            for (number, client) in both.iter().enumerate() {
                for (tool, times) in [("export", 9), ("echo", 20 + number)] {
                    call(client, tool, times, owns.entry((tenant, agent, tool)).or_default()).await;
                }
            }
        }
        // One ends in the middle, the other goes on.
        one.stop().await;
        let (tenant, agent, [_, elsewhere]) = &clients[0];
        call(elsewhere, "export", 7, owns.entry((tenant, agent, "export")).or_default()).await;
        other.stop().await;

        let control = reopen(&database).await;
        for ((tenant, agent, tool), own) in &owns {
            assert_eq!(recorded(&control, tenant, agent, tool).await, *own, "{tenant}/{agent} {tool}");
        }
        let throttled: i64 = owns.values().map(|own| own.throttled).sum();
        assert!(throttled > 0 && owns.values().all(|own| own.ok > 0), "{owns:?}");
        let (query, page) = (MatrixQuery::of(range()), PageRequest::default());
        let matrix = control.usage().throttle_by_tool(&actor(), &query, &page).await.expect("the matrix");
        assert_eq!(matrix.total.refusals, throttled);
        assert_eq!(matrix.total.calls, owns.values().map(|own| own.calls).sum::<i64>());
        for row in &matrix.rows {
            let whom = (row.caller.tenant_slug.as_deref().expect("a tenant"), row.caller.agent_name.as_deref());
            for (column, cell) in matrix.tools.iter().zip(&row.cells) {
                let Some(tool) = &column.tool else { continue };
                let own = owns[&(whom.0, whom.1.expect("an agent"), tool.as_str())];
                assert_eq!(cell.expect("called").refusals, own.throttled, "{whom:?} {tool}");
            }
        }
    }

    async fn a_refusal_is_an_event_with_the_id_of_its_request(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let mut own = Own::default();
        call(&client, "export", 5, &mut own).await;
        let refusal = client.call("export", json!({ "dataset": "sales" })).await;
        let request_id = refusal.header("x-request-id").expect("an id").to_owned();
        server.control().agents().suspend(&actor(), &"acme".into(), &"u-42".into()).await.expect("suspended");
        server.caught_up().await;
        assert_eq!(client.call("echo", json!({ "text": "x" })).await.status, 403);
        server.stop().await;

        let control = reopen(&database).await;
        let filter = EventFilter { tenant: Some("acme".into()), agent: Some("u-42".into()), ..EventFilter::default() };
        let events = control.events().list(&actor(), &filter, &PageRequest::default()).await.expect("events").items;
        assert_eq!(events.len(), 2);
        let (denied, throttled) = (&events[0], &events[1]);
        let (denied, throttled) =
            if denied.kind == EventKind::Denied { (denied, throttled) } else { (throttled, denied) };
        assert_eq!((denied.kind, denied.tool.as_deref(), &*denied.reason), (EventKind::Denied, Some("echo"), "suspended"));
        assert_eq!(throttled.request_id.as_deref(), Some(&*request_id));
        assert_eq!((throttled.scope.as_deref(), &*throttled.reason), (Some("tool"), "rate_limit_exceeded"));
        assert!(throttled.retry_after_ms.is_some_and(|wait| wait > 0));
        let agent = control.agents().get(&actor(), &"acme".into(), &"u-42".into()).await.expect("the agent");
        assert!(agent.last_seen_at.is_some());
    }

    async fn what_is_no_call_of_a_known_tool_is_counted_apart(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        client.request(json!(1), "tools/list", json!({})).await;
        client.call("no-such-tool", json!({})).await;
        let mut own = Own::default();
        call(&client, "echo", 1, &mut own).await;
        server.stop().await;
        let control = reopen(&database).await;
        let scope = UsageScope { tenant: Some("acme".into()), ..UsageScope::default() };
        let totals = control.usage().totals(&actor(), &scope, range()).await.expect("totals");
        assert_eq!((totals.current.calls, totals.other_requests.calls), (1, 2));
    }

    async fn a_tool_that_is_switched_off_is_gone_within_a_second_and_comes_back(database: Database) {
        let server = TestServer::start(&database).await;
        let (acme, globex) = (server.client("acme", "u-42").await, server.client("globex", "u-42").await);
        let tools = server.control().tools();
        let echo = async |client: &Client| client.call("echo", json!({ "text": "x" })).await.is_ok();
        assert!(echo(&acme).await);
        tools.disable(&actor(), "echo", Some(&"acme".into())).await.expect("switched off");
        server.caught_up().await;
        assert!(!echo(&acme).await && echo(&globex).await);
        let listed = acme.request(json!(1), "tools/list", json!({})).await.text;
        assert!(!listed.contains("\"echo\"") && listed.contains("\"export\""), "{listed}");
        tools.enable(&actor(), "echo", Some(&"acme".into())).await.expect("switched on");
        tools.disable(&actor(), "echo", None).await.expect("switched off");
        server.caught_up().await;
        assert!(!echo(&acme).await && !echo(&globex).await);
        tools.enable(&actor(), "echo", None).await.expect("switched on");
        server.caught_up().await;
        assert!(echo(&acme).await && echo(&globex).await);
    }

    async fn the_live_view_tells_how_limits_stand_and_how_the_server_is(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let mut own = Own::default();
        call(&client, "export", 6, &mut own).await;
        let live = server.live();
        let question =
            Question { tenant: "acme".to_owned(), agent: "u-42".to_owned(), tool: "export".to_owned(), key: None };
        let explanation = live.explain(&actor(), question.clone()).await.expect("an answer");
        assert!(explanation.live);
        let of_tool = explanation.limits.iter().find(|limit| limit.scope == "tool").expect("the tool's limit");
        let usage = of_tool.usage.as_ref().expect("a running server knows");
        assert_eq!((usage.used, usage.remaining, usage.refuses), (5, 0, true));
        let globex = server.control().tenants().create(&actor(), "globex", "x").await.expect("a tenant").id;
        let confined = sluicegate::control::Actor::user(
            "alice",
            sluicegate::control::Role::Owner,
            sluicegate::control::Reach::Tenant(globex),
        );
        assert!(live.explain(&confined, question).await.is_err(), "another tenant's agent does not exist");
        let health = live.health();
        assert_eq!((health.in_flight, health.draining, health.policy.error), (0, false, None));
        assert_eq!(health.policy.revision, live.revision().get());
        assert!(health.usage.series > 0 && health.engine.live_keys > 0);
        server.stop().await;
        assert!(live.health().draining);
    }
}
