//! The policy in force, for those who enforce it: whole, or what changed in it.
//!
//! A reader keeps what it has loaded and asks for the changes since its revision. Each
//! answer is one consistent view of the database. Revisions are given out and become
//! visible in the same order, so nothing that was committed can be missed.

use serde::Serialize;
use utoipa::ToSchema;

use crate::control::Control;
use crate::db::{Arg, Db, Transaction, args};
use crate::error::ControlError;
use crate::ids::{AgentId, KeyId, LimitId, PlanId, TenantId};
use crate::limits::{LimitEntry, LimitRow, select_limits};
use crate::status::Status;
use crate::tenants::TenantSettings;
use crate::tools::{ALL_SWITCHES, SWITCHES_SINCE, ToolSwitch};

/// Counts the committed changes of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, sqlx::Type, ToSchema)]
#[serde(transparent)]
#[sqlx(transparent)]
#[schema(value_type = i64)]
pub struct Revision(i64);

impl Revision {
    /// Before the first change.
    pub const START: Self = Self(0);

    /// The number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl From<Revision> for Arg<'_> {
    fn from(revision: Revision) -> Self {
        revision.0.into()
    }
}

/// What a policy consists of, or what is different from an earlier revision.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyDelta {
    /// The revision that a reader has after taking this over. The next question is for
    /// the changes since then.
    pub revision: Revision,
    /// Whether this is everything: what a reader had before is void. It may come as the
    /// answer to a question for changes, when the database was restored to an earlier
    /// state.
    pub complete: bool,
    /// Tenants, new or changed.
    pub tenants: Vec<TenantPolicy>,
    /// Agents that have limits, that are or were suspended, or that were created. Others
    /// are served like any agent and need not be known.
    pub agents: Vec<AgentPolicy>,
    /// Plans, new or changed.
    pub plans: Vec<PlanPolicy>,
    /// Limits, new or changed; ended ones too, see [`LimitEntry::is_in_force`]. Of a
    /// target's two entries of one kind, the temporary one counts while it is in force.
    pub limits: Vec<LimitEntry>,
    /// Switches of tools, new or changed.
    pub tool_switches: Vec<ToolSwitch>,
    /// Keys whose cached [`Credential`](crate::Credential)s are stale. Those of changed
    /// tenants and agents are stale as well.
    pub credentials_changed: Vec<KeyId>,
    /// What is gone.
    pub deleted: Vec<Tombstone>,
}

/// What the policy says of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct TenantPolicy {
    /// The tenant.
    pub id: TenantId,
    /// Its slug.
    pub slug: String,
    /// Whether it is served.
    pub status: Status,
    /// The plan it is on.
    pub plan_id: Option<PlanId>,
    /// How it is served.
    pub settings: TenantSettings,
}

/// What the policy says of an agent.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct AgentPolicy {
    /// The agent.
    pub id: AgentId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its name.
    pub name: String,
    /// Whether it is served.
    pub status: Status,
}

/// What the policy says of a plan.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct PlanPolicy {
    /// The plan.
    pub id: PlanId,
    /// Its name.
    pub name: String,
}

/// Something that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tombstone {
    /// A tenant, with its agents, keys and limits.
    Tenant(TenantId),
    /// A plan, with its limits.
    Plan(PlanId),
    /// A limit.
    Limit(LimitId),
}

const REVISION: &str = "SELECT revision FROM control_state WHERE id = 1";

const ALL_TENANTS: &str = "SELECT id, slug, status, plan_id, settings FROM tenants";

const TENANTS_SINCE: &str = "SELECT id, slug, status, plan_id, settings FROM tenants WHERE revision > $1";

/// `UNION` names an agent once.
const ALL_AGENTS: &str = "SELECT id, tenant_id, name, status FROM agents WHERE status = 'suspended'
     UNION
     SELECT a.id, a.tenant_id, a.name, a.status
     FROM limits l JOIN agents a ON a.id = l.agent_id WHERE l.agent_id IS NOT NULL";

const AGENTS_SINCE: &str = "SELECT id, tenant_id, name, status FROM agents WHERE revision > $1
     UNION
     SELECT a.id, a.tenant_id, a.name, a.status
     FROM limits l JOIN agents a ON a.id = l.agent_id WHERE l.revision > $1";

const ALL_PLANS: &str = "SELECT id, name FROM plans";

const PLANS_SINCE: &str = "SELECT id, name FROM plans WHERE revision > $1";

const ALL_LIMITS: &str = select_limits!("");

const LIMITS_SINCE: &str = select_limits!("WHERE revision > $1");

const KEYS_SINCE: &str = "SELECT id FROM api_keys WHERE revision > $1";

const TOMBSTONES_SINCE: &str = "SELECT kind, id FROM tombstones WHERE revision > $1";

/// The policy of a database. Its readers are parts of the server, so there is no actor.
#[derive(Clone, Copy)]
pub struct Policy<'a> {
    pub(crate) control: &'a Control,
}

impl Policy<'_> {
    /// The revision of the latest change.
    ///
    /// # Errors
    /// `Database`.
    pub async fn revision(self) -> Result<Revision, ControlError> {
        current_revision(self.control.db()).await
    }

    /// Everything.
    ///
    /// # Errors
    /// `Database`.
    pub async fn load_all(self) -> Result<PolicyDelta, ControlError> {
        let mut tx = self.control.read().await?;
        let (revision,) = tx.one(REVISION, args![]).await?;
        load_all(&mut tx, revision).await
    }

    /// What changed after a revision. Costs what changed, not what there is.
    ///
    /// # Errors
    /// `Database`.
    pub async fn changes_since(self, since: Revision) -> Result<PolicyDelta, ControlError> {
        let mut tx = self.control.read().await?;
        let (revision,) = tx.one(REVISION, args![]).await?;
        if revision < since {
            return load_all(&mut tx, revision).await;
        }
        Ok(PolicyDelta {
            revision,
            complete: false,
            tenants: tx.all(TENANTS_SINCE, args![since]).await?,
            agents: tx.all(AGENTS_SINCE, args![since]).await?,
            plans: tx.all(PLANS_SINCE, args![since]).await?,
            limits: entries(tx.all(LIMITS_SINCE, args![since]).await?)?,
            tool_switches: tx.all(SWITCHES_SINCE, args![since]).await?,
            credentials_changed: tx.all(KEYS_SINCE, args![since]).await?.into_iter().map(|(key,)| key).collect(),
            deleted: tx
                .all::<(String, String)>(TOMBSTONES_SINCE, args![since])
                .await?
                .into_iter()
                .map(|(kind, id)| tombstone(&kind, &id))
                .collect::<Result<_, _>>()?,
        })
    }
}

async fn load_all(tx: &mut Transaction, revision: Revision) -> Result<PolicyDelta, ControlError> {
    Ok(PolicyDelta {
        revision,
        complete: true,
        tenants: tx.all(ALL_TENANTS, args![]).await?,
        agents: tx.all(ALL_AGENTS, args![]).await?,
        plans: tx.all(ALL_PLANS, args![]).await?,
        limits: entries(tx.all(ALL_LIMITS, args![]).await?)?,
        tool_switches: tx.all(ALL_SWITCHES, args![]).await?,
        credentials_changed: Vec::new(),
        deleted: Vec::new(),
    })
}

pub(crate) async fn current_revision(db: &Db) -> Result<Revision, ControlError> {
    let row: Option<(Revision,)> = db.optional(REVISION, args![]).await?;
    Ok(row.map_or(Revision::START, |(revision,)| revision))
}

fn entries(rows: Vec<LimitRow>) -> Result<Vec<LimitEntry>, ControlError> {
    rows.into_iter().map(LimitEntry::try_from).collect()
}

fn tombstone(kind: &str, id: &str) -> Result<Tombstone, sqlx::Error> {
    let parsed = match kind {
        "tenant" => id.parse().map(Tombstone::Tenant),
        "plan" => id.parse().map(Tombstone::Plan),
        _ => id.parse().map(Tombstone::Limit),
    };
    parsed.map_err(|error| sqlx::Error::Decode(error.into()))
}
