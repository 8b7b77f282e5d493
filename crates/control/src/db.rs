//! The two databases behind one face.
//!
//! Statements are `&'static str`, the same for both, and run inside a [`Transaction`].
//! The `match` over the two databases is written once, in [`on_backend`]; what differs
//! between them is in this file, in [`migrations`](crate::migrations) and in
//! [`watch`](crate::watch).

mod value;

pub(crate) use value::{Arg, args, filled_up, json_column, places, text_column};

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous};
use sqlx::{FromRow, PgPool, Postgres, Sqlite, SqlitePool};
use tracing::Instrument;

use crate::error::ControlError;

/// One thing per database.
#[derive(Clone)]
pub(crate) enum Backend<S, P> {
    Sqlite(S),
    Postgres(P),
}

pub(crate) type Db = Backend<SqlitePool, PgPool>;

/// Rolls back when it is dropped without [`commit`](Transaction::commit).
pub(crate) type Transaction = Backend<sqlx::Transaction<'static, Sqlite>, sqlx::Transaction<'static, Postgres>>;

/// Runs the same expression for whichever database it is.
macro_rules! on_backend {
    ($backend:expr, $it:ident => $run:expr) => {
        match $backend {
            Backend::Sqlite($it) => $run,
            Backend::Postgres($it) => $run,
        }
    };
}
pub(crate) use on_backend;

/// A type that a row of either database can be read into.
pub(crate) trait Row: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

impl<T> Row for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

/// How long to wait for a free connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a writer waits for the others on SQLite, which lets them in without order.
const WRITER_PATIENCE: Duration = Duration::from_secs(20);

impl Db {
    pub(crate) async fn connect(url: &str, max_connections: u32) -> Result<Self, ControlError> {
        match url.split_once(':') {
            Some(("sqlite", _)) => Self::connect_sqlite(url, max_connections).await,
            Some(("postgres" | "postgresql", _)) => {
                let options = PgConnectOptions::from_str(url)?.application_name("sluicegate");
                let pool = PgPoolOptions::new().max_connections(max_connections).acquire_timeout(PATIENCE);
                Ok(Self::Postgres(pool.connect_with(options).await?))
            }
            _ => Err(ControlError::Address("it must begin with sqlite: or postgres://")),
        }
    }

    async fn connect_sqlite(url: &str, max_connections: u32) -> Result<Self, ControlError> {
        let path = url.trim_start_matches("sqlite:").trim_start_matches('/');
        if path.is_empty() {
            return Err(ControlError::Address("sqlite: must be followed by the path of a file"));
        }
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .foreign_keys(true)
            .busy_timeout(WRITER_PATIENCE);
        let pool = SqlitePoolOptions::new().acquire_timeout(PATIENCE);
        let pool = if path == ":memory:" {
            // A database in memory belongs to its connection: one, and never closed.
            let pool = pool.max_connections(1).idle_timeout(None).max_lifetime(None);
            pool.connect_with(options).await?
        } else {
            // A revoked key must stay revoked after a power cut, so every commit is synced.
            let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
            pool.max_connections(max_connections.min(4)).connect_with(options).await?
        };
        Ok(Self::Sqlite(pool))
    }

    /// The word for the sort of database.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    /// Opens one consistent view of everything committed so far.
    pub(crate) async fn read(&self) -> Result<Transaction, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(pool) => Backend::Sqlite(pool.begin().await?),
            Self::Postgres(pool) => {
                const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
                Backend::Postgres(pool.begin_with(BEGIN).await?)
            }
        })
    }

    /// Opens a transaction that writes. SQLite takes its write lock here, since a lock
    /// that is asked for later fails instead of waiting.
    pub(crate) async fn write(&self) -> Result<Transaction, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(pool) => Backend::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await?),
            Self::Postgres(pool) => {
                // Whoever has waited for a lock must then see what its holder has written.
                const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE";
                Backend::Postgres(pool.begin_with(BEGIN).await?)
            }
        })
    }

    /// One statement that needs no transaction around it.
    pub(crate) async fn optional<R: Row>(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<Option<R>, sqlx::Error> {
        let span = span(sql);
        on_backend!(self, pool => {
            let query = value::query_as(sql, args);
            query.fetch_optional(pool).instrument(span).await
        })
    }

    pub(crate) async fn close(&self) {
        on_backend!(self, pool => pool.close().await);
    }
}

impl Transaction {
    pub(crate) async fn optional<R: Row>(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<Option<R>, sqlx::Error> {
        let span = span(sql);
        on_backend!(self, tx => {
            let query = value::query_as(sql, args);
            query.fetch_optional(&mut **tx).instrument(span).await
        })
    }

    pub(crate) async fn one<R: Row>(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<R, sqlx::Error> {
        self.optional(sql, args).await?.ok_or(sqlx::Error::RowNotFound)
    }

    pub(crate) async fn all<R: Row>(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<Vec<R>, sqlx::Error> {
        let span = span(sql);
        on_backend!(self, tx => {
            let query = value::query_as(sql, args);
            query.fetch_all(&mut **tx).instrument(span).await
        })
    }

    /// Runs a statement and returns how many rows it touched.
    pub(crate) async fn execute(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, sqlx::Error> {
        let span = span(sql);
        on_backend!(self, tx => {
            let query = value::query(sql, args);
            Ok(query.execute(&mut **tx).instrument(span).await?.rows_affected())
        })
    }

    pub(crate) async fn commit(self) -> Result<(), sqlx::Error> {
        on_backend!(self, tx => tx.commit().await)
    }
}

/// Holds the text of the statement, which never has a value in it.
fn span(sql: &'static str) -> tracing::Span {
    tracing::debug_span!("db.query", db.query.text = sql)
}
