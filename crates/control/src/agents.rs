//! Agents: who calls, inside a tenant.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::audit::Record;
use crate::change::Change;
use crate::control::Control;
use crate::db::{Arg, Transaction, args, filled_up, places, text_column};
use crate::error::ControlError;
use crate::ids::{AgentId, TenantId};
use crate::json::JsonText;
use crate::page::{Page, PageRequest};
use crate::policy::Revision;
use crate::status::Status;
use crate::tenants::{self, Tenant, TenantRef};
use crate::text;

/// An agent: the owner of API keys, or the subject of tokens, inside a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow, ToSchema)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// The tenant it belongs to.
    pub tenant_id: TenantId,
    /// Its name: unique in the tenant, never changes. For the subject of a token, what
    /// the token calls it.
    pub name: String,
    /// Whether its calls are served.
    pub status: Status,
    /// How it came into being.
    pub origin: Origin,
    /// When it was created, in epoch milliseconds.
    pub created_at: i64,
    /// When it was last seen calling, in epoch milliseconds, as far as already written.
    pub last_seen_at: Option<i64>,
    /// The revision of its last change; [`Revision::START`] when nobody has changed it
    /// since first sight.
    pub revision: Revision,
}

/// How an agent came into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// An operator created it.
    Created,
    /// It presented a valid token.
    FirstSight,
}

text_column!(Origin, text => match text {
    "created" => Ok(Self::Created),
    "first_sight" => Ok(Self::FirstSight),
    other => Err(format!("unknown origin {other:?}").into()),
});

/// How a use case is told which agent of a tenant is meant. A text that reads as an id
/// is one; agents cannot be given such names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentRef {
    /// By id.
    Id(AgentId),
    /// By name.
    Name(String),
}

impl From<&str> for AgentRef {
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

impl From<AgentId> for AgentRef {
    fn from(id: AgentId) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for AgentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// An agent was seen calling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// Its name.
    pub agent: String,
    /// When, in epoch milliseconds.
    pub at: i64,
}

/// What became of a batch of [`Sighting`]s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SightingReport {
    /// Agents that were known.
    pub known: u64,
    /// Agents that came into being.
    pub created: u64,
    /// Sightings that were dropped: the tenant has as many agents as it may, or is gone,
    /// or the name cannot be an agent's.
    pub dropped: u64,
    /// The tenants that have as many agents as they may, of those that were looked at.
    pub full: Vec<TenantId>,
}

macro_rules! select_agents {
    ($tail:literal) => {
        concat!(
            "SELECT id, tenant_id, name, status, origin, created_at, last_seen_at, revision
             FROM agents ",
            $tail
        )
    };
}

const BY_ID: &str = select_agents!("WHERE tenant_id = $1 AND id = $2");

const BY_NAME: &str = select_agents!("WHERE tenant_id = $1 AND name = $2");

/// How many agents are asked for at once.
const AT_ONCE: usize = 50;

static NAMES: LazyLock<String> =
    LazyLock::new(|| format!("SELECT id, name FROM agents WHERE tenant_id = $1 AND id IN ({})", places(2, AT_ONCE)));

const LIST: &str = select_agents!("WHERE tenant_id = $1 AND name > $2 ORDER BY name LIMIT $3");

const INSERT: &str = "INSERT INTO agents (id, tenant_id, name, status, origin, created_at, revision)
     VALUES ($1, $2, $3, 'active', 'created', $4, $5)";

const SET_STATUS: &str = "UPDATE agents SET status = $2, revision = $3 WHERE id = $1";

const SEE: &str = "UPDATE agents
     SET last_seen_at = CASE WHEN last_seen_at > $3 THEN last_seen_at ELSE $3 END
     WHERE tenant_id = $1 AND name = $2";

const LOCK_TENANT: &str = "UPDATE tenants SET id = id WHERE id = $1";

const COUNT: &str = "SELECT COUNT(*) FROM agents WHERE tenant_id = $1";

const INSERT_SEEN: &str = "INSERT INTO agents (id, tenant_id, name, status, origin, created_at,
         last_seen_at, revision)
     VALUES ($1, $2, $3, 'active', 'first_sight', $4, $4, 0)
     ON CONFLICT (tenant_id, name) DO UPDATE SET last_seen_at = excluded.last_seen_at";

/// Use cases on agents.
#[derive(Clone, Copy)]
pub struct Agents<'a> {
    pub(crate) control: &'a Control,
}

impl Agents<'_> {
    /// Whether an agent can have this name: 1 to 256 bytes in one line, and not in the
    /// form of an id.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        check_name(name).is_ok()
    }

    /// Creates an agent.
    ///
    /// # Errors
    /// `NotFound` for the tenant, `Invalid` for a bad name, `Conflict` when the tenant
    /// has an agent of that name.
    pub async fn create(self, actor: &Actor, tenant: &TenantRef, name: &str) -> Result<Agent, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let tenant = tenants::visible(&mut change.tx, actor, tenant).await?;
        let agent = create(&mut change, &tenant, name).await?;
        change.commit().await?;
        Ok(agent)
    }

    /// One agent.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the agent.
    pub async fn get(self, actor: &Actor, tenant: &TenantRef, agent: &AgentRef) -> Result<Agent, ControlError> {
        actor.require(Role::Viewer)?;
        Ok(visible(&mut self.control.read().await?, actor, tenant, agent).await?.1)
    }

    /// The agents of a tenant, by name.
    ///
    /// # Errors
    /// `NotFound` for the tenant, `Invalid` for a bad page.
    pub async fn list(
        self,
        actor: &Actor,
        tenant: &TenantRef,
        page: &PageRequest,
    ) -> Result<Page<Agent>, ControlError> {
        actor.require(Role::Viewer)?;
        let [after] = page.key()?;
        let mut tx = self.control.read().await?;
        let tenant = tenants::visible(&mut tx, actor, tenant).await?;
        let rows = tx.all(LIST, args![tenant.id, &after, page.rows()]).await?;
        Ok(Page::new(rows, page, |agent: &Agent| vec![agent.name.clone()]))
    }

    /// The names of some agents of a tenant, by id. One that is not the tenant's has none.
    ///
    /// # Errors
    /// `NotFound` for the tenant.
    pub async fn names(
        self,
        actor: &Actor,
        tenant: &TenantRef,
        agents: &[AgentId],
    ) -> Result<BTreeMap<AgentId, String>, ControlError> {
        actor.require(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        let tenant = tenants::visible(&mut tx, actor, tenant).await?;
        let mut names = BTreeMap::new();
        for some in agents.chunks(AT_ONCE) {
            let mut values = args![tenant.id].to_vec();
            values.extend(filled_up(some, AT_ONCE).map(Arg::from));
            names.extend(tx.all::<(AgentId, String)>(&NAMES, &values).await?);
        }
        Ok(names)
    }

    /// Refuses all calls of the agent from now on.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the agent.
    pub async fn suspend(self, actor: &Actor, tenant: &TenantRef, agent: &AgentRef) -> Result<Agent, ControlError> {
        self.set_status(actor, tenant, agent, "agent.suspend", Status::Suspended).await
    }

    /// Serves the agent again.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the agent.
    pub async fn resume(self, actor: &Actor, tenant: &TenantRef, agent: &AgentRef) -> Result<Agent, ControlError> {
        self.set_status(actor, tenant, agent, "agent.resume", Status::Active).await
    }

    async fn set_status(
        self,
        actor: &Actor,
        tenant: &TenantRef,
        agent: &AgentRef,
        action: &'static str,
        status: Status,
    ) -> Result<Agent, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let (tenant, before) = visible(&mut change.tx, actor, tenant, agent).await?;
        let after = set_status(&mut change, &tenant, before, action, status).await?;
        change.finish().await?;
        Ok(after)
    }

    /// Writes which agents were seen, and lets the unknown ones come into being, up to
    /// [`max_agents_per_tenant`](crate::Options::max_agents_per_tenant) of one tenant.
    ///
    /// This is bookkeeping and no change of the policy: no revision, no audit entry. A
    /// caller collects sightings and writes them every few seconds.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn record_sightings(self, actor: &Actor, sightings: &[Sighting]) -> Result<SightingReport, ControlError> {
        actor.require_global(Role::Operator)?;
        let mut report = SightingReport::default();
        // Each agent once and in order, so that two instances cannot wait for each other.
        let mut latest = BTreeMap::new();
        for Sighting { tenant, agent, at } in sightings {
            let seen = latest.entry((*tenant, agent.as_str())).or_insert(*at);
            *seen = (*seen).max(*at);
        }
        let mut unknown = BTreeMap::<TenantId, Vec<(&str, i64)>>::new();
        let mut tx = self.control.db().write().await?;
        for ((tenant, agent), at) in latest {
            if tx.execute(SEE, args![tenant, agent, at]).await? > 0 {
                report.known += 1;
            } else if check_name(agent).is_ok() {
                unknown.entry(tenant).or_default().push((agent, at));
            } else {
                report.dropped += 1;
            }
        }
        tx.commit().await?;
        for (tenant, agents) in unknown {
            let created = self.create_seen(tenant, &agents).await?;
            report.created += created;
            let dropped = agents.len() as u64 - created;
            report.dropped += dropped;
            if dropped > 0 {
                report.full.push(tenant);
            }
        }
        Ok(report)
    }

    /// Lets as many of these agents come into being as the tenant may still have.
    async fn create_seen(self, tenant: TenantId, agents: &[(&str, i64)]) -> Result<u64, ControlError> {
        let cap = i64::from(self.control.options().max_agents_per_tenant);
        let mut tx = self.control.db().write().await?;
        if tx.execute(LOCK_TENANT, args![tenant]).await? == 0 {
            return Ok(0);
        }
        let (count,): (i64,) = tx.one(COUNT, args![tenant]).await?;
        let room = usize::try_from(cap - count).unwrap_or(0).min(agents.len());
        for (name, at) in &agents[..room] {
            tx.execute(INSERT_SEEN, args![AgentId::generate(*at), tenant, *name, *at]).await?;
        }
        tx.commit().await?;
        Ok(room as u64)
    }
}

/// Creates an agent in a change of somebody who may.
pub(crate) async fn create(change: &mut Change<'_>, tenant: &Tenant, name: &str) -> Result<Agent, ControlError> {
    check_name(name)?;
    if change.tx.optional::<Agent>(BY_NAME, args![tenant.id, name]).await?.is_some() {
        let slug = &tenant.slug;
        return Err(ControlError::Conflict(format!(
            "tenant {slug:?} already has an agent {name:?}: choose another name"
        )));
    }
    let agent = Agent {
        id: AgentId::generate(change.now),
        tenant_id: tenant.id,
        name: name.to_owned(),
        status: Status::Active,
        origin: Origin::Created,
        created_at: change.now,
        last_seen_at: None,
        revision: change.revision,
    };
    let values = args![agent.id, tenant.id, name, agent.created_at, agent.revision];
    change.execute(INSERT, values).await?;
    change
        .record(Record {
            action: "agent.create",
            target: title(tenant, &agent),
            tenant_id: Some(tenant.id),
            before: None,
            after: Some(JsonText::of(&agent)),
        })
        .await?;
    Ok(agent)
}

/// Gives an agent another status, in a change of somebody who may.
pub(crate) async fn set_status(
    change: &mut Change<'_>,
    tenant: &Tenant,
    before: Agent,
    action: &'static str,
    status: Status,
) -> Result<Agent, ControlError> {
    if before.status == status {
        return Ok(before);
    }
    let after = Agent { status, revision: change.revision, ..before.clone() };
    change.execute(SET_STATUS, args![after.id, status, after.revision]).await?;
    change
        .record(Record {
            action,
            target: title(tenant, &after),
            tenant_id: Some(tenant.id),
            before: Some(JsonText::of(&before)),
            after: Some(JsonText::of(&after)),
        })
        .await?;
    Ok(after)
}

/// Reads an agent with its tenant; to an actor that is confined to another tenant
/// neither exists.
pub(crate) async fn visible(
    tx: &mut Transaction,
    actor: &Actor,
    tenant: &TenantRef,
    agent: &AgentRef,
) -> Result<(Tenant, Agent), ControlError> {
    let tenant = tenants::visible(tx, actor, tenant).await?;
    let found: Option<Agent> = match agent {
        AgentRef::Id(id) => tx.optional(BY_ID, args![tenant.id, *id]).await?,
        AgentRef::Name(name) => tx.optional(BY_NAME, args![tenant.id, name]).await?,
    };
    let found = found.ok_or_else(|| ControlError::not_found("agent", &agent))?;
    Ok((tenant, found))
}

/// How the audit log calls an agent.
pub(crate) fn title(tenant: &Tenant, agent: &Agent) -> String {
    format!("agent {}/{}", tenant.slug, agent.name)
}

fn check_name(name: &str) -> Result<(), ControlError> {
    text::name("name", name)?;
    if name.parse::<AgentId>().is_ok() {
        let message = format!("an agent cannot be called {name:?}: that is the form of an id");
        return Err(ControlError::invalid("name", name, &message));
    }
    Ok(())
}
