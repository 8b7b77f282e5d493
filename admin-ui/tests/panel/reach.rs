//! Who may see and do what: roles, and tenants that are not one's own.

use http::StatusCode;
use sluicegate_control::{NewKey, Role, Target};

use crate::harness::House;

/// A house with two tenants that each have an agent and a key.
async fn two_tenants() -> (House, Vec<String>) {
    let house = House::new().await;
    house.tools(&["export"]).await;
    let mut foreign = Vec::new();
    for slug in ["acme", "globex"] {
        let tenant = house.tenant(slug).await;
        let agent = house.agent(slug, "u-42").await;
        let (tenant_ref, agent_ref) = (tenant.id.into(), agent.id.into());
        let key = house.control.keys().create(&house.root, &tenant_ref, &agent_ref, NewKey::named("k")).await;
        let key = key.expect("a key").record.id;
        foreign = vec![
            format!("/admin/tenants/{slug}"),
            format!("/admin/tenants/{slug}/keys"),
            format!("/admin/tenants/{slug}/usage"),
            format!("/admin/tenants/{slug}/audit"),
            format!("/admin/tenants/{slug}/settings"),
            format!("/admin/tenants/{slug}/agents/{}", agent.id),
            format!("/admin/tenants/{slug}/agents/{}/keys/new", agent.id),
            format!("/admin/keys/{key}"),
            format!("/admin/limits?tenant={slug}"),
            format!("/admin/limits/edit?target={}", Target::Tenant { tenant: tenant.id }),
            format!("/admin/throttling?tenant={slug}"),
            format!("/admin/throttling.csv?tenant={slug}"),
            format!("/admin/throttling/cell?tenant={slug}&agent={}&tool=export", agent.id),
            format!("/admin/events?tenant={slug}"),
            format!("/admin/audit?tenant={slug}"),
            format!("/admin/agents?tenant={slug}"),
        ];
    }
    (house, foreign)
}

#[tokio::test]
async fn whoever_is_confined_to_a_tenant_finds_no_other() {
    let (house, foreign) = two_tenants().await;
    house.user("anna", Role::Owner, Some("acme")).await;
    let mut anna = house.signed_in("anna").await;
    for path in &foreign {
        assert_eq!(anna.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
        let own = path.replace("globex", "acme");
        if !own.contains("agt_") && !own.contains("key_") && !own.contains("ten_") {
            assert_eq!(anna.get(&own).await.status, StatusCode::OK, "{own}");
        }
    }
    for path in ["/admin", "/admin/tenants", "/admin/audit", "/admin/audit.json", "/admin/limits", "/admin/people"] {
        let page = anna.get(path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(!page.text.contains("globex"), "{path} tells of another tenant");
    }
    assert_eq!(anna.get("/admin/system").await.status, StatusCode::NOT_FOUND);
    for path in ["/admin/tenants/globex/suspend", "/admin/tenants/globex/rename"] {
        assert_eq!(anna.post(path, &[("name", "x")]).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let made = anna.post("/admin/tenants", &[("slug", "third"), ("name", "Third")]).await;
    assert_eq!(made.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_viewer_looks_and_changes_nothing() {
    let (house, foreign) = two_tenants().await;
    house.user("vera", Role::Viewer, None).await;
    let mut vera = house.signed_in("vera").await;
    for path in &foreign {
        assert_eq!(vera.get(path).await.status, StatusCode::OK, "{path}");
    }
    let key = foreign.iter().find(|path| path.starts_with("/admin/keys/")).expect("a key");
    let agent = foreign.iter().find(|path| path.contains("/agents/agt_")).expect("an agent");
    let forms = [
        ("/admin/tenants".to_owned(), vec![("slug", "third"), ("name", "Third")]),
        ("/admin/tenants/globex/suspend".to_owned(), vec![]),
        ("/admin/tenants/globex/delete".to_owned(), vec![("confirm", "globex")]),
        ("/admin/tenants/globex/agents".to_owned(), vec![("name", "new")]),
        (format!("{agent}/suspend"), vec![]),
        (format!("{key}/revoke"), vec![("confirm", "k")]),
        (format!("{key}/rotate"), vec![("overlap", "0")]),
        ("/admin/limits".to_owned(), vec![("target", "server"), ("kind", "rate"), ("value", "1/min")]),
        ("/admin/plans".to_owned(), vec![("name", "pro")]),
        ("/admin/tool".to_owned(), vec![("name", "export"), ("to", "off")]),
        ("/admin/people".to_owned(), vec![("name", "eve"), ("password", "123456789012"), ("role", "owner")]),
        ("/admin/people/tokens".to_owned(), vec![("name", "ci"), ("role", "owner")]),
    ];
    let before = house.control.audit().list(&house.root, None, &<_>::default()).await.expect("the log").items.len();
    for (path, fields) in &forms {
        assert_eq!(vera.post(path, fields).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    let after = house.control.audit().list(&house.root, None, &<_>::default()).await.expect("the log").items.len();
    assert_eq!(before, after, "nothing was changed");
}

#[tokio::test]
async fn an_operator_of_a_tenant_sets_its_limits_and_no_others() {
    let (house, _) = two_tenants().await;
    house.user("otto", Role::Operator, Some("acme")).await;
    let mut otto = house.signed_in("otto").await;
    let root = &house.root;
    let acme = house.control.tenants().get(root, &"acme".into()).await.expect("acme").id;
    let globex = house.control.tenants().get(root, &"globex".into()).await.expect("globex").id;
    let mut set = async |target: String| {
        otto.post("/admin/limits", &[("target", &target), ("kind", "rate"), ("value", "9/min")]).await.status
    };
    assert_eq!(set(format!("tenant_tool/{acme}/export")).await, StatusCode::SEE_OTHER);
    assert_eq!(set(format!("tenant_tool/{globex}/export")).await, StatusCode::NOT_FOUND);
    assert_eq!(set("tool/export".to_owned()).await, StatusCode::NOT_FOUND);
    assert_eq!(set("server".to_owned()).await, StatusCode::NOT_FOUND);
}
