//! What an operator does: keys that are shown once, limits that are changed in place, names that must be typed.

use http::StatusCode;
use sluicegate_control::{LimitKindName, Target};

use crate::harness::House;

#[tokio::test]
async fn a_key_is_shown_once_and_a_page_loaded_again_makes_no_second() {
    let house = House::new().await;
    house.tenant("acme").await;
    let agent = house.agent("acme", "u-42").await;
    let mut browser = house.owner().await;
    let path = format!("/admin/tenants/acme/agents/{}", agent.id);
    let form = browser.get(&format!("{path}/keys/new")).await.hidden("form");
    let fields = [("name", "laptop"), ("scopes", "*"), ("environment", "live"), ("form", &form)];
    let made = browser.post(&format!("{path}/keys"), &fields).await;
    assert_eq!(made.status, StatusCode::OK);
    let secret = made.text.split("value=\"sg_live_").nth(1).and_then(|rest| rest.split('"').next()).expect("a key");
    assert!(made.text.contains("mcpServers") && made.text.contains("http://panel.example/mcp"), "{}", made.text);

    let again = browser.post(&format!("{path}/keys"), &fields).await;
    assert_eq!(again.status, StatusCode::SEE_OTHER);
    let page = browser.get(&path).await;
    assert_eq!(page.text.matches(">laptop</a>").count(), 1, "{}", page.text);
    assert!(page.text.contains("created and shown already"));
    for path in [path.as_str(), "/admin/audit.json", "/admin/tenants/acme/keys", "/admin/audit"] {
        assert!(!browser.get(path).await.text.contains(secret), "{path} shows the key again");
    }
}

#[tokio::test]
async fn a_key_is_rotated_and_revoked() {
    let house = House::new().await;
    house.tenant("acme").await;
    let agent = house.agent("acme", "u-42").await;
    let mut browser = house.owner().await;
    let path = format!("/admin/tenants/acme/agents/{}/keys", agent.id);
    browser.post(&path, &[("name", "ci"), ("scopes", "exp*"), ("environment", "live"), ("form", "1")]).await;
    let keys = async || {
        let page = <_>::default();
        house.control.keys().list(&house.root, &"acme".into(), None, &page).await.expect("keys").items
    };
    let first = keys().await[0].id;
    let rotated = browser.post(&format!("/admin/keys/{first}/rotate"), &[("overlap", "1h"), ("form", "2")]).await;
    assert_eq!(rotated.status, StatusCode::OK);
    assert!(rotated.text.contains("The old key ends"));
    let both = keys().await;
    assert_eq!(both.len(), 2);
    assert!(both.iter().all(|key| key.revoked_at.is_none()), "both work");

    let revoke = format!("/admin/keys/{}/revoke", both[1].id);
    let mistyped = browser.post(&revoke, &[("confirm", "cd")]).await;
    assert_eq!(mistyped.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(mistyped.text.contains("id=\"confirm-error\""));
    assert_eq!(browser.post(&revoke, &[("confirm", "ci")]).await.status, StatusCode::SEE_OTHER);
    assert!(keys().await[1].revoked_at.is_some());
}

#[tokio::test]
async fn a_limit_is_previewed_and_set_where_the_form_stands() {
    let house = House::new().await;
    house.tools(&["export"]).await;
    let tenant = house.tenant("acme").await;
    let agent = house.agent("acme", "u-42").await;
    let mut browser = house.owner().await;
    let cell = format!("/admin/throttling/cell?tenant=acme&agent={}&tool=export", agent.id);
    let page = browser.get(&cell).await;
    let target = page.hidden("target");
    assert_eq!(target, format!("tenant_tool/{}/export", tenant.id));
    let fields = |value| [("target", &*target), ("kind", "rate"), ("value", value), ("back", &*cell), ("seen", "0")];
    let preview = browser.post("/admin/limits/preview", &fields("300/min")).await;
    assert!(preview.text.contains("would have been refused"), "{}", preview.text);
    let bad = browser.post("/admin/limits", &fields("300/mn")).await;
    assert_eq!(bad.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(bad.text.contains("did you mean `min`?") && bad.text.contains("value=\"300/mn\""), "{}", bad.text);
    let saved = browser.post("/admin/limits", &fields("300/min")).await;
    assert_eq!((saved.status, saved.location()), (StatusCode::SEE_OTHER, &*cell));
    assert!(browser.get(&cell).await.text.contains("Every instance obeys within a second"));
    let log = browser.get("/admin/audit").await.text;
    assert!(log.contains("user:olga") && log.contains("Limit set"), "{log}");
}

#[tokio::test]
async fn of_two_who_save_at_once_the_second_sees_both_values() {
    let house = House::new().await;
    house.tools(&["export"]).await;
    house.tenant("acme").await;
    let mut browser = house.owner().await;
    let target = Target::Tool { tool: "export".to_owned() };
    let set = [("target", "tool/export"), ("kind", "rate"), ("value", "10/min"), ("seen", "0")];
    assert_eq!(browser.post("/admin/limits", &set).await.status, StatusCode::SEE_OTHER);
    let other = [("target", "tool/export"), ("kind", "rate"), ("value", "20/min"), ("seen", "0")];
    let stale = browser.post("/admin/limits", &other).await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED);
    assert!(stale.text.contains("10/min meanwhile, you want 20/min"), "{}", stale.text);
    let seen = stale.hidden("seen");
    let again = [("target", "tool/export"), ("kind", "rate"), ("value", "20/min"), ("seen", &seen)];
    assert_eq!(browser.post("/admin/limits", &again).await.status, StatusCode::SEE_OTHER);
    let now = house.control.limits().of(&house.root, &target, LimitKindName::Rate).await.expect("limits");
    assert_eq!(now[0].kind.to_string(), "20/min");
    let gone = [("target", "tool/export"), ("kind", "rate")];
    assert_eq!(browser.post("/admin/limits/remove", &gone).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_tenant_is_deleted_only_when_its_name_is_typed() {
    let house = House::new().await;
    house.tenant("acme").await;
    let mut browser = house.owner().await;
    let page = browser.post("/admin/tenants/acme/delete", &[("confirm", "acm")]).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(page.text.contains("Type acme to confirm"));
    let page = browser.post("/admin/tenants/acme/delete", &[("confirm", "acme")]).await;
    assert_eq!((page.status, page.location()), (StatusCode::SEE_OTHER, "/admin/tenants"));
    assert!(browser.get("/admin/tenants").await.text.contains("Tenant acme is deleted."));
    assert!(!browser.get("/admin/tenants").await.text.contains("is deleted."), "a notice is shown once");
}

#[tokio::test]
async fn a_form_that_was_refused_keeps_what_was_typed() {
    let house = House::new().await;
    house.tenant("acme").await;
    let mut browser = house.owner().await;
    let page = browser.post("/admin/tenants", &[("slug", "acme"), ("name", "Ącme & \"Co\"")]).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(page.text.contains("id=\"slug-error\"") && page.text.contains("already is a tenant"), "{}", page.text);
    assert!(page.text.contains("Ącme &#38; &#34;Co&#34;"), "{}", page.text);
}

#[tokio::test]
async fn a_new_password_ends_every_session() {
    let house = House::new().await;
    let mut browser = house.owner().await;
    let mut other = house.signed_in("olga").await;
    let account = browser.get("/admin/account").await.location().to_owned();
    let password = crate::harness::PASSWORD;
    let wrong = [("old_password", "not this one at all"), ("password", "another good password")];
    let page = browser.post(&format!("{account}/password"), &wrong).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(page.text.contains("id=\"old_password-error\""));
    let right = [("old_password", password), ("password", "another good password")];
    assert_eq!(browser.post(&format!("{account}/password"), &right).await.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.get("/admin").await.status, StatusCode::SEE_OTHER);
    assert_eq!(other.get("/admin").await.status, StatusCode::SEE_OTHER);
}
