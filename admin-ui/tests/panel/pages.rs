//! Every page, with and without something to show, in every language.

use http::StatusCode;
use sluicegate_control::{
    AgentRef, AlertKind, Counts, EventKind, NewAlertRule, NewEvent, NewKey, NewLimit, NewToken, Role, Target,
    TenantRef, UsageBatch, UsageRow,
};

use crate::harness::{Browser, House, START};

/// Pages that are there from the start.
const PLAIN: &[&str] = &[
    "/admin",
    "/admin/throttling",
    "/admin/throttling?range=30d&show=share",
    "/admin/tenants",
    "/admin/tenants?search=none&status=suspended",
    "/admin/tenants/new",
    "/admin/agents",
    "/admin/limits",
    "/admin/limits/edit?target=server&kind=rate",
    "/admin/limits/edit?target=server&kind=concurrency",
    "/admin/plans",
    "/admin/tools",
    "/admin/events",
    "/admin/audit",
    "/admin/alerts",
    "/admin/people",
    "/admin/system",
];

/// The largest page, in bytes before compression.
const LARGEST: usize = 100 * 1024;

async fn look(browser: &mut Browser, paths: &[String]) {
    for path in paths {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.text);
        assert!(page.text.len() <= LARGEST, "{path} has {} bytes", page.text.len());
        assert_eq!(page.text.matches("<h1").count(), 1, "{path} has one heading of the first level");
        assert!(page.text.contains("<title>"), "{path}");
        for inline in [" style=", "<style", "onclick=", "javascript:", "<script>"] {
            assert!(!page.text.contains(inline), "{path} has {inline}");
        }
        assert!(!page.text.contains("<b>boldly"), "{path} shows a description unescaped");
        assert_eq!(page.header("cache-control"), "no-store", "{path}");
    }
}

#[tokio::test]
async fn every_page_of_an_empty_server_says_what_to_do() {
    let house = House::new().await;
    let mut browser = house.owner().await;
    for language in ["en", "ja"] {
        browser.language = language;
        look(&mut browser, &PLAIN.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()).await;
    }
    browser.language = "ja";
    let page = browser.get("/admin").await;
    assert!(page.text.contains("<html lang=\"ja\"") && page.text.contains("最初の呼び出しまで"), "{}", page.text);
}

#[tokio::test]
async fn every_page_of_a_busy_server_is_shown() {
    let house = House::new().await;
    house.tools(&["export", "files/read"]).await;
    let tenant = house.tenant("acme").await;
    let agent = house.agent("acme", "u-42 <script>alert(1)</script> 🤖").await;
    let (tenant_ref, agent_ref) = (TenantRef::Id(tenant.id), AgentRef::Id(agent.id));
    let control = &house.control;
    let key =
        control.keys().create(&house.root, &tenant_ref, &agent_ref, NewKey::named("laptop")).await.expect("a key");
    control.plans().create(&house.root, "pro", "for those who pay").await.expect("a plan");
    let mut limit = NewLimit::rate(Target::TenantTool { tenant: tenant.id, tool: "export".to_owned() }, "50/min");
    control.limits().set(&house.root, &limit).await.expect("a limit");
    limit.expires_at = Some(START + 3_600_000);
    control.limits().set(&house.root, &limit).await.expect("a temporary limit");
    let mut counts = Counts::default();
    (counts.calls, counts.ok, counts.errors, counts.throttled) = (1_234, 1_000, 4, 230);
    (counts.by_tool, counts.by_agent, counts.by_rate) = (200, 30, 230);
    counts.set_latency([900, 50, 20, 10, 10, 5, 5, 4, 0, 0, 0, 0]);
    counts.set_attempts([10, 5, 2, 1, 0, 1]);
    let row = |tool: Option<&str>| {
        let (tenant, agent, tool) = (Some(tenant.id), Some(agent.id), tool.map(str::to_owned));
        UsageRow { tenant, agent, tool, at: START, counts }
    };
    let rows = vec![row(Some("export")), row(Some("files/read")), row(None)];
    let batch = UsageBatch { writer: "test".to_owned(), seq: 1, rows, seen: vec![(tenant.id, agent.id, START)] };
    control.usage().record(&house.root, &batch).await.expect("usage");
    let event = NewEvent {
        at: START,
        kind: EventKind::Throttled,
        tenant: Some(tenant.id),
        agent: Some(agent.id),
        tool: Some("export".to_owned()),
        scope: Some("tool".to_owned()),
        reason: "rate_limit_exceeded".to_owned(),
        detail: "5 requests / 60s".to_owned(),
        retry_after_ms: Some(12_000),
        request_id: Some("0198f0c0".to_owned()),
        count: 7,
    };
    control.events().record(&house.root, &[event]).await.expect("an event");
    let rule = NewAlertRule {
        name: "much".to_owned(),
        kind: AlertKind::Throttling,
        tenant: Some(tenant_ref),
        tool: None,
        threshold: 10,
        minutes: 5,
        enabled: true,
        webhook: None,
    };
    control.alerts().create_rule(&house.root, rule).await.expect("a rule");
    let token = NewToken { name: "ci".to_owned(), role: Role::Operator, tenant: None, expires_at: None };
    control.admin_tokens().create(&house.root, token).await.expect("a token");
    let mut browser = house.owner().await;
    let owner = control.users().get(&house.root, &"olga".into()).await.expect("herself").id;

    let cell = format!("/admin/throttling/cell?tenant=acme&agent={}&tool=export", agent.id);
    let mut paths: Vec<_> = PLAIN.iter().map(|path| (*path).to_owned()).collect();
    paths.extend([
        "/admin/throttling?tenant=acme&tool=export".to_owned(),
        cell.clone(),
        format!("{cell}&change=tool&range=7d"),
        format!("{cell}&change=agent"),
        "/admin/tenants/acme".to_owned(),
        "/admin/tenants/acme/keys".to_owned(),
        "/admin/tenants/acme/usage".to_owned(),
        "/admin/tenants/acme/audit".to_owned(),
        "/admin/tenants/acme/settings".to_owned(),
        "/admin/agents?tenant=acme".to_owned(),
        format!("/admin/tenants/acme/agents/{}", agent.id),
        format!("/admin/tenants/acme/agents/{}/keys/new", agent.id),
        format!("/admin/keys/{}", key.record.id),
        "/admin/limits?tenant=acme".to_owned(),
        format!("/admin/limits/edit?target=tenant_tool/{}/export&kind=rate", tenant.id),
        "/admin/plans/pro".to_owned(),
        "/admin/tool?name=export".to_owned(),
        "/admin/events?tenant=acme&tool=export&kind=throttled".to_owned(),
        "/admin/audit/1".to_owned(),
        "/admin/audit?tenant=acme&actor=olga&action=limit&target=export".to_owned(),
        format!("/admin/people/{owner}"),
    ]);
    for language in ["en", "ja"] {
        browser.language = language;
        look(&mut browser, &paths).await;
    }
    browser.language = "en";
    let map = browser.get("/admin/throttling").await.text;
    assert!(map.contains("690 of 3,702 calls refused") && map.contains(">230<small>18%</small>"), "{map}");
    assert!(!map.contains("<script>alert"), "a name is shown unescaped");
    let shown = browser.get(&cell).await.text;
    assert!(shown.contains("5 requests / 60s") && shown.contains("×7") && shown.contains("0198f0c0"), "{shown}");
    assert!(shown.contains("value=\"50/min\""), "the form begins with the limit that holds");
    let csv = browser.get("/admin/throttling.csv").await;
    assert_eq!(csv.header("content-type"), "text/csv; charset=utf-8");
    assert!(csv.text.contains(",export,230,1234\r\n"), "{}", csv.text);
    let json = browser.get("/admin/throttling.json").await.text;
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    let log = browser.get("/admin/audit.json").await.text;
    assert!(!log.contains(key.key.expose()) && log.contains("key.create"));
}

#[tokio::test]
async fn what_there_is_not_is_a_page_as_well() {
    let house = House::new().await;
    let mut browser = house.owner().await;
    for path in ["/admin/tenants/nobody", "/admin/nothing", "/admin/audit/999", "/admin/keys/x", "/admin/people/x"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        assert!(page.text.contains("There is no such thing"), "{path}: {}", page.text);
    }
    assert_eq!(browser.get("/admin/limits/preview").await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn every_answer_says_what_the_browser_may_load() {
    let house = House::new().await;
    let mut browser = house.stranger();
    let page = browser.get("/admin/sign-in").await;
    let policy = page.header("content-security-policy");
    assert_eq!(
        policy,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!(page.header("referrer-policy"), "same-origin");
    let asset = page.text.split("href=\"").find_map(|part| part.split('"').next().filter(|url| url.ends_with(".css")));
    let asset = browser.get(asset.expect("a style sheet")).await;
    assert_eq!(asset.status, StatusCode::OK);
    assert_eq!(asset.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(browser.get("/admin/assets/000000000000/panel.css").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_look_is_remembered_without_a_script() {
    let house = House::new().await;
    let mut browser = house.stranger();
    let page = browser.post("/admin/preferences", &[("theme", "dark"), ("back", "//evil.example")]).await;
    assert_eq!(page.location(), "/admin");
    assert!(page.header("set-cookie").starts_with("sluicegate_theme=dark;"));
    browser.cookie = Some("sluicegate_theme=dark; sluicegate_language=ja".to_owned());
    let page = browser.get("/admin/sign-in").await;
    assert!(page.text.contains("<html lang=\"ja\" data-theme=\"dark\">"), "{}", page.text);
}
