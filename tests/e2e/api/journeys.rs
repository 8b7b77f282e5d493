//! What platform engineers do with it, on real traffic.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sluicegate::control::{JsonText, ToolDefinition};
use sluicegate_tests::server::actor;
use sluicegate_tests::{Client, Database, TestServer, on_both_databases};

use super::{Program, problem};

/// Asks until the answer is as it should be, which must not take longer than usage takes to be written.
async fn eventually(owner: &Program, path: &str, good: impl Fn(&Value) -> bool) -> Value {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let found = owner.get(path).await.json();
        if good(&found) {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "{path}: {found}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

on_both_databases! {
    async fn a_customer_is_set_up_throttled_and_given_more(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        assert_eq!(owner.post("/tenants", json!({ "slug": "acme", "name": "Acme" })).await.status, 201);
        assert_eq!(owner.post("/tenants/acme/agents", json!({ "name": "u-42" })).await.status, 201);
        let key = owner.post("/tenants/acme/agents/u-42/keys", json!({ "name": "laptop" })).await;
        assert_eq!(key.status, 201, "{key:?}");
        let key = key.json();
        server.caught_up().await;
        let client = Client::new(server.endpoint(), key["key"].as_str().expect("a key").to_owned());
        let export = || client.call("export", json!({ "dataset": "x" }));
        for _ in 0..5 {
            assert!(export().await.is_ok());
        }
        for _ in 0..3 {
            assert_eq!(export().await.status, 429);
        }

        let explained = owner.get("/limits/explain?tenant=acme&agent=u-42&tool=export").await.json();
        let of_tool = |explained: &Value| {
            let limits = explained["limits"].as_array().expect("limits").clone();
            limits.into_iter().find(|limit| limit["scope"] == "tool" && limit["kind"] == "rate").expect("the tool's")
        };
        assert_eq!((&of_tool(&explained)["text"], &of_tool(&explained)["usage"]["used"]), (&json!("5/min"), &json!(5)));
        let effective = owner.get("/limits/effective?tenant=acme&agent=u-42&limit=200").await.json();
        let tools = effective["items"].as_array().expect("tools");
        assert!(tools.iter().any(|tool| tool["tool"] == "export" && of_tool(tool)["text"] == "5/min"), "{effective}");

        let matrix = eventually(&owner, "/throttle_by_tool?tenant=acme", |found| found["total"]["calls"] == 8).await;
        assert_eq!(matrix["total"]["refusals"], 3);
        assert_eq!((&matrix["tools"][0]["tool"], &matrix["rows"][0]["cells"][0]["refusals"]), (&json!("export"), &json!(3)));
        assert_eq!(matrix["rows"][0]["caller"]["agent_name"], "u-42");
        let series = owner.get("/throttle_by_tool/series?tenant=acme&agent=u-42&tool=export").await.json();
        let sum = |series: &Value, member: &str| -> i64 {
            series["points"].as_array().expect("points").iter().filter_map(|point| point[member].as_i64()).sum()
        };
        assert_eq!((sum(&series, "calls"), sum(&series, "refusals")), (8, 3));
        let usage = owner.get("/usage?tenant=acme").await.json();
        assert_eq!((&usage["current"]["ok"], &usage["current"]["throttled"]), (&json!(5), &json!(3)));
        assert_eq!(usage["current"]["throttled_share"], json!(0.375));
        assert_eq!(sum(&owner.get("/usage/series?tenant=acme").await.json(), "throttled"), 3);
        let by_tool = owner.get("/usage/by-tool?tenant=acme").await.json();
        assert!(by_tool["items"].as_array().expect("tools").iter().any(|tool| tool["tool"] == "export" && tool["calls"] == 8));
        let events = eventually(&owner, "/events?tenant=acme&kind=throttled", |found| found["items"][0].is_object()).await;
        assert_eq!(events["items"][0]["tool"], "export");

        let tenant = owner.get("/tenants/acme").await.json()["id"].clone();
        let limit = json!({ "target": { "scope": "tenant_tool", "tenant": tenant, "tool": "export" }, "rate": "50/min" });
        let preview = owner.post("/limits/preview", json!({ "limit": limit, "range": "24h" })).await.json();
        assert_eq!((&preview["calls"], &preview["would_refuse"], &preview["share"]), (&json!(8), &json!(0), &json!(0.0)));
        let set = owner.post("/limits", limit).await;
        assert_eq!((set.status.as_u16(), &set.json()["rate"]), (201, &json!("50/min")));
        server.caught_up().await;
        assert!(export().await.is_ok());

        let path = set.header("location").and_then(|path| path.strip_prefix("/api/v1")).expect("a path");
        let tag = set.header("etag").expect("a version");
        let put = |headers: Vec<(&'static str, String)>, body: Value| {
            let owner = &owner;
            async move {
                let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
                owner.send(Method::PUT, path, &headers, Some(body.to_string())).await
            }
        };
        let seen = vec![("if-match", tag.to_owned())];
        problem(&put(Vec::new(), json!({ "rate": "60/min" })).await, 428, "precondition-required");
        problem(&put(seen.clone(), json!({ "concurrency": 3 })).await, 422, "invalid");
        let replaced = put(seen.clone(), json!({ "rate": "60/min", "note": "more" })).await;
        assert_eq!((replaced.status.as_u16(), &replaced.json()["rate"]), (200, &json!("60/min")));
        let late = problem(&put(seen, json!({ "rate": "70/min" })).await, 412, "stale");
        assert_eq!(late["present"]["rate"], "60/min");
        let tag = replaced.header("etag").expect("a version");
        assert_eq!(owner.send(Method::DELETE, path, &[("if-match", tag)], None).await.status, 204);
        problem(&owner.get(path).await, 404, "not-found");

        let id = key["record"]["id"].as_str().expect("an id");
        let rotated = owner.post(&format!("/keys/{id}/rotate"), json!({ "overlap": "1h" })).await;
        assert_eq!(rotated.status, 201, "{rotated:?}");
        server.caught_up().await;
        let second = client.clone().with_key(rotated.json()["key"].as_str().expect("a key"));
        let echo = json!({ "text": "x" });
        assert!(client.call("echo", echo.clone()).await.is_ok() && second.call("echo", echo.clone()).await.is_ok());
        assert_eq!(owner.post(&format!("/keys/{id}/revoke"), json!({})).await.json()["status"], "revoked");
        server.caught_up().await;
        assert_eq!(client.call("echo", echo.clone()).await.status, 401);
        assert!(second.call("echo", echo.clone()).await.is_ok());
        assert_eq!(owner.post("/tenants/acme/agents/u-42/suspend", json!({})).await.json()["status"], "suspended");
        server.caught_up().await;
        assert_eq!(second.call("echo", echo.clone()).await.status, 403);
        assert_eq!(owner.post("/tenants/acme/agents/u-42/resume", json!({})).await.json()["status"], "active");
        assert_eq!(owner.post("/tools/echo/disable?tenant=acme", json!({})).await.json()["enabled"], false);
        server.caught_up().await;
        assert!(!second.call("echo", echo.clone()).await.is_ok());
        assert_eq!(owner.get("/tool-switches?tenant=acme").await.json()["items"][0]["tool"], "echo");
        assert_eq!(owner.post("/tools/echo/enable?tenant=acme", json!({})).await.json()["enabled"], true);
        server.caught_up().await;
        assert!(second.call("echo", echo).await.is_ok());
    }

    async fn a_policy_is_reviewed_before_it_is_imported(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        assert_eq!(owner.post("/plans", json!({ "name": "gold", "note": "big" })).await.status, 201);
        let plan = owner.get("/plans/gold").await.json()["id"].clone();
        let limit = json!({ "target": { "scope": "plan", "plan": plan }, "rate": "900/min" });
        assert_eq!(owner.post("/limits", limit).await.status, 201);
        let new = json!({ "slug": "acme", "name": "Acme", "plan": "gold", "metadata": { "customer": 7 } });
        let made = owner.post("/tenants", new).await.json();
        assert_eq!((&made["plan_name"], &made["metadata"]["customer"]), (&json!("gold"), &json!(7)));
        problem(&owner.send(Method::DELETE, "/plans/gold", &[("if-match", "*")], None).await, 409, "conflict");

        let mut document = owner.get("/export").await.json();
        let unchanged = owner.post("/import?dry_run=true", document.clone()).await.json();
        assert_eq!((&unchanged["applied"], &unchanged["steps"]), (&json!(false), &json!([])));
        document["plans"][0]["limits"][0]["rate"] = json!("1000/min");
        let diff = owner.post("/import?dry_run=true", document.clone()).await.json();
        assert_eq!((&diff["steps"][0]["action"], diff["steps"].as_array().map(Vec::len)), (&json!("limit.set"), Some(1)));
        assert_eq!(owner.get("/limits?plan=gold").await.json()["items"][0]["rate"], "900/min");
        let done = owner.post("/import", document.clone()).await.json();
        assert_eq!(done["applied"], true);
        assert_eq!(done["steps"][0]["action"], "limit.set");
        assert_eq!(owner.get("/limits?plan=gold").await.json()["items"][0]["rate"], "1000/min");
        assert_eq!(owner.post("/import", document).await.json()["steps"], json!([]));

        let off = owner.send(Method::PATCH, "/tenants/acme", &[("if-match", "*")], Some(json!({ "plan": null }).to_string()));
        assert_eq!(off.await.json()["plan_id"], Value::Null);
        assert_eq!(owner.send(Method::DELETE, "/plans/gold", &[("if-match", "*")], None).await.status, 204);
    }

    async fn people_and_alert_rules_are_managed(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        let new = |name: &str| json!({ "name": name, "password": "correct horse battery", "role": "owner" });
        let alice = owner.post("/users", new("alice")).await;
        assert_eq!(alice.status, 201, "{alice:?}");
        assert!(!alice.text.contains("horse"));
        problem(&owner.post("/users", new("alice")).await, 409, "conflict");
        // The last owner stays one.
        let change = |body: Value| owner.send(Method::PATCH, "/users/alice", &[("if-match", "*")], Some(body.to_string()));
        problem(&change(json!({ "role": "viewer", "tenant": null })).await, 409, "conflict");
        problem(&change(json!({ "role": "viewer" })).await, 422, "invalid");
        assert_eq!(owner.post("/users", new("bob")).await.status, 201);
        assert_eq!(change(json!({ "role": "viewer", "tenant": null })).await.json()["role"], "viewer");
        let reset = owner.post("/users/alice/password", json!({ "password": "another long one" })).await;
        assert_eq!((reset.status.as_u16(), reset.text.contains("another")), (200, false));
        assert_eq!(owner.post("/users/alice/suspend", json!({})).await.json()["status"], "suspended");
        assert_eq!(owner.post("/users/alice/resume", json!({})).await.json()["status"], "active");
        assert_eq!(owner.send(Method::DELETE, "/users/alice", &[("if-match", "*")], None).await.status, 204);

        let rule = json!({ "name": "busy", "kind": "throttling", "threshold": 5, "minutes": 3 });
        let made = owner.post("/alert-rules", rule.clone()).await;
        assert_eq!((made.status.as_u16(), &made.json()["secret"]), (201, &Value::Null));
        let path = made.header("location").and_then(|path| path.strip_prefix("/api/v1")).expect("a path").to_owned();
        let mut other = rule;
        other["webhook"] = json!("https://hooks.example/x");
        let tag = made.header("etag").expect("a version");
        let replaced = owner.send(Method::PUT, &path, &[("if-match", tag)], Some(other.to_string())).await;
        assert!(replaced.json()["secret"].is_string(), "{replaced:?}");
        assert_eq!(owner.get("/alert-rules").await.json()["items"][0]["webhook"], "https://hooks.example/x");
        assert_eq!(owner.get("/alerts/open").await.json()["items"], json!([]));
        problem(&owner.send(Method::DELETE, &path, &[("if-match", tag)], None).await, 412, "stale");
        assert_eq!(owner.send(Method::DELETE, &path, &[("if-match", "*")], None).await.status, 204);
    }

    async fn events_arrive_as_they_happen_and_the_stream_ends_with_its_token(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        let client = server.client("acme", "u-42").await;
        let made = owner.post("/tokens", json!({ "name": "tail", "role": "viewer", "tenant": "acme" })).await.json();
        let token = made["token"].as_str().expect("a token");
        let stream = owner.http.get(format!("{}/events/stream", owner.base)).bearer_auth(token).send().await;
        let mut stream = stream.expect("it is answered");
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        for _ in 0..6 {
            client.call("export", json!({ "dataset": "x" })).await;
        }
        let mut text = String::new();
        while !text.contains("data:") {
            let chunk = tokio::time::timeout(Duration::from_secs(10), stream.chunk()).await.expect("an event comes");
            text.push_str(&String::from_utf8_lossy(&chunk.expect("a chunk").expect("it has not ended")));
        }
        assert!(text.contains("event: throttled") && text.contains("id: evt_") && text.contains("u-42"), "{text}");
        let id = made["record"]["id"].as_str().expect("an id");
        assert_eq!(owner.post(&format!("/tokens/{id}/revoke"), json!({})).await.status, 200);
        let rest = async { while stream.chunk().await.expect("a chunk").is_some() {} };
        tokio::time::timeout(Duration::from_secs(10), rest).await.expect("it ends");
        server.stop().await;
    }

    async fn the_server_tells_how_it_is(database: Database) {
        let server = TestServer::start(&database).await;
        let owner = Program::owner(&server).await;
        let version = owner.get("/version").await.json();
        assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
        assert!(["sqlite", "postgres"].contains(&version["database"].as_str().expect("a name")));
        assert_eq!(owner.get("/health").await.json()["draining"], false);
        assert!(owner.get("/instances").await.json()["items"].is_array());
        assert_eq!(owner.get("/tools/export").await.json()["name"], "export");
        assert!(problem(&owner.get("/tools/exprot").await, 404, "not-found")["detail"].to_string().contains("export"));
        assert_eq!(owner.get("/runaways").await.json()["items"], json!([]));
    }

    async fn a_tool_that_this_server_does_not_serve_is_left_out_of_the_limits_in_force(database: Database) {
        let server = TestServer::start(&database).await;
        server.client("acme", "u-42").await;
        let elsewhere = ToolDefinition {
            name: "elsewhere".to_owned(),
            title: None,
            description: None,
            input_schema: JsonText::empty_object(),
            declared_limits: JsonText::empty_object(),
        };
        server.control().tools().register(&actor(), &[elsewhere]).await.expect("a tool of another server");
        let owner = Program::owner(&server).await;
        let effective = owner.get("/limits/effective?tenant=acme&agent=u-42").await;
        assert_eq!(effective.status, 200, "{effective:?}");
        assert!(effective.text.contains("\"export\"") && !effective.text.contains("elsewhere"), "{effective:?}");
        problem(&owner.get("/limits/effective?tenant=acme&agent=u-42&key=key_00000000000000000000000000000000").await, 404, "not-found");
    }
}
