//! Events: what was refused lately, one by one, and what changed its state.
//!
//! [Usage](crate::Usage) counts every refusal; events are samples of them, with the id of
//! the request, for whoever wants to know more than a number. They are kept by time and
//! number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::agents::{self, AgentRef};
use crate::control::Control;
use crate::db::{args, text_column};
use crate::error::ControlError;
use crate::ids::{AgentId, EventId, TenantId};
use crate::page::{Page, PageRequest};
use crate::tenants::{self, TenantRef};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow, ToSchema)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// When, in epoch milliseconds.
    pub at: i64,
    /// What sort it is.
    pub kind: EventKind,
    /// The tenant it is about.
    pub tenant_id: Option<TenantId>,
    /// Its slug; none when it is deleted.
    pub tenant_slug: Option<String>,
    /// The agent it is about.
    pub agent_id: Option<AgentId>,
    /// Its name; none when it is deleted.
    pub agent_name: Option<String>,
    /// The tool that was called.
    pub tool: Option<String>,
    /// The scope of the limit that refused: `server`, `tenant`, `agent` or `tool`.
    pub scope: Option<String>,
    /// Why, in one word: `rate_limit_exceeded`, `suspended`, `engine_degraded`.
    pub reason: String,
    /// The same for people, such as the text of the limit.
    pub detail: String,
    /// The wait that was advertised.
    pub retry_after_ms: Option<i64>,
    /// The id of the request.
    pub request_id: Option<String>,
    /// How many of its kind it stands for, itself included: more than 1 when one agent floods.
    pub count: i64,
}

/// The sorts of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A limit refused a request.
    Throttled,
    /// A request was refused for another reason.
    Denied,
    /// A part of the server changed its state.
    State,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Throttled, Self::Denied, Self::State];

    /// The word, as it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Denied => "denied",
            Self::State => "state",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EventKind {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Self, ControlError> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let message = format!("kind {text:?} is none of throttled, denied and state");
            ControlError::invalid("kind", text, &message)
        })
    }
}

text_column!(EventKind);

/// An event that has just happened.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// When, in epoch milliseconds.
    pub at: i64,
    /// What sort it is.
    pub kind: EventKind,
    /// The tenant it is about.
    pub tenant: Option<TenantId>,
    /// The agent it is about.
    pub agent: Option<AgentId>,
    /// The tool that was called.
    pub tool: Option<String>,
    /// The scope of the limit that refused.
    pub scope: Option<String>,
    /// Why, in one word.
    pub reason: String,
    /// The same for people.
    pub detail: String,
    /// The wait that was advertised, in milliseconds.
    pub retry_after_ms: Option<i64>,
    /// The id of the request.
    pub request_id: Option<String>,
    /// How many of its kind it stands for, itself included.
    pub count: i64,
}

/// Which events a list holds.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only those about this tenant.
    pub tenant: Option<TenantRef>,
    /// Only those about this agent of it. Needs `tenant`.
    pub agent: Option<AgentRef>,
    /// Only those about this tool.
    pub tool: Option<String>,
    /// Only those of this sort.
    pub kind: Option<EventKind>,
    /// Only those with this reason.
    pub reason: Option<String>,
    /// Only those of this request.
    pub request_id: Option<String>,
}

/// `$1` is an id, `$2` how many, `$3` to `$6` filters, `$7` the tenant and `$8` the agent.
macro_rules! select_events {
    ($of:literal, $side:literal, $order:literal) => {
        concat!(
            "SELECT e.id, e.at, e.kind, e.tenant_id, t.slug AS tenant_slug, e.agent_id, a.name AS agent_name, e.tool,
                    e.scope, e.reason, e.detail, e.retry_after_ms, e.request_id, e.count
             FROM events e
             LEFT JOIN tenants t ON t.id = e.tenant_id
             LEFT JOIN agents a ON a.id = e.agent_id
             WHERE e.id ",
            $side,
            " $1
               AND (CAST($3 AS TEXT) IS NULL OR e.tool = $3)
               AND (CAST($4 AS TEXT) IS NULL OR e.kind = $4)
               AND (CAST($5 AS TEXT) IS NULL OR e.reason = $5)
               AND (CAST($6 AS TEXT) IS NULL OR e.request_id = $6)
               AND ",
            $of,
            " ORDER BY e.id ",
            $order,
            " LIMIT $2"
        )
    };
}

/// Of everybody, of a tenant, of an agent: newest first.
const LIST: [&str; 3] = [
    select_events!("CAST($7 AS TEXT) IS NULL AND CAST($8 AS TEXT) IS NULL", "<", "DESC"),
    select_events!("e.tenant_id = $7 AND CAST($8 AS TEXT) IS NULL", "<", "DESC"),
    select_events!("e.tenant_id = $7 AND e.agent_id = $8", "<", "DESC"),
];

/// The same, oldest first.
const TAIL: [&str; 3] = [
    select_events!("CAST($7 AS TEXT) IS NULL AND CAST($8 AS TEXT) IS NULL", ">", "ASC"),
    select_events!("e.tenant_id = $7 AND CAST($8 AS TEXT) IS NULL", ">", "ASC"),
    select_events!("e.tenant_id = $7 AND e.agent_id = $8", ">", "ASC"),
];

const INSERT: &str = "INSERT INTO events (id, at, kind, tenant_id, agent_id, tool, scope, reason, detail,
         retry_after_ms, request_id, count)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const FORGET_OLD: &str = "DELETE FROM events WHERE at < $1";

/// The newest event that is one too many.
const FIRST_TOO_MANY: &str = "SELECT id FROM events WHERE id < $1 ORDER BY id DESC LIMIT 1 OFFSET $2";

const FORGET_FROM: &str = "DELETE FROM events WHERE id <= $1";

/// Sorts behind every id.
const BEHIND_ALL: &str = "evt_~";

/// Use cases on events.
#[derive(Clone, Copy)]
pub struct Events<'a> {
    pub(crate) control: &'a Control,
}

impl Events<'_> {
    /// Writes what has happened. Bookkeeping, and no change of the policy.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn record(self, actor: &Actor, events: &[NewEvent]) -> Result<(), ControlError> {
        actor.require_global(Role::Operator)?;
        let mut tx = self.control.db().write().await?;
        for event in events {
            let values = args![
                EventId::generate(event.at),
                event.at,
                event.kind.as_str(),
                event.tenant,
                event.agent,
                event.tool.as_deref(),
                event.scope.as_deref(),
                &event.reason,
                &event.detail,
                event.retry_after_ms,
                event.request_id.as_deref(),
                event.count,
            ];
            tx.execute(INSERT, values).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Events, newest first. A confined actor gets its tenant's.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the agent, `Invalid` for a bad page or an agent without its tenant.
    pub async fn list(
        self,
        actor: &Actor,
        filter: &EventFilter,
        page: &PageRequest,
    ) -> Result<Page<Event>, ControlError> {
        let [before] = page.key()?;
        let before = if before.is_empty() { BEHIND_ALL } else { &before };
        let rows = self.select(actor, filter, &LIST, before, page.rows()).await?;
        Ok(Page::new(rows, page, |event: &Event| vec![event.id.to_string()]))
    }

    /// What has happened after an event, oldest first: for a live tail. Without `after` the oldest that are kept.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the agent, `Invalid` for an agent without its tenant.
    pub async fn after(
        self,
        actor: &Actor,
        filter: &EventFilter,
        after: Option<EventId>,
        limit: u16,
    ) -> Result<Vec<Event>, ControlError> {
        let after = after.map(String::from).unwrap_or_default();
        self.select(actor, filter, &TAIL, &after, limit.min(PageRequest::MAX).into()).await
    }

    async fn select(
        self,
        actor: &Actor,
        filter: &EventFilter,
        statements: &[&'static str; 3],
        id: &str,
        rows: i64,
    ) -> Result<Vec<Event>, ControlError> {
        actor.require(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        let (tenant, agent) = match (&filter.tenant, &filter.agent) {
            (Some(tenant), Some(agent)) => {
                let (tenant, agent) = agents::visible(&mut tx, actor, tenant, agent).await?;
                (Some(tenant.id), Some(agent.id))
            }
            (Some(tenant), None) => (Some(tenants::visible(&mut tx, actor, tenant).await?.id), None),
            (None, None) => (actor.confined_to(), None),
            (None, Some(agent)) => {
                return Err(ControlError::invalid("agent", agent, &"an agent is named together with its tenant"));
            }
        };
        let statement = match (tenant, agent) {
            (None, _) => statements[0],
            (Some(_), None) => statements[1],
            (Some(_), Some(_)) => statements[2],
        };
        let kind = filter.kind.map(EventKind::as_str);
        let (tool, reason, request) = (filter.tool.as_deref(), filter.reason.as_deref(), filter.request_id.as_deref());
        Ok(tx.all(statement, args![id, rows, tool, kind, reason, request, tenant, agent]).await?)
    }

    /// Deletes what is older than `keep_ms`, and the oldest of what is more than `keep`.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn forget(self, actor: &Actor, keep_ms: i64, keep: u32) -> Result<u64, ControlError> {
        actor.require_global(Role::Operator)?;
        let mut tx = self.control.db().write().await?;
        let mut deleted = tx.execute(FORGET_OLD, args![self.control.now_ms().saturating_sub(keep_ms)]).await?;
        let too_many: Option<(EventId,)> = tx.optional(FIRST_TOO_MANY, args![BEHIND_ALL, i64::from(keep)]).await?;
        if let Some((first,)) = too_many {
            deleted += tx.execute(FORGET_FROM, args![first]).await?;
        }
        tx.commit().await?;
        Ok(deleted)
    }
}
