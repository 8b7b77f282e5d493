//! A server of one test.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::control::{
    Actor, AgentRef, Control, ControlError, KeyId, KeyScopes, LimitEntry, LiveView, ManualClock, NewKey, NewLimit,
    PageRequest, Target, TenantRef,
};
use sluicegate::{EngineKind, Running, Server, Settings, Span};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::client::Client;
use crate::database::Database;
use crate::exposition::Exposition;
use crate::tools::{Ran, TestTools};

/// The wall clock of tests starts here, in epoch milliseconds.
pub const START_MS: i64 = 1_800_000_000_000;

/// A server on loopback, whose limits and expiries are measured by clocks that the test sets.
pub struct TestServer {
    running: Running,
    /// What its tools did.
    pub ran: Ran,
    /// The clock of expiries.
    pub wall: ManualClock,
    limits: Arc<quanta::Mock>,
    database: Database,
}

impl TestServer {
    /// A server with default settings.
    pub async fn start(database: &Database) -> Self {
        Self::start_with(database, |_| {}).await
    }

    /// A server with settings changed.
    pub async fn start_with(database: &Database, change: impl FnOnce(&mut Settings)) -> Self {
        Self::start_as(database, |server| server, change).await
    }

    /// A server that serves more than the test tools, with settings changed.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn start_as(
        database: &Database,
        build: impl FnOnce(Server) -> Server,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = settings(database);
        change(&mut settings);
        let ran = Ran::default();
        let (clock, limits) = quanta::Clock::mock();
        // A mock starts at 0, where "long ago" cannot be told from "now".
        limits.increment(Duration::from_hours(1));
        let wall = ManualClock::at(START_MS);
        let server = Server::new("test").tools(TestTools(ran.clone())).clocks(clock, wall.clone().into());
        let running = build(server).start(&settings).await.expect("the server starts");
        Self { running, ran, wall, limits, database: database.clone() }
    }

    /// Lets time pass for limits and expiries.
    pub fn advance(&self, by: Duration) {
        self.limits.increment(by);
        self.wall.advance(by);
    }

    /// The time of expiries, in epoch milliseconds.
    #[must_use]
    pub fn wall_ms(&self) -> i64 {
        sluicegate::control::WallClock::from(self.wall.clone()).now_ms()
    }

    /// What the server shows at a path that is not MCP's, with its status.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn get(&self, path: &str) -> (u16, String) {
        get(&format!("http://{}{path}", self.address())).await
    }

    /// What the server shows at `/metrics`.
    ///
    /// # Panics
    /// When Prometheus would not read it.
    pub async fn metrics(&self) -> Exposition {
        let (status, text) = self.get("/metrics").await;
        assert_eq!(status, 200, "{text}");
        Exposition::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// Reads the metrics until they say what they should: what ends a call is counted after its answer has gone out.
    ///
    /// # Panics
    /// When they never do.
    pub async fn metrics_until(&self, holds: impl Fn(&Exposition) -> bool) -> Exposition {
        for _ in 0..100 {
            let metrics = self.metrics().await;
            if holds(&metrics) {
                return metrics;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it does not hold: {:#?}", self.metrics().await)
    }

    /// Where MCP is served.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.running.endpoint()
    }

    /// The one-time link that makes the panel's first owner, if there is to be one.
    ///
    /// # Panics
    /// When the database does not answer.
    pub async fn set_up_link(&self) -> Option<String> {
        self.running.set_up_link().await.expect("the database answers")
    }

    /// The address that is listened on.
    #[must_use]
    pub fn address(&self) -> std::net::SocketAddr {
        self.running.address()
    }

    /// The server's own control plane.
    #[must_use]
    pub fn control(&self) -> &Control {
        self.running.control()
    }

    /// What the panel and the admin API ask of the server.
    #[must_use]
    pub fn live(&self) -> Arc<dyn LiveView> {
        self.running.live()
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// A client with a new key of an agent. Tenant and agent are made if they do not exist.
    pub async fn client(&self, tenant: &str, agent: &str) -> Client {
        self.client_with(tenant, agent, KeyScopes::all()).await.0
    }

    /// The same, with a key that opens only these scopes.
    ///
    /// # Panics
    /// When the key cannot be made.
    pub async fn client_with(&self, tenant: &str, agent: &str, scopes: KeyScopes) -> (Client, KeyId) {
        let minted = mint(self.control(), tenant, agent, scopes).await.expect("the key is made");
        self.caught_up().await;
        (Client::new(self.endpoint(), minted.0), minted.1)
    }

    /// Sets a rate limit and waits until the server obeys it.
    ///
    /// # Panics
    /// When the limit is refused.
    pub async fn set_rate(&self, target: Target, quotas: &str) -> LimitEntry {
        let entry =
            self.control().limits().set(&actor(), &NewLimit::rate(target, quotas)).await.expect("the limit is set");
        self.caught_up().await;
        entry
    }

    /// Waits until the server's policy is as new as the database.
    ///
    /// # Panics
    /// When that takes more than a second, which is what the server promises.
    pub async fn caught_up(&self) {
        let wanted = self.control().policy().revision().await.expect("the revision is read").get();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(1);
        while self.running.policy_revision() < wanted {
            assert!(tokio::time::Instant::now() < deadline, "the policy was not reloaded within a second");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// What the server says over its control socket of an agent's limits on a tool.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn explain(&self, tenant: &str, agent: &str, tool: &str) -> Value {
        let question = json!({ "ask": "explain", "tenant": tenant, "agent": agent, "tool": tool });
        let stream =
            UnixStream::connect(self.database.folder().join("control.sock")).await.expect("the socket is open");
        let (reader, mut writer) = stream.into_split();
        writer.write_all(format!("{question}\n").as_bytes()).await.expect("the question is sent");
        let mut answer = String::new();
        BufReader::new(reader).read_line(&mut answer).await.expect("the answer comes");
        let answer: Value = serde_json::from_str(&answer).expect("the answer is JSON");
        assert!(answer["explanation"].is_object(), "{answer}");
        answer["explanation"].clone()
    }

    /// Stops the server.
    pub async fn stop(self) {
        self.running.stop().await;
    }
}

/// Status and body of a page.
///
/// # Panics
/// When nobody answers.
pub async fn get(url: &str) -> (u16, String) {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let response = http.get(url).send().await.expect("it is answered");
    (response.status().as_u16(), response.text().await.expect("a text"))
}

/// Settings of a server on a free port of loopback with this database.
#[must_use]
pub fn settings(database: &Database) -> Settings {
    let mut settings = Settings::defaults();
    settings.bind = ([127, 0, 0, 1], 0).into();
    settings.database_url = database.url();
    settings.data = database.folder().to_owned();
    if let Some(prefix) = database.shared_as() {
        settings.engine = EngineKind::Redis;
        settings.redis_url = crate::redis::url();
        settings.redis_prefix = prefix.to_owned();
        // The machine is busy with other tests.
        settings.redis_timeout = Span(Duration::from_secs(5));
    }
    settings
}

/// Whoever the tests act as.
#[must_use]
pub fn actor() -> Actor {
    Actor::system("test")
}

/// A new key of an agent, as text and id. Tenant and agent are made if they do not exist.
///
/// # Errors
/// Whatever the control plane answers.
pub async fn mint(
    control: &Control,
    tenant: &str,
    agent: &str,
    scopes: KeyScopes,
) -> Result<(String, KeyId), ControlError> {
    let (tenant_ref, agent_ref) = (TenantRef::from(tenant), AgentRef::from(agent));
    unless_taken(control.tenants().create(&actor(), tenant, tenant).await)?;
    unless_taken(control.agents().create(&actor(), &tenant_ref, agent).await)?;
    let new = NewKey { scopes, ..NewKey::named("test") };
    let minted = control.keys().create(&actor(), &tenant_ref, &agent_ref, new).await?;
    Ok((minted.key.expose().to_owned(), minted.record.id))
}

/// How many agents a tenant has.
///
/// # Panics
/// When the database does not answer.
pub async fn agents(control: &Control, tenant: &str) -> usize {
    let (mut page, mut count) = (PageRequest::first(PageRequest::MAX), 0);
    loop {
        let agents = control.agents().list(&actor(), &tenant.into(), &page).await.expect("a page");
        count += agents.items.len();
        match agents.next {
            Some(next) => page.after = Some(next),
            None => return count,
        }
    }
}

fn unless_taken<T>(made: Result<T, ControlError>) -> Result<(), ControlError> {
    match made {
        Ok(_) | Err(ControlError::Conflict(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
