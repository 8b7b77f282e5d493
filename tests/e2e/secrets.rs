//! What opens something is shown once: no page, answer, export, metric, audit entry or line of the log has it again.

use std::path::Path;

use serde_json::{Value, json};
use sluicegate::control::{Control, KeyScopes, NewToken, Role};
use sluicegate_tests::server::{actor, mint};
use sluicegate_tests::visitor::Visitor;
use sluicegate_tests::{Client, Database, ServerProcess, on_both_databases};

/// Everything that can be read, by whoever may read everything.
const API: &[&str] = &[
    "/tenants",
    "/tenants/acme",
    "/tenants/acme/agents",
    "/tenants/acme/keys",
    "/limits",
    "/plans",
    "/tools",
    "/events",
    "/alerts",
    "/alert-rules",
    "/audit?limit=200",
    "/export",
    "/users",
    "/tokens",
    "/me",
    "/health",
    "/instances",
    "/runaways",
    "/throttle_by_tool",
    "/usage",
];

const PANEL: &[&str] = &[
    "/admin",
    "/admin/tenants/acme",
    "/admin/tenants/acme/keys",
    "/admin/tenants/acme/audit",
    "/admin/agents?tenant=acme",
    "/admin/alerts",
    "/admin/audit",
    "/admin/audit.json",
    "/admin/people",
    "/admin/system",
    "/admin/events",
    "/admin/throttling",
    "/admin/throttling.json",
    "/admin/throttling.csv",
    "/admin/limits",
];

on_both_databases! {
    async fn no_secret_is_told_a_second_time(database: Database) {
        let state_key = "a state key of more than thirty-two characters";
        let settings = [("STATE_KEY", state_key), ("LOG", "debug,sqlx=info,hyper=info")];
        let program = Path::new(env!("CARGO_BIN_EXE_testbed"));
        let server = ServerProcess::start(program, &database, database.folder(), &settings).await;
        let control = Control::connect(&database.url(), Default::default()).await.expect("the database opens");
        let mut secrets = vec![("the state key", state_key.to_owned()), ("a password", "correct horse battery".to_owned())];

        let (key, _) = mint(&control, "acme", "u-42", KeyScopes::all()).await.expect("a key");
        secrets.push(("an API key", key.clone()));
        let new = NewToken { name: "ci".to_owned(), role: Role::Owner, tenant: None, expires_at: None };
        let token = control.admin_tokens().create(&actor(), new).await.expect("a token").token.expose().to_owned();
        secrets.push(("an admin token", token.clone()));
        let base = server.endpoint().replace("/mcp", "");
        let visitor = Visitor::sign_in(&control, &base, "olga", Role::Owner, None).await;
        let cookie = visitor.cookie().split_once('=').expect("a value").1.to_owned();
        secrets.push(("a session", cookie));

        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let send = async |path: &str, body: Option<Value>| -> String {
            let url = format!("{base}/api/v1{path}");
            let request = match body {
                Some(body) => http.post(url).json(&body),
                None => http.get(url),
            };
            let answer = request.bearer_auth(&token).send().await.expect("an answer");
            assert!(answer.status().is_success(), "{path}: {answer:?}");
            answer.text().await.expect("a text")
        };
        let secret_of = |answer: &str, member: &str| -> String {
            let answer: Value = serde_json::from_str(answer).expect("JSON");
            answer[member].as_str().unwrap_or_else(|| panic!("no {member} in {answer}")).to_owned()
        };
        let made = send("/tenants/acme/agents/u-42/keys", Some(json!({ "name": "laptop" }))).await;
        secrets.push(("a second API key", secret_of(&made, "key")));
        let id = serde_json::from_str::<Value>(&made).expect("JSON")["record"]["id"].as_str().expect("an id").to_owned();
        let rotated = send(&format!("/keys/{id}/rotate"), Some(json!({ "overlap": "1h" }))).await;
        secrets.push(("a rotated API key", secret_of(&rotated, "key")));
        let rule = json!({ "name": "r", "kind": "runaway", "threshold": 300, "webhook": "http://127.0.0.1:9/" });
        let rule = send("/alert-rules", Some(rule)).await;
        secrets.push(("a webhook's secret", secret_of(&rule, "secret")));
        let id = serde_json::from_str::<Value>(&rule).expect("JSON")["rule"]["id"].as_str().expect("an id").to_owned();
        let rotated = send(&format!("/alert-rules/{id}/rotate-secret"), Some(json!({}))).await;
        secrets.push(("a webhook's new secret", secret_of(&rotated, "secret")));
        send(&format!("/alert-rules/{id}/test"), Some(json!({}))).await;
        let client = Client::new(server.endpoint(), key.clone());
        for _ in 0..7 {
            client.call("export", json!({ "dataset": "x" })).await;
        }
        // Somebody who mistakes a header, and somebody whose key has one letter too few.
        client.clone().with_header("x-api-key", &key[..key.len() - 1]).call("echo", json!({ "text": "x" })).await;
        client.clone().with_key(&key[..key.len() - 1]).call("echo", json!({ "text": "x" })).await;
        visitor.post("/admin/sign-in", &[("name", "olga"), ("password", "a wrong but long password")]).await;
        secrets.push(("a password that was wrong", "a wrong but long password".to_owned()));

        let mut told = Vec::new();
        for path in API {
            told.push((format!("/api/v1{path}"), send(path, None).await));
        }
        let keys = format!("/admin/keys/{}", mint(&control, "acme", "u-43", KeyScopes::all()).await.expect("a key").1);
        for path in PANEL.iter().copied().chain([&*keys]) {
            let page = visitor.get(path).await;
            assert_eq!(page.status, 200, "{path}");
            told.push((path.to_owned(), page.text));
        }
        told.push(("/metrics".to_owned(), server.get("/metrics").await.1));
        told.push(("the log".to_owned(), server.log().await));
        let log = &told.last().expect("the log").1;
        assert!(log.contains("webhook tested") && log.contains("/mcp"), "the log says something: {log}");
        for (where_, text) in &told {
            for (what, secret) in &secrets {
                // The tail of a secret is the secret part.
                let tail = &secret[secret.len().saturating_sub(24)..];
                assert!(!text.contains(secret) && !text.contains(tail), "{where_} has {what}");
            }
        }
        server.terminate().await;
    }
}
