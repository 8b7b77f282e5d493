//! What becomes of calls while Redis is away, as `on_outage` says, and what is true again once it is back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluicegate_tests::{Answer, Client, ServerProcess};

use crate::fleet::Fleet;

/// Five a minute are allowed, in a bucket.
async fn export(client: &Client, calls: usize) -> Vec<Answer> {
    let mut answers = Vec::new();
    for _ in 0..calls {
        answers.push(client.call("export", json!({ "dataset": "sales" })).await);
    }
    answers
}

fn served(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.is_ok()).count()
}

async fn engine(server: &ServerProcess) -> (String, Value) {
    let readiness = Fleet::readiness(server).await;
    (readiness["status"].as_str().expect("a word").to_owned(), readiness["engine"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_server_enforces_its_share_at_once_and_redis_is_found_again() {
    let Some(mut fleet) = Fleet::start(2, &[("LIMIT_TOOL", "10/min")]).await else { return };
    let (one, other) = (fleet.client(0, "acme", "u-42").await, fleet.client(1, "acme", "u-42").await);
    assert!(served(&export(&one, 1).await) == 1);
    fleet.redis.stop().await;
    let lost = export(&one, 1).await;
    assert!(lost[0].is_ok() || lost[0].status == 429, "a call that Redis did not decide is decided: {}", lost[0].text);
    fleet.until_degraded(true).await;
    for server in fleet.running() {
        assert_eq!(engine(server).await, ("degraded".to_owned(), json!("degraded")));
    }
    // Five a minute are three for one and two for the other; what Redis had admitted here counts.
    let admitted = served(&lost) + served(&export(&one, 6).await) + served(&export(&other, 6).await);
    assert_eq!(admitted, 4, "a share of five, less what was used");
    let start = Instant::now();
    let refused = export(&one, 50).await;
    assert_eq!(served(&refused), 0);
    say!("a refusal without Redis takes {:?} with its way", start.elapsed() / 50);
    for server in fleet.running() {
        let within = Fleet::metrics(server).await;
        assert_eq!(within.sum("sluicegate_engine_outages_total", &[]), 1.0);
        assert!(server.log().await.contains("limits are enforced by this instance alone"), "the log says so");
    }
    fleet.redis.start_again().await;
    let recovered = fleet.until_degraded(false).await;
    assert!(recovered < Duration::from_secs(2), "{recovered:?}");
    for server in fleet.running() {
        assert_eq!(engine(server).await, ("ready".to_owned(), json!("ok")));
    }
    let third = fleet.client(0, "globex", "u-1").await;
    assert_eq!(served(&export(&third, 8).await), 5, "all of a limit, decided by Redis");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_refused_or_pass_where_that_is_wanted() {
    for (on_outage, expected) in [("closed", 503), ("open", 200)] {
        let Some(mut fleet) = Fleet::start(1, &[("ON_OUTAGE", on_outage)]).await else { return };
        let client = fleet.client(0, "acme", "u-42").await;
        assert_eq!(served(&export(&client, 8).await), 5);
        fleet.redis.stop().await;
        export(&client, 1).await;
        fleet.until_degraded(true).await;
        for answer in export(&client, 8).await {
            assert_eq!(answer.status, expected, "{on_outage}: {}", answer.text);
            assert_eq!(answer.header("retry-after").is_some(), expected == 503);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_windows_outlast_a_flush() {
    let Some(fleet) = Fleet::start(2, &[("LIMIT_TENANT", "10/h"), ("REDIS_TIMEOUT", "1s")]).await else { return };
    let (one, other) = (fleet.client(0, "acme", "u-42").await, fleet.client(1, "acme", "u-42").await);
    let echo = async |client: &Client, calls: usize| {
        let mut served = 0;
        for _ in 0..calls {
            served += usize::from(client.call("echo", json!({ "text": "x" })).await.is_ok());
        }
        served
    };
    assert_eq!(echo(&one, 5).await + echo(&other, 9).await, 10);
    fleet.redis.tell(&["FLUSHALL"]).await;
    // Each server looks for what it knew twice a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for server in fleet.running() {
        assert!(server.log().await.contains("has lost its counters"));
    }
    assert_eq!(echo(&one, 20).await + echo(&other, 20).await, 0, "both have used up their shares of the window");
    let globex = fleet.client(0, "globex", "u-1").await;
    assert_eq!(echo(&globex, 20).await, 5, "of others each server lets its share through");
}
