//! A change of the control plane: one transaction that bumps the revision, writes the
//! audit log and tells every instance.

use crate::actor::Actor;
use crate::audit::{self, ChainHead, Record};
use crate::control::Control;
use crate::db::{Arg, Backend, Transaction, args};
use crate::error::ControlError;
use crate::policy::Revision;

/// The channel of Postgres on which a committed revision is announced.
pub(crate) const CHANNEL: &str = "sluicegate_policy";

const BUMP: &str = "UPDATE control_state SET revision = revision + 1 WHERE id = 1
     RETURNING revision, audit_seq, audit_hash";

const MOVE_CHAIN_HEAD: &str = "UPDATE control_state SET audit_seq = $1, audit_hash = $2 WHERE id = 1";

const BURY: &str = "INSERT INTO tombstones (kind, id, revision) VALUES ($1, $2, $3)
     ON CONFLICT (kind, id) DO UPDATE SET revision = excluded.revision";

/// An open change. Dropping it undoes everything, the revision included.
///
/// Its first statement updates the one row of `control_state` and so holds that row
/// until the end: changes happen one after the other, on both databases. That makes
/// checks before a write dependable, keeps the audit chain single, and lets revisions
/// become visible in their order, which the change feed relies on.
pub(crate) struct Change<'a> {
    control: &'a Control,
    actor: &'a Actor,
    pub(crate) tx: Transaction,
    /// The revision that the changed rows carry.
    pub(crate) revision: Revision,
    /// The time of the change.
    pub(crate) now: i64,
    head: ChainHead,
    /// What was recorded so far.
    steps: Vec<Record>,
}

/// What everything that can be changed carries.
#[derive(serde::Deserialize)]
struct Revised {
    revision: i64,
}

#[derive(sqlx::FromRow)]
struct State {
    revision: Revision,
    audit_seq: i64,
    audit_hash: String,
}

impl<'a> Change<'a> {
    pub(crate) async fn begin(control: &'a Control, actor: &'a Actor) -> Result<Self, ControlError> {
        let mut tx = control.db().write().await?;
        let State { revision, audit_seq, audit_hash } = tx.one(BUMP, args![]).await?;
        let head = ChainHead { seq: audit_seq, hash: audit_hash };
        Ok(Self { control, actor, tx, revision, now: control.now_ms(), head, steps: Vec::new() })
    }

    pub(crate) const fn actor(&self) -> &'a Actor {
        self.actor
    }

    pub(crate) async fn execute(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, sqlx::Error> {
        self.tx.execute(sql, args).await
    }

    /// Appends to the audit log. Every change records at least one entry.
    pub(crate) async fn record(&mut self, record: Record) -> Result<(), ControlError> {
        self.head = audit::append(&mut self.tx, self.actor, self.now, &self.head, &record).await?;
        self.steps.push(record);
        Ok(())
    }

    /// What was recorded so far.
    pub(crate) fn steps(&self) -> &[Record] {
        &self.steps
    }

    /// Commits, if anything was recorded; a change that changes nothing leaves no trace.
    pub(crate) async fn finish(self) -> Result<(), ControlError> {
        if self.steps.is_empty() { Ok(()) } else { self.commit().await }
    }

    /// Leaves a tombstone, for instances that load only what changed.
    pub(crate) async fn bury(&mut self, kind: &str, id: String) -> Result<(), ControlError> {
        self.execute(BURY, args![kind, id, self.revision]).await?;
        Ok(())
    }

    /// Refuses a change whose actor has seen something older than what it changes.
    fn check_expected(&self) -> Result<(), ControlError> {
        let Some(expected) = self.actor.expected() else { return Ok(()) };
        let revision = |record: &Record| {
            let before = record.before.as_ref()?;
            serde_json::from_str::<Revised>(before.as_str()).ok().map(|before| before.revision)
        };
        if self.steps.iter().any(|step| revision(step) == Some(expected.get())) {
            return Ok(());
        }
        // The last step is what was asked for; those before it made room.
        let (target, present) =
            self.steps.last().map(|step| (step.target.clone(), step.before.clone())).unwrap_or_default();
        Err(ControlError::Stale { target, present })
    }

    pub(crate) async fn commit(mut self) -> Result<(), ControlError> {
        self.check_expected()?;
        let ChainHead { seq, hash } = &self.head;
        self.tx.execute(MOVE_CHAIN_HEAD, args![*seq, hash]).await?;
        if let Backend::Postgres(_) = self.tx {
            let revision = self.revision.get().to_string();
            self.tx.execute("SELECT pg_notify($1, $2)", args![CHANNEL, revision]).await?;
        }
        self.tx.commit().await?;
        self.control.committed().send_replace(self.revision);
        Ok(())
    }
}
