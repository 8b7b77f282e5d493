//! How often Redis is asked.

use serde_json::json;

use crate::fleet::Fleet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_asked_once_for_each_call_admitted_or_refused() {
    let Some(fleet) = Fleet::start(1, &[("REDIS_TIMEOUT", "1s")]).await else { return };
    let client = fleet.client(0, "acme", "u-42").await;
    // The script becomes known with the first call.
    while !client.call("export", json!({ "dataset": "sales" })).await.is_ok() {}
    fleet.redis.tell(&["CONFIG", "RESETSTAT"]).await;
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(client.call("export", json!({ "dataset": "sales" })).await.status.as_u16());
    }
    for _ in 0..10 {
        statuses.push(client.call("echo", json!({ "text": "hello" })).await.status.as_u16());
    }
    let count = |status| statuses.iter().filter(|one| **one == status).count();
    assert_eq!((count(200), count(429)), (14, 6));
    let (calls, micros) = fleet.redis.calls_of("evalsha").await;
    say!("{calls} EVALSHA for 20 calls, {micros} us in all");
    assert_eq!(calls, 20);
}
