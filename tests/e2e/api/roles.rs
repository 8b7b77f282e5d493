//! Who may do what: every route, every role, one's own tenant and another's.

use http::Method;
use serde_json::{Value, json};
use sluicegate::control::{NewAlertRule, NewKey, NewLimit, NewToken, NewUser, Role, Target, TenantId, TenantRef};
use sluicegate_tests::server::actor;
use sluicegate_tests::{Database, TestServer, on_both_databases};

use super::{Program, problem};

/// Whose business a route is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Of a tenant: of anybody who has the role in it. To others it does not exist.
    Tenant,
    /// Of everybody, each sees what is theirs.
    Everybody,
    /// Of the server: refused to whoever is confined to a tenant.
    Server,
    /// Of the server, and to whoever is confined it does not exist.
    ServerUnseen,
    /// Of a tenant, which its own people see; but only the server's may do this.
    TenantByServer,
}

use Of::{Everybody, Server, ServerUnseen, Tenant, TenantByServer};
use Role::{Operator, Owner, Viewer};

/// The routes as the document has them: method, path, the rest of the path, body, least role, whose business.
pub(super) const ROUTES: &[(&str, &str, &str, &str, Role, Of)] = &[
    ("get", "/tenants", "", "", Viewer, Everybody),
    ("post", "/tenants", "", r#"{"slug":"{new}","name":"New"}"#, Operator, Server),
    ("get", "/tenants/{tenant}", "", "", Viewer, Tenant),
    ("patch", "/tenants/{tenant}", "", r#"{"name":"Other {new}"}"#, Operator, Tenant),
    ("post", "/tenants/{tenant}/suspend", "", "", Operator, Tenant),
    ("post", "/tenants/{tenant}/resume", "", "", Operator, Tenant),
    ("get", "/tenants/{tenant}/agents", "", "", Viewer, Tenant),
    ("post", "/tenants/{tenant}/agents", "", r#"{"name":"{new}"}"#, Operator, Tenant),
    ("get", "/tenants/{tenant}/agents/{agent}", "", "", Viewer, Tenant),
    ("post", "/tenants/{tenant}/agents/{agent}/suspend", "", "", Operator, Tenant),
    ("post", "/tenants/{tenant}/agents/{agent}/resume", "", "", Operator, Tenant),
    ("get", "/tenants/{tenant}/keys", "", "", Viewer, Tenant),
    ("post", "/tenants/{tenant}/agents/{agent}/keys", "", r#"{"name":"k"}"#, Operator, Tenant),
    ("get", "/keys/{key}", "", "", Viewer, Tenant),
    ("post", "/keys/{key}/rotate", "", r#"{"overlap":"0"}"#, Operator, Tenant),
    ("post", "/keys/{key}/revoke", "", "", Operator, Tenant),
    ("get", "/limits", "?tenant={slug}", "", Viewer, Tenant),
    (
        "post",
        "/limits",
        "",
        r#"{"target":{"scope":"tenant","tenant":"{tenant_id}"},"rate":"700/min"}"#,
        Operator,
        Tenant,
    ),
    ("get", "/limits/{limit}", "", "", Viewer, Tenant),
    ("put", "/limits/{limit}", "", r#"{"rate":"70/min"}"#, Operator, Tenant),
    ("delete", "/limits/{limit}", "", "", Operator, Tenant),
    ("get", "/limits/explain", "?tenant={slug}&agent=bot&tool=export", "", Viewer, Tenant),
    ("get", "/limits/effective", "?tenant={slug}&agent=bot", "", Viewer, Tenant),
    (
        "post",
        "/limits/preview",
        "",
        r#"{"limit":{"target":{"scope":"tenant","tenant":"{tenant_id}"},"rate":"700/min"}}"#,
        Viewer,
        Tenant,
    ),
    ("get", "/plans", "", "", Viewer, Everybody),
    ("post", "/plans", "", r#"{"name":"{new}"}"#, Operator, Server),
    ("get", "/plans/{plan}", "", "", Viewer, ServerUnseen),
    ("patch", "/plans/{plan}", "", r#"{"note":"{new}"}"#, Operator, ServerUnseen),
    ("delete", "/plans/{plan}", "", "", Operator, ServerUnseen),
    ("get", "/tools", "", "", Viewer, Everybody),
    ("get", "/tools/{tool}", "", "", Viewer, Everybody),
    ("post", "/tools/{tool}/disable", "?tenant={slug}", "", Operator, Tenant),
    ("post", "/tools/{tool}/enable", "?tenant={slug}", "", Operator, Tenant),
    ("get", "/tool-switches", "?tenant={slug}", "", Viewer, Tenant),
    ("get", "/usage", "?tenant={slug}", "", Viewer, Tenant),
    ("get", "/usage/by-tool", "?tenant={slug}", "", Viewer, Tenant),
    ("get", "/usage/series", "?tenant={slug}", "", Viewer, Tenant),
    ("get", "/throttle_by_tool", "?tenant={slug}", "", Viewer, Tenant),
    ("get", "/throttle_by_tool/series", "?tenant={slug}", "", Viewer, Tenant),
    ("get", "/runaways", "", "", Viewer, Everybody),
    ("get", "/events", "?tenant={slug}", "", Viewer, Tenant),
    ("get", "/alerts", "", "", Viewer, Everybody),
    ("get", "/alerts/open", "", "", Viewer, Everybody),
    ("get", "/alert-rules", "", "", Viewer, Everybody),
    (
        "post",
        "/alert-rules",
        "",
        r#"{"name":"r","kind":"runaway","threshold":300,"tenant":"{slug}"}"#,
        Operator,
        Tenant,
    ),
    ("get", "/alert-rules/{rule}", "", "", Viewer, Tenant),
    (
        "put",
        "/alert-rules/{rule}",
        "",
        r#"{"name":"r2","kind":"runaway","threshold":400,"tenant":"{slug}"}"#,
        Operator,
        Tenant,
    ),
    ("post", "/alert-rules/{rule}/rotate-secret", "", "", Operator, Tenant),
    ("post", "/alert-rules/{rule}/test", "", "", Operator, Tenant),
    ("delete", "/alert-rules/{rule}", "", "", Operator, Tenant),
    ("get", "/audit", "?tenant={slug}", "", Viewer, Tenant),
    ("get", "/audit/verify", "", "", Viewer, Server),
    ("get", "/export", "?tenant={slug}", "", Viewer, Tenant),
    (
        "post",
        "/import",
        "?dry_run=true",
        r#"{"version":1,"tenants":[{"slug":"{slug}","name":"Imported"}]}"#,
        Operator,
        Tenant,
    ),
    ("get", "/users", "", "", Owner, Everybody),
    (
        "post",
        "/users",
        "",
        r#"{"name":"{new}","password":"correct horse battery","role":"viewer","tenant":"{slug}"}"#,
        Owner,
        Tenant,
    ),
    ("get", "/users/{user}", "", "", Owner, Tenant),
    ("patch", "/users/{user}", "", r#"{"role":"operator","tenant":"{slug}"}"#, Owner, Tenant),
    ("post", "/users/{user}/suspend", "", "", Owner, Tenant),
    ("post", "/users/{user}/resume", "", "", Owner, Tenant),
    ("post", "/users/{user}/password", "", r#"{"password":"correct horse battery"}"#, Owner, Tenant),
    ("delete", "/users/{user}", "", "", Owner, Tenant),
    ("get", "/tokens", "", "", Owner, Everybody),
    ("post", "/tokens", "", r#"{"name":"t","role":"viewer","tenant":"{slug}"}"#, Owner, Tenant),
    ("get", "/tokens/{token}", "", "", Owner, Tenant),
    ("post", "/tokens/{token}/revoke", "", "", Owner, Tenant),
    ("get", "/me", "", "", Viewer, Everybody),
    ("get", "/version", "", "", Viewer, Everybody),
    ("get", "/health", "", "", Viewer, Server),
    ("get", "/instances", "", "", Viewer, Server),
    ("delete", "/tenants/{tenant}", "", "", Operator, TenantByServer),
];

/// Routes that have tests of their own: the document is open to everybody, a stream has no end.
const ELSEWHERE: &[(&str, &str)] = &[("get", "/openapi.json"), ("get", "/events/stream")];

/// Makes what the placeholders of a text stand for: things of this tenant, new ones each time.
pub(super) async fn fill(server: &TestServer, text: &str, slug: &str, tenant: TenantId, number: usize) -> String {
    let (control, by, of) = (server.control(), actor(), TenantRef::Id(tenant));
    let mut text = text.replace("{slug}", slug).replace("{tenant}", slug).replace("{tenant_id}", &tenant.to_string());
    text = text.replace("{new}", &format!("new-{number}")).replace("{tool}", "export");
    let agents = control.agents();
    if text.contains("{agent}") {
        let agent = agents.create(&by, &of, &format!("a-{number}")).await.expect("an agent");
        text = text.replace("{agent}", &agent.id.to_string());
    }
    if text.contains("{key}") {
        let minted = control.keys().create(&by, &of, &"bot".into(), NewKey::named("k")).await.expect("a key");
        text = text.replace("{key}", &minted.record.id.to_string());
    }
    if text.contains("{limit}") {
        let agent = agents.create(&by, &of, &format!("l-{number}")).await.expect("an agent").id;
        let new = NewLimit::rate(Target::Agent { tenant, agent }, "50/min");
        text = text.replace("{limit}", &control.limits().set(&by, &new).await.expect("a limit").id.to_string());
    }
    if text.contains("{plan}") {
        let plan = control.plans().create(&by, &format!("p-{number}"), "").await.expect("a plan");
        text = text.replace("{plan}", &plan.name);
    }
    if text.contains("{rule}") {
        let new = NewAlertRule {
            name: "r".to_owned(),
            kind: sluicegate::control::AlertKind::Runaway,
            tenant: Some(of.clone()),
            tool: None,
            threshold: 300,
            minutes: 1,
            enabled: true,
            // Nobody may call it: it is an address of this machine.
            webhook: Some("http://127.0.0.1:9/".to_owned()),
        };
        let minted = control.alerts().create_rule(&by, new).await.expect("a rule");
        text = text.replace("{rule}", &minted.rule.id.to_string());
    }
    if text.contains("{user}") {
        let name = format!("u-{number}");
        let new = NewUser {
            name: name.clone(),
            password: "correct horse battery".to_owned().into(),
            role: Viewer,
            tenant: Some(of.clone()),
        };
        control.users().create(&by, new).await.expect("a user");
        text = text.replace("{user}", &name);
    }
    if text.contains("{token}") {
        let new = NewToken { name: "t".to_owned(), role: Viewer, tenant: Some(of), expires_at: None };
        let minted = control.admin_tokens().create(&by, new).await.expect("a token");
        text = text.replace("{token}", &minted.record.id.to_string());
    }
    text
}

/// A tenant with the agent `bot`.
pub(super) async fn tenant(server: &TestServer, slug: &str) -> TenantId {
    let tenant = server.control().tenants().create(&actor(), slug, slug).await.expect("a tenant");
    server.control().agents().create(&actor(), &tenant.id.into(), "bot").await.expect("an agent");
    tenant.id
}

/// What somebody with this role gets, who is confined or not, on their own or on another's tenant: a status, or one of two.
fn expected(least: Role, of: Of, role: Role, confined: bool, foreign: bool) -> &'static [u16] {
    let allowed = role >= least;
    match of {
        // Whether the role or the tenant is looked at first is all the same: it is not done, and nothing is told.
        Tenant | TenantByServer if confined && foreign => {
            if allowed {
                &[404]
            } else {
                &[403, 404]
            }
        }
        Server if confined => &[403],
        ServerUnseen if confined => {
            if allowed {
                &[404]
            } else {
                &[403, 404]
            }
        }
        TenantByServer if confined => &[403],
        _ if allowed => &[200, 201, 204],
        _ => &[403],
    }
}

on_both_databases! {
    async fn each_route_does_for_each_role_what_the_table_says(database: Database) {
        let server = TestServer::start(&database).await;
        let document = Program::with_token(&server, "").get("/openapi.json").await.json();
        let mut documented: Vec<_> = document["paths"].as_object().expect("paths").iter().flat_map(|(path, item)| {
            item.as_object().expect("operations").keys().map(move |method| (method.clone(), path.clone()))
        }).collect();
        documented.retain(|(method, path)| !ELSEWHERE.contains(&(method, path)));
        documented.sort();
        let mut listed: Vec<_> =
            ROUTES.iter().map(|(method, path, ..)| ((*method).to_owned(), (*path).to_owned())).collect();
        listed.sort();
        assert_eq!(listed, documented, "every route of the document is in the table, and no other");

        let own = tenant(&server, "acme").await;
        let mut wrong = Vec::new();
        let mut number = 0;
        for role in Role::ALL {
            for confined in [false, true] {
                let program = Program::with_role(&server, role, confined.then_some("acme")).await;
                for (method, path, rest, body, least, of) in ROUTES {
                    for foreign in [false, true] {
                        number += 1;
                        let expected = expected(*least, *of, role, confined, foreign);
                        let (slug, id) = match (*method, *path, foreign) {
                            // One that may be deleted.
                            (_, _, true) | ("delete", "/tenants/{tenant}", false) if !confined || foreign => {
                                let slug = format!("t-{number}");
                                let id = tenant(&server, &slug).await;
                                (slug, id)
                            }
                            _ => ("acme".to_owned(), own),
                        };
                        let target = fill(&server, &format!("{path}{rest}"), &slug, id, number).await;
                        let body = fill(&server, body, &slug, id, number).await;
                        let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
                        let body = (!body.is_empty()).then_some(body);
                        let answer = program.send(method.clone(), &target, &[("if-match", "*")], body).await;
                        let status = answer.status.as_u16();
                        let place = if confined { "confined" } else { "global" };
                        let whose = if foreign { "foreign" } else { "own" };
                        if !expected.contains(&status) {
                            let text = &answer.text;
                            wrong.push(format!("{place} {role} {method} {target} ({whose}): {status}, not {expected:?}: {text}"));
                        } else if status >= 400 {
                            problem(&answer, status, if status == 403 { "forbidden" } else { "not-found" });
                        }
                    }
                }
                // Nobody must be left suspended for the next one.
                server.control().tenants().resume(&actor(), &own.into()).await.expect("it is resumed");
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    async fn a_list_of_everything_holds_for_a_confined_token_only_what_is_its_tenants(database: Database) {
        let server = TestServer::start(&database).await;
        let (own, other) = (tenant(&server, "acme").await, tenant(&server, "globex").await);
        for (slug, id) in [("acme", own), ("globex", other)] {
            let target = Target::Tenant { tenant: id };
            server.control().limits().set(&actor(), &NewLimit::rate(target, "700/min")).await.expect("a limit");
            for text in ["{key}", "{rule}", "{user}", "{token}", "{limit}"] {
                fill(&server, text, slug, id, usize::from(slug == "acme")).await;
            }
            let client = server.client(slug, "bot").await;
            for _ in 0..7 {
                client.call("export", json!({ "dataset": "x" })).await;
            }
        }
        let owner = Program::owner(&server).await;
        let confined = Program::with_role(&server, Owner, Some("acme")).await;
        let waits = async {
            while owner.get("/throttle_by_tool").await.json()["total"]["refusals"] != 4
                || owner.get("/events").await.json()["items"].as_array().is_none_or(|items| items.len() < 2)
            {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), waits).await.expect("usage is written");
        let (id, foreign) = (own.to_string(), other.to_string());
        for list in [
            "/tenants", "/limits", "/events", "/alert-rules", "/alerts", "/audit?limit=200", "/users", "/tokens", "/export",
            "/throttle_by_tool", "/usage", "/usage/by-tool", "/usage/series", "/runaways", "/tool-switches",
        ] {
            let answer = confined.get(list).await;
            assert_eq!(answer.status, 200, "{list}: {answer:?}");
            assert!(!answer.text.contains(&foreign) && !answer.text.contains("globex"), "{list}: {}", answer.text);
        }
        assert!(owner.get("/tenants").await.text.contains(&foreign) && confined.get("/tenants").await.text.contains(&id));
        assert_eq!(confined.get("/throttle_by_tool").await.json()["total"]["refusals"], 2);
        assert_eq!(confined.get("/usage").await.json()["current"]["throttled"], 2);
        let named = json!({ "scope": "tenant", "tenant": foreign });
        let answer = confined.post("/limits", json!({ "target": named, "rate": "1/min" })).await;
        problem(&answer, 404, "not-found");
        let server_wide: Value = json!({ "target": { "scope": "server" }, "rate": "1/min" });
        problem(&confined.post("/limits", server_wide).await, 404, "not-found");
        let token = json!({ "name": "t", "role": "owner" });
        problem(&confined.post("/tokens", token).await, 403, "forbidden");
    }
}
