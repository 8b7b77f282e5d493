//! Bringing the schema up to date.
//!
//! The migrations of both databases are part of the program. Their contract, and what
//! may change in them, is in `migrations/README.md`.

use std::collections::BTreeSet;

use sqlx::migrate::{Migrate, MigrateError, Migrator};

use crate::db::{Backend, Db, on_backend};
use crate::error::ControlError;

static SQLITE: Migrator = old_programs_run_on_newer_schemas(sqlx::migrate!("migrations/sqlite"));
static POSTGRES: Migrator = old_programs_run_on_newer_schemas(sqlx::migrate!("migrations/postgres"));

/// A migration that this program does not know is no error: during an upgrade, and
/// after a rollback, old programs run on the schema of newer ones.
const fn old_programs_run_on_newer_schemas(mut migrator: Migrator) -> Migrator {
    migrator.ignore_missing = true;
    migrator
}

/// How far the schema is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationStatus {
    /// Versions that are in the database, newer ones than this program knows included.
    pub applied: Vec<i64>,
    /// Versions that this program knows and the database lacks, with their names.
    pub pending: Vec<(i64, String)>,
}

impl Db {
    const fn migrator(&self) -> &'static Migrator {
        match self {
            Self::Sqlite(_) => &SQLITE,
            Self::Postgres(_) => &POSTGRES,
        }
    }

    pub(crate) async fn migrate(&self) -> Result<(), ControlError> {
        match self {
            Self::Sqlite(pool) => {
                // sqlx takes no lock on SQLite, so two programs would apply the same
                // migration; the write lock around all of them makes the second wait.
                let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
                self.migrator().run_direct(None, &mut *tx, false).await?;
                tx.commit().await?;
            }
            Self::Postgres(pool) => {
                // The advisory lock belongs to the connection and a failed migration
                // leaves it locked, so this connection does not go back to the pool.
                let mut connection = pool.acquire().await?.detach();
                self.migrator().run_direct(None, &mut connection, false).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn migration_status(&self) -> Result<MigrationStatus, ControlError> {
        let migrator = self.migrator();
        let listed = on_backend!(self, pool => {
            pool.acquire().await?.list_applied_migrations(&migrator.table_name).await
        });
        let applied = match listed {
            Ok(applied) => applied.into_iter().map(|migration| migration.version).collect(),
            Err(MigrateError::Execute(sqlx::Error::Database(error))) if no_such_table(&*error) => BTreeSet::new(),
            Err(error) => return Err(error.into()),
        };
        let pending = migrator
            .iter()
            .filter(|migration| !applied.contains(&migration.version))
            .map(|migration| (migration.version, migration.description.to_string()))
            .collect();
        Ok(MigrationStatus { applied: applied.into_iter().collect(), pending })
    }
}

/// The table of applied migrations comes with the first of them.
fn no_such_table(error: &dyn sqlx::error::DatabaseError) -> bool {
    error.code().as_deref() == Some("42P01") || error.message().starts_with("no such table")
}
