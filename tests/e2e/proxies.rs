//! Behind a proxy: whose word counts about the client and about the request's id.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::control::{Control, KeyScopes};
use sluicegate_tests::server::mint;
use sluicegate_tests::{Client, Database, ServerProcess};

/// A server, and a client that says of itself what proxies say.
async fn start(database: &Database, settings: &[(&str, &str)]) -> (ServerProcess, Client) {
    let program = Path::new(env!("CARGO_BIN_EXE_testbed"));
    let settings = [settings, &[("LOG", "info,sluicegate::call=debug")]].concat();
    let server = ServerProcess::start(program, database, database.folder(), &settings).await;
    let control = Control::connect(&database.url(), Default::default()).await.expect("the database opens");
    let (key, _) = mint(&control, "acme", "u-42", KeyScopes::all()).await.expect("the key is made");
    let client = Client::new(server.endpoint(), key);
    let client = client.with_header("X-Request-Id", "edge-7f3a").with_header("X-Forwarded-For", "6.6.6.6, 203.0.113.5");
    (server, client)
}

/// The fields of the line that tells of a call.
async fn line(server: &ServerProcess, request_id: &str) -> Value {
    for _ in 0..100 {
        let log = server.log().await;
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut of_request = lines.map(|line| line["fields"].clone()).filter(|line| line["request_id"] == request_id);
        if let Some(line) = of_request.find(|line| line["message"] == "served") {
            return line;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{request_id} is not in the log: {}", server.log().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trusted_proxy_says_who_the_client_is_and_what_the_request_is_called() {
    let database = Database::sqlite().await;
    let (server, client) = start(&database, &[("TRUSTED_PROXIES", "127.0.0.0/8")]).await;
    let answer = client.call("echo", json!({ "text": "x" })).await;
    assert_eq!(answer.header("x-request-id"), Some("edge-7f3a"));
    assert_eq!(line(&server, "edge-7f3a").await["client"], "203.0.113.5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anybody_else_is_not_believed() {
    let database = Database::sqlite().await;
    let (server, client) = start(&database, &[("TRUSTED_PROXIES", "192.0.2.0/24")]).await;
    let answer = client.call("echo", json!({ "text": "x" })).await;
    let id = answer.header("x-request-id").expect("an id");
    assert_ne!(id, "edge-7f3a");
    assert_eq!(line(&server, id).await["client"], "127.0.0.1");
}
