//! Limits in `.env` and `sluicegate.toml`: read again while the server runs, and shown by `check` and `explain`.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::control::{Control, KeyScopes};
use sluicegate_tests::server::mint;
use sluicegate_tests::{Client, Database, Exposition, ServerProcess};
use tokio::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_testbed");

async fn start(database: &Database, settings: &[(&str, &str)]) -> (ServerProcess, Client) {
    let server = ServerProcess::start(Path::new(PROGRAM), database, database.folder(), settings).await;
    let control = Control::connect(&database.url(), Default::default()).await.expect("the database opens");
    let (key, _) = mint(&control, "acme", "u-42", KeyScopes::all()).await.expect("the key is made");
    let client = Client::new(server.endpoint(), key);
    (server, client)
}

/// A command in the folder of the files.
async fn run(database: &Database, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.current_dir(database.folder()).arg("--data").arg(database.folder());
    command.args(["--database-url", &database.url()]).args(arguments).output().await.expect("the command runs")
}

async fn json_of(database: &Database, arguments: &[&str]) -> Value {
    let output = run(database, &[arguments, &["--json"]].concat()).await;
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn write(database: &Database, name: &str, text: &str) {
    std::fs::write(database.folder().join(name), text).expect("the file is written");
}

/// The limit of a tool in force, with its sources, as `explain` has it.
async fn rate_of(database: &Database, tool: &str) -> Value {
    let question = ["limit", "explain", "--tenant", "acme", "--agent", "u-42", "--tool", tool];
    let explained = json_of(database, &question).await;
    assert_eq!(explained["live"], true);
    let mut limits = explained["limits"].as_array().expect("a list").iter();
    limits.find(|limit| limit["scope"] == "tool" && limit["kind"] == "rate").expect("a rate").clone()
}

async fn until_rate(database: &Database, tool: &str, text: &str) -> Value {
    for _ in 0..60 {
        let rate = rate_of(database, tool).await;
        if rate["text"] == text {
            return rate;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{text} is not in force: {}", rate_of(database, tool).await)
}

async fn until_reloads(server: &ServerProcess, result: &str, count: f64) {
    for _ in 0..60 {
        let metrics = Exposition::read(&server.get("/metrics").await.1).expect("Prometheus reads it");
        if metrics.sum("sluicegate_policy_reloads_total", &[("result", result)]) >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not {count} reloads that are {result}");
}

async fn export(client: &Client) -> u16 {
    client.call("export", json!({ "dataset": "x" })).await.status.as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_put_into_dotenv_holds_while_the_server_runs_and_a_mistyped_one_changes_nothing() {
    let database = Database::sqlite().await;
    let (server, client) = start(&database, &[]).await;
    assert_eq!(rate_of(&database, "export").await["source"]["from"], "declared");
    write(&database, ".env", "SLUICEGATE_LIMIT__EXPORT=2/min\n");
    server.signal("HUP").await;
    let rate = until_rate(&database, "export", "2/min").await;
    assert_eq!(rate["source"], json!({ "from": "config", "setting": "SLUICEGATE_LIMIT__EXPORT", "source": ".env" }));
    assert_eq!(rate["shadows"][0], json!({ "text": "5/min", "source": { "from": "declared" } }));
    assert_eq!([export(&client).await, export(&client).await, export(&client).await], [200, 200, 429]);
    assert!(run(&database, &["check"]).await.status.success());

    write(&database, ".env", "SLUICEGATE_LIMIT__EXPORT=20/mn\n");
    server.signal("HUP").await;
    until_reloads(&server, "invalid", 1.0).await;
    assert_eq!(rate_of(&database, "export").await["text"], "2/min", "the one before stays");
    assert_eq!(export(&client).await, 429);
    assert!(server.log().await.contains("unknown unit `mn`"), "{}", server.log().await);
    let (status, ready) = server.get("/readyz").await;
    assert_eq!((status, ready.contains(r#""settings":"invalid""#)), (200, true), "{ready}");
    let check = run(&database, &["check"]).await;
    let said = String::from_utf8(check.stderr).expect("text");
    assert!(!check.status.success());
    for part in ["SLUICEGATE_LIMIT__EXPORT (.env)", "unknown unit `mn`", "the running server keeps its earlier limits"]
    {
        assert!(said.contains(part), "{said}");
    }

    // Without a signal, as the files are looked at.
    write(&database, ".env", "SLUICEGATE_LIMIT__EXPORT=3/min\nSLUICEGATE_LIMIT__EXPORT__BURST=4\n");
    until_rate(&database, "export", "3/min").await;
    assert!(server.get("/readyz").await.1.contains(r#""status":"ready""#));
    assert_eq!([export(&client).await, export(&client).await, export(&client).await], [200, 200, 429]);
    server.terminate().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_environment_wins_over_dotenv_that_over_the_file_and_the_database_over_all() {
    let database = Database::sqlite().await;
    write(
        &database,
        "sluicegate.toml",
        "limit_agent = \"90/min\"\n[limits.export]\nrate = \"1/min\"\n[limits.echo]\nrate = \"7/min\"\n",
    );
    let (server, _client) = start(&database, &[("LIMIT__EXPORT", "4/min")]).await;
    assert_eq!(rate_of(&database, "export").await["text"], "4/min");
    assert_eq!(rate_of(&database, "echo").await["source"]["source"], "sluicegate.toml");
    write(
        &database,
        ".env",
        "SLUICEGATE_LIMIT__EXPORT=3/min\nSLUICEGATE_LIMIT__ECHO=8/min\nSLUICEGATE_IDLE_TIMEOUT=60s\n",
    );
    server.signal("HUP").await;
    until_rate(&database, "echo", "8/min").await;
    assert_eq!(rate_of(&database, "export").await["text"], "4/min", "the environment is as it was at the start");
    assert!(server.log().await.contains("need a restart"), "{}", server.log().await);
    assert!(run(&database, &["limit", "set", "--tool", "echo", "9/min"]).await.status.success());
    let rate = until_rate(&database, "echo", "9/min").await;
    assert_eq!((&rate["shadows"][0]["text"], &rate["shadows"][1]["text"]), (&json!("8/min"), &json!("600/min")));
    let checked = json_of(&database, &["check"]).await;
    let limits = checked["limits"].as_array().expect("a list");
    let has =
        |about, text, from| limits.contains(&json!({ "about": about, "kind": "rate", "text": text, "from": from }));
    assert!(has("tool echo", "8/min", "SLUICEGATE_LIMIT__ECHO (.env)"), "{limits:?}");
    assert!(has("agent", "90/min", "limit_agent (sluicegate.toml)"), "{limits:?}");
    assert_eq!(checked["database"]["pending"], 0);
    assert_eq!(checked["running"]["draining"], false);
    server.terminate().await;
}
