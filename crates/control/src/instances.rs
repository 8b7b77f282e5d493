//! The servers that run on the database.

use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::control::Control;
use crate::db::args;
use crate::error::ControlError;
use crate::policy::Revision;

/// A server that runs on the database, as it has last said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow, ToSchema)]
pub struct Instance {
    /// Its id, another one each time it starts.
    pub id: String,
    /// The address that it listens on, as far as it knows.
    pub address: String,
    /// Its version.
    pub version: String,
    /// The revision of the policy that it enforces.
    pub revision: Revision,
    /// Whether it is being stopped.
    pub draining: bool,
    /// When it started, in epoch milliseconds.
    pub started_at: i64,
    /// When it said so, in epoch milliseconds. What is written is the time of writing.
    pub seen_at: i64,
}

const BEAT: &str = "INSERT INTO instances (id, address, version, revision, draining, started_at, seen_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, draining = excluded.draining,
         seen_at = excluded.seen_at";

const FORGET: &str = "DELETE FROM instances WHERE seen_at < $1";

const LEAVE: &str = "DELETE FROM instances WHERE id = $1";

const LIST: &str = "SELECT id, address, version, revision, draining, started_at, seen_at FROM instances
     WHERE seen_at >= $1 ORDER BY seen_at DESC LIMIT 200";

/// After so many milliseconds without a word a server is not listed any more.
const SILENT_MS: i64 = 60_000;

/// Use cases on servers.
#[derive(Clone, Copy)]
pub struct Instances<'a> {
    pub(crate) control: &'a Control,
}

impl Instances<'_> {
    /// Says that a server runs, and how it is. Every few seconds.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn beat(self, actor: &Actor, instance: &Instance) -> Result<(), ControlError> {
        actor.require_global(Role::Operator)?;
        let now = self.control.now_ms();
        let values = args![
            &instance.id,
            &instance.address,
            &instance.version,
            instance.revision,
            instance.draining,
            instance.started_at,
            now,
        ];
        let mut tx = self.control.db().write().await?;
        tx.execute(BEAT, values).await?;
        tx.execute(FORGET, args![now - SILENT_MS]).await?;
        Ok(tx.commit().await?)
    }

    /// Says that a server has stopped.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn leave(self, actor: &Actor, id: &str) -> Result<(), ControlError> {
        actor.require_global(Role::Operator)?;
        let mut tx = self.control.db().write().await?;
        tx.execute(LEAVE, args![id]).await?;
        Ok(tx.commit().await?)
    }

    /// The servers that have spoken within the last minute, the latest first.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn list(self, actor: &Actor) -> Result<Vec<Instance>, ControlError> {
        actor.require_global(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        Ok(tx.all(LIST, args![self.control.now_ms() - SILENT_MS]).await?)
    }
}
