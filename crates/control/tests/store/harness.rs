//! A fresh control plane per test and database.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, Once};

use sluicegate_control::{
    Actor, Agent, Control, ControlError, JsonText, ManualClock, NewKey, Options, Tenant, ToolDefinition,
};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

/// When a test begins: 2026-01-01T00:00:00Z.
pub(crate) const START: i64 = 1_767_225_600_000;

/// One database and a control plane on it.
pub(crate) struct Store {
    pub(crate) control: Control,
    pub(crate) clock: ManualClock,
    pub(crate) root: Actor,
    pub(crate) url: String,
}

impl Store {
    /// An empty database with the schema in it.
    async fn new(url: String) -> Self {
        let store = Self::without_schema(url).await;
        store.control.migrate().await.unwrap();
        store
    }

    async fn without_schema(url: String) -> Self {
        let clock = ManualClock::at(START);
        let control = Control::connect(&url, options(&clock)).await.unwrap();
        Self { control, clock, root: Actor::cli("root"), url }
    }

    /// Another process on the same database, as far as the first can tell.
    pub(crate) async fn second(&self) -> Control {
        Control::connect(&self.url, options(&self.clock)).await.unwrap()
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres")
    }

    pub(crate) async fn tenant(&self, slug: &str) -> Tenant {
        self.control.tenants().create(&self.root, slug, slug).await.unwrap()
    }

    pub(crate) async fn agent(&self, tenant: &str, name: &str) -> Agent {
        self.control.agents().create(&self.root, &tenant.into(), name).await.unwrap()
    }

    /// A key for an agent that exists.
    pub(crate) async fn key(&self, agent: &Agent) -> sluicegate_control::MintedKey {
        let (tenant, agent) = (agent.tenant_id.into(), agent.id.into());
        self.control.keys().create(&self.root, &tenant, &agent, NewKey::named("k")).await.unwrap()
    }

    pub(crate) async fn tools(&self, names: &[&str]) {
        let tools: Vec<_> = names.iter().map(|name| tool(name)).collect();
        self.control.tools().register(&self.root, &tools).await.unwrap();
    }

    /// Runs SQL behind the control plane's back.
    pub(crate) async fn sql(&self, sql: &str) -> Result<(), sqlx::Error> {
        if self.is_postgres() {
            let mut connection = PgConnection::connect(&self.url).await?;
            connection.execute(AssertSqlSafe(sql)).await?;
            connection.close().await
        } else {
            let mut connection = SqliteConnection::connect(&self.url).await?;
            connection.execute("PRAGMA foreign_keys = ON").await?;
            connection.execute(AssertSqlSafe(sql)).await?;
            connection.close().await
        }
    }

    /// The first column of a query, as text.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        let query = sqlx::query_scalar(AssertSqlSafe(sql));
        if self.is_postgres() {
            let mut connection = PgConnection::connect(&self.url).await.unwrap();
            query.fetch_all(&mut connection).await.unwrap()
        } else {
            let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connection).await.unwrap()
        }
    }
}

fn options(clock: &ManualClock) -> Options {
    let mut options = Options::default();
    options.clock = clock.clone().into();
    options.max_connections = 4;
    options.max_agents_per_tenant = 5;
    options
}

pub(crate) fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: Some(format!("does {name}")),
        input_schema: JsonText::empty_object(),
        declared_limits: JsonText::empty_object(),
    }
}

/// The kind of an error, for comparisons.
pub(crate) fn kind<T>(result: &Result<T, ControlError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(ControlError::NotFound { .. }) => "not found",
        Err(ControlError::UnknownTool { .. }) => "unknown tool",
        Err(ControlError::Invalid { .. }) => "invalid",
        Err(ControlError::Conflict(_)) => "conflict",
        Err(ControlError::Stale { .. }) => "stale",
        Err(ControlError::Forbidden { .. }) => "forbidden",
        Err(_) => "other",
    }
}

/// Runs a test in a fresh SQLite file.
pub(crate) fn on_sqlite(schema: bool, test: impl AsyncFnOnce(&Store)) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("control.db").display());
    runtime().block_on(run(url, schema, test));
}

/// Runs a test in an empty database of Postgres that no other test uses meanwhile.
pub(crate) fn on_postgres(schema: bool, test: impl AsyncFnOnce(&Store)) {
    let Some(server) = postgres() else { return };
    let name = borrow_database(&server);
    let (address, _) = server.rsplit_once('/').expect("the address ends with a database");
    let url = format!("{address}/{name}");
    let outcome = catch_unwind(AssertUnwindSafe(|| runtime().block_on(run(url, schema, test))));
    give_back_database(&server, name);
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// The databases of this program: to empty one is ten times as fast as to make one.
struct Databases {
    idle: Vec<String>,
    in_use: u32,
    made: u32,
}

static DATABASES: Mutex<Databases> = Mutex::new(Databases { idle: Vec::new(), in_use: 0, made: 0 });

fn borrow_database(server: &str) -> String {
    let mut databases = DATABASES.lock().unwrap();
    databases.in_use += 1;
    if let Some(name) = databases.idle.pop() {
        drop(databases);
        let (address, _) = server.rsplit_once('/').expect("the address ends with a database");
        let url = format!("{address}/{name}");
        administer(&url, "DROP SCHEMA public CASCADE; CREATE SCHEMA public");
        return name;
    }
    databases.made += 1;
    let name = format!("sluicegate_test_{}_{}", std::process::id(), databases.made);
    drop(databases);
    administer(server, &format!("CREATE DATABASE {name}"));
    name
}

/// Drops all databases when nobody uses one: whoever is last cleans up.
fn give_back_database(server: &str, name: String) {
    let mut databases = DATABASES.lock().unwrap();
    databases.idle.push(name);
    databases.in_use -= 1;
    if databases.in_use == 0 {
        for name in std::mem::take(&mut databases.idle) {
            administer(server, &format!("DROP DATABASE {name} WITH (FORCE)"));
        }
    }
}

async fn run(url: String, schema: bool, test: impl AsyncFnOnce(&Store)) {
    let store = if schema { Store::new(url).await } else { Store::without_schema(url).await };
    test(&store).await;
    store.control.close().await;
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn administer(url: &str, sql: &str) {
    runtime().block_on(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

fn postgres() -> Option<String> {
    static TOLD: Once = Once::new();
    let server = std::env::var("SLUICEGATE_TEST_POSTGRES").ok().filter(|url| !url.is_empty());
    if server.is_none() {
        let strict = std::env::var("SLUICEGATE_TEST_STRICT").is_ok_and(|strict| strict == "1");
        assert!(!strict, "SLUICEGATE_TEST_POSTGRES is not set, and nothing may be skipped");
        TOLD.call_once(|| {
            // Not eprintln!, which the test runner hides.
            let told = "skipped: SLUICEGATE_TEST_POSTGRES is not set, no test ran on Postgres";
            let mut stderr = std::io::stderr();
            writeln!(stderr, "{told}").unwrap();
        });
    }
    server
}

/// Makes two tests of each function, one per database.
macro_rules! on_both {
    ($(async fn $name:ident($store:ident: &Store) $body:block)*) => {
        $(mod $name {
            #[test]
            fn sqlite() {
                $crate::harness::on_sqlite(true, super::$name);
            }

            #[test]
            fn postgres() {
                $crate::harness::on_postgres(true, super::$name);
            }
        }

        async fn $name($store: &$crate::harness::Store) $body)*
    };
}
pub(crate) use on_both;
