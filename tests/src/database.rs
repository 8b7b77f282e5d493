//! A database of one test, gone when the test is.

use std::io::Write as _;
use std::sync::Arc;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tempfile::TempDir;

/// The variable with the address of a Postgres database in which schemas may be created.
const POSTGRES: &str = "SLUICEGATE_TEST_POSTGRES";
/// The variable that turns a skipped test into a failed one.
const STRICT: &str = "SLUICEGATE_TEST_STRICT";

/// A fresh database and a data folder. Clones share both.
#[derive(Clone, Debug)]
pub struct Database(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: TempDir,
    /// Where it is; in the folder, if nothing is said.
    place: Place,
    /// What keys in Redis begin with, of servers that share their limits.
    prefix: Option<String>,
}

#[derive(Debug)]
enum Place {
    Folder,
    Schema(Schema),
    Given(String),
}

/// A schema that is dropped with this.
#[derive(Debug)]
struct Schema {
    server: String,
    schema: String,
    url: String,
}

impl Database {
    /// An embedded database in a folder of its own.
    pub async fn sqlite() -> Self {
        Self(Arc::new(Inner { folder: folder(), place: Place::Folder, prefix: None }))
    }

    /// A database that somebody else has made, and that stays.
    #[must_use]
    pub fn at(url: &str) -> Self {
        Self(Arc::new(Inner { folder: folder(), place: Place::Given(url.to_owned()), prefix: None }))
    }

    /// A schema of its own in the Postgres database that the environment names; `None`, and a line that says so, where
    /// it names none.
    ///
    /// # Panics
    /// When the server cannot be reached, or when a skipped test counts as failed.
    pub async fn postgres() -> Option<Self> {
        let Ok(server) = std::env::var(POSTGRES) else {
            assert!(std::env::var_os(STRICT).is_none(), "{POSTGRES} is not set, and {STRICT} forbids to skip");
            // Seen with `--nocapture` and wherever tests are run by hand.
            let _ = writeln!(std::io::stderr(), "skipped: {POSTGRES} is not set");
            return None;
        };
        // A schema is made in a hundredth of the time that a database takes.
        let schema = format!("sluicegate_test_{}", uuid::Uuid::new_v4().simple());
        execute(&server, format!("CREATE SCHEMA {schema}")).await;
        let separator = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{separator}options[search_path]={schema}");
        Some(Self(Arc::new(Inner {
            folder: folder(),
            place: Place::Schema(Schema { server, schema, url }),
            prefix: None,
        })))
    }

    /// An embedded database, on which servers share their limits through Redis.
    pub async fn with_redis() -> Self {
        let prefix = format!("sluicegate-test-{}", uuid::Uuid::new_v4().simple());
        Self(Arc::new(Inner { folder: folder(), place: Place::Folder, prefix: Some(prefix) }))
    }

    /// What keys in Redis begin with, if servers on this database share their limits.
    #[must_use]
    pub fn shared_as(&self) -> Option<&str> {
        self.0.prefix.as_deref()
    }

    /// The address that settings take.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.0.place {
            Place::Schema(schema) => schema.url.clone(),
            Place::Given(url) => url.clone(),
            Place::Folder => format!("sqlite:{}", self.0.folder.path().join("sluicegate.db").display()),
        }
    }

    /// The data folder.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.0.folder.path()
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (server, schema) = (std::mem::take(&mut self.server), std::mem::take(&mut self.schema));
        // The test's runtime may be on its way out, so the clean-up has one of its own.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(execute(&server, format!("DROP SCHEMA IF EXISTS {schema} CASCADE")));
        });
        let _ = dropped.join();
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

async fn execute(server: &str, sql: String) {
    let mut connection = PgConnection::connect(server).await.expect("the Postgres server of the tests answers");
    // The only variable part is a name that was made here.
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.expect("the statement works");
    connection.close().await.expect("the connection closes");
}
