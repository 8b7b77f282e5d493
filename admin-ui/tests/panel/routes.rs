//! Every route of the panel, every role, one's own tenant and another's.

use std::collections::BTreeSet;

use http::StatusCode;
use sluicegate_control::{
    AlertKind, JsonText, LimitKindName, NewAlertRule, NewKey, NewLimit, NewToken, NewUser, PageRequest, Role,
    SessionState, Target, Tenant, TenantRef,
};

use crate::harness::{House, PASSWORD, START};

/// Whose business a route is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// Of a tenant: of anybody who has the role in it. To others it does not exist.
    OneTenant,
    /// Of everybody, each sees what is theirs.
    Everybody,
    /// Of the server: whoever is confined to a tenant is refused, or does not find it.
    Server,
    /// Of a tenant, which its own people see; but only the server's may do this.
    TenantByServer,
}

use Of::{Everybody, OneTenant, Server, TenantByServer};
use Role::{Operator, Owner, Viewer};

/// The routes as the router has them: method, path, query or form, least role, whose business.
const ROUTES: &[(&str, &str, &str, Role, Of)] = &[
    ("get", "/admin", "", Viewer, Everybody),
    ("get", "/admin/", "", Viewer, Everybody),
    ("get", "/admin/tools", "", Viewer, Everybody),
    ("get", "/admin/tool", "name=export", Viewer, Everybody),
    ("post", "/admin/tool", "name=export&to=off&tenant={slug}", Operator, OneTenant),
    ("get", "/admin/events", "tenant={slug}", Viewer, OneTenant),
    ("get", "/admin/audit", "tenant={slug}", Viewer, OneTenant),
    ("get", "/admin/audit.json", "tenant={slug}", Viewer, OneTenant),
    ("post", "/admin/audit/verify", "", Viewer, Server),
    ("get", "/admin/audit/{seq}", "", Viewer, OneTenant),
    ("get", "/admin/alerts", "", Viewer, Everybody),
    ("post", "/admin/alerts", "name=r&kind=runaway&threshold=300&minutes=1&tenant={slug}", Operator, OneTenant),
    ("post", "/admin/alerts/{rule}/switch", "", Operator, OneTenant),
    ("post", "/admin/alerts/{rule}/rotate", "", Operator, OneTenant),
    ("post", "/admin/alerts/{rule}/test", "", Operator, OneTenant),
    ("post", "/admin/alerts/{rule}/delete", "", Operator, OneTenant),
    ("get", "/admin/system", "", Viewer, Server),
    ("get", "/admin/account", "", Viewer, Everybody),
    ("get", "/admin/people", "", Owner, Everybody),
    ("post", "/admin/people", "name={new}&password=correct horse battery&role=viewer&tenant={slug}", Owner, OneTenant),
    ("post", "/admin/people/tokens", "name=t&role=viewer&tenant={slug}", Owner, OneTenant),
    ("post", "/admin/people/tokens/{token}/revoke", "", Owner, OneTenant),
    ("get", "/admin/people/{user}", "", Owner, OneTenant),
    ("post", "/admin/people/{user}/role", "role=operator&tenant={slug}", Owner, OneTenant),
    ("post", "/admin/people/{user}/suspend", "", Owner, OneTenant),
    ("post", "/admin/people/{user}/resume", "", Owner, OneTenant),
    ("post", "/admin/people/{user}/password", "password=correct horse battery", Owner, OneTenant),
    ("post", "/admin/people/{user}/sessions/{session}/revoke", "", Owner, OneTenant),
    ("post", "/admin/people/{user}/delete", "confirm={user_name}", Owner, OneTenant),
    ("get", "/admin/throttling", "tenant={slug}", Viewer, OneTenant),
    ("get", "/admin/throttling.csv", "tenant={slug}", Viewer, OneTenant),
    ("get", "/admin/throttling.json", "tenant={slug}", Viewer, OneTenant),
    ("get", "/admin/throttling/cell", "tenant={slug}&agent={agent}&tool=export", Viewer, OneTenant),
    ("get", "/admin/limits", "tenant={slug}", Viewer, OneTenant),
    ("post", "/admin/limits", "target=agent/{tenant_id}/{agent}&kind=rate&value=9/min", Operator, OneTenant),
    ("get", "/admin/limits/new", "scope=tenant&tenant={slug}", Viewer, OneTenant),
    ("get", "/admin/limits/edit", "target=tenant/{tenant_id}", Viewer, OneTenant),
    ("post", "/admin/limits/preview", "target=tenant/{tenant_id}&kind=rate&value=9/min", Viewer, OneTenant),
    ("post", "/admin/limits/remove", "target={limited}&kind=rate", Operator, OneTenant),
    ("get", "/admin/plans", "", Viewer, Everybody),
    ("post", "/admin/plans", "name={new}", Operator, Server),
    ("get", "/admin/plans/{plan}", "", Viewer, Server),
    ("post", "/admin/plans/{plan}/delete", "confirm={plan}", Operator, Server),
    ("get", "/admin/tenants", "", Viewer, Everybody),
    ("post", "/admin/tenants", "slug={new}&name=New", Operator, Server),
    ("get", "/admin/tenants/new", "", Viewer, Everybody),
    ("get", "/admin/tenants/{tenant}", "", Viewer, OneTenant),
    ("post", "/admin/tenants/{tenant}/agents", "name={new}", Operator, OneTenant),
    ("get", "/admin/tenants/{tenant}/keys", "", Viewer, OneTenant),
    ("get", "/admin/tenants/{tenant}/usage", "", Viewer, OneTenant),
    ("get", "/admin/tenants/{tenant}/audit", "", Viewer, OneTenant),
    ("get", "/admin/tenants/{tenant}/settings", "", Viewer, OneTenant),
    ("post", "/admin/tenants/{tenant}/settings", "refusal_style=http", Operator, OneTenant),
    ("post", "/admin/tenants/{tenant}/rename", "name=Other", Operator, OneTenant),
    ("post", "/admin/tenants/{tenant}/plan", "plan={plan}", Operator, TenantByServer),
    ("post", "/admin/tenants/{tenant}/suspend", "", Operator, OneTenant),
    ("post", "/admin/tenants/{tenant}/resume", "", Operator, OneTenant),
    ("get", "/admin/agents", "tenant={slug}", Viewer, OneTenant),
    ("get", "/admin/tenants/{tenant}/agents/{agent}", "", Viewer, OneTenant),
    (
        "post",
        "/admin/tenants/{tenant}/agents/{agent}/keys",
        "name=k&scopes=*&environment=live&form={new}",
        Operator,
        OneTenant,
    ),
    ("get", "/admin/tenants/{tenant}/agents/{agent}/keys/new", "", Viewer, OneTenant),
    ("get", "/admin/keys/{key}", "", Viewer, OneTenant),
    ("post", "/admin/keys/{key}/rotate", "overlap=0&form={new}", Operator, OneTenant),
    ("post", "/admin/keys/{key}/revoke", "confirm=k", Operator, OneTenant),
    ("post", "/admin/tenants/{tenant}/agents/{agent}/suspend", "", Operator, OneTenant),
    ("post", "/admin/tenants/{tenant}/agents/{agent}/resume", "", Operator, OneTenant),
    ("post", "/admin/tenants/{tenant}/delete", "confirm={slug}", Operator, TenantByServer),
];

/// Routes for whoever stands at the door, of one's own session and preferences, and streams, which have no end.
const ELSEWHERE: &[(&str, &str)] = &[
    ("get", "/admin/sign-in"),
    ("post", "/admin/sign-in"),
    ("post", "/admin/sign-out"),
    ("get", "/admin/set-up"),
    ("post", "/admin/set-up"),
    ("post", "/admin/preferences"),
    ("get", "/admin/overview/stream"),
    ("get", "/admin/events/stream"),
    ("get", "/admin/assets/{hash}/{name}"),
];

/// The routes that the router is made of, read from its source.
fn routes_of_the_router() -> BTreeSet<(String, String)> {
    let source = include_str!("../../src/lib.rs");
    let mut routes = BTreeSet::new();
    for route in source.split(".route(").skip(1) {
        let (path, methods) = route.trim_start().trim_start_matches('"').split_once('"').expect("a path");
        let methods = methods.split(".layer").next().unwrap_or_default();
        for method in ["get", "post"] {
            if methods.contains(&format!("{method}(")) {
                routes.insert((method.to_owned(), path.to_owned()));
            }
        }
    }
    routes
}

/// Makes what the placeholders of a text stand for: things of this tenant, new ones each time.
async fn fill(house: &House, text: &str, tenant: &Tenant, number: usize) -> String {
    let (control, by, of) = (&house.control, &house.root, TenantRef::Id(tenant.id));
    let mut text = text.replace("{slug}", &tenant.slug).replace("{tenant}", &tenant.slug);
    text = text.replace("{tenant_id}", &tenant.id.to_string()).replace("{new}", &format!("new-{number}"));
    let agents = control.agents();
    if text.contains("{agent}") {
        let agent = agents.create(by, &of, &format!("a-{number}")).await.expect("an agent");
        text = text.replace("{agent}", &agent.id.to_string());
    }
    if text.contains("{key}") {
        let agent = agents.create(by, &of, &format!("k-{number}")).await.expect("an agent");
        let minted = control.keys().create(by, &of, &agent.id.into(), NewKey::named("k")).await.expect("a key");
        text = text.replace("{key}", &minted.record.id.to_string());
    }
    if text.contains("{limited}") {
        let agent = agents.create(by, &of, &format!("l-{number}")).await.expect("an agent").id;
        let target = Target::Agent { tenant: tenant.id, agent };
        text = text.replace("{limited}", &target.to_string());
        control.limits().set(by, &NewLimit::rate(target.clone(), "50/min")).await.expect("a limit");
        assert_eq!(control.limits().of(by, &target, LimitKindName::Rate).await.expect("limits").len(), 1);
    }
    if text.contains("{plan}") {
        let plan = control.plans().create(by, &format!("p-{number}"), "").await.expect("a plan");
        text = text.replace("{plan}", &plan.name);
    }
    if text.contains("{rule}") {
        let new = NewAlertRule {
            name: "r".to_owned(),
            kind: AlertKind::Runaway,
            tenant: Some(of.clone()),
            tool: None,
            threshold: 300,
            minutes: 1,
            enabled: true,
            webhook: Some("https://hooks.example/x".to_owned()),
        };
        text =
            text.replace("{rule}", &control.alerts().create_rule(by, new).await.expect("a rule").rule.id.to_string());
    }
    if text.contains("{user}") {
        let name = format!("u-{number}");
        let new = NewUser {
            name: name.clone(),
            password: PASSWORD.to_owned().into(),
            role: Viewer,
            tenant: Some(of.clone()),
        };
        let user = control.users().create(by, new).await.expect("a user").id;
        let state = SessionState {
            user: Some(user),
            data: JsonText::empty_object(),
            address: None,
            user_agent: None,
            idle_ends_at: START * 2,
            ends_at: START * 2,
        };
        assert!(control.sessions().create(&name, &state).await.expect("a session"));
        let session = control.sessions().list(by, user).await.expect("sessions")[0].id.to_string();
        text = text.replace("{user}", &user.to_string()).replace("{session}", &session).replace("{user_name}", &name);
    }
    if text.contains("{token}") {
        let new = NewToken { name: "t".to_owned(), role: Viewer, tenant: Some(of.clone()), expires_at: None };
        let minted = control.admin_tokens().create(by, new).await.expect("a token");
        text = text.replace("{token}", &minted.record.id.to_string());
    }
    if text.contains("{seq}") {
        let entries = control.audit().list(by, Some(&of), &PageRequest::first(1)).await.expect("the log").items;
        text = text.replace("{seq}", &entries[0].seq.to_string());
    }
    text
}

fn expected(least: Role, of: Of, role: Role, confined: bool, foreign: bool) -> &'static [u16] {
    let allowed = role >= least;
    match of {
        OneTenant | TenantByServer if confined && foreign && allowed => &[404],
        OneTenant | TenantByServer if confined && foreign => &[403, 404],
        Server if confined => &[403, 404],
        TenantByServer if confined => &[403],
        _ if allowed => &[200, 303, 308],
        _ => &[403],
    }
}

#[tokio::test]
async fn each_route_does_for_each_role_what_the_table_says() {
    let known = ROUTES.iter().map(|(method, path, ..)| (*method, *path)).chain(ELSEWHERE.iter().copied());
    let known: BTreeSet<_> = known.map(|(method, path)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(known, routes_of_the_router(), "every route of the router is in a table, and no other");

    let house = House::new().await;
    house.tools(&["export"]).await;
    let own = house.tenant("acme").await;
    let changes = async || {
        let newest = house.control.audit().list(&house.root, None, &PageRequest::first(1)).await.expect("the log");
        newest.items.first().map(|entry| entry.seq)
    };
    let (mut wrong, mut number) = (Vec::new(), 0);
    for role in Role::ALL {
        for confined in [false, true] {
            let name = format!("{role}-{}", if confined { "acme" } else { "all" });
            house.user(&name, role, confined.then_some("acme")).await;
            let mut browser = house.signed_in(&name).await;
            for (method, path, rest, least, of) in ROUTES {
                for foreign in [false, true] {
                    number += 1;
                    let tenant =
                        if confined && !foreign { own.clone() } else { house.tenant(&format!("t-{number}")).await };
                    // The path and the rest may name the same thing.
                    let filled = fill(&house, &format!("{path}\n{rest}"), &tenant, number).await;
                    let (path, rest) = filled.split_once('\n').expect("both");
                    let before = changes().await;
                    let page = if *method == "get" {
                        browser.get(&format!("{path}?{}", rest.replace(' ', "+"))).await
                    } else {
                        let fields: Vec<_> = rest.split('&').filter_map(|pair| pair.split_once('=')).collect();
                        browser.post(path, &fields).await
                    };
                    let status = page.status.as_u16();
                    let expected = expected(*least, *of, role, confined, foreign);
                    if !expected.contains(&status) {
                        wrong.push(format!(
                            "{name} {method} {path} {rest} (foreign: {foreign}): {status}, not {expected:?}"
                        ));
                    }
                    let refused = matches!(page.status, StatusCode::FORBIDDEN | StatusCode::NOT_FOUND);
                    if refused && changes().await != before {
                        wrong.push(format!("{name} {method} {path} {rest}: refused, and yet something was changed"));
                    }
                    if refused && confined && foreign && page.text.contains(&tenant.name) {
                        wrong.push(format!("{name} {method} {path}: the refusal names another's tenant"));
                    }
                }
            }
            house.control.tenants().resume(&house.root, &own.id.into()).await.expect("it is resumed");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_stream_is_nobodys_who_has_not_signed_in_or_is_confined_elsewhere() {
    let house = House::new().await;
    house.tenant("acme").await;
    house.tenant("globex").await;
    house.user("vera", Viewer, Some("acme")).await;
    let vera = house.signed_in("vera").await;
    for (path, status) in [
        ("/admin/overview/stream", 200),
        ("/admin/events/stream", 200),
        ("/admin/events/stream?tenant=acme", 200),
        ("/admin/events/stream?tenant=globex", 404),
    ] {
        assert_eq!(vera.status(path).await.as_u16(), status, "{path}");
        assert_ne!(house.stranger().status(path).await.as_u16(), 200, "{path}");
    }
}
