//! The command line as another process, beside a running server.

use std::process::Output;

use serde_json::{Value, json};
use sluicegate_tests::{Client, Database, TestServer, on_both_databases};
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
}
