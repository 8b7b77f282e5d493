//! The operator's journey, from the first link to the sign-out, on real calls.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_tests::{Client, Database, TestServer};

use crate::browser::Browser;
use crate::chromium::{Scripts, in_chromium};

/// The longest that a change may take to be obeyed.
const A_SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_finds_the_throttled_agent_and_fixes_its_limit() {
    walk(Scripts::On).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_without_scripts_gets_as_far() {
    walk(Scripts::Off).await;
}

async fn walk(scripts: Scripts) {
    let server = TestServer::start(&Database::sqlite().await).await;
    in_chromium(&server, scripts, async |browser| {
        become_owner(browser, &server).await;
        let client = first_key(browser).await;

        // The limit of the tool is 5 a minute.
        for call in 1..=12 {
            assert_eq!(export(&client).await, if call <= 5 { 200 } else { 429 }, "call {call}");
        }
        see_the_refusals(browser, 12, 7).await;
        change_the_limit(browser, &client).await;
        read_who_did_it(browser).await;
        let client = rotate_the_key(browser, &server, client).await;

        browser.open("/admin/tenants/acme").await;
        browser.press("u-42").await;
        browser.press("Suspend agent").await;
        browser.shows(".notice", "Agent u-42 is suspended: its next call is refused.").await;
        until_answered(&client, 403).await;

        browser.press_on("form[action='/admin/sign-out'] button").await;
        browser.shows(".notice", "You are signed out.").await;
        browser.open("/admin/tenants").await;
        assert_eq!(browser.path().await, "/admin/sign-in?next=%2Fadmin%2Ftenants");
    })
    .await;
    server.stop().await;
}

pub(crate) async fn become_owner(browser: &Browser, server: &TestServer) {
    browser.open(&server.set_up_link().await.expect("nobody can sign in yet")).await;
    browser.fill("#name", "olga").await;
    browser.fill("#password", "correct horse battery").await;
    browser.press("Create the owner").await;
    browser.shows("h1", "Overview").await;
    browser.shows("main", "Three steps to the first call").await;
}

/// Makes a tenant, an agent and a key, and puts the key into a client as the page says.
pub(crate) async fn first_key(browser: &Browser) -> Client {
    browser.press("New tenant").await;
    browser.fill("#name", "Acme 株式会社 🚀").await;
    browser.fill("#slug", "acme").await;
    browser.press("Create tenant").await;
    browser.shows(".notice", "Tenant Acme 株式会社 🚀 is created. Create its first agent next.").await;

    browser.fill("#name", "u-42").await;
    browser.press("Create agent").await;
    browser.shows(".notice", "Agent u-42 is created. Give it an API key next.").await;

    browser.press_on(".head a.primary").await;
    browser.fill("#name", "laptop").await;
    browser.press("Create key").await;
    browser.shows(".notice", "this is the only time it is shown").await;
    let secret = browser.value("#secret").await;
    let config: Value = serde_json::from_str(&browser.text("#cursor").await).expect("a configuration");
    let config = &config["mcpServers"]["sluicegate"];
    assert_eq!(config["headers"]["Authorization"], format!("Bearer {secret}"));
    copy(browser, &secret).await;

    let agent = "I have copied it";
    browser.press(agent).await;
    assert!(!browser.source().await.contains(&secret), "the key is shown a second time");
    Client::new(config["url"].as_str().expect("an endpoint").to_owned(), secret)
}

/// With scripts a button copies the key; without, there is none, and the key stands in a field.
async fn copy(browser: &Browser, secret: &str) {
    let button = browser.find("[data-copy=secret]").await;
    assert_eq!(button.is_displayed().await.expect("it is there"), browser.has_scripts());
    if browser.has_scripts() {
        let permissions = json!({ "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] });
        browser.devtools("Browser.grantPermissions", permissions).await;
        browser.press_on("[data-copy=secret]").await;
        browser.shows("[data-copy=secret]", "Copied").await;
        browser.shows("#announce", "Copied").await;
        let copied = browser.run_async("navigator.clipboard.readText().then(arguments[0])", Vec::new()).await;
        assert_eq!(copied, secret);
    }
}

pub(crate) async fn export(client: &Client) -> u16 {
    client.call("export", json!({ "dataset": "sales" })).await.status.as_u16()
}

/// Calls until the answer is this, which must be within a second.
async fn until_answered(client: &Client, status: u16) {
    let asked = tokio::time::Instant::now();
    loop {
        let answered = export(client).await;
        if answered == status {
            return;
        }
        assert!(asked.elapsed() < A_SECOND, "still {answered} after a second");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The cell of the map, what it counts, and what is behind it.
async fn see_the_refusals(browser: &Browser, calls: u32, refused: u32) {
    browser.press_on("nav a[href='/admin/throttling']").await;
    browser.reload_until("table.heat tbody td a").await;
    browser.shows("#map h2", &format!("{refused} of {calls} calls refused")).await;
    let map = browser.text("table.heat").await;
    assert!(map.contains("u-42") && map.contains("export"), "{map}");
    let cells = browser.all("table.heat tbody td a").await;
    assert_eq!(cells.len(), 1, "one agent was refused one tool");
    assert_eq!(cells[0].text().await.expect("a text"), format!("{refused}\n58%"));
    browser.press_on("table.heat tbody td a").await;
    browser.shows("h1", "export").await;
    browser.shows(".limit-row.hit", "5 requests / 60s").await;
    browser.shows(".limit-row.hit", "5 of 5 used").await;
    browser.shows(".limit-row.hit", "declared by the tool").await;
    assert_eq!(browser.all("tbody .mono.wrap").await.len(), 7, "every refusal with the id of its request");
}

/// Tries two limits, takes the second, and sees it obeyed.
async fn change_the_limit(browser: &Browser, client: &Client) {
    browser.press("This tool, this agent").await;
    for (limit, would) in [("4/min", "4 of 12 calls (33%) would have been refused"), ("50/min", "0 of 12 calls (0%)")] {
        browser.fill("#value", limit).await;
        if !browser.has_scripts() {
            browser.press("Preview").await;
        }
        browser.shows("#preview", would).await;
        browser.shows("#preview", "Limits did refuse 7 of them.").await;
    }
    browser.press("Save").await;
    until_answered(client, 200).await;
    browser.shows(".notice", "Saved: 50/min.").await;
    browser.shows("h1", "export").await;
    // Five were used already, and the first that passed is the sixth; whoever changes a limit fills nobody's bucket.
    for _ in 0..44 {
        assert_eq!(export(client).await, 200);
    }
    assert_eq!(export(client).await, 429);
}

async fn read_who_did_it(browser: &Browser) {
    browser.press_on("nav a[href='/admin/audit']").await;
    let newest = browser.text("tbody tr").await;
    for part in ["user:olga", "Limit set", "agent_tool/"] {
        assert!(newest.contains(part), "{part} is not in {newest}");
    }
    browser.press_on("tbody tr a").await;
    let diff = browser.text("table.diff").await;
    assert!(diff.contains("50/min"), "{diff}");
    browser.press_on("nav a[href='/admin/audit']").await;
    browser.press("Verify the chain").await;
    browser.shows(".notice.ok", "The audit log is intact").await;
}

/// Both keys work for an hour, then only the new one.
async fn rotate_the_key(browser: &Browser, server: &TestServer, old: Client) -> Client {
    browser.open("/admin/tenants/acme/keys").await;
    browser.press("laptop").await;
    browser.choose("#overlap", "1h").await;
    browser.press_in("//form", "Rotate").await;
    browser.shows(".notice", "The old key ends").await;
    let new = old.clone().with_key(&browser.value("#secret").await);
    assert_ne!(new.key(), old.key());
    server.caught_up().await;
    server.advance(Duration::from_secs(59 * 60));
    assert_eq!((export(&old).await, export(&new).await), (200, 200), "both work");
    // Whoever is signed in stays so while the hour passes.
    browser.open("/admin").await;
    server.advance(Duration::from_secs(2 * 60));
    assert_eq!((export(&old).await, export(&new).await), (401, 200), "only the new one works");
    new
}
