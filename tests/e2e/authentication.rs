//! Who gets in: keys, their ends, their scopes, and what is never told.

use std::time::Duration;

use serde_json::json;
use sluicegate::control::{ApiKey, KeyScopes, NewKey, Overlap};
use sluicegate::{AuthMode, RefusalStyle};
use sluicegate_tests::server::actor;
use sluicegate_tests::{Answer, Client, Database, TestServer, on_both_databases};

fn assert_unauthenticated(answer: &Answer) {
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(answer.header("www-authenticate").expect("a challenge").starts_with("Bearer"), "{answer:?}");
    assert!(answer.json().get("id").is_none(), "answered from the headers alone");
    assert_eq!(answer.error()["data"]["reason"], "unauthenticated");
}

async fn echo(client: &Client) -> Answer {
    client.call("echo", json!({ "text": "hello" })).await
}

fn only(tools: &[&str]) -> KeyScopes {
    KeyScopes::new(tools.iter().map(|tool| tool.parse().expect("a pattern")).collect()).expect("scopes")
}

on_both_databases! {
    async fn missing_malformed_and_wrong_keys_are_refused_alike(database: Database) {
        let server = TestServer::start_with(&database, |settings| settings.refusal_style = RefusalStyle::Jsonrpc).await;
        let client = server.client("acme", "u-42").await;
        let key = client.key().to_owned();
        let (body, checksum) = key.rsplit_once('_').expect("a checksum");
        let flipped = if body.ends_with('a') { "b" } else { "a" };
        let typo = format!("{}{flipped}_{checksum}", &body[..body.len() - 1]);
        for wrong in ["", "nonsense", "sg_live_x_y_z", &typo, "Bearer", "ü", &"x".repeat(5_000)] {
            assert_unauthenticated(&echo(&client.clone().with_key(wrong)).await);
        }
        assert!(echo(&client).await.is_ok());
    }

    async fn a_bad_checksum_never_reaches_the_database(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let unknown = ApiKey::generate(&mut rand::rng(), "key_00000000000070008000000000000000".parse().expect("an id"),
            &"live".parse().expect("an environment"));
        server.control().close().await;
        let well_formed = echo(&client.clone().with_key(unknown.expose())).await;
        assert_eq!(well_formed.status, 503, "this one has to be looked up: {well_formed:?}");
        assert!(well_formed.header("retry-after").is_some());
        let mut typo = unknown.expose().to_owned();
        typo.pop();
        typo.push(if unknown.expose().ends_with('0') { '1' } else { '0' });
        assert_unauthenticated(&echo(&client.with_key(&typo)).await);
    }

    async fn the_key_may_come_in_either_header(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let key = client.key().to_owned();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "whoami", "arguments": {} } });
        let request = client.post(body.to_string()).build().expect("a request");
        let mut request = request.try_clone().expect("a copy");
        request.headers_mut().remove("authorization");
        request.headers_mut().insert("x-api-key", key.parse().expect("a value"));
        let answer = reqwest::Client::new().execute(request).await.expect("an answer");
        assert_eq!(answer.status(), 200);
    }

    async fn a_revoked_key_is_refused_within_a_second(database: Database) {
        let server = TestServer::start(&database).await;
        let (client, key) = server.client_with("acme", "u-42", KeyScopes::all()).await;
        assert!(echo(&client).await.is_ok());
        server.control().keys().revoke(&actor(), key).await.expect("revoked");
        server.caught_up().await;
        assert_unauthenticated(&echo(&client).await);
    }

    async fn an_expired_key_is_refused_at_its_end(database: Database) {
        let server = TestServer::start(&database).await;
        let other = server.client("acme", "u-42").await;
        let now = sluicegate::control::WallClock::from(server.wall.clone()).now_ms();
        let new = NewKey { expires_at: Some(now + 60_000), ..NewKey::named("short") };
        let minted = server.control().keys().create(&actor(), &"acme".into(), &"u-42".into(), new).await.expect("made");
        let client = other.with_key(minted.key.expose());
        assert!(echo(&client).await.is_ok());
        server.advance(Duration::from_secs(60));
        assert_unauthenticated(&echo(&client).await);
    }

    async fn a_rotated_key_works_beside_the_new_one_for_its_overlap(database: Database) {
        let server = TestServer::start(&database).await;
        let (client, key) = server.client_with("acme", "u-42", KeyScopes::all()).await;
        let minted = server.control().keys().rotate(&actor(), key, Overlap::Hour).await.expect("rotated");
        server.caught_up().await;
        let new = client.clone().with_key(minted.key.expose());
        assert!(echo(&client).await.is_ok() && echo(&new).await.is_ok());
        server.advance(Duration::from_hours(1));
        assert_unauthenticated(&echo(&client).await);
        assert!(echo(&new).await.is_ok());
    }

    async fn a_key_whose_secret_is_another_keys_is_refused(database: Database) {
        let server = TestServer::start(&database).await;
        let (client, key) = server.client_with("acme", "u-42", KeyScopes::all()).await;
        // Well-formed, with a right checksum and an id that exists: only the secret is wrong.
        let forged = ApiKey::generate(&mut rand::rng(), key, &"live".parse().expect("an environment"));
        assert_unauthenticated(&echo(&client.with_key(forged.expose())).await);
    }

    async fn whoever_shares_a_connection_is_only_itself(database: Database) {
        let server = TestServer::start(&database).await;
        let (acme, acmes_key) = server.client_with("acme", "u-42", KeyScopes::all()).await;
        // They share connections; a refusal before the body is read closes one.
        let globex = acme.clone().with_key(server.client("globex", "u-42").await.key());
        let forged = ApiKey::generate(&mut rand::rng(), acmes_key, &"live".parse().expect("an environment"));
        let forged = acme.clone().with_key(forged.expose());
        for _ in 0..3 {
            for (client, tenant) in [(&acme, "acme"), (&acme, "acme"), (&globex, "globex"), (&acme, "acme")] {
                let who = client.call("whoami", json!({})).await;
                assert_eq!(who.ok_text(), format!("u-42 of {tenant} with a key"));
            }
            assert_unauthenticated(&forged.call("whoami", json!({})).await);
            assert_unauthenticated(&acme.clone().with_key("").call("whoami", json!({})).await);
        }
        server.control().keys().revoke(&actor(), acmes_key).await.expect("revoked");
        server.caught_up().await;
        assert_eq!(globex.call("whoami", json!({})).await.ok_text(), "u-42 of globex with a key");
        assert_unauthenticated(&acme.call("whoami", json!({})).await);
        assert_eq!(globex.call("whoami", json!({})).await.ok_text(), "u-42 of globex with a key");
    }

    async fn a_suspended_tenant_and_agent_are_told_so(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let neighbour = server.client("globex", "u-42").await;
        server.control().tenants().suspend(&actor(), &"acme".into()).await.expect("suspended");
        server.caught_up().await;
        let answer = echo(&client).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["id"]), (403, &json!(1)));
        assert_eq!(answer.error()["data"]["reason"], "suspended");
        assert!(echo(&neighbour).await.is_ok());
        server.control().tenants().resume(&actor(), &"acme".into()).await.expect("resumed");
        server.control().agents().suspend(&actor(), &"acme".into(), &"u-42".into()).await.expect("suspended");
        server.caught_up().await;
        assert_eq!(echo(&client).await.status, 403);
        assert!(echo(&server.client("acme", "u-43").await).await.is_ok());
    }

    async fn a_deleted_tenants_key_is_a_wrong_key(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        assert!(echo(&client).await.is_ok());
        server.control().tenants().delete(&actor(), &"acme".into()).await.expect("deleted");
        server.caught_up().await;
        assert_unauthenticated(&echo(&client).await);
    }

    async fn a_tool_outside_the_keys_scopes_is_as_unknown_as_one_that_does_not_exist(database: Database) {
        let server = TestServer::start(&database).await;
        let (client, _) = server.client_with("acme", "u-42", only(&["echo"])).await;
        let list = client.request(json!(1), "tools/list", json!({})).await.json();
        let names: Vec<_> = list["result"]["tools"].as_array().expect("a list").iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, ["echo"]);
        let mut hidden = client.call("export", json!({ "dataset": "x" })).await;
        let mut unknown = client.call("no_such_tool", json!({ "dataset": "x" })).await;
        assert_eq!(hidden.error()["code"], -32602);
        for answer in [&mut hidden, &mut unknown] {
            answer.headers.remove("x-request-id");
            answer.headers.remove("date");
        }
        assert_eq!((hidden.status, &hidden.text, &hidden.headers), (unknown.status, &unknown.text, &unknown.headers));
        assert_eq!(server.ran.exports(), 0);
        assert!(echo(&client).await.is_ok());
        // Both were charged to the agent and the tenant.
        let explained = server.explain("acme", "u-42", "echo").await;
        let agent = explained["limits"].as_array().expect("a list").iter().find(|limit| {
            limit["scope"] == "agent" && limit["kind"] == "rate"
        });
        assert_eq!(agent.expect("an agent limit")["usage"]["used"], 3);
    }

    async fn a_tool_that_asks_for_a_scope_is_open_to_keys_that_carry_it(database: Database) {
        let server = TestServer::start(&database).await;
        let granted = KeyScopes::all().with_grants(vec!["reports:write".to_owned()]).expect("scopes");
        let (with, _) = server.client_with("acme", "writer", granted).await;
        let without = server.client("acme", "reader").await;
        assert_eq!(with.call("restricted", json!({})).await.ok_text(), "written");
        assert_eq!(without.call("restricted", json!({})).await.error()["code"], -32602);
    }

    async fn a_tenant_may_be_kept_to_some_tools(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let allowed_tools = Some(vec!["e*".parse().expect("a pattern")]);
        let settings = sluicegate::control::TenantSettings { allowed_tools, ..Default::default() };
        server.control().tenants().set_settings(&actor(), &"acme".into(), settings).await.expect("set");
        server.caught_up().await;
        assert!(echo(&client).await.is_ok());
        assert_eq!(client.call("whoami", json!({})).await.error()["code"], -32602);
    }

    async fn without_authentication_everybody_is_the_anonymous_caller_of_no_tenant(database: Database) {
        let server = TestServer::start_with(&database, |settings| settings.auth = AuthMode::None).await;
        let client = Client::new(server.endpoint(), "whatever".to_owned());
        assert_eq!(client.call("whoami", json!({})).await.ok_text(), "anonymous of nobody without a key");
        for _ in 0..5 {
            assert!(client.call("export", json!({ "dataset": "x" })).await.is_ok());
        }
        assert_eq!(client.call("export", json!({ "dataset": "x" })).await.status, 429);
    }
}
