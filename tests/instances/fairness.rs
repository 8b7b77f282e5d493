//! A ceiling over all tenants that two servers hand out together: a tenant that asks ten times as much as another leaves it
//! its share.

use std::time::Duration;

use serde_json::json;
use sluicegate_tests::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::fleet::Fleet;
use crate::load::length;

/// Forty a second, strict.
const CEILING: &str = "80/2s";
/// How long it takes until what each asks for is known.
const FIRST: Duration = Duration::from_secs(4);

/// What became of calls: how many were made, and how many admitted, once everybody was known.
#[derive(Default)]
struct Count {
    asked: u32,
    admitted: u32,
}

/// Calls so many times a second, whatever becomes of it, until it is over.
async fn ask(client: Client, per_second: f64, start: Instant, over: Instant) -> Count {
    let mut ticks = interval(Duration::from_secs_f64(1.0 / per_second));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut calls = JoinSet::new();
    let mut count = Count::default();
    while Instant::now() < over {
        let at = ticks.tick().await;
        let client = client.clone();
        calls.spawn(async move { (at, client.call("echo", json!({ "text": "x" })).await.status.as_u16()) });
    }
    while let Some(call) = calls.join_next().await {
        let (at, status) = call.expect("an answer");
        if at >= start {
            count.asked += 1;
            count.admitted += u32::from(status == 200);
        }
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_asks_ten_times_as_much_leaves_another_its_share_of_a_ceiling_over_two_servers() {
    let boundless = ["LIMIT_TENANT", "LIMIT_AGENT", "LIMIT__ECHO"].map(|name| (name, "1000000/s"));
    let own = [("LIMIT_SERVER", CEILING), ("AGENT_CONCURRENCY", "500"), ("REDIS_TIMEOUT", "5s")];
    let Some(fleet) = Fleet::start(2, &[&boundless[..], &own].concat()).await else { return };
    let seconds = length().max(Duration::from_secs(10));
    let mut clients = Vec::new();
    for (tenant, per_second) in [("small", 10.0), ("big", 100.0)] {
        for server in 0..2 {
            clients.push((tenant, per_second, fleet.client(server, tenant, "u-42").await));
        }
    }
    let start = Instant::now() + FIRST;
    let over = start + seconds;
    let asking: Vec<_> = clients
        .into_iter()
        .map(|(tenant, per_second, client)| (tenant, tokio::spawn(ask(client, per_second, start, over))))
        .collect();
    let (mut small, mut big) = (Count::default(), Count::default());
    for (tenant, asking) in asking {
        let count = asking.await.expect("it ends");
        let sum = if tenant == "small" { &mut small } else { &mut big };
        (sum.asked, sum.admitted) = (sum.asked + count.asked, sum.admitted + count.admitted);
    }
    let rate = |calls: u32| f64::from(calls) / seconds.as_secs_f64();
    say!(
        "small: {:.1} of {:.1}/s; big: {:.1} of {:.1}/s; ceiling 40/s",
        rate(small.admitted),
        rate(small.asked),
        rate(big.admitted),
        rate(big.asked)
    );
    // Calls come by the clock of a busy machine here; on a clock that is set the proofs of crates/limits ask for more.
    assert!(f64::from(small.admitted) >= 0.9 * f64::from(small.asked), "{} of {}", small.admitted, small.asked);
    let used = rate(small.admitted + big.admitted) / 40.0;
    assert!((0.93..=1.0 + 2.0 / seconds.as_secs_f64()).contains(&used), "{used} of the ceiling");
}
