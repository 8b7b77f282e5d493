//! A session of the panel opens the admin API, for pages of this server.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sluicegate::control::Role;
use sluicegate_tests::visitor::Visitor;
use sluicegate_tests::{Database, TestServer, on_both_databases};

use super::{Program, problem};

async fn signed_in(server: &TestServer, name: &str, role: Role, tenant: Option<&str>) -> (Program, String) {
    let base = format!("http://{}", server.address());
    let visitor = Visitor::sign_in(server.control(), &base, name, role, tenant).await;
    (Program::with_token(server, ""), visitor.cookie().to_owned())
}

on_both_databases! {
    async fn whoever_has_signed_in_may_ask_and_change_what_the_account_may(database: Database) {
        let server = TestServer::start(&database).await;
        server.client("acme", "u-42").await;
        server.client("globex", "u-42").await;
        let (page, cookie) = signed_in(&server, "otto", Role::Operator, Some("acme")).await;
        let from_here = [("cookie", &*cookie), ("sec-fetch-site", "same-origin")];
        let me = page.send(Method::GET, "/me", &[("cookie", &cookie)], None).await.json();
        assert_eq!((&me["actor"], &me["role"], &me["token_id"]), (&json!("user:otto"), &json!("operator"), &Value::Null));
        assert!(me["user_id"].as_str().is_some_and(|id| id.starts_with("usr_")), "{me}");
        let body = || Some(json!({ "name": "u-43" }).to_string());
        let made = page.send(Method::POST, "/tenants/acme/agents", &from_here, body()).await;
        assert_eq!(made.status, 201, "{made:?}");
        problem(&page.send(Method::POST, "/tenants/globex/agents", &from_here, body()).await, 404, "not-found");
        problem(&page.send(Method::GET, "/users", &from_here, None).await, 403, "forbidden");
        let log = Program::owner(&server).await.get("/audit?action=agent.create&limit=1").await.json();
        assert_eq!(log["items"][0]["actor"], "user:otto");
    }

    async fn a_page_of_another_site_changes_nothing(database: Database) {
        let server = TestServer::start(&database).await;
        let (page, cookie) = signed_in(&server, "olga", Role::Owner, None).await;
        let host = server.address().to_string();
        let body = |slug: &str| Some(json!({ "slug": slug, "name": "x" }).to_string());
        for (number, forged) in [
            vec![("sec-fetch-site", "cross-site")],
            vec![("sec-fetch-site", "same-site")],
            vec![("origin", "https://evil.example")],
            vec![("origin", "null")],
            vec![],
        ]
        .into_iter()
        .enumerate()
        {
            let headers = [&[("cookie", &*cookie)], &*forged].concat();
            let answer = page.send(Method::POST, "/tenants", &headers, body(&format!("evil-{number}"))).await;
            problem(&answer, 403, "foreign-origin");
        }
        let own = format!("http://{host}");
        for (slug, headers) in [("one", ("sec-fetch-site", "none")), ("two", ("origin", &*own))] {
            let answer = page.send(Method::POST, "/tenants", &[("cookie", &cookie), headers], body(slug)).await;
            assert_eq!(answer.status, 201, "{answer:?}");
        }
        // A token that is sent counts, and needs no origin; a wrong one is wrong whatever the cookie.
        let owner = Program::owner(&server).await;
        let answer = owner.send(Method::POST, "/tenants", &[("cookie", &cookie)], body("three")).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let wrong = [("cookie", &*cookie), ("authorization", "Bearer sgadmin_wrong")];
        problem(&page.send(Method::GET, "/me", &wrong, None).await, 401, "unauthorized");
        let tenants = owner.get("/tenants").await.json()["items"].as_array().map(Vec::len);
        assert_eq!(tenants, Some(3));
    }

    async fn a_session_that_has_ended_opens_nothing(database: Database) {
        let server = TestServer::start(&database).await;
        let (page, cookie) = signed_in(&server, "olga", Role::Owner, None).await;
        let ask = async |cookie: &str| page.send(Method::GET, "/me", &[("cookie", cookie)], None).await;
        for _ in 0..13 {
            server.advance(Duration::from_secs(55 * 60));
            assert_eq!(ask(&cookie).await.status, 200, "to ask is a use of it");
        }
        server.advance(Duration::from_secs(6 * 60));
        problem(&ask(&cookie).await, 401, "unauthorized");
        for cookie in ["__Host-sluicegate=AAAAAAAAAAAAAAAAAAAAAA", "__Host-sluicegate=x", "sluicegate=1"] {
            problem(&ask(cookie).await, 401, "unauthorized");
        }
        let (_, cookie) = signed_in(&server, "otto", Role::Owner, None).await;
        assert_eq!(ask(&cookie).await.status, 200);
        let otto = "otto".into();
        server.control().users().suspend(&sluicegate_tests::server::actor(), &otto).await.expect("suspended");
        problem(&ask(&cookie).await, 401, "unauthorized");
    }

    async fn without_the_panel_there_are_no_sessions(database: Database) {
        let with = TestServer::start(&database).await;
        let (_, cookie) = signed_in(&with, "olga", Role::Owner, None).await;
        let without = TestServer::start_with(&database, |settings| settings.panel = false).await;
        let page = Program::with_token(&without, "");
        problem(&page.send(Method::GET, "/me", &[("cookie", &cookie)], None).await, 401, "unauthorized");
    }
}
