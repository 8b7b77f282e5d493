//! The quickstart's demonstration: agents that really call, one of which really runs away.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use sluicegate::control::{Actor, Control, NewToken, PageRequest, Role};
use sluicegate_tests::{Database, ServerProcess};

async fn start(database: &Database) -> ServerProcess {
    let program = Path::new(env!("CARGO_BIN_EXE_testbed")).with_file_name("examples").join("quickstart");
    assert!(program.exists(), "build it first: cargo build --example quickstart");
    ServerProcess::start_with(&program, database, database.folder(), &["--demo"], &[]).await
}

/// The first row of the heat map, as the admin API tells it, when it has this many refusals.
async fn most_refused(server: &ServerProcess, token: &str, at_least: i64) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = server.endpoint().replace("/mcp", "/api/v1/throttle_by_tool?range=15m");
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let answer = client.get(&url).bearer_auth(token).send().await.expect("an answer");
        let map: Value = answer.json().await.expect("JSON");
        let first = &map["rows"][0];
        if first["total"]["refusals"].as_i64().is_some_and(|refusals| refusals >= at_least) {
            return first.clone();
        }
        assert!(tokio::time::Instant::now() < until, "nobody is refused that often: {map}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demonstration_shows_a_runaway_and_starts_again_where_it_was() {
    let database = Database::sqlite().await;
    let server = start(&database).await;
    let control = Control::connect(&database.url(), Default::default()).await.expect("the database opens");
    let root = Actor::cli("root");
    let token = NewToken { name: "test".to_owned(), role: Role::Viewer, tenant: None, expires_at: None };
    let token = control.admin_tokens().create(&root, token).await.expect("a token");
    let first = most_refused(&server, token.token.expose(), 10).await;
    assert_eq!(first["caller"]["agent_name"], "crawler", "{first}");
    server.terminate().await;

    let server = start(&database).await;
    let before = first["total"]["refusals"].as_i64().expect("a number");
    most_refused(&server, token.token.expose(), before + 10).await;
    let (tenant, agent) = ("acme".into(), "crawler".into());
    let keys = control.keys().list(&root, &tenant, Some(&agent), &PageRequest::default()).await.expect("keys").items;
    let open = keys.iter().filter(|key| key.revoked_at.is_none()).count();
    assert_eq!((keys.len(), open), (2, 1), "the key of the first run is revoked");
    server.terminate().await;
}
