//! Permits: how many calls run at once, and that every slot comes back.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use sluicegate_tests::{Client, Database, TestServer, with_both_engines};

fn slow(client: &Client, ms: u64) -> impl Future<Output = sluicegate_tests::Answer> + use<> {
    let client = client.clone();
    async move { client.call("slow", json!({ "ms": ms })).await }
}

/// Waits until so many calls of `slow` run.
async fn until_sleeping(server: &TestServer, calls: usize) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while server.ran.sleeping() != calls {
        assert!(tokio::time::Instant::now() < deadline, "{} calls run, not {calls}", server.ran.sleeping());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

with_both_engines! {
    async fn of_nine_parallel_calls_two_run_and_seven_are_refused(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let running = [tokio::spawn(slow(&client, 700)), tokio::spawn(slow(&client, 700))];
        until_sleeping(&server, 2).await;
        let refused = join_all((0..7).map(|_| slow(&client, 1))).await;
        for refusal in &refused {
            assert_eq!(refusal.status, 429);
            let data = refusal.error()["data"].clone();
            assert_eq!(data["reason"], "concurrency_limit_exceeded");
            assert_eq!(data["limit"], "2 concurrent");
            assert_eq!(data["current_usage"], 2);
            assert_eq!(data["exact"], false, "nobody knows when a call ends");
            assert!(data["retry_after_seconds"].as_u64() >= Some(1));
        }
        for call in running {
            assert!(call.await.expect("it runs").is_ok());
        }
        let again = join_all([slow(&client, 1), slow(&client, 1)]).await;
        assert!(again.iter().all(sluicegate_tests::Answer::is_ok), "all permits are back");
    }

    async fn permits_come_back_when_clients_vanish(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        for _ in 0..3 {
            let calls: Vec<_> = (0..2).map(|_| tokio::spawn(slow(&client, 600_000))).collect();
            until_sleeping(&server, 2).await;
            calls.iter().for_each(tokio::task::JoinHandle::abort);
            until_sleeping(&server, 0).await;
        }
        let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
        while !slow(&client, 1).await.is_ok() {
            assert!(tokio::time::Instant::now() < deadline, "the permits are not back");
        }
    }

    async fn permits_come_back_after_panics_and_deadlines(database: Database) {
        let server = TestServer::start_with(&database, |settings| settings.agent_concurrency = 2).await;
        let client = server.client("acme", "u-42").await;
        for _ in 0..4 {
            let ended = join_all(["broken", "endless"].map(|tool| client.call(tool, json!({})))).await;
            assert!(ended.iter().all(|answer| answer.json()["result"]["isError"] == true), "{ended:?}");
        }
    }

    async fn one_agent_cannot_fill_the_server_with_anything(database: Database) {
        let server = TestServer::start_with(&database, |settings| {
            settings.agent_concurrency = 1;
            settings.max_in_flight = 2;
        }).await;
        let (client, other, third) = (
            server.client("acme", "u-42").await,
            server.client("acme", "u-43").await,
            server.client("acme", "u-44").await,
        );
        let running = tokio::spawn(slow(&client, 700));
        until_sleeping(&server, 1).await;
        let list = client.request(json!(1), "tools/list", json!({})).await;
        assert_eq!(list.error()["data"]["scope"], "agent", "a list counts as well");
        let second = tokio::spawn(slow(&other, 700));
        until_sleeping(&server, 2).await;
        let overloaded = third.call("echo", json!({ "text": "x" })).await;
        assert_eq!(overloaded.status, 429);
        assert_eq!(overloaded.error()["data"]["reason"], "overloaded");
        assert_eq!(overloaded.error()["data"]["scope"], "server");
        assert!(running.await.expect("it runs").is_ok() && second.await.expect("it runs").is_ok());
    }
}
