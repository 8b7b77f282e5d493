//! Rows by the thousand, written past the control plane, which would make them one by one.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use sluicegate::control::ApiKey;
use sqlx::{AssertSqlSafe, Connection as _};

use crate::database::Database;

/// A connection to a database whose tables are there. All SQL is the caller's own; nothing in it comes from outside.
pub enum Bulk {
    /// Of the embedded database.
    Sqlite(sqlx::SqliteConnection),
    /// Of Postgres.
    Postgres(sqlx::PgConnection),
}

impl Bulk {
    /// Connects.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn open(database: &Database) -> Result<Self, sqlx::Error> {
        let url = database.url();
        Ok(if url.starts_with("sqlite") {
            Self::Sqlite(sqlx::SqliteConnection::connect(&url).await?)
        } else {
            Self::Postgres(sqlx::PgConnection::connect(&url).await?)
        })
    }

    /// Whether it is Postgres.
    #[must_use]
    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Runs statements.
    ///
    /// # Errors
    /// What the database says.
    pub async fn run(&mut self, sql: String) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(connection) => sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop),
            Self::Postgres(connection) => sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop),
        }
    }

    /// Asks for a number.
    ///
    /// # Errors
    /// What the database says.
    pub async fn number(&mut self, sql: String) -> Result<i64, sqlx::Error> {
        match self {
            Self::Sqlite(connection) => sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(connection).await,
            Self::Postgres(connection) => sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(connection).await,
        }
    }

    /// Asks for texts.
    ///
    /// # Errors
    /// What the database says.
    pub async fn texts(&mut self, sql: String) -> Result<Vec<String>, sqlx::Error> {
        match self {
            Self::Sqlite(connection) => sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(connection).await,
            Self::Postgres(connection) => sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(connection).await,
        }
    }

    /// Inserts rows, many at a time. `into` is the table with its columns, a row its values.
    ///
    /// # Errors
    /// What the database says.
    pub async fn insert(&mut self, into: &str, rows: impl Iterator<Item = String>) -> Result<(), sqlx::Error> {
        let mut sql = String::new();
        for (number, row) in rows.enumerate() {
            if number % 500 == 0 && number > 0 {
                self.run(std::mem::take(&mut sql)).await?;
            }
            let _ = if sql.is_empty() {
                write!(sql, "INSERT INTO {into} VALUES ({row})")
            } else {
                write!(sql, ", ({row})")
            };
        }
        if sql.is_empty() { Ok(()) } else { self.run(sql).await }
    }

    /// Writes `tenants`: the numbers below `count`, active, with nothing set.
    ///
    /// # Errors
    /// What the database says.
    pub async fn insert_tenants(&mut self, count: u32) -> Result<(), sqlx::Error> {
        let rows = (0..count).map(|tenant| {
            let id = id("ten", tenant);
            format!("'{id}', 'tenant-{tenant:04}', 'Tenant {tenant} 株式会社', 'active', '{{}}', '{{}}', 0, 0, 0")
        });
        self.insert("tenants (id, slug, name, status, settings, metadata, created_at, updated_at, revision)", rows)
            .await
    }

    /// Writes agents, as a number and the number of their tenant.
    ///
    /// # Errors
    /// What the database says.
    pub async fn insert_agents(
        &mut self,
        agents: impl Iterator<Item = (u32, u32)>,
        seen_at: i64,
    ) -> Result<(), sqlx::Error> {
        let rows = agents.map(|(agent, tenant)| {
            let (tenant, id) = (id("ten", tenant), id("agt", agent));
            format!("'{id}', '{tenant}', 'agent-{agent:05}', 'active', 'created', 0, {seen_at}, 0")
        });
        self.insert("agents (id, tenant_id, name, status, origin, created_at, last_seen_at, revision)", rows).await
    }

    /// Writes keys that open everything, as a number, the numbers of tenant and agent, and the hash of the secret.
    ///
    /// # Errors
    /// What the database says.
    pub async fn insert_keys(
        &mut self,
        keys: impl Iterator<Item = (u32, u32, u32, String)>,
    ) -> Result<(), sqlx::Error> {
        let columns = "api_keys (id, tenant_id, agent_id, name, environment, secret_hash, scopes, created_at, created_by, \
             revision)";
        let rows = keys.map(|(key, tenant, agent, hash)| {
            let (id, tenant, agent) = (id("key", key), id("ten", tenant), id("agt", agent));
            format!(
                "'{id}', '{tenant}', '{agent}', 'key {key}', 'live', '{hash}', '{{\"tools\":[\"*\"]}}', 0, 'cli:root', 0"
            )
        });
        self.insert(columns, rows).await
    }

    /// Writes limits of a tenant on a tool, as a number, the number of the tenant, the tool and the quota.
    ///
    /// # Errors
    /// What the database says.
    pub async fn insert_limits(
        &mut self,
        limits: impl Iterator<Item = (u32, u32, String, &str)>,
    ) -> Result<(), sqlx::Error> {
        let columns = "limits (id, target, scope, tenant_id, tool, kind, quotas, mode, temporary, note, created_by, \
             updated_by, updated_at, revision)";
        let rows = limits.map(|(limit, tenant, tool, quota)| {
            let (id, tenant) = (id("lim", limit), id("ten", tenant));
            format!(
                "'{id}', 'tenant_tool/{tenant}/{tool}', 'tenant_tool', '{tenant}', '{tool}', 'rate', '{quota}', 'enforce', \
                 false, '', 'cli:root', 'cli:root', 0, 0"
            )
        });
        self.insert(columns, rows).await
    }
}

/// Keys with the ids of the numbers below `count`, as texts.
///
/// # Panics
/// Never: the ids are ids.
#[must_use]
pub fn keys(count: u32) -> Vec<String> {
    let environment = "live".parse().expect("an environment");
    let key = |number| {
        ApiKey::generate(&mut rand::rng(), id("key", number).parse().expect("an id"), &environment).expose().to_owned()
    };
    (0..count).map(key).collect()
}

/// What the database keeps of a key's secret.
#[must_use]
pub fn hash_of(key: &str) -> String {
    let secret = key.rsplit('_').nth(1).unwrap_or_default();
    Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The id of a number.
#[must_use]
pub fn id(prefix: &str, number: u32) -> String {
    format!("{prefix}_{number:032x}")
}
