//! SIGTERM under load: what runs ends, what comes is told so, and every call is accounted for.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sluicegate::control::{Control, KeyScopes};
use sluicegate_tests::server::{get, mint};
use sluicegate_tests::{Client, Database, Exposition, ServerProcess, TestServer, on_both_databases};
use tokio::sync::Mutex;

/// What the callers saw.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Seen {
    ok: usize,
    unavailable: usize,
}

/// Calls until the server says that it is going.
async fn call_until_refused(client: Client, agent: usize) -> Seen {
    let mut seen = Seen::default();
    loop {
        let id = json!(format!("call-{agent}-{}", seen.ok));
        let answer = client.call_as(id.clone(), "slow", json!({ "ms": 150 })).await;
        match answer.status.as_u16() {
            200 => {
                assert_eq!(answer.ok_text(), "slept", "whoever was let in gets an answer");
                seen.ok += 1;
            }
            503 => {
                assert!(answer.header("retry-after").is_some(), "{answer:?}");
                let refusal = answer.json();
                assert_eq!((&refusal["id"], &refusal["error"]["data"]["reason"]), (&id, &json!("overloaded")));
                seen.unavailable += 1;
                return seen;
            }
            _ => panic!("{answer:?}"),
        }
    }
}

/// Reads the metrics until the server is gone; the last that were seen.
async fn last_metrics(address: String, latest: Arc<Mutex<String>>) {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    while let Ok(answer) = http.get(format!("http://{address}/metrics")).send().await {
        if let Ok(text) = answer.text().await {
            *latest.lock().await = text;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

on_both_databases! {
    async fn who_calls_may_still_speak_to_calls_that_run(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let running = tokio::spawn({
            let client = client.clone();
            async move { client.call("slow", json!({ "ms": 800 })).await }
        });
        server.metrics_until(|metrics| metrics.sum("sluicegate_in_flight", &[("scope", "tool")]) == 1.0).await;
        let meanwhile = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
            assert_eq!(client.send(cancelled.to_string()).await.status, 202);
            assert_eq!(client.call("echo", json!({ "text": "x" })).await.status, 503);
        };
        tokio::join!(meanwhile, server.stop());
        assert!(running.await.expect("it is answered").is_ok());
    }

    async fn sigterm_under_load_loses_no_call(database: Database) {
        let settings = [("METRICS_BIND", "127.0.0.1:0"), ("DRAIN_TIMEOUT", "8s")];
        let program = Path::new(env!("CARGO_BIN_EXE_testbed"));
        let server = ServerProcess::start(program, &database, database.folder(), &settings).await;
        let control = Control::connect(&database.url(), Default::default()).await.expect("the database opens");
        let mut callers = Vec::new();
        for agent in 0..8 {
            let (key, _) = mint(&control, "acme", &format!("agent-{agent}"), KeyScopes::all()).await.expect("a key");
            let client = Client::new(server.endpoint(), key);
            callers.push(tokio::spawn(call_until_refused(client.clone(), agent)));
            callers.push(tokio::spawn(call_until_refused(client, agent)));
        }
        let latest = Arc::new(Mutex::new(String::new()));
        let address = server.metrics().expect("metrics have a port of their own").to_owned();
        let watching = tokio::spawn(last_metrics(address.clone(), Arc::clone(&latest)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let told = Instant::now();
        server.signal("TERM").await;
        let ready = format!("http://{address}/readyz");
        while get(&ready).await.0 == 200 {
            assert!(told.elapsed() < Duration::from_secs(1), "the signal is not noticed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.ended().await;
        assert!(told.elapsed() < Duration::from_secs(8), "{:?}", told.elapsed());
        let mut seen = Seen::default();
        for caller in callers {
            let one = caller.await.expect("every call is answered");
            seen = Seen { ok: seen.ok + one.ok, unavailable: seen.unavailable + one.unavailable };
        }
        watching.await.expect("the metrics end with the server");
        let metrics = Exposition::read(&latest.lock().await).expect("Prometheus reads it");
        let calls = |outcome| metrics.sum("sluicegate_calls_total", &[("tool", "slow"), ("outcome", outcome)]);
        assert!(seen.ok > 16 && seen.unavailable == 16, "{seen:?}");
        assert_eq!((calls("ok"), calls("throttled")), (seen.ok as f64, 16.0));
        assert_eq!(metrics.sum("sluicegate_calls_total", &[]), (seen.ok + 16) as f64);
        let overloaded = [("scope", "server"), ("reason", "overloaded")];
        assert_eq!(metrics.sum("sluicegate_throttled_total", &overloaded), 16.0);
    }
}
