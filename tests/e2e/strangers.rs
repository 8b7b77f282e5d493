//! Addresses that fail too often, seen from outside.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use sluicegate::control::{ApiKey, KeyId};
use sluicegate_tests::{Answer, Client, Database, ServerProcess, TestServer};

/// A key that nobody has made, with a right checksum.
fn invented(at: usize) -> String {
    let id: KeyId = format!("key_{at:032x}").parse().expect("an id");
    ApiKey::generate(&mut rand::rng(), id, &"live".parse().expect("an environment")).expose().to_owned()
}

async fn call(client: &Client) -> Answer {
    client.call("whoami", json!({})).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_fails_too_often_is_told_to_wait_and_good_keys_from_it_are_served() {
    let server = TestServer::start_with(&Database::sqlite().await, |settings| {
        settings.failed_logins_per_address = "5/min".to_owned();
        settings.trusted_proxies = "127.0.0.1".to_owned();
    })
    .await;
    let good = server.client("acme", "u-42").await;
    let bad = |at| good.clone().with_key(&invented(at));
    for at in 0..5 {
        assert_eq!(call(&bad(at)).await.status, 401);
    }
    for answer in [call(&bad(5)).await, call(&bad(0)).await, call(&good.clone().with_key("")).await] {
        assert_eq!(answer.status, 429, "{answer:?}");
        assert_eq!(answer.header("retry-after"), Some("12"));
        assert_eq!(answer.error()["data"]["reason"], "too_many_failures");
        assert!(answer.json().get("id").is_none(), "answered from the headers alone");
    }
    let new = server.client("acme", "never seen before").await;
    assert!(call(&good).await.is_ok() && call(&new).await.is_ok(), "good keys, known and new");
    let elsewhere = bad(6).with_header("X-Forwarded-For", "203.0.113.7");
    assert_eq!(call(&elsewhere).await.status, 401, "another address behind the proxy");
    server.advance(Duration::from_secs(12));
    assert_eq!(call(&bad(7)).await.status, 401);
    assert_eq!(call(&bad(8)).await.status, 429);
    let metrics = server.metrics().await;
    assert_eq!(metrics.sum("sluicegate_refused_total", &[("reason", "too_many_failures")]), 4.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_fails_too_often_is_one_line_in_the_log_and_not_one_for_each_failure() {
    let database = Database::sqlite().await;
    let settings = [("FAILED_LOGINS_PER_ADDRESS", "3/min"), ("LOG", "info")];
    let testbed = Path::new(env!("CARGO_BIN_EXE_testbed"));
    let server = ServerProcess::start(testbed, &database, database.folder(), &settings).await;
    for at in 0..20 {
        let status = call(&Client::new(server.endpoint(), invented(at))).await.status;
        assert_eq!(status, if at < 3 { 401 } else { 429 });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let log = server.log().await;
    assert_eq!(log.matches("too_many_failures").count(), 1, "{log}");
    assert!(log.contains("127.0.0.1"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_are_not_served_reach_neither_panel_nor_api() {
    let server = TestServer::start(&Database::sqlite().await).await;
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let get = async |path: &str, host: &str| {
        let request = http.get(format!("http://{}{path}", server.address())).header("host", host);
        request.send().await.expect("an answer").status().as_u16()
    };
    for path in ["/admin/sign-in", "/api/v1/openapi.json"] {
        assert_eq!(get(path, "evil.example").await, 403, "{path}");
        assert_ne!(get(path, "localhost").await, 403, "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(path, "10.1.2.3").await, 200, "probes ask by address");
    }
}
