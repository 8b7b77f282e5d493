//! A ceiling over all tenants, seen by two of them who ask for more than it has.

use std::time::Duration;

use serde_json::json;
use sluicegate::control::TenantSettings;
use sluicegate_tests::server::actor;
use sluicegate_tests::{Answer, Client, Database, TestServer};

const STEP: Duration = Duration::from_millis(10);
const STEPS_A_SECOND: u32 = 100;

async fn server(fair_share: bool) -> TestServer {
    TestServer::start_with(&Database::sqlite().await, |settings| {
        settings.limit_server = "20/s".to_owned();
        settings.fair_share = fair_share;
        for limit in [&mut settings.limit_tenant, &mut settings.limit_agent, &mut settings.limit_tool] {
            "1000000/s".clone_into(limit);
        }
    })
    .await
}

/// How often a tenant calls in a second, and what it gets, from second 5 on.
async fn rehearse(server: &TestServer, asks: [(&Client, u32); 2]) -> [f64; 2] {
    const SECONDS: u32 = 15;
    let mut got = [0_u32; 2];
    let mut due = [0_u32; 2];
    for step in 0..SECONDS * STEPS_A_SECOND {
        server.advance(STEP);
        for (tenant, (client, per_second)) in asks.iter().enumerate() {
            due[tenant] += per_second;
            while due[tenant] >= STEPS_A_SECOND {
                due[tenant] -= STEPS_A_SECOND;
                let served = call(client).await.is_ok();
                got[tenant] += u32::from(served && step >= 5 * STEPS_A_SECOND);
            }
        }
    }
    got.map(|got| f64::from(got) / f64::from(SECONDS - 5))
}

async fn call(client: &Client) -> Answer {
    client.call("echo", json!({ "text": "x" })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_asks_ten_times_as_much_leaves_another_its_share_unless_that_is_switched_off() {
    for (fair_share, least) in [(true, 0.95 * 10.0), (false, 0.0)] {
        let server = server(fair_share).await;
        let (small, big) = (server.client("acme", "u-1").await, server.client("globex", "u-1").await);
        let [small, big] = rehearse(&server, [(&small, 10), (&big, 100)]).await;
        assert!(small >= least, "{small}/s of 10/s");
        // A call of twenty is held back for whoever is below its share.
        assert!(small + big >= 18.9, "{small}/s and {big}/s of 20/s");
        assert!(fair_share || small < 6.0, "whoever comes first: {small}/s");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenants_weight_counts_from_the_moment_it_is_set_and_refusals_name_the_ceiling_and_nobody() {
    let server = server(true).await;
    let (heavy, light) = (server.client("acme", "u-1").await, server.client("globex", "u-1").await);
    let [one, other] = rehearse(&server, [(&heavy, 40), (&light, 40)]).await;
    assert!(one >= 9.0 && other >= 9.0, "alike: {one}/s and {other}/s");
    let settings = TenantSettings { weight: Some(3), ..TenantSettings::default() };
    server.control().tenants().set_settings(&actor(), &"acme".into(), settings).await.expect("it is set");
    server.caught_up().await;
    let [one, other] = rehearse(&server, [(&heavy, 40), (&light, 40)]).await;
    // Less the call of twenty that is held back.
    assert!(one >= 0.9 * 15.0 && other >= 0.9 * 5.0, "three to one: {one}/s and {other}/s");

    let mut refused = call(&light).await;
    while refused.is_ok() {
        refused = call(&light).await;
    }
    assert_eq!(refused.status, 429);
    let data = &refused.error()["data"];
    assert_eq!((&data["scope"], &data["limit"]), (&json!("server"), &json!("20 requests / 1s")));
    assert!(!refused.text.contains("acme"), "{}", refused.text);
}
