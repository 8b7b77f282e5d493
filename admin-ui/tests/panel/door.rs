//! Getting in and out: the first owner, sessions, and what is refused at the door.

use std::time::Duration;

use http::StatusCode;
use sluicegate_control::Role;

use crate::harness::{House, PASSWORD};

#[tokio::test]
async fn a_set_up_link_makes_one_owner_once() {
    let house = House::new().await;
    let path = sluicegate_admin_ui::set_up_path(&house.control).await.expect("a database").expect("a link");
    let mut browser = house.stranger();
    assert!(browser.get("/admin").await.location().starts_with("/admin/sign-in"));

    let page = browser.get(&path).await;
    assert_eq!(page.status, StatusCode::OK);
    let token = page.hidden("token");
    let short = browser.post("/admin/set-up", &[("token", &token), ("name", "olga"), ("password", "short")]).await;
    assert_eq!(short.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(short.text.contains("id=\"password-error\"") && short.text.contains("value=\"olga\""), "{}", short.text);

    let made = browser.post("/admin/set-up", &[("token", &token), ("name", "olga"), ("password", PASSWORD)]).await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.text);
    let cookie = made.header("set-cookie").to_owned();
    for part in ["__Host-sluicegate=", "HttpOnly", "Secure", "SameSite=Lax", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    assert_eq!(browser.get("/admin").await.status, StatusCode::OK);

    let mut late = house.stranger();
    assert_eq!(late.get(&path).await.status, StatusCode::GONE);
    let again = late.post("/admin/set-up", &[("token", &token), ("name", "eve"), ("password", PASSWORD)]).await;
    assert_eq!(again.status, StatusCode::GONE);
    assert!(late.cookie.is_none());
    assert!(sluicegate_admin_ui::set_up_path(&house.control).await.expect("a database").is_none());
}

#[tokio::test]
async fn a_wrong_password_says_nothing_about_the_account() {
    let house = House::new().await;
    house.user("olga", Role::Owner, None).await;
    let mut browser = house.stranger();
    let wrong = browser.post("/admin/sign-in", &[("name", "olga"), ("password", "wrong password")]).await;
    let nobody = browser.post("/admin/sign-in", &[("name", "nobody"), ("password", "wrong password")]).await;
    assert_eq!((wrong.status, nobody.status), (StatusCode::UNPROCESSABLE_ENTITY, StatusCode::UNPROCESSABLE_ENTITY));
    assert_eq!(wrong.text.replace("olga", "nobody"), nobody.text);
    assert!(!wrong.text.contains("wrong password\""), "what was typed as a password comes back");
    assert!(browser.cookie.is_none());
}

#[tokio::test]
async fn an_account_can_be_tried_ten_times() {
    let house = House::new().await;
    house.user("olga", Role::Owner, None).await;
    let mut browser = house.stranger();
    for _ in 0..10 {
        let page = browser.post("/admin/sign-in", &[("name", "olga"), ("password", "wrong password")]).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    }
    let page = browser.post("/admin/sign-in", &[("name", "olga"), ("password", PASSWORD)]).await;
    assert_eq!(page.status, StatusCode::TOO_MANY_REQUESTS);
    assert!((1..=30).contains(&page.header("retry-after").parse::<u64>().expect("seconds")));
}

#[tokio::test]
async fn a_session_that_somebody_has_put_there_is_not_the_one_that_is_signed_in() {
    let house = House::new().await;
    house.user("olga", Role::Owner, None).await;
    let planted = "__Host-sluicegate=AAAAAAAAAAAAAAAAAAAAAA";
    let mut victim = house.stranger();
    victim.cookie = Some(planted.to_owned());
    victim.post("/admin/sign-in", &[("name", "olga"), ("password", PASSWORD)]).await;
    assert_ne!(victim.cookie.as_deref(), Some(planted));
    let mut attacker = house.stranger();
    attacker.cookie = Some(planted.to_owned());
    assert_eq!(attacker.get("/admin").await.status, StatusCode::SEE_OTHER);

    let first = victim.cookie.clone();
    victim.post("/admin/sign-in", &[("name", "olga"), ("password", PASSWORD)]).await;
    assert_ne!(victim.cookie, first, "the session is rotated at every sign-in");
    attacker.cookie = first;
    assert_eq!(attacker.get("/admin").await.status, StatusCode::SEE_OTHER, "the old one is gone");
}

#[tokio::test]
async fn a_session_ends_when_it_is_idle_and_after_twelve_hours_in_any_case() {
    let house = House::new().await;
    let mut browser = house.owner().await;
    let mut idle = house.signed_in("olga").await;
    for _ in 0..14 {
        house.clock.advance(Duration::from_secs(50 * 60));
        assert_eq!(browser.get("/admin/tenants").await.status, StatusCode::OK, "used again and again");
    }
    assert_eq!(idle.get("/admin/tenants").await.status, StatusCode::SEE_OTHER, "idle for more than an hour");
    house.clock.advance(Duration::from_secs(25 * 60));
    assert_eq!(browser.get("/admin/tenants").await.status, StatusCode::SEE_OTHER, "older than twelve hours");
}

#[tokio::test]
async fn whoever_signs_out_is_out() {
    let house = House::new().await;
    let mut browser = house.owner().await;
    let cookie = browser.cookie.clone();
    browser.post("/admin/sign-out", &[]).await;
    browser.cookie = cookie;
    assert_eq!(browser.get("/admin").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_form_of_another_site_is_refused_and_changes_nothing() {
    let house = House::new().await;
    let mut browser = house.owner().await;
    for site in [Some("same-site"), Some("cross-site"), None] {
        browser.site = site;
        let page = browser.post("/admin/tenants", &[("slug", "evil"), ("name", "Evil")]).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{site:?}");
        assert!(page.text.contains("<h1>"), "the refusal is a page");
        assert_eq!(browser.post("/admin/sign-out", &[]).await.status, StatusCode::FORBIDDEN, "{site:?}");
    }
    browser.site = Some("same-origin");
    assert!(browser.get("/admin/tenants").await.text.contains("No tenant yet"));
}

#[tokio::test]
async fn the_way_back_after_signing_in_stays_on_this_server() {
    let house = House::new().await;
    house.user("olga", Role::Owner, None).await;
    let mut browser = house.stranger();
    let to = browser.get("/admin/limits?tenant=acme").await;
    assert_eq!(to.location(), "/admin/sign-in?next=%2Fadmin%2Flimits%3Ftenant%3Dacme");
    let fields = [("name", "olga"), ("password", PASSWORD), ("next", "https://evil.example/")];
    let page = browser.post("/admin/sign-in", &fields).await;
    assert_eq!(browser.get(page.location()).await.location(), "/admin");
}

#[tokio::test]
async fn a_browser_that_keeps_no_cookie_is_told_so() {
    let house = House::new().await;
    let page = house.stranger().get("/admin/sign-in?signed_in=true").await;
    assert!(page.text.contains("did not keep the session cookie"), "{}", page.text);
}
