//! What holds for every route.

use http::Method;
use serde_json::{Value, json};
use sluicegate::control::Role;
use sluicegate_tests::{Database, TestServer, on_both_databases};

use super::{Program, problem};

on_both_databases! {
    async fn every_error_is_a_problem_whoever_has_found_it(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        let nobody = Program::with_token(&server, "");
        problem(&nobody.get("/tenants").await, 401, "unauthorized");
        let challenged = nobody.get("/me").await;
        assert!(challenged.header("www-authenticate").expect("a challenge").starts_with("Bearer"));
        for wrong in ["sgadmin_wrong", "wrong", "sg_live_x"] {
            problem(&Program::with_token(&server, wrong).get("/tenants").await, 401, "unauthorized");
        }
        problem(&owner.get("/nothing").await, 404, "not-found");
        problem(&owner.get("/tenants/nobody").await, 404, "not-found");
        problem(&owner.get("/keys/not-an-id").await, 404, "not-found");
        problem(&owner.get("/tenants/%00").await, 404, "not-found");
        problem(&owner.get("/tenants/%FF").await, 404, "not-found");
        let answer = owner.send(Method::PUT, "/tenants", &[], None).await;
        problem(&answer, 405, "method-not-allowed");
        assert!(answer.header("allow").expect("methods").contains("POST"));
        problem(&owner.post("/tenants", json!({ "slug": "acme" })).await, 422, "invalid");
        let sent = |body: &str| owner.send(Method::POST, "/tenants", &[], Some(body.to_owned()));
        problem(&sent("{").await, 400, "malformed-request");
        problem(&sent("").await, 400, "malformed-request");
        problem(&sent(&format!("\"{}\"", "x".repeat(5_000_000))).await, 413, "body-too-large");
        let text = [("content-type", "text/plain")];
        problem(&owner.send(Method::POST, "/tenants", &text, None).await, 415, "unsupported-media-type");
        // Outside the version as well.
        let outside = Program { base: format!("http://{}/api", server.address()), ..owner };
        problem(&outside.get("/v2/tenants").await, 404, "not-found");
    }

    async fn what_is_not_known_is_refused_with_its_place(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        let place = |answer: &sluicegate_tests::Answer, status, word| {
            problem(answer, status, word)["errors"][0]["pointer"].as_str().expect("a pointer").to_owned()
        };
        let answer = owner.post("/tenants", json!({ "slug": "a", "name": "A", "colour": "red" })).await;
        assert_eq!(place(&answer, 422, "invalid"), "#/colour");
        let settings = json!({ "refusal_style": "loud" });
        let answer = owner.post("/tenants", json!({ "slug": "a", "name": "A", "settings": settings })).await;
        assert_eq!(place(&answer, 422, "invalid"), "#/settings/refusal_style");
        let answer = owner.post("/tenants", json!({ "name": "A" })).await;
        assert_eq!(place(&answer, 422, "invalid"), "#/slug");
        let answer = owner.post("/tenants", json!({ "slug": "No!", "name": "A" })).await;
        assert_eq!(place(&answer, 422, "invalid"), "#/slug");
        let answer = owner.post("/tenants", json!({ "slug": "a", "name": "A\0" })).await;
        assert_eq!(place(&answer, 422, "invalid"), "#/name");
        assert_eq!(place(&owner.get("/tenants?colour=red").await, 400, "malformed-request"), "?colour");
        assert_eq!(place(&owner.get("/tenants?limit=201").await, 400, "malformed-request"), "?limit");
        assert_eq!(place(&owner.get("/tenants?limit=many").await, 400, "malformed-request"), "?limit");
        assert_eq!(place(&owner.get("/tenants?cursor=zz").await, 400, "malformed-request"), "?cursor");
        assert_eq!(place(&owner.get("/me?x=1").await, 400, "malformed-request"), "?x");
        assert_eq!(place(&owner.get("/usage?range=2h").await, 400, "malformed-request"), "?range");
        assert_eq!(place(&owner.get("/limits/explain?tenant=a&tool=b").await, 400, "malformed-request"), "?agent");
        server.client("acme", "u-42").await;
        let tool = json!({ "target": { "scope": "tool", "tool": "exprot" }, "rate": "5/min" });
        let answer = owner.post("/limits", tool).await;
        assert_eq!(place(&answer, 422, "invalid"), "#/target/tool");
        assert!(answer.text.contains("export"), "{}", answer.text);
        let limit = json!({ "target": { "scope": "server" }, "rate": "5 per minut" });
        assert_eq!(place(&owner.post("/limits", limit).await, 422, "invalid"), "#/rate");
    }

    async fn pages_go_on_where_the_one_before_ended(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        for number in 0..5 {
            let made = owner.post("/tenants", json!({ "slug": format!("t-{number}"), "name": "T" })).await;
            assert_eq!(made.status, 201, "{made:?}");
        }
        let (mut slugs, mut path) = (Vec::new(), "/tenants?limit=2".to_owned());
        loop {
            let page = owner.get(&path).await.json();
            let items = page["items"].as_array().expect("items");
            slugs.extend(items.iter().map(|item| item["slug"].as_str().expect("a slug").to_owned()));
            let Some(next) = page["next"].as_str() else { break };
            path = format!("/tenants?limit=2&cursor={next}");
        }
        assert_eq!(slugs, ["t-0", "t-1", "t-2", "t-3", "t-4"]);
    }

    async fn a_change_is_made_only_of_what_was_seen(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        let made = owner.post("/tenants", json!({ "slug": "acme", "name": "Acme" })).await;
        assert_eq!(made.header("location"), Some("/api/v1/tenants/acme"));
        let seen = made.header("etag").expect("a version").to_owned();
        let rename = |name: &str, tag: Option<String>| {
            let body = json!({ "name": name }).to_string();
            let owner = &owner;
            async move {
                let headers: Vec<_> = tag.as_deref().map(|tag| ("if-match", tag)).into_iter().collect();
                owner.send(Method::PATCH, "/tenants/acme", &headers, Some(body)).await
            }
        };
        let missing = problem(&rename("Other", None).await, 428, "precondition-required");
        assert_eq!(missing["errors"][0]["pointer"], "If-Match");
        problem(&rename("Other", Some("5".to_owned())).await, 400, "malformed-request");
        let first = rename("アクメ 🚀", Some(seen.clone())).await;
        assert_eq!((first.status.as_u16(), &first.json()["name"]), (200, &json!("アクメ 🚀")));
        // The second of two who have seen the same: it is told what it saw and what there is.
        let late = problem(&rename("Late", Some(seen.clone())).await, 412, "stale");
        assert_eq!((&late["expected"], &late["present"]["name"]), (&json!(seen), &json!("アクメ 🚀")));
        // One that would change nothing is late as well.
        problem(&rename("アクメ 🚀", Some(seen.clone())).await, 412, "stale");
        problem(&rename("Weak", first.header("etag").map(|tag| format!("W/{tag}"))).await, 412, "stale");
        assert_eq!(rename("Blind", Some("*".to_owned())).await.status, 200);
        problem(&owner.send(Method::DELETE, "/tenants/acme", &[("if-match", &seen)], None).await, 412, "stale");
        problem(&owner.send(Method::POST, "/tenants/acme/suspend", &[("if-match", &seen)], None).await, 412, "stale");
        let now = owner.get("/tenants/acme").await.header("etag").expect("a version").to_owned();
        let gone = owner.send(Method::DELETE, "/tenants/acme", &[("if-match", &now)], None).await;
        assert_eq!((gone.status.as_u16(), gone.text.as_str()), (204, ""));
        problem(&owner.get("/tenants/acme").await, 404, "not-found");
    }

    async fn a_request_that_is_sent_again_is_answered_again_and_not_done_again(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        let key = [("idempotency-key", "one")];
        let make = |slug: &str, headers: &'static [(&'static str, &'static str)]| {
            let body = json!({ "slug": slug, "name": "T" }).to_string();
            let owner = &owner;
            async move { owner.send(Method::POST, "/tenants", headers, Some(body)).await }
        };
        const ONE: &[(&str, &str)] = &[("idempotency-key", "one")];
        const TWO: &[(&str, &str)] = &[("idempotency-key", "two")];
        let first = make("acme", ONE).await;
        let again = make("acme", ONE).await;
        assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 201));
        assert_eq!(first.text, again.text);
        assert_eq!((again.header("idempotency-replayed"), first.header("idempotency-replayed")), (Some("true"), None));
        assert_eq!((again.header("etag"), again.header("location")), (first.header("etag"), first.header("location")));
        problem(&make("other", ONE).await, 422, "idempotency-key-reused");
        problem(&make("acme", TWO).await, 409, "conflict");
        // What was refused has done nothing, so its key is free.
        assert_eq!(make("globex", TWO).await.status, 201);
        // Another token's keys are others.
        let other = Program::owner(&server).await;
        let body = json!({ "slug": "acme", "name": "T" }).to_string();
        problem(&other.send(Method::POST, "/tenants", &key, Some(body)).await, 409, "conflict");
        problem(&owner.send(Method::POST, "/tenants", &[("idempotency-key", "")], None).await, 400, "malformed-request");
    }

    async fn a_secret_is_never_told_twice(database: Database) {
        let server = TestServer::start(&database).await;
        server.client("acme", "u-42").await;
        let owner = Program::owner(&server).await;
        let key = [("idempotency-key", "k")];
        let rule = json!({ "name": "q", "kind": "runaway", "threshold": 300, "webhook": "https://hooks.example/y" });
        let rule = owner.post("/alert-rules", rule).await.json()["rule"]["id"].clone();
        let rotate = format!("/alert-rules/{}/rotate-secret", rule.as_str().expect("an id"));
        for (path, body, secret) in [
            (&*rotate, json!({}), "secret"),
            ("/tenants/acme/agents/u-42/keys", json!({ "name": "laptop" }), "key"),
            ("/tokens", json!({ "name": "ci-2", "role": "viewer", "tenant": "acme" }), "token"),
            ("/alert-rules", json!({
                "name": "r", "kind": "runaway", "threshold": 300, "webhook": "https://hooks.example/x",
            }), "secret"),
        ] {
            let key = [(key[0].0, path)];
            let shown = owner.send(Method::POST, path, &key, Some(body.to_string())).await;
            assert!(shown.status.is_success(), "{shown:?}");
            let secret = shown.json()[secret].as_str().expect("it is shown").to_owned();
            let again = owner.send(Method::POST, path, &key, Some(body.to_string())).await;
            let told = problem(&again, 409, "secret-already-shown");
            assert!(!told.to_string().contains(&secret));
            for list in ["/tenants/acme/keys", "/tokens", "/alert-rules", "/audit?limit=200", "/export"] {
                assert!(!owner.get(list).await.text.contains(&secret), "{list}");
            }
        }
    }

    async fn a_revoked_or_expired_token_opens_nothing(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        let ends = sluicegate_tests::server::START_MS + 60_000;
        let new = json!({ "name": "short", "role": "viewer", "expires_at": ends });
        let made = owner.post("/tokens", new).await.json();
        let short = Program::with_token(&server, made["token"].as_str().expect("a token"));
        let me = short.get("/me").await.json();
        assert_eq!((&me["actor"], &me["role"], &me["tenant_id"]), (&json!("token:short"), &json!("viewer"), &Value::Null));
        server.advance(std::time::Duration::from_secs(61));
        problem(&short.get("/me").await, 401, "unauthorized");
        let made = owner.post("/tokens", json!({ "name": "other", "role": "viewer" })).await.json();
        let other = Program::with_token(&server, made["token"].as_str().expect("a token"));
        assert_eq!(other.get("/me").await.status, 200);
        let id = made["record"]["id"].as_str().expect("an id");
        assert_eq!(owner.post(&format!("/tokens/{id}/revoke"), json!({})).await.status, 200);
        problem(&other.get("/me").await, 401, "unauthorized");
    }

    async fn the_document_and_its_page_are_open_and_everything_else_is_not(database: Database) {
        let server = TestServer::start(&database).await;
        let nobody = Program::with_token(&server, "");
        let document = nobody.get("/openapi.json").await.json();
        assert_eq!(document["openapi"], "3.1.0");
        let paths = document["paths"].as_object().expect("paths");
        assert!(paths.len() > 40, "{}", paths.len());
        let mut ids = std::collections::HashSet::new();
        for (path, item) in paths {
            for (method, operation) in item.as_object().expect("operations") {
                let id = operation["operationId"].as_str().expect("an id");
                assert!(ids.insert(id.to_owned()), "two operations are called {id}");
                assert!(operation["summary"].is_string(), "{id} has no summary");
                if path != "/openapi.json" {
                    let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
                    let path = path.replace(['{', '}'], "");
                    problem(&nobody.send(method, &path, &[], None).await, 401, "unauthorized");
                }
            }
        }
        let docs = Program { base: format!("http://{}/api/docs", server.address()), ..nobody };
        let page = docs.get("/").await;
        assert_eq!(page.status, 200);
        assert!(page.text.contains("swagger-ui"));
        let policy = page.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'self'") && !policy.contains("http"), "{policy}");
        let script = docs.get("/swagger-initializer.js").await;
        assert!(script.text.contains("/api/v1/openapi.json"), "{}", script.text);
        for asset in ["/swagger-ui.css", "/swagger-ui-bundle.js"] {
            assert_eq!(docs.get(asset).await.status, 200, "{asset}");
        }
    }

    async fn the_address_and_the_request_of_a_change_are_in_the_audit_log(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::with_role(&server, Role::Owner, None).await;
        let made = owner.post("/tenants", json!({ "slug": "acme", "name": "Acme" })).await;
        let entry = owner.get("/audit?action=tenant.create&limit=1").await.json()["items"][0].clone();
        assert_eq!((&entry["actor"], &entry["address"]), (&json!("token:ci"), &json!("127.0.0.1")));
        assert_eq!(entry["request_id"].as_str(), made.header("x-request-id"));
        assert_eq!(owner.get("/audit/verify").await.json()["intact"], true);
    }
}
