//! A server with a day behind it: three tenants, refusals, limits, a plan, an alert, and people.

use std::time::Duration;

use secrecy::SecretString;
use serde_json::json;
use sluicegate::control::{
    Actor, Agent, AgentRef, AlertKind, Counts, KeyScopes, Mode, NewAlertRule, NewKey, NewLimit, NewToken, NewUser,
    Role, Signals, Target, Tenant, TenantRef, UsageBatch, UsageRow,
};
use sluicegate_tests::server::{START_MS, actor, mint};
use sluicegate_tests::{Client, Database, TestServer};

use crate::browser::Browser;

/// The password of everybody.
pub(crate) const PASSWORD: &str = "correct horse battery";

const MINUTE_MS: i64 = 60_000;

/// The server, and where its things are.
pub(crate) struct Seeded {
    pub(crate) server: TestServer,
    pub(crate) acme: Tenant,
    /// The agent that is refused most.
    pub(crate) crawler: Agent,
    /// The id of its key.
    pub(crate) key: String,
    /// The id of the owner.
    pub(crate) olga: String,
}

impl Seeded {
    pub(crate) async fn start() -> Self {
        let server = TestServer::start(&Database::sqlite().await).await;
        let root = Actor::cli("root");
        let control = server.control();
        control.plans().create(&root, "pro", "For those who pay").await.expect("a plan");
        for (slug, name, agents) in TENANTS {
            control.tenants().create(&root, slug, name).await.expect("a tenant");
            for agent in *agents {
                control.agents().create(&root, &(*slug).into(), agent).await.expect("an agent");
            }
        }
        control.tenants().assign_plan(&root, &"globex".into(), Some(&"pro".into())).await.expect("on the plan");
        control.tenants().suspend(&root, &"initech".into()).await.expect("suspended");
        let acme = control.tenants().get(&root, &"acme".into()).await.expect("acme");
        let crawler = control.agents().get(&root, &"acme".into(), &"crawler".into()).await.expect("the crawler");

        let (text, key) = mint(control, "acme", "crawler", KeyScopes::all()).await.expect("a key");
        let expiring = NewKey { expires_at: Some(START_MS + 86_400_000), ..NewKey::named("ci") };
        let (tenant_ref, agent_ref) = (TenantRef::Id(acme.id), AgentRef::Id(crawler.id));
        control.keys().create(&root, &tenant_ref, &agent_ref, expiring).await.expect("a key");
        Self::set_limits(&server, &root, &acme).await;
        let olga = Self::admit_people(&server, &root).await;
        Self::record_an_hour(&server, &root).await;
        server.caught_up().await;

        // Real calls, so that limits are used up and events have request ids.
        let client = Client::new(server.endpoint(), text);
        call(&client, 60).await;
        let seeded = Self { server, acme, crawler, key: key.to_string(), olga };
        seeded.raise_an_alert(&root).await;
        // So many that it counts as a runaway.
        call(&client, 160).await;
        seeded
    }

    async fn set_limits(server: &TestServer, root: &Actor, acme: &Tenant) {
        let limits = server.control().limits();
        let export = Target::TenantTool { tenant: acme.id, tool: "export".to_owned() };
        limits.set(root, &NewLimit::rate(export, "50/min")).await.expect("a limit");
        let observed = Target::TenantTool { tenant: acme.id, tool: "echo".to_owned() };
        let observed = NewLimit { mode: Mode::Observe, ..NewLimit::rate(observed, "30/min") };
        limits.set(root, &observed).await.expect("a limit that observes");
        let plan = server.control().plans().get(root, &"pro".into()).await.expect("the plan").id;
        limits.set(root, &NewLimit::rate(Target::Plan { plan }, "2000/min")).await.expect("a limit of the plan");
        let agent = NewLimit {
            expires_at: Some(START_MS + 3_600_000),
            note: "while the import runs".to_owned(),
            ..NewLimit::rate(Target::Tool { tool: "slow".to_owned() }, "600/min")
        };
        limits.set(root, &agent).await.expect("a limit that ends");
    }

    async fn admit_people(server: &TestServer, root: &Actor) -> String {
        let control = server.control();
        for (name, role, tenant) in
            [("olga", Role::Owner, None), ("otto", Role::Operator, None), ("vera", Role::Viewer, Some("acme"))]
        {
            let password = SecretString::from(PASSWORD);
            let new = NewUser { name: name.to_owned(), password, role, tenant: tenant.map(TenantRef::from) };
            control.users().create(root, new).await.expect("a user");
        }
        let token = NewToken { name: "terraform".to_owned(), role: Role::Operator, tenant: None, expires_at: None };
        control.admin_tokens().create(root, token).await.expect("a token");
        control.users().get(root, &"olga".into()).await.expect("herself").id.to_string()
    }

    /// An hour of usage, more for some than for others.
    async fn record_an_hour(server: &TestServer, root: &Actor) {
        let control = server.control();
        let mut rows = Vec::new();
        for (slug, _, agents) in TENANTS {
            let tenant = control.tenants().get(root, &(*slug).into()).await.expect("a tenant").id;
            for (weight, name) in (1..).zip(*agents) {
                let agent = control.agents().get(root, &tenant.into(), &(*name).into()).await.expect("an agent").id;
                for minute in 0..60 {
                    for (tool, cap) in [("export", 5), ("echo", 40), ("slow", 12)] {
                        // The later in the hour and the later in the list, the more.
                        let calls = (weight * (minute + 3) * (cap + 2) / 90) % 60;
                        let throttled = (calls - cap).max(0);
                        let mut counts = Counts::default();
                        (counts.calls, counts.ok) = (calls, calls - throttled);
                        (counts.throttled, counts.by_tool) = (throttled, throttled);
                        counts.by_rate = throttled;
                        counts.set_latency([0, counts.ok, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                        let at = START_MS - (60 - minute) * MINUTE_MS;
                        let row = UsageRow {
                            tenant: Some(tenant),
                            agent: Some(agent),
                            tool: Some(tool.to_owned()),
                            at,
                            counts,
                        };
                        rows.push(row);
                    }
                }
            }
        }
        for (seq, rows) in (1..).zip(rows.chunks(200)) {
            let batch = UsageBatch { writer: "history".to_owned(), seq, rows: rows.to_vec(), seen: Vec::new() };
            control.usage().record(root, &batch).await.expect("usage");
        }
    }

    /// Lets a rule find what there is to find.
    async fn raise_an_alert(&self, root: &Actor) {
        let alerts = self.server.control().alerts();
        let rule = |name: &str, threshold, tool: Option<&str>| NewAlertRule {
            name: name.to_owned(),
            kind: AlertKind::Throttling,
            tenant: Some("acme".into()),
            tool: tool.map(str::to_owned),
            threshold,
            minutes: 5,
            enabled: true,
            webhook: None,
        };
        alerts.create_rule(root, rule("much is refused", 5, None)).await.expect("a rule");
        alerts.create_rule(root, rule("export is refused", 90, Some("export"))).await.expect("a rule");
        // What was called just now is written within a second, and looked at when its minute is over.
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        self.server.advance(Duration::from_secs(70));
        let signals = Signals { instance: "test".to_owned(), engine_degraded: false, open_breakers: Vec::new() };
        alerts.evaluate(&actor(), &signals).await.expect("the rules are looked at");
        assert!(!alerts.open(root).await.expect("alerts").is_empty(), "an alert is open");
    }

    /// Signs the owner in.
    pub(crate) async fn sign_in(&self, browser: &Browser) {
        browser.open("/admin/sign-in").await;
        browser.fill("#name", "olga").await;
        browser.fill("#password", PASSWORD).await;
        browser.press_in("//form", "Sign in").await;
        browser.shows("h1", "Overview").await;
    }

    /// The drill-down of the crawler's exports.
    pub(crate) fn cell(&self) -> String {
        format!("/admin/throttling/cell?tenant=acme&agent={}&tool=export", self.crawler.id)
    }

    /// The crawler's page.
    pub(crate) fn agent(&self) -> String {
        format!("/admin/tenants/acme/agents/{}", self.crawler.id)
    }

    /// Every page, by the name of its picture.
    pub(crate) fn pages(&self) -> Vec<(&'static str, String)> {
        let (acme, agent) = (self.acme.id, self.agent());
        let page = |name, path: &str| (name, path.to_owned());
        vec![
            page("overview", "/admin"),
            page("throttling", "/admin/throttling"),
            page("throttling-share", "/admin/throttling?show=share&range=6h"),
            page("throttling-calm", "/admin/throttling?tenant=umbrella"),
            ("cell", self.cell()),
            ("cell-agent", format!("{}&change=agent&range=15m", self.cell())),
            page("events", "/admin/events"),
            page("events-none", "/admin/events?kind=denied"),
            page("alerts", "/admin/alerts"),
            page("tenants", "/admin/tenants"),
            page("tenants-none", "/admin/tenants?search=nobody"),
            page("tenants-new", "/admin/tenants/new"),
            page("tenant", "/admin/tenants/acme"),
            page("tenant-suspended", "/admin/tenants/initech"),
            page("tenant-keys", "/admin/tenants/acme/keys"),
            page("tenant-keys-none", "/admin/tenants/umbrella/keys"),
            page("tenant-usage", "/admin/tenants/acme/usage"),
            page("tenant-audit", "/admin/tenants/acme/audit"),
            page("tenant-settings", "/admin/tenants/acme/settings"),
            page("agents", "/admin/agents"),
            page("agents-acme", "/admin/agents?tenant=acme"),
            ("agent", agent.clone()),
            ("key-new", format!("{agent}/keys/new")),
            ("key", format!("/admin/keys/{}", self.key)),
            page("limits", "/admin/limits"),
            ("limits-acme", format!("/admin/limits?tenant=acme&agent={}", self.crawler.id)),
            ("limit", format!("/admin/limits/edit?target=tenant_tool/{acme}/export&kind=rate")),
            page("limit-concurrency", "/admin/limits/edit?target=server&kind=concurrency"),
            page("plans", "/admin/plans"),
            page("plan", "/admin/plans/pro"),
            page("tools", "/admin/tools"),
            page("tool", "/admin/tool?name=export"),
            page("audit", "/admin/audit"),
            page("audit-entry", "/admin/audit/12"),
            page("people", "/admin/people"),
            ("person", format!("/admin/people/{}", self.olga)),
            page("system", "/admin/system"),
            page("fault", "/admin/tenants/nobody"),
        ]
    }
}

/// More exports than are allowed, and a few other calls.
async fn call(client: &Client, exports: u32) {
    for _ in 0..exports {
        client.call("export", json!({ "dataset": "sales" })).await;
    }
    for _ in 0..3 {
        client.call("echo", json!({ "text": "hello" })).await;
    }
}

/// Slug, name, and agents of each tenant.
const TENANTS: &[(&str, &str, &[&str])] = &[
    ("acme", "Acme Corporation", &["assistant", "ci", "crawler"]),
    ("globex", "Globex グローベックス", &["nightly-report", "u-42", "support-bot with a rather long name 🤖"]),
    ("initech", "Initech", &["tps"]),
    ("umbrella", "Umbrella", &[]),
];
