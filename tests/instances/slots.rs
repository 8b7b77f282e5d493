//! Calls at a time over several servers: the slots of caps are leases.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::fleet::Fleet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_holds_over_all_servers_and_a_killed_one_gives_its_slots_back() {
    let Some(mut fleet) = Fleet::start(2, &[("REDIS_TIMEOUT", "1s")]).await else { return };
    let (one, other) = (fleet.client(0, "acme", "u-42").await, fleet.client(1, "acme", "u-42").await);
    let slow = |client: &sluicegate_tests::Client, ms: u64| {
        let client = client.clone();
        tokio::spawn(async move { client.call("slow", json!({ "ms": ms })).await })
    };
    // Two at a time, wherever they run; and again as soon as they have ended.
    for _ in 0..3 {
        let running = [slow(&one, 400), slow(&other, 400)];
        tokio::time::sleep(Duration::from_millis(200)).await;
        for client in [&one, &other] {
            let refused = client.call("slow", json!({ "ms": 1 })).await;
            assert_eq!(refused.status, 429);
            let data = refused.error()["data"].clone();
            assert_eq!(data["reason"], "concurrency_limit_exceeded");
            assert_eq!((&data["limit"], &data["current_usage"]), (&json!("2 concurrent"), &json!(2)));
        }
        for call in running {
            assert!(call.await.expect("it runs").is_ok());
        }
    }
    // What a killed server held comes back by itself.
    let held = [slow(&one, 60_000), slow(&one, 60_000)];
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(other.call("slow", json!({ "ms": 1 })).await.status, 429);
    fleet.servers[0].take().expect("it runs").signal("KILL").await;
    held.iter().for_each(tokio::task::JoinHandle::abort);
    let killed = Instant::now();
    while !other.call("slow", json!({ "ms": 1 })).await.is_ok() {
        assert!(killed.elapsed() < Duration::from_secs(12), "the slots do not come back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    say!("the slots of a killed server were back after {:?}", killed.elapsed());
}
