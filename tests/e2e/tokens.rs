//! Tokens of an identity provider: which are good, whom they speak for, and what clients are told of where to get one.

use std::time::Duration;

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use sluicegate::control::{AgentRef, Origin, TenantRef};
use sluicegate::{AuthMode, Settings};
use sluicegate_tests::issuer::{AUDIENCE, claims, trust, unsigned};
use sluicegate_tests::server::{START_MS, actor};
use sluicegate_tests::{Answer, Client, Database, Exposition, Issuer, SigningKey, TestServer, on_both_databases};

const NOW: i64 = START_MS / 1_000;

async fn server_of(database: &Database, issuer: &Issuer) -> TestServer {
    let server = TestServer::start_with(database, |settings| issuer.trust(settings)).await;
    add_tenant(&server, "acme").await;
    server
}

async fn add_tenant(server: &TestServer, slug: &str) {
    server.control().tenants().create(&actor(), slug, slug).await.expect("the tenant is made");
    server.caught_up().await;
}

fn client(server: &TestServer, token: &str) -> Client {
    Client::new(server.endpoint(), token.to_owned())
}

async fn whoami(server: &TestServer, token: &str) -> Answer {
    client(server, token).call("whoami", json!({})).await
}

/// Good claims with some of them changed; `null` takes one away.
fn with(changes: Value) -> Value {
    let mut claims = claims("acme", "alice");
    for (name, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => drop(claims.as_object_mut().expect("an object").remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

fn assert_refused(answer: &Answer, status: u16, reason: &str, what: &str) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    assert_eq!(answer.error()["data"]["reason"], reason, "{what}");
    let challenge = answer.header("www-authenticate").unwrap_or_default();
    assert_eq!(challenge.contains("error=\"invalid_token\""), status == 401, "{what}: {challenge}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sort_of_token_is_accepted_or_refused_as_it_should_be() {
    let key = SigningKey::new("first", Algorithm::RS256);
    let stranger = SigningKey::new("first", Algorithm::RS256);
    let unknown = SigningKey::new("never published", Algorithm::RS256);
    let curve = SigningKey::new("curve", Algorithm::ES256);
    let issuer = Issuer::start(&[&key, &curve]).await;
    let server = server_of(&Database::sqlite().await, &issuer).await;
    let good = claims("acme", "alice");

    let answer = whoami(&server, &key.sign(&good)).await;
    assert_eq!(answer.ok_text(), "alice of acme without a key");
    let confused = SigningKey::secret("first", key.public_pem());
    let confused_by_lines = SigningKey::secret("first", key.public_pem().trim_end());
    let mut tampered = key.sign(&good);
    tampered.insert(tampered.len() / 2, 'x');
    let without_signature = key.sign(&good).rsplit_once('.').expect("three parts").0.to_owned() + ".";

    let unauthenticated: Vec<(&str, String)> = vec![
        ("another algorithm than those that are accepted", curve.sign(&good)),
        ("none", unsigned(&json!({ "alg": "none", "typ": "JWT" }), &good)),
        ("None", unsigned(&json!({ "alg": "None", "kid": "first" }), &good)),
        ("HS256 with the RSA public key as its secret", confused.sign(&good)),
        ("HS256 with the RSA public key without its last line end", confused_by_lines.sign(&good)),
        ("the key of a stranger under a known name", stranger.sign(&good)),
        ("an unknown key", unknown.sign(&good)),
        ("a changed token", tampered),
        ("a token without its signature", without_signature),
        ("two parts", "eyJhbGciOiJSUzI1NiJ9.e30".to_owned()),
        ("nonsense", "nonsense".to_owned()),
        ("17 000 characters", "x".repeat(17_000)),
        ("an extension that must be understood", {
            unsigned(&json!({ "alg": "RS256", "kid": "first", "crit": ["exp"], "exp": 1 }), &good)
        }),
        ("expired beyond the leeway", key.sign(&with(json!({ "exp": NOW - 30 })))),
        ("no end", key.sign(&with(json!({ "exp": null })))),
        ("an end that is a text", key.sign(&with(json!({ "exp": "tomorrow" })))),
        ("an end before time began", key.sign(&with(json!({ "exp": -1 })))),
        ("not valid yet", key.sign(&with(json!({ "nbf": NOW + 31 })))),
        ("a beginning that is a text", key.sign(&with(json!({ "nbf": "now" })))),
        ("another issuer", key.sign(&with(json!({ "iss": "https://evil.example.com/" })))),
        ("no issuer", key.sign(&with(json!({ "iss": null })))),
        ("two issuers", key.sign(&with(json!({ "iss": ["https://login.example.com/", "x"] })))),
        ("another audience", key.sign(&with(json!({ "aud": "https://elsewhere.example.com" })))),
        ("other audiences", key.sign(&with(json!({ "aud": ["a", "b"] })))),
        ("no audience", key.sign(&with(json!({ "aud": null })))),
    ];
    for (what, token) in &unauthenticated {
        assert_refused(&whoami(&server, token).await, 401, "unauthenticated", what);
    }

    for (what, tenant) in [
        ("a list", json!(["acme"])),
        ("a number", json!(42)),
        ("empty", json!("")),
        ("missing", Value::Null),
        ("true", json!(true)),
        ("an object", json!({ "id": "acme" })),
        ("of nobody here", json!("initech")),
        ("in capitals", json!("ACME")),
        ("longer than it is", json!("acme ")),
    ] {
        let answer = whoami(&server, &key.sign(&with(json!({ "tenant_id": tenant })))).await;
        assert_refused(&answer, 403, "no_tenant", what);
    }
    for (what, changes) in [
        ("nobody", json!({ "sub": null })),
        ("a number", json!({ "sub": 7 })),
        ("of several lines", json!({ "sub": "a\nb" })),
        ("of spaces", json!({ "sub": "  " })),
        ("too long", json!({ "sub": "x".repeat(257) })),
        ("like an id", json!({ "sub": "agt_00000000000070008000000000000000" })),
    ] {
        assert_refused(&whoami(&server, &key.sign(&with(changes))).await, 403, "no_agent", what);
    }

    for (what, changes, agent) in [
        ("expired within the leeway", json!({ "exp": NOW - 29 }), "alice"),
        ("a fraction of a second", json!({ "exp": NOW as f64 + 1.5 }), "alice"),
        ("not valid yet, within the leeway", json!({ "nbf": NOW + 30 }), "alice"),
        ("no beginning", json!({ "nbf": null }), "alice"),
        ("several audiences", json!({ "aud": ["x", AUDIENCE] }), "alice"),
        ("one user of a program", json!({ "client_id": "desktop" }), "alice"),
        ("a program without a user", json!({ "sub": null, "client_id": "nightly" }), "nightly"),
    ] {
        let answer = whoami(&server, &key.sign(&with(changes))).await;
        assert_eq!(answer.ok_text(), format!("{agent} of acme without a key"), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_each_algorithm_are_accepted_with_published_and_with_configured_keys() {
    let database = Database::sqlite().await;
    let setup = TestServer::start(&database).await;
    add_tenant(&setup, "acme").await;
    setup.stop().await;
    let good = claims("acme", "alice");
    for (name, algorithm) in [("RS256", Algorithm::RS256), ("ES256", Algorithm::ES256), ("EdDSA", Algorithm::EdDSA)] {
        let key = SigningKey::new("one", algorithm);
        let issuer = Issuer::start(&[&key]).await;
        let server = TestServer::start_with(&database, |settings| {
            trust(settings, "RS256, ES256, EdDSA");
            settings.jwt_jwks_url = issuer.url().to_owned();
        })
        .await;
        assert!(whoami(&server, &key.sign(&good)).await.is_ok(), "{name} published");
        server.stop().await;

        let file = database.folder().join("public.pem");
        std::fs::write(&file, key.public_pem()).expect("the file is written");
        let server = TestServer::start_with(&database, |settings| {
            trust(settings, name);
            settings.jwt_public_key = file.display().to_string();
        })
        .await;
        assert!(whoami(&server, &key.sign(&good)).await.is_ok(), "{name} in a file");
        let confused = SigningKey::secret("one", key.public_pem());
        assert_refused(&whoami(&server, &confused.sign(&good)).await, 401, "unauthenticated", name);
        server.stop().await;
    }
    let secret = SigningKey::new("one", Algorithm::HS256);
    let server = TestServer::start_with(&database, |settings| {
        trust(settings, "HS256");
        settings.jwt_secret = "a secret of thirty-two characters".to_owned();
    })
    .await;
    assert!(whoami(&server, &secret.sign(&good)).await.is_ok());
    let other = SigningKey::secret("one", "another secret of many characters");
    assert_refused(&whoami(&server, &other.sign(&good)).await, 401, "unauthenticated", "another secret");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_key_is_found_when_a_token_names_it_and_strangers_cannot_make_the_server_ask_all_the_time() {
    let (first, second, third) = ("first", "second", "third");
    let [first, second, third] = [first, second, third].map(|name| SigningKey::new(name, Algorithm::RS256));
    let issuer = Issuer::start(&[&first]).await;
    let server = server_of(&Database::sqlite().await, &issuer).await;
    let good = claims("acme", "alice");
    assert!(whoami(&server, &first.sign(&good)).await.is_ok());
    let asked = issuer.asked();

    issuer.publish(&[&first, &second]);
    assert!(whoami(&server, &second.sign(&good)).await.is_ok(), "rotated");
    assert_eq!(issuer.asked(), asked + 1);
    issuer.publish(&[&second, &third]);
    for number in 0..50 {
        let invented = first.named(&format!("invented-{number}"));
        let answer = whoami(&server, &invented.sign(&good)).await;
        assert_refused(&answer, 401, "unauthenticated", "an invented key");
    }
    assert_refused(&whoami(&server, &third.sign(&good)).await, 401, "unauthenticated", "not asked again yet");
    assert_eq!(issuer.asked(), asked + 1, "once a minute");
    server.advance(Duration::from_mins(1));
    assert!(whoami(&server, &third.sign(&good)).await.is_ok(), "a minute later");
    assert_eq!(issuer.asked(), asked + 2);
    let bob = claims("acme", "bob");
    assert_refused(&whoami(&server, &first.sign(&bob)).await, 401, "unauthenticated", "a key that was withdrawn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_keys_serve_while_the_issuer_is_down_slow_or_talks_nonsense() {
    let [known, new] = ["known", "new"].map(|name| SigningKey::new(name, Algorithm::RS256));
    let issuer = Issuer::start(&[&known]).await;
    let server = server_of(&Database::sqlite().await, &issuer).await;
    let good = claims("acme", "alice");
    assert!(whoami(&server, &known.sign(&good)).await.is_ok());

    let too_long = json!({ "keys": [], "padding": "x".repeat(600 << 10) }).to_string();
    for (what, change) in [
        ("down", None),
        ("nonsense", Some("<html>")),
        ("another document", Some("{\"keys\": 7}")),
        ("too long", Some(&*too_long)),
    ] {
        match change {
            None => issuer.go_down(),
            Some(text) => issuer.publish_text(text),
        }
        server.advance(Duration::from_mins(1));
        let answer = whoami(&server, &new.sign(&good)).await;
        assert_eq!(answer.status, 503, "whether the key is good cannot be said: {what} {answer:?}");
        assert!(answer.header("retry-after").is_some(), "{what}");
        assert!(whoami(&server, &known.sign(&with(json!({ "jti": what })))).await.is_ok(), "{what}");
    }
    let metrics = Exposition::read(&server.get("/metrics").await.1).expect("Prometheus reads it");
    let reads = |result| metrics.sum("sluicegate_issuer_key_reads_total", &[("result", result)]);
    assert!(reads("ok") >= 1.0 && reads("failed") >= 4.0, "{} read, {} not", reads("ok"), reads("failed"));
    issuer.be_slow();
    server.advance(Duration::from_mins(1));
    let (waits, at_once) =
        (client(&server, &new.sign(&good)), client(&server, &known.sign(&with(json!({ "jti": 1 })))));
    let waiting = tokio::spawn(async move { waits.call("whoami", json!({})).await });
    let served = tokio::time::timeout(Duration::from_secs(2), at_once.call("whoami", json!({}))).await;
    assert!(served.expect("others do not wait").is_ok());
    assert_eq!(waiting.await.expect("an answer").status, 503, "the wait is bounded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_without_its_issuer_and_serves_when_it_comes() {
    let key = SigningKey::new("one", Algorithm::RS256);
    let issuer = Issuer::start(&[&key]).await;
    issuer.go_down();
    let server = server_of(&Database::sqlite().await, &issuer).await;
    let token = key.sign(&claims("acme", "alice"));
    assert_eq!(whoami(&server, &token).await.status, 503);
    assert!(server.client("acme", "by-key").await.call("whoami", json!({})).await.is_ok(), "keys need no issuer");
    issuer.publish(&[&key]);
    for _ in 0..100 {
        if whoami(&server, &token).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the keys were never read");
}

on_both_databases! {
    async fn an_agent_comes_into_being_at_first_sight_with_one_bucket_for_its_tokens_and_keys(database: Database) {
        let key = SigningKey::new("one", Algorithm::RS256);
        let issuer = Issuer::start(&[&key]).await;
        let server = server_of(&database, &issuer).await;
        let token = |jti: i32| key.sign(&with(json!({ "jti": jti })));
        for number in 0..3 {
            assert!(client(&server, &token(number)).call("export", json!({ "dataset": "x" })).await.is_ok());
        }
        let agent = first_sight(&server, "alice").await;
        assert_eq!(agent.origin, Origin::FirstSight);
        for number in 3..5 {
            assert!(client(&server, &token(number)).call("export", json!({ "dataset": "x" })).await.is_ok());
        }
        let refused = client(&server, &token(5)).call("export", json!({ "dataset": "x" })).await;
        assert_eq!(refused.status, 429, "a new token is no new bucket, nor is the row");
        let by_key = server.client("acme", "alice").await;
        assert_eq!(by_key.call("export", json!({ "dataset": "x" })).await.status, 429, "nor is a key of the same agent");
        let explained = server.explain("acme", "alice", "export").await;
        let tool = explained["limits"].as_array().expect("limits").iter().find(|limit| limit["scope"] == "tool");
        assert_eq!(tool.expect("a limit")["usage"]["used"], 5);
        assert!(client(&server, &key.sign(&claims("acme", "bob"))).call("export", json!({ "dataset": "x" })).await.is_ok());
    }

    async fn suspension_and_the_end_of_a_tenant_hold_for_tokens_within_a_second(database: Database) {
        let key = SigningKey::new("one", Algorithm::RS256);
        let issuer = Issuer::start(&[&key]).await;
        let server = server_of(&database, &issuer).await;
        let token = key.sign(&claims("acme", "alice"));
        assert!(whoami(&server, &token).await.is_ok());
        first_sight(&server, "alice").await;
        let (tenant, alice) = (TenantRef::from("acme"), AgentRef::from("alice"));
        server.control().agents().suspend(&actor(), &tenant, &alice).await.expect("suspended");
        server.caught_up().await;
        let answer = whoami(&server, &token).await;
        assert_eq!((answer.status.as_u16(), &answer.error()["data"]["reason"]), (403, &json!("suspended")));
        assert!(whoami(&server, &key.sign(&claims("acme", "bob"))).await.is_ok());
        server.control().agents().resume(&actor(), &tenant, &alice).await.expect("resumed");
        server.control().tenants().suspend(&actor(), &tenant).await.expect("suspended");
        server.caught_up().await;
        assert_eq!(whoami(&server, &token).await.status, 403);
        server.control().tenants().delete(&actor(), &tenant).await.expect("deleted");
        server.caught_up().await;
        assert_refused(&whoami(&server, &token).await, 403, "no_tenant", "the tenant is gone");
    }
}

/// The row of an agent, once it is written.
async fn first_sight(server: &TestServer, name: &str) -> sluicegate::control::Agent {
    for _ in 0..100 {
        if let Ok(agent) = server.control().agents().get(&actor(), &"acme".into(), &name.into()).await {
            return agent;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} was never written")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_ends_when_it_says_although_it_is_known() {
    let key = SigningKey::new("one", Algorithm::RS256);
    let issuer = Issuer::start(&[&key]).await;
    let server = server_of(&Database::sqlite().await, &issuer).await;
    let token = key.sign(&with(json!({ "exp": NOW + 10 })));
    assert!(whoami(&server, &token).await.is_ok());
    server.advance(Duration::from_secs(39));
    assert!(whoami(&server, &token).await.is_ok(), "within the leeway");
    server.advance(Duration::from_secs(1));
    assert_refused(&whoami(&server, &token).await, 401, "unauthenticated", "expired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_agent_claims_name_an_agent_that_no_other_list_names() {
    let key = SigningKey::new("one", Algorithm::RS256);
    let issuer = Issuer::start(&[&key]).await;
    let server = TestServer::start_with(&Database::sqlite().await, |settings| {
        issuer.trust(settings);
        settings.jwt_agent_claims = "sub, device".to_owned();
        settings.jwt_tenant_claim = "https://example.com/org".to_owned();
    })
    .await;
    add_tenant(&server, "acme").await;
    let token = |sub: &str, device: &str| {
        key.sign(&with(json!({ "sub": sub, "device": device, "https://example.com/org": "acme" })))
    };
    for (sub, device, name) in [
        ("a", "b c", "a b%20c"),
        ("a b", "c", "a%20b c"),
        ("a%20b", "c", "a%2520b c"),
        ("auth0|7", "phone", "auth0|7 phone"),
    ] {
        assert_eq!(whoami(&server, &token(sub, device)).await.ok_text(), format!("{name} of acme without a key"));
    }
    let half = key.sign(&with(json!({ "https://example.com/org": "acme" })));
    assert_refused(&whoami(&server, &half).await, 403, "no_agent", "one of two claims");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scopes_open_tools_and_a_token_that_lacks_them_is_told_which() {
    let key = SigningKey::new("one", Algorithm::RS256);
    let issuer = Issuer::start(&[&key]).await;
    let server = server_of(&Database::sqlite().await, &issuer).await;
    let call = async |scopes: Value, tool: &str| {
        client(&server, &key.sign(&with(scopes))).call_as(json!("x"), tool, json!({})).await
    };
    for (what, scopes) in [
        ("a text", json!({ "scope": "openid reports:write" })),
        ("a list", json!({ "scp": ["openid", "reports:write"] })),
        ("a text by the other name", json!({ "scp": "reports:write" })),
    ] {
        assert_eq!(call(scopes, "restricted").await.ok_text(), "written", "{what}");
    }
    let answer = call(json!({ "scope": "reports:writer" }), "restricted").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["id"]), (403, &json!("x")));
    assert_eq!(answer.error()["data"]["reason"], "insufficient_scope");
    let challenge = answer.header("www-authenticate").expect("a challenge");
    for part in ["error=\"insufficient_scope\"", "scope=\"reports:write\"", "resource_metadata=\"http://127.0.0.1:"] {
        assert!(challenge.contains(part), "{challenge}");
    }
    assert_eq!(call(json!({}), "no_such_tool").await.error()["code"], -32602);

    let server = TestServer::start_with(&Database::sqlite().await, |settings| {
        issuer.trust(settings);
        settings.jwt_scope_tools = "read=e* whoami, reports:write=restricted".to_owned();
    })
    .await;
    add_tenant(&server, "acme").await;
    let names = async |scope: &str| {
        let client = client(&server, &key.sign(&with(json!({ "scope": scope }))));
        let list = client.request(json!(1), "tools/list", json!({})).await.json();
        let names = list["result"]["tools"].as_array().expect("a list").iter();
        names.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("read").await, ["echo", "endless", "export", "whoami"]);
    assert_eq!(names("reports:write").await, ["restricted"]);
    assert!(names("openid").await.is_empty());
    assert_eq!(
        client(&server, &key.sign(&with(json!({ "scope": "read" })))).call("costly", json!({})).await.error()["code"],
        -32602,
        "what no scope of the token opens is as unknown as what does not exist"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_find_out_where_tokens_come_from() {
    let key = SigningKey::new("one", Algorithm::RS256);
    let issuer = Issuer::start(&[&key]).await;
    let server = server_of(&Database::sqlite().await, &issuer).await;
    let nothing = reqwest::Client::new().post(server.endpoint()).body("{}").send().await.expect("an answer");
    assert_eq!(nothing.status(), 401);
    let challenge = nothing.headers()["www-authenticate"].to_str().expect("a text").to_owned();
    let url = format!("http://{}/.well-known/oauth-protected-resource/mcp", server.address());
    assert_eq!(challenge, format!("Bearer resource_metadata=\"{url}\""), "no error where nothing was presented");
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let (status, text) = server.get(path).await;
        let metadata: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(status, 200);
        assert_eq!(
            metadata,
            json!({
                "resource": server.endpoint(),
                "authorization_servers": ["https://login.example.com/"],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["reports:write"],
                "resource_name": "test",
            })
        );
    }
    let public = TestServer::start_with(&Database::sqlite().await, |settings| {
        issuer.trust(settings);
        settings.public_url = "https://mcp.example.com/".to_owned();
    })
    .await;
    let (_, text) = public.get("/.well-known/oauth-protected-resource/mcp").await;
    assert!(text.contains("\"resource\":\"https://mcp.example.com/mcp\""), "{text}");
    let keys_only = TestServer::start(&Database::sqlite().await).await;
    assert_eq!(keys_only.get("/.well-known/oauth-protected-resource").await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_tokens_are_told_apart_and_either_may_be_closed() {
    let key = SigningKey::new("one", Algorithm::RS256);
    let issuer = Issuer::start(&[&key]).await;
    let server = server_of(&Database::sqlite().await, &issuer).await;
    let by_key = server.client("acme", "alice").await;
    assert_eq!(by_key.call("whoami", json!({})).await.ok_text(), "alice of acme with a key");
    assert_eq!(whoami(&server, &key.sign(&claims("acme", "alice"))).await.ok_text(), "alice of acme without a key");

    let only_tokens = |settings: &mut Settings| {
        issuer.trust(settings);
        settings.auth = AuthMode::Jwt;
    };
    let tokens = TestServer::start_with(&Database::sqlite().await, only_tokens).await;
    let by_key = tokens.client("acme", "alice").await;
    assert_refused(&by_key.call("whoami", json!({})).await, 401, "unauthenticated", "keys are closed");
    assert!(whoami(&tokens, &key.sign(&claims("acme", "alice"))).await.is_ok());
}
