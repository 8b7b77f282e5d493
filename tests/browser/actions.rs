//! Everything that can be done on the pages, done. A form that no test sends fails the test.

use std::time::Duration;

use sluicegate::Settings;
use sluicegate_tests::receiver::Receiver;
use sluicegate_tests::{Database, TestServer};

use crate::browser::Browser;
use crate::chromium::{Scripts, in_chromium};
use crate::forms::Form;
use crate::journey::{become_owner, export, first_key};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_the_pages_offer_can_be_done() {
    let receiver = Receiver::start(&[]).await;
    let private = |settings: &mut Settings| settings.webhook_private_addresses = true;
    let server = TestServer::start_with(&Database::sqlite().await, private).await;
    in_chromium(&server, Scripts::On, async |browser| {
        become_owner(browser, &server).await;
        let client = first_key(browser).await;
        for _ in 0..12 {
            export(&client).await;
        }
        leave_and_come_back(browser).await;
        overview(browser).await;
        tenants(browser).await;
        plans(browser).await;
        limits(browser).await;
        throttling(browser).await;
        tools(browser).await;
        events_and_audit(browser).await;
        alerts(browser, &receiver.url()).await;
        people(browser).await;
        agents_and_keys(browser).await;
        endings(browser).await;

        let sent = browser.sent().await;
        let forms = Form::all();
        let left: Vec<_> = forms.iter().filter(|form| !sent.iter().any(|sent| form.is(sent))).collect();
        assert!(left.is_empty(), "no test sends {left:#?}");
        for sent in &sent {
            assert!(forms.iter().any(|form| form.is(sent)), "no template has {sent:?}");
        }
    })
    .await;
    server.stop().await;
}

async fn to(browser: &Browser, path: &str, heading: &str) {
    browser.open(path).await;
    browser.shows("h1", heading).await;
}

async fn leave_and_come_back(browser: &Browser) {
    browser.press_on("form[action='/admin/sign-out'] button").await;
    browser.fill("#name", "olga").await;
    browser.fill("#password", "wrong horse battery").await;
    browser.press_in("//form", "Sign in").await;
    browser.shows(".notice.bad", "Name or password is wrong").await;
    browser.fill("#password", crate::seeded::PASSWORD).await;
    browser.press_in("//form", "Sign in").await;
    browser.shows("h1", "Overview").await;
    browser.press_on("button[name=theme][value=dark]").await;
    browser.find("html[data-theme=dark]").await;
    browser.press_on("button[name=theme][value=auto]").await;
    browser.find("html[data-theme=auto]").await;
    browser.press_on("button[name=language][value=ja]").await;
    browser.shows("h1", "概要").await;
    browser.press_on("button[name=language][value=en]").await;
    browser.shows("h1", "Overview").await;
}

async fn overview(browser: &Browser) {
    browser.shows("#pulse", "live").await;
    browser.press("Pause").await;
    browser.shows("#pulse", "paused").await;
    browser.press("Resume").await;
    browser.shows("#pulse", "live").await;
    browser.press("24 h").await;
    assert_eq!(browser.path().await, "/admin?range=24h");
    // What has just happened comes by itself.
    browser.shows(".tile", "12").await;
    browser.press("Heat map").await;
    browser.shows("h1", "Throttling").await;
}

async fn tenants(browser: &Browser) {
    to(browser, "/admin/tenants/new", "New tenant").await;
    browser.fill("#name", "Globex").await;
    browser.fill("#slug", "globex").await;
    browser.press("Create tenant").await;
    to(browser, "/admin/tenants", "Tenants").await;
    browser.fill("#search", "株式").await;
    browser.shows("#list", "Acme 株式会社 🚀").await;
    until_gone(browser, "#list a[href='/admin/tenants/globex']").await;
    browser.enter("#search").await;
    browser.shows("#list", "Acme 株式会社 🚀").await;
    browser.open("/admin/tenants").await;
    browser.press("Created").await;
    browser.shows("[aria-sort=descending]", "Created").await;
    browser.shows("#list tbody tr", "globex").await;
    browser.press_in("//thead", "Tenant").await;
    browser.shows("[aria-sort=ascending]", "Tenant").await;
    browser.choose("#status", "suspended").await;
    browser.shows("#list", "Nothing matches").await;
    browser.press("Clear the filters").await;

    to(browser, "/admin/tenants/globex/settings", "Globex").await;
    browser.fill("#name", "Globex & Söhne").await;
    browser.press_in("//form[contains(@action, '/rename')]", "Save").await;
    browser.shows("h1", "Globex & Söhne").await;
    browser.choose("#refusal_style", "http").await;
    browser.fill("#max_body_bytes", "64,000").await;
    browser.fill("#weight", "3").await;
    browser.fill("#allowed_tools", "echo\nexp*").await;
    browser.press_in("//form[contains(@action, '/settings')]", "Save").await;
    browser.shows(".notice", "Saved.").await;
    assert_eq!(browser.value("#max_body_bytes").await, "64000");
    assert_eq!(browser.value("#weight").await, "3");
    assert_eq!(browser.value("#allowed_tools").await, "echo\nexp*");
    browser.press("Suspend tenant").await;
    browser.shows(".notice", "is suspended: its calls are refused").await;
    browser.open("/admin/tenants/globex/settings").await;
    browser.press("Resume tenant").await;
    browser.shows(".notice", "is served again").await;
    for tab in ["API keys", "Usage", "Audit log", "Settings", "Agents"] {
        browser.press_in("//nav[@class='tabs']", tab).await;
        browser.shows(".tabs [aria-current]", tab).await;
    }
}

/// Waits until there is no such element any more.
async fn until_gone(browser: &Browser, css: &str) {
    for _ in 0..100 {
        if !browser.has(css).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    panic!("{css} stays on {}", browser.path().await);
}

async fn plans(browser: &Browser) {
    to(browser, "/admin/plans", "Plans").await;
    browser.fill("#name", "pro").await;
    browser.fill("#note", "For those who pay").await;
    browser.press("Create plan").await;
    browser.shows(".notice", "Plan pro is created.").await;
    browser.choose("#scope", "plan_tool").await;
    browser.choose("#tool", "echo").await;
    browser.press("Go on").await;
    browser.fill("#value", "900/min").await;
    browser.press("Save").await;
    browser.shows("table", "900/min").await;
    browser.open("/admin/tenants/globex/settings").await;
    browser.choose("#plan", "pro").await;
    browser.press_in("//form[contains(@action, '/plan')]", "Save").await;
    browser.shows(".head", "Plan: pro").await;
    browser.press_in("//*[@class='head']", "pro").await;
    browser.shows("main", "Globex & Söhne").await;
    browser.fill("#confirm", "pro").await;
    browser.press("Delete plan").await;
    browser.shows("#confirm-error", "globex").await;
    browser.open("/admin/tenants/globex/settings").await;
    browser.choose("#plan", "").await;
    browser.press_in("//form[contains(@action, '/plan')]", "Save").await;
    browser.shows(".notice", "Saved.").await;
    browser.open("/admin/plans/pro").await;
    browser.fill("#confirm", "pro").await;
    browser.press("Delete plan").await;
    browser.shows(".notice", "Plan pro is deleted.").await;
}

async fn limits(browser: &Browser) {
    to(browser, "/admin/limits", "Limits").await;
    browser.choose("#tenant", "acme").await;
    browser.shows(".limit-grid", "export").await;
    browser.choose("#scope", "tenant_tool").await;
    browser.choose("#new_tool", "slow").await;
    browser.choose("#new_kind", "concurrency").await;
    browser.press("Go on").await;
    browser.shows("h1", "a tool, for one tenant").await;
    browser.fill("#value", "many").await;
    browser.shows("#preview", "many").await;
    browser.press("Save").await;
    browser.shows("#value-error", "many").await;
    assert_eq!(browser.value("#value").await, "many", "what was typed stays");
    browser.fill("#value", "4").await;
    browser.choose("#ends", "1").await;
    browser.choose("#mode", "observe").await;
    browser.press("Save").await;
    browser.shows(".limit-grid", "4 at a time").await;
    browser.shows(".limit-grid", "observes").await;
    browser.press_in("//table[@class='limit-grid']", "4 at a time").await;
    browser.press("Remove this limit").await;
    browser.shows(".notice", "The limit is removed").await;
    browser.press_in("//table[@class='limit-grid']", "5/min").await;
    browser.fill("#value", "6/min, 100/h").await;
    browser.press_on("form details.panel summary").await;
    browser.choose("#algorithm", "sliding_window").await;
    browser.fill("#note", "until the import is done").await;
    browser.press("Save").await;
    browser.shows("main", "6/min, 100/h").await;
    browser.shows("main", "until the import is done").await;
}

async fn throttling(browser: &Browser) {
    to(browser, "/admin/throttling", "Throttling").await;
    browser.choose("#tenant", "acme").await;
    browser.reload_until("table.heat tbody td a").await;
    assert!(browser.path().await.contains("tenant=acme"));
    browser.press("Share").await;
    browser.shows("table.heat tbody td a", "58%").await;
    browser.press("30 d").await;
    browser.shows("#map h2", "7 of 12 calls refused").await;
    browser.press_in("//table[contains(@class, 'heat')]//thead", "export").await;
    assert!(browser.path().await.contains("tool=export"));
    for (file, text) in [("csv", "acme,u-42,export,7,12"), ("json", "\"refusals\": 7")] {
        let link = browser.find(&format!("a[download][href*='.{file}']")).await;
        let href = link.attr("href").await.expect("an attribute").expect("an address");
        let fetched = browser.fetched(&href).await;
        assert!(fetched.contains(text), "{fetched}");
    }
    browser.press("export Clear the filters").await;
    browser.press_on("table.heat tbody td a").await;
    browser.shows("h1", "export").await;
    for choice in ["This tool, everybody", "All calls of this agent", "This tool, this agent"] {
        browser.press(choice).await;
        browser.shows("#change [aria-current]", choice).await;
    }
    browser.press("All events").await;
    browser.shows("h1", "Events").await;
    browser.shows("#rows", "5 requests / 60s").await;
}

async fn tools(browser: &Browser) {
    to(browser, "/admin/tools", "Tools").await;
    browser.press("24 h").await;
    browser.press("export").await;
    browser.shows("h1", "export").await;
    browser.shows("pre", "dataset").await;
    let everybody = "//form[not(.//select)]";
    browser.press_in(everybody, "Switch off").await;
    browser.shows(".notice", "export is switched off").await;
    browser.press_in(everybody, "Switch on").await;
    browser.shows(".notice", "export is switched on").await;
    browser.choose("#tenant", "globex").await;
    browser.press_in("//form[.//select]", "Switch off").await;
    browser.press("Switch on Globex & Söhne").await;
    browser.shows(".notice", "export is switched on").await;
}

async fn events_and_audit(browser: &Browser) {
    to(browser, "/admin/events", "Events").await;
    browser.choose("#kind", "throttled").await;
    browser.choose("#tool", "export").await;
    browser.choose("#tenant", "acme").await;
    browser.shows("#rows", "tool limit").await;
    browser.press("Pause").await;
    browser.shows("#pulse", "paused").await;

    to(browser, "/admin/audit", "Audit log").await;
    browser.choose("#action", "limit").await;
    browser.fill("#actor", "user:olga").await;
    browser.press("Apply").await;
    browser.shows("tbody", "Limit set").await;
    assert!(!browser.text("tbody").await.contains("Tenant created"));
    let json = browser.find("a[download]").await.attr("href").await.expect("an attribute").expect("an address");
    assert!(browser.fetched(&json).await.contains("\"limit.set\""));
    browser.press("Verify the chain").await;
    browser.shows(".notice.ok", "none altered and none missing").await;
}

async fn alerts(browser: &Browser, webhook: &str) {
    to(browser, "/admin/alerts", "Alerts").await;
    browser.fill("#name", "much is refused").await;
    browser.fill("#threshold", "lots").await;
    browser.press("Create rule").await;
    browser.shows("#threshold-error", "lots").await;
    browser.fill("#threshold", "20").await;
    browser.fill("#webhook", webhook).await;
    browser.choose("#tool", "export").await;
    browser.press("Create rule").await;
    let secret = browser.value("#secret").await;
    to(browser, "/admin/alerts", "Alerts").await;
    assert!(!browser.source().await.contains(&secret), "the secret is shown a second time");
    browser.press("New secret much is refused").await;
    assert_ne!(browser.value("#secret").await, secret);
    browser.press("Test much is refused").await;
    browser.shows(".notice.ok", "The webhook answered 204").await;
    browser.press("Turn off much is refused").await;
    browser.press("Turn on much is refused").await;
    browser.press("Delete much is refused").await;
    browser.shows(".notice", "The rule is deleted.").await;
}

async fn people(browser: &Browser) {
    to(browser, "/admin/people", "People").await;
    browser.fill("#name", "vera").await;
    browser.fill("#password", "a good long password").await;
    browser.choose("#role", "viewer").await;
    browser.press("Create account").await;
    browser.shows(".notice", "vera can sign in now.").await;
    browser.open("/admin/people").await;
    browser.fill("#token_name", "terraform").await;
    browser.choose("#token_role", "operator").await;
    browser.press("Create token").await;
    browser.shows(".notice", "Token terraform is created").await;
    let token = browser.value("#secret").await;
    browser.press("Revoke terraform").await;
    browser.shows(".notice", "The token is revoked.").await;
    assert!(!browser.source().await.contains(&token), "the token is shown a second time");

    browser.press("vera").await;
    browser.choose("#role", "operator").await;
    browser.choose("#tenant", "acme").await;
    browser.press_in("//form[contains(@action, '/role')]", "Save").await;
    browser.shows(".notice", "Saved.").await;
    browser.fill("#password", "another good password").await;
    browser.press_in("//form[contains(@action, '/password')]", "Save").await;
    browser.shows(".notice", "Saved.").await;
    browser.press("Suspend account").await;
    browser.shows(".title-line", "suspended").await;
    browser.press("Resume account").await;
    browser.shows(".title-line", "active").await;
    assert!(
        !browser.find("[data-guarded]").await.is_enabled().await.expect("it is there"),
        "the name is not typed yet"
    );
    browser.fill("#confirm", "vera").await;
    browser.press("Delete account").await;
    browser.shows(".notice", "vera is deleted.").await;
}

async fn agents_and_keys(browser: &Browser) {
    to(browser, "/admin/agents", "Agents").await;
    browser.choose("#tenant", "acme").await;
    browser.press("u-42").await;
    browser.press("Suspend agent").await;
    browser.shows(".notice", "its next call is refused").await;
    browser.press("Resume agent").await;
    browser.shows(".notice", "is served again").await;
    browser.press("laptop").await;
    browser.press("Set a limit for this key alone").await;
    browser.shows("h1", "all calls with an API key").await;
    browser.press("Back").await;
    browser.press_in("//form", "Rotate").await;
    browser.shows(".notice", "The old key ends").await;
    browser.press("I have copied it").await;
    browser.press("laptop").await;
    browser.fill("#confirm", "laptop").await;
    browser.press_in("//form", "Revoke").await;
    browser.shows(".notice", "Key laptop is revoked.").await;
}

async fn endings(browser: &Browser) {
    to(browser, "/admin/system", "System").await;
    for (label, says) in [("Metrics", "sluicegate_"), ("Admin API", "swagger")] {
        let href = browser.link(label).await;
        assert!(browser.fetched(&href).await.contains(says), "{href}");
    }
    browser.open("/admin/tenants/globex/settings").await;
    let delete = browser.find("[data-guarded]").await;
    assert!(!delete.is_enabled().await.expect("it is there"), "the name is not typed yet");
    browser.fill("#confirm", "globex").await;
    browser.press("Delete for good").await;
    browser.shows(".notice", "Tenant globex is deleted.").await;

    // The last thing is to end one's own session.
    browser.open("/admin/account").await;
    browser.press("End").await;
    browser.open("/admin").await;
    browser.shows("h1", "Sign in").await;
}
