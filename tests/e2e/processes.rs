//! Servers as processes of their own: changes that cross them, what they log, how they end.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use sluicegate::control::{Control, KeyId, KeyScopes, WallClock};
use sluicegate_tests::issuer::{SECRET, claims_from, trusting, unsigned};
use sluicegate_tests::server::{actor, mint};
use sluicegate_tests::{Client, Database, ServerProcess, SigningKey, on_both_databases};

async fn start(database: &Database, data: &Path, settings: &[(&str, &str)]) -> ServerProcess {
    ServerProcess::start(Path::new(env!("CARGO_BIN_EXE_testbed")), database, data, settings).await
}

async fn echo(client: &Client) -> u16 {
    client.call("echo", json!({ "text": "x" })).await.status.as_u16()
}

/// The control plane from outside, as the command line has it, and a key.
async fn control_and_key(database: &Database) -> (Control, String, KeyId) {
    let control = Control::connect(&database.url(), Default::default()).await.expect("the database opens");
    let (key, id) = mint(&control, "acme", "u-42", KeyScopes::all()).await.expect("the key is made");
    (control, key, id)
}

/// Waits until both clients are answered like this; how long that took.
async fn until(status: u16, clients: [&Client; 2]) -> Duration {
    let start = Instant::now();
    while echo(clients[0]).await != status || echo(clients[1]).await != status {
        assert!(start.elapsed() < Duration::from_secs(2), "not answered with {status}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

on_both_databases! {
    async fn two_processes_obey_a_revocation_and_a_suspension_within_a_second(database: Database) {
        let other_data = tempfile::tempdir().expect("a folder");
        let one = start(&database, database.folder(), &[]).await;
        let other = start(&database, other_data.path(), &[]).await;
        let (control, key, id) = control_and_key(&database).await;
        let clients = [&one, &other].map(|server| Client::new(server.endpoint(), key.clone()));
        let clients = [&clients[0], &clients[1]];
        until(200, clients).await;
        control.tenants().suspend(&actor(), &"acme".into()).await.expect("suspended");
        assert!(until(403, clients).await < Duration::from_secs(1));
        control.tenants().resume(&actor(), &"acme".into()).await.expect("resumed");
        assert!(until(200, clients).await < Duration::from_secs(1));
        control.keys().revoke(&actor(), id).await.expect("revoked");
        assert!(until(401, clients).await < Duration::from_secs(1));
    }

    async fn no_part_of_a_secret_is_ever_logged(database: Database) {
        let settings = [&[("LOG", "trace")][..], &trusting(SECRET)].concat();
        let server = start(&database, database.folder(), &settings).await;
        let (_control, key, id) = control_and_key(&database).await;
        let client = Client::new(server.endpoint(), key.clone());
        let marked = client.call("echo", json!({ "text": "an argument of the caller" })).await;
        assert!(marked.is_ok());
        let forged = sluicegate::control::ApiKey::generate(&mut rand::rng(), id, &"live".parse().expect("an environment"));
        assert_eq!(echo(&client.clone().with_key(forged.expose())).await, 401);
        assert_eq!(echo(&client.clone().with_key(&key[..key.len() - 1])).await, 401);
        for _ in 0..6 {
            client.call("export", json!({ "dataset": "x" })).await;
        }
        let (signs, stranger) = (SigningKey::secret("one", SECRET), SigningKey::secret("one", "another secret of many characters"));
        let good = claims_from(WallClock::system().now_ms(), "acme", "by-token");
        let with = |name: &str, value: serde_json::Value| {
            let mut claims = good.clone();
            claims[name] = value;
            signs.sign(&claims)
        };
        let tokens = [
            (200, signs.sign(&good)),
            (401, stranger.sign(&good)),
            (401, with("exp", json!(1))),
            (401, with("aud", json!("https://elsewhere.example.com"))),
            (403, with("tenant_id", json!(["acme"]))),
            (403, with("sub", json!(7))),
            (401, unsigned(&json!({ "alg": "none" }), &good)),
        ];
        for (status, token) in &tokens {
            assert_eq!(echo(&client.clone().with_key(token)).await, *status);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let log = server.log().await;
        assert!(!log.contains(SECRET) && log.contains("by-token"), "who calls is logged, and not how it is proved");
        for (_, token) in &tokens {
            for part in token.split('.').skip(1).filter(|part| !part.is_empty()) {
                assert!(!log.contains(part), "a part of a token is in the log");
            }
        }
        for key in [&key, forged.expose()] {
            let secret = key.split('_').nth(3).expect("a secret");
            assert!(!log.contains(secret), "the secret is in the log");
        }
        assert!(log.contains("rate_limit_exceeded"), "a refusal is logged");
    }

    async fn whoever_comes_during_a_drain_is_told_so(database: Database) {
        let server = start(&database, database.folder(), &[]).await;
        let (_control, key, _) = control_and_key(&database).await;
        let client = Client::new(server.endpoint(), key);
        // From now on the key is known, so that the next call runs as soon as it comes.
        assert_eq!(echo(&client).await, 200);
        let running = tokio::spawn({
            let client = client.clone();
            async move { client.call("slow", json!({ "ms": 900 })).await }
        });
        tokio::time::sleep(Duration::from_millis(150)).await;
        let ending = tokio::spawn(server.terminate());
        tokio::time::sleep(Duration::from_millis(150)).await;
        let late = client.call_as(json!("late"), "echo", json!({ "text": "x" })).await;
        assert_eq!((late.status.as_u16(), &late.json()["id"]), (503, &json!("late")));
        assert_eq!(late.header("retry-after"), Some("1"));
        assert_eq!(late.error()["data"]["reason"], "overloaded");
        assert!(running.await.expect("it runs").is_ok());
        ending.await.expect("it ends well");
    }

    async fn a_process_that_is_told_to_end_lets_its_calls_end(database: Database) {
        let server = start(&database, database.folder(), &[]).await;
        let (_control, key, _) = control_and_key(&database).await;
        let client = Client::new(server.endpoint(), key);
        // From now on the key is known, so that the next call runs as soon as it comes.
        assert_eq!(echo(&client).await, 200);
        let running = tokio::spawn({
            let client = client.clone();
            async move { client.call("slow", json!({ "ms": 400 })).await }
        });
        tokio::time::sleep(Duration::from_millis(150)).await;
        let ended = Instant::now();
        server.terminate().await;
        assert!(running.await.expect("it runs").is_ok(), "the running call was served");
        assert!(ended.elapsed() < Duration::from_secs(5));
    }
}
