//! Calls that tell how far they are: they hold their permit as long as they tell, and not a moment longer.

use std::time::{Duration, Instant};

use serde_json::json;
use sluicegate_tests::{Client, Database, Era, TestServer, on_both_databases};

/// Starts a call that tells its progress; what comes back is its answer while it is told.
async fn narrate(client: &Client, era: Era, ms: u64) -> reqwest::Response {
    let more = json!({ "_meta": { "progressToken": "p-1" } });
    let body = Client::call_body(era, "narrate", json!({ "ms": ms }), more);
    let client = if era == Era::Modern { client.modern("tools/call", "narrate") } else { client.clone() };
    client.post(body).send().await.expect("an answer")
}

/// How long until no call of the tool runs.
async fn until_idle(server: &TestServer) -> Duration {
    let gone = Instant::now();
    while server.ran.sleeping() > 0 {
        assert!(gone.elapsed() < Duration::from_secs(5), "the tool goes on for nobody");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    gone.elapsed()
}

on_both_databases! {
    async fn a_streamed_call_holds_its_permit_to_its_end(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        for era in [Era::Legacy, Era::Modern] {
            let started = Instant::now();
            let mut told = narrate(&client, era, 1_500).await;
            assert_eq!(told.headers()["content-type"], "text/event-stream", "{era:?}");
            let (mut text, mut looks) = (String::new(), 0);
            while let Some(piece) = told.chunk().await.expect("the stream goes on") {
                text.push_str(std::str::from_utf8(&piece).expect("text"));
                // What is read late may have been told by a call that has ended since.
                if started.elapsed() < Duration::from_millis(1_000) {
                    looks += 1;
                    let second = client.call("narrate", json!({ "ms": 1 })).await;
                    assert_eq!(second.status, 429, "{era:?}: the permit is held while the call tells");
                }
            }
            assert!(looks > 1, "{era:?}: nobody looked while it told");
            assert!(started.elapsed() >= Duration::from_millis(1_500));
            assert!(text.matches("notifications/progress").count() > 5, "{text}");
            assert!(client.call("narrate", json!({ "ms": 1 })).await.is_ok(), "{era:?}: and free afterwards");
        }
    }

    async fn a_client_that_goes_away_ends_the_call_and_frees_its_permit(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        for era in [Era::Legacy, Era::Modern] {
            for _ in 0..3 {
                let mut told = narrate(&client, era, 600_000).await;
                assert!(told.chunk().await.expect("it tells").is_some());
                drop(told);
                let took = until_idle(&server).await;
                assert!(took < Duration::from_millis(100), "{era:?}: the tool went on for {took:?}");
            }
            let deadline = Instant::now() + Duration::from_secs(1);
            while !client.call("narrate", json!({ "ms": 1 })).await.is_ok() {
                assert!(Instant::now() < deadline, "{era:?}: the permit is not back");
            }
        }
    }

    async fn nobody_is_told_what_he_did_not_ask_for(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let answer = client.call("narrate", json!({ "ms": 50 })).await;
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.ok_text(), "told");
    }
}
