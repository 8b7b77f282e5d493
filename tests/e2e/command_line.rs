//! The command line as another process, beside a running server.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use sluicegate_tests::{Client, Database, ServerProcess, TestServer, on_both_databases};
use tokio::process::Command;

/// Runs a command on the database of a test.
async fn run(database: &Database, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.env_remove("SLUICEGATE_BIND").arg("--data").arg(database.folder());
    command.args(["--database-url", &database.url()]).args(arguments);
    command.output().await.expect("the command runs")
}

/// What a command that succeeded printed.
async fn ok(database: &Database, arguments: &[&str]) -> String {
    let output = run(database, arguments).await;
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

async fn json(database: &Database, arguments: &[&str]) -> Value {
    serde_json::from_str(&ok(database, &[arguments, &["--json"]].concat()).await).expect("JSON")
}

/// What a command that failed complained of.
async fn complaint(database: &Database, arguments: &[&str]) -> String {
    let output = run(database, arguments).await;
    assert!(!output.status.success(), "{arguments:?} succeeded");
    String::from_utf8(output.stderr).expect("text")
}

on_both_databases! {
    async fn a_limit_set_by_another_process_is_obeyed_within_a_second(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let export = || client.call("export", json!({ "dataset": "x" }));
        for _ in 0..5 {
            assert!(export().await.is_ok());
        }
        assert_eq!(export().await.status, 429);
        let said = ok(&database, &["limit", "set", "--tenant", "acme", "--tool", "export", "50/min"]).await;
        assert!(said.contains("acme") && said.contains("50/min"), "{said}");
        server.caught_up().await;
        for call in 0..45 {
            assert!(export().await.is_ok(), "call {call}");
        }
        assert_eq!(export().await.status, 429);
        let explained = json(&database, &["limit", "explain", "--tenant", "acme", "--agent", "u-42", "--tool", "export"]).await;
        assert_eq!(explained["live"], true);
        let tool = explained["limits"].as_array().expect("a list").iter().find(|limit| {
            limit["scope"] == "tool" && limit["kind"] == "rate"
        }).expect("the tool's limit");
        assert_eq!(tool["usage"]["used"], 50);
        assert_eq!(tool["usage"]["refuses"], true);
        assert_eq!(tool["shadows"][0]["text"], "5/min");
        assert!(tool["source"]["author"].as_str().expect("an author").starts_with("cli:"));
        ok(&database, &["limit", "unset", "--tenant", "acme", "--tool", "export"]).await;
        server.caught_up().await;
        assert_eq!(export().await.status, 429, "the declared limit holds again, used up");
    }

    async fn a_wrong_limit_has_the_same_message_everywhere(database: Database) {
        let server = TestServer::start(&database).await;
        server.client("acme", "u-42").await;
        let parser = "100/mn".parse::<sluicegate::limits::Quota>().expect_err("no limit").to_string();
        let said = complaint(&database, &["limit", "set", "--tenant", "acme", "--tool", "export", "100/mn"]).await;
        assert!(said.contains(&parser), "{said}");
        let said = complaint(&database, &["limit", "set", "--tenant", "acme", "--tool", "exprot", "1/min"]).await;
        assert!(said.contains("did you mean") && said.contains("export"), "{said}");
        let said = complaint(&database, &["limit", "set", "--tenant", "acmee", "1/min"]).await;
        assert!(said.contains("acmee"), "{said}");
        let said = complaint(&database, &["limit", "set", "1/min"]).await;
        assert!(said.contains("--tenant"), "{said}");
    }

    async fn a_new_key_opens_the_server_at_once(database: Database) {
        let server = TestServer::start(&database).await;
        ok(&database, &["tenant", "add", "initech"]).await;
        let printed = json(&database, &["key", "add", "--tenant", "initech", "--agent", "bot", "--scope", "echo"]).await;
        let client = Client::new(server.endpoint(), printed["key"].as_str().expect("a key").to_owned());
        assert!(client.call("echo", json!({ "text": "x" })).await.is_ok());
        assert_eq!(client.call("export", json!({ "dataset": "x" })).await.error()["code"], -32602);
        let listed = ok(&database, &["key", "list", "--tenant", "initech"]).await;
        assert!(listed.contains("active") && !listed.contains(client.key()), "{listed}");
        ok(&database, &["key", "revoke", printed["id"].as_str().expect("an id")]).await;
        server.caught_up().await;
        assert_eq!(client.call("echo", json!({ "text": "x" })).await.status, 401);
        let tenants = json(&database, &["tenant", "list"]).await;
        assert_eq!(tenants[0]["slug"], "initech");
    }

    async fn a_tenants_weight_is_set_and_listed(database: Database) {
        ok(&database, &["tenant", "add", "acme"]).await;
        let weight = async || json(&database, &["tenant", "list"]).await[0]["settings"]["weight"].clone();
        assert_eq!(weight().await, Value::Null);
        let said = ok(&database, &["tenant", "weight", "acme", "3"]).await;
        assert!(said.contains("acme"), "{said}");
        assert_eq!(weight().await, 3);
        let table = ok(&database, &["tenant", "list"]).await;
        assert!(table.contains("WEIGHT"), "{table}");
        let said = complaint(&database, &["tenant", "weight", "acme", "0"]).await;
        assert!(said.contains("1 to 1000"), "{said}");
        assert_eq!(weight().await, 3);
    }

    async fn explain_works_without_a_server_too(database: Database) {
        let server = TestServer::start(&database).await;
        server.client("acme", "u-42").await;
        server.stop().await;
        let question = ["limit", "explain", "--tenant", "acme", "--agent", "u-42", "--tool", "export"];
        let explained = json(&database, &question).await;
        assert_eq!(explained["live"], false);
        assert!(explained.to_string().contains("5/min"), "the declared limit is known from the database: {explained}");
        let said = ok(&database, &question).await;
        assert!(said.contains("no server runs"), "{said}");
    }

    async fn migrate_says_how_far_the_database_is(database: Database) {
        let before = json(&database, &["migrate", "--status"]).await;
        assert_eq!(before["applied"], 0);
        assert!(complaint(&database, &["serve", "--no-migrate", "--bind", "127.0.0.1:0"]).await.contains("migrate"));
        ok(&database, &["migrate"]).await;
        let after = json(&database, &["migrate", "--status"]).await;
        assert_eq!(after["pending"], json!([]));
    }

    async fn people_and_tokens_are_made_by_the_command_line_and_shown_once(database: Database) {
        let server = TestServer::start(&database).await;
        let user = json(&database, &["admin", "add-user", "alice", "--role", "owner"]).await;
        let password = user["password"].as_str().expect("it is made up").to_owned();
        let users = server.control().users();
        let sign_in = async |password: &str| {
            let signed_in = users.sign_in("alice", &password.to_owned().into(), None, None).await;
            signed_in.expect("the database answers").is_some()
        };
        assert!(sign_in(&password).await);
        let reset = json(&database, &["admin", "reset-password", "alice"]).await;
        assert!(!sign_in(&password).await && sign_in(reset["password"].as_str().expect("another")).await);
        assert!(!ok(&database, &["admin", "list-users"]).await.contains(&password));
        assert!(complaint(&database, &["admin", "add-user", "bob", "--role", "boss"]).await.contains("viewer"));
        let token = json(&database, &["admin", "token", "ci", "--role", "viewer"]).await;
        let tokens = server.control().admin_tokens();
        let text = token["token"].as_str().expect("it is shown");
        assert!(tokens.authenticate(text).await.expect("the database answers").is_some());
        ok(&database, &["admin", "revoke-token", token["id"].as_str().expect("an id")]).await;
        assert!(tokens.authenticate(text).await.expect("the database answers").is_none());
        assert!(ok(&database, &["admin", "list-tokens"]).await.contains("revoked"));
    }

    async fn a_policy_is_exported_reviewed_and_brought_back(database: Database) {
        let server = TestServer::start(&database).await;
        server.client("acme", "u-42").await;
        ok(&database, &["limit", "set", "--tenant", "acme", "--tool", "export", "50/min"]).await;
        let exported = ok(&database, &["export"]).await;
        let file = database.folder().join("policy.json");
        std::fs::write(&file, exported.replace("50/min", "70/min")).expect("written");
        let file = file.to_str().expect("a path");
        let dry = json(&database, &["import", file, "--dry-run"]).await;
        assert_eq!((&dry["applied"], &dry["steps"][0]["action"]), (&json!(false), &json!("limit.set")));
        assert_eq!(ok(&database, &["export"]).await, exported);
        assert!(ok(&database, &["import", file]).await.contains("1 changes"));
        assert!(ok(&database, &["export"]).await.contains("70/min"));
        assert!(ok(&database, &["import", file]).await.contains("everything is as the document says"));
        assert!(ok(&database, &["audit", "verify"]).await.contains("intact"));
        assert!(ok(&database, &["audit", "list", "--action", "limit"]).await.contains("limit.set"));
    }

    async fn a_plan_holds_for_its_tenants_and_a_temporary_limit_lies_over_it(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        ok(&database, &["plan", "add", "gold", "--note", "pays well"]).await;
        assert!(ok(&database, &["plan", "list"]).await.contains("pays well"));
        ok(&database, &["limit", "set", "--plan", "gold", "--tool", "export", "3/min"]).await;
        assert!(ok(&database, &["plan", "assign", "gold", "--tenant", "acme"]).await.contains("acme is on plan gold"));
        server.caught_up().await;
        let export = async || client.call("export", json!({ "dataset": "x" })).await.status.as_u16();
        assert_eq!([export().await, export().await, export().await, export().await], [200, 200, 200, 429]);
        let said = complaint(&database, &["plan", "delete", "gold"]).await;
        assert!(said.contains("acme"), "{said}");
        // The clock of the server under test is months ahead.
        ok(&database, &["limit", "set", "--tenant", "acme", "--tool", "export", "4/min", "--for", "400d"]).await;
        server.caught_up().await;
        assert_eq!([export().await, export().await], [200, 429], "what was used stays used");
        let explained = ok(&database, &["limit", "explain", "--tenant", "acme", "--agent", "u-42", "--tool", "export"]).await;
        assert!(explained.contains("until ") && explained.contains("replaces 3/min"), "{explained}");
        ok(&database, &["plan", "unassign", "--tenant", "acme"]).await;
        ok(&database, &["plan", "delete", "gold"]).await;
        assert_eq!(json(&database, &["plan", "list"]).await, json!([]));
    }

    async fn a_limit_is_observed_beside_the_one_that_holds(database: Database) {
        let server = TestServer::start(&database).await;
        server.client("acme", "u-42").await;
        let target = ["--tenant", "acme", "--tool", "export"];
        let set = |more: &[&'static str]| [&["limit", "set"], &target[..], more].concat();
        let said = ok(&database, &set(&["1/min", "--observe"])).await;
        assert!(said.contains("observing 1/min"), "{said}");
        ok(&database, &set(&["4/min"])).await;
        let explain = [&["limit", "explain", "--agent", "u-42"], &target[..]].concat();
        let explained = ok(&database, &explain).await;
        for part in ["4 requests / 60s", "only observed", "would replace 4/min", "replaces 5/min"] {
            assert!(explained.contains(part), "{part}: {explained}");
        }
        let unset = [&["limit", "unset"], &target[..], &["--observe"]].concat();
        ok(&database, &unset).await;
        assert!(complaint(&database, &unset).await.contains("no rate is observed"));
        assert!(ok(&database, &explain).await.contains("4 requests / 60s"));
    }
}

#[tokio::test]
async fn shells_learn_the_commands() {
    let database = Database::sqlite().await;
    for shell in ["bash", "zsh", "fish"] {
        let script = ok(&database, &["completions", shell]).await;
        assert!(script.contains("testbed") && script.contains("limit"), "{shell}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rehearsal_names_the_runaway_and_nobody_else_suffers() {
    let database = Database::sqlite().await;
    let server = ServerProcess::start(
        Path::new(env!("CARGO_BIN_EXE_testbed")),
        &database,
        database.folder(),
        &[("LIMIT_AGENT", "60/min"), ("LIMIT_TENANT", "600/min")],
    )
    .await;
    let url = server.endpoint();
    let rehearse = [
        "simulate",
        "--tool",
        "echo",
        "--arguments",
        r#"{"text":"rehearsal"}"#,
        "--url",
        &url,
        "--quiet",
        "4s",
        "--storm",
        "8s",
        "--pace",
        "60/min",
        "--runaway",
        "1500/min",
        // Others use this machine as well.
        "--floor",
        "250ms",
    ];
    let report = json(&database, &rehearse).await;
    assert_eq!(report["passed"], true, "{report}");
    let runaway = &report["runaway"];
    let name = runaway["agent"].as_str().expect("a name");
    assert!(name.ends_with("/runaway"), "{report}");
    assert!(runaway["calls_per_minute"].as_f64().expect("a number") > 1_000.0, "{report}");
    assert!(runaway["refused"].as_u64().expect("a number") > 60, "{report}");
    assert!(runaway["ignored_waits"].as_u64().expect("a number") > 60, "{report}");
    let agents = report["agents"].as_array().expect("agents");
    assert_eq!(agents.len(), 9);
    assert_eq!(agents.iter().filter(|agent| agent["beside_the_runaway"] == true).count(), 3);
    for agent in agents {
        assert_eq!((agent["quiet"]["success"].as_f64(), agent["storm"]["success"].as_f64()), (Some(1.0), Some(1.0)));
    }
    let named: Vec<_> = report["record"]["throttled"].as_object().expect("events").keys().collect();
    assert_eq!(named, [name], "the events name it, and nobody else");
    let (_, metrics) = server.get("/metrics").await;
    let refused =
        metrics.lines().find(|line| line.starts_with("sluicegate_throttled_total") && line.contains("runaway"));
    assert!(refused.is_some(), "the metrics name it");
    assert!(!metrics.lines().any(|line| line.starts_with("sluicegate_throttled_total") && line.contains("good-")));
    let left = json(&database, &["tenant", "list"]).await;
    assert!(left.as_array().expect("a list").is_empty(), "what was made is taken away: {left}");

    let wrong = ["simulate", "--tool", "no_such_tool", "--url", &url];
    assert!(complaint(&database, &wrong).await.contains("no_such_tool"));
    assert!(json(&database, &["tenant", "list"]).await.as_array().expect("a list").is_empty());
    server.terminate().await;
}
