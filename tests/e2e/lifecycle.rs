//! Tenants that come, change and go: what stays theirs, and what is nobody's afterwards.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::control::{MatrixQuery, PageRequest, Period, Role, Target, TenantRef, UsageRange, UsageScope};
use sluicegate_tests::server::{START_MS, actor};
use sluicegate_tests::visitor::Visitor;
use sluicegate_tests::{Client, Database, TestServer, on_both_databases};

async fn export(client: &Client) -> u16 {
    client.call("export", json!({ "dataset": "x" })).await.status.as_u16()
}

fn range() -> UsageRange {
    UsageRange::last(Period::Day, START_MS)
}

/// Calls and refusals of everybody, or of one tenant.
async fn counted(server: &TestServer, tenant: Option<&str>) -> (i64, i64) {
    let scope = UsageScope { tenant: tenant.map(TenantRef::from), ..UsageScope::default() };
    let totals = server.control().usage().totals(&actor(), &scope, range()).await.expect("totals").current;
    (totals.calls, totals.throttled)
}

async fn until_counted(server: &TestServer, tenant: Option<&str>, calls: i64) {
    for _ in 0..100 {
        if counted(server, tenant).await.0 == calls {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{calls} calls are never counted: {:?}", counted(server, tenant).await)
}

on_both_databases! {
    async fn a_deleted_tenants_slug_is_free_and_brings_nothing_of_it_back(database: Database) {
        let server = TestServer::start(&database).await;
        let old = server.client("acme", "u-42").await;
        let first = server.control().tenants().get(&actor(), &"acme".into()).await.expect("a tenant").id;
        let wide = Target::TenantTool { tenant: first, tool: "export".to_owned() };
        server.set_rate(wide, "7/min").await;
        let statuses = async |client: &Client| {
            let mut statuses = Vec::new();
            for _ in 0..9 {
                statuses.push(export(client).await);
            }
            statuses
        };
        assert_eq!(statuses(&old).await, [200, 200, 200, 200, 200, 200, 200, 429, 429]);
        until_counted(&server, Some("acme"), 9).await;

        server.control().tenants().delete(&actor(), &"acme".into()).await.expect("it is deleted");
        server.caught_up().await;
        assert_eq!(export(&old).await, 401, "its key opens nothing");
        assert_eq!(counted(&server, None).await, (9, 2), "what happened stays counted");

        let new = server.client("acme", "u-42").await;
        let second = server.control().tenants().get(&actor(), &"acme".into()).await.expect("a tenant").id;
        assert_ne!(first, second);
        assert_eq!(counted(&server, Some("acme")).await, (0, 0), "another tenant's calls are not its own");
        assert_eq!(statuses(&new).await, [200, 200, 200, 200, 200, 429, 429, 429, 429], "nor are its limits");
        assert_eq!(export(&old).await, 401);
        until_counted(&server, Some("acme"), 9).await;
        let page = PageRequest::default();
        let matrix = server.control().usage().throttle_by_tool(&actor(), &MatrixQuery::of(range()), &page).await;
        let rows = matrix.expect("the matrix").rows;
        let of = |tenant| rows.iter().filter(|row| row.caller.tenant == Some(tenant)).map(|row| row.total.refusals).sum::<i64>();
        assert_eq!((of(first), of(second)), (2, 4));
        let log = server.control().audit().list(&actor(), Some(&"acme".into()), &page).await.expect("the log").items;
        assert!(log.iter().all(|entry| entry.tenant_id == Some(second)) && !log.is_empty());
        assert!(server.control().audit().verify(&actor()).await.is_ok());
    }

    async fn a_renamed_tenant_keeps_its_keys_limits_and_figures(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        for _ in 0..6 {
            export(&client).await;
        }
        until_counted(&server, Some("acme"), 6).await;
        server.control().tenants().rename(&actor(), &"acme".into(), "Acme & Söhne").await.expect("renamed");
        server.caught_up().await;
        assert_eq!(export(&client).await, 429, "what was used stays used");
        until_counted(&server, Some("acme"), 7).await;
        let base = format!("http://{}", server.address());
        let visitor = Visitor::sign_in(server.control(), &base, "olga", Role::Owner, None).await;
        let page = visitor.get("/admin/tenants/acme").await.text;
        assert!(page.contains("Acme &#38; Söhne"), "{page}");
    }

    async fn names_of_every_script_are_what_they_are_everywhere(database: Database) {
        let server = TestServer::start(&database).await;
        let (name, agent) = ("株式会社 🍣 <b>", "エージェント🤖");
        server.control().tenants().create(&actor(), "sushi", name).await.expect("a tenant");
        let client = server.client("sushi", agent).await;
        for _ in 0..7 {
            export(&client).await;
        }
        until_counted(&server, Some("sushi"), 7).await;
        let metrics = server.metrics().await;
        assert_eq!(metrics.sum("sluicegate_throttled_total", &[("agent", agent)]), 2.0);
        let question = server.explain("sushi", agent, "export").await;
        assert_eq!(question["question"]["agent"], agent);
        let base = format!("http://{}", server.address());
        let visitor = Visitor::sign_in(server.control(), &base, "olga", Role::Owner, None).await;
        let shown = "株式会社 🍣 &#60;b&#62;";
        for path in ["/admin/tenants", "/admin/tenants/sushi", "/admin/throttling", "/admin/limits?tenant=sushi"] {
            let page = visitor.get(path).await;
            assert_eq!(page.status, 200, "{path}");
            assert!(page.text.contains(shown) || page.text.contains(agent), "{path}: {}", page.text);
            assert!(!page.text.contains("🍣 <b>"), "{path} takes a name for markup");
        }
        let csv = visitor.get("/admin/throttling.csv").await;
        assert!(csv.text.contains(&format!("sushi,{agent},export,2,7")), "{}", csv.text);
        let json: Value = visitor.get("/admin/throttling.json").await.json();
        assert_eq!(json["rows"][0]["caller"]["agent_name"], agent);
        let log = visitor.get("/admin/audit?target=sushi").await.text;
        assert!(log.contains(agent), "{log}");
    }
}
