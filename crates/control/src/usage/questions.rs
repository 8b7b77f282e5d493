//! Totals, charts, and rows of agents, tenants and tools.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::agents::{self, AgentRef};
use crate::db::{Transaction, args};
use crate::error::ControlError;
use crate::ids::{AgentId, TenantId};
use crate::tenants::{self, TenantRef};
use crate::usage::counts::Counts;
use crate::usage::range::{Grain, UsageRange};
use crate::usage::{EVERYBODY, PerGrain, Usage, sums};

/// Whose calls are asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageScope {
    /// Of one tenant; of everybody when absent (a confined actor gets its tenant's).
    pub tenant: Option<TenantRef>,
    /// Of one of its agents. Needs `tenant`.
    pub agent: Option<AgentRef>,
    /// Of one tool.
    pub tool: Option<String>,
}

/// Who called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub struct AgentLabel {
    /// The tenant; none for callers that nobody identified.
    pub tenant: Option<TenantId>,
    /// Its slug; none when it is deleted.
    pub tenant_slug: Option<String>,
    /// The agent; none for callers that nobody identified, and those beyond the cap of what is counted apart.
    pub agent: Option<AgentId>,
    /// Its name; none when it is deleted.
    pub agent_name: Option<String>,
}

/// What a range saw, beside the one before it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Totals {
    /// The range.
    pub range: UsageRange,
    /// Calls of tools in it.
    pub current: Counts,
    /// Calls of tools in the range of the same length before it.
    pub previous: Counts,
    /// Requests in the range that call no known tool, such as `tools/list`. Not part of `current`.
    pub other_requests: Counts,
}

/// One bucket of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct UsagePoint {
    /// When it begins, in epoch milliseconds.
    pub at: i64,
    /// What it saw; nothing where nothing was called.
    #[serde(flatten)]
    pub counts: Counts,
}

/// What a range saw of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ToolUsage {
    /// The tool; none for requests that call no known tool.
    pub tool: Option<String>,
    /// Its calls.
    #[serde(flatten)]
    pub counts: Counts,
}

#[derive(sqlx::FromRow)]
struct ToolRow {
    tool: String,
    #[sqlx(flatten)]
    counts: Counts,
}

#[derive(sqlx::FromRow)]
struct BucketRow {
    bucket: i64,
    #[sqlx(flatten)]
    counts: Counts,
}

/// The rows of a scope in a range: `$1` to `$2`, tenant `$3`, in the rows of agents also agent `$4`.
fn rows_of(grain: Grain, of_agent: bool) -> String {
    let grain = grain.word();
    if of_agent {
        format!("FROM usage_{grain} u WHERE u.tenant_id = $3 AND u.agent_id = $4 AND u.bucket >= $1 AND u.bucket < $2")
    } else {
        format!(
            "FROM usage_sum_{grain} u WHERE u.tenant_id = $3 AND CAST($4 AS TEXT) IS NULL
             AND u.bucket >= $1 AND u.bucket < $2"
        )
    }
}

/// `$5` is the tool; all tools, but no other requests, when it is null.
const OF_TOOL: &str = "AND u.tool > '' AND (CAST($5 AS TEXT) IS NULL OR u.tool = $5)";

fn total(grain: Grain, of_agent: bool) -> String {
    format!("SELECT {} {} {OF_TOOL}", sums(), rows_of(grain, of_agent))
}

fn other_requests(grain: Grain, of_agent: bool) -> String {
    format!("SELECT {} {} AND u.tool = ''", sums(), rows_of(grain, of_agent))
}

fn series(grain: Grain, of_agent: bool) -> String {
    format!("SELECT u.bucket, {} {} {OF_TOOL} GROUP BY u.bucket", sums(), rows_of(grain, of_agent))
}

fn by_tool(grain: Grain, of_agent: bool) -> String {
    format!("SELECT u.tool, {} {} GROUP BY u.tool", sums(), rows_of(grain, of_agent))
}

static TOTAL: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| total(grain, false)));
static TOTAL_OF_AGENT: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| total(grain, true)));
static OTHERS: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| other_requests(grain, false)));
static OTHERS_OF_AGENT: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| other_requests(grain, true)));
static SERIES: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| series(grain, false)));
static SERIES_OF_AGENT: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| series(grain, true)));
static BY_TOOL: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| by_tool(grain, false)));
static BY_TOOL_OF_AGENT: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| by_tool(grain, true)));

/// A scope that exists and that the actor sees.
pub(super) struct Resolved {
    /// As it stands in the tables.
    pub(super) tenant: String,
    agent: Option<AgentId>,
    tool: Option<String>,
}

impl Resolved {
    pub(super) async fn of(tx: &mut Transaction, actor: &Actor, scope: &UsageScope) -> Result<Self, ControlError> {
        let (tenant, agent) = match (&scope.tenant, &scope.agent) {
            (Some(tenant), Some(agent)) => {
                let (tenant, agent) = agents::visible(tx, actor, tenant, agent).await?;
                (Some(tenant.id), Some(agent.id))
            }
            (Some(tenant), None) => (Some(tenants::visible(tx, actor, tenant).await?.id), None),
            (None, None) => (actor.confined_to(), None),
            (None, Some(agent)) => {
                return Err(ControlError::invalid("agent", agent, &"an agent is named together with its tenant"));
            }
        };
        let tenant = tenant.map_or_else(|| EVERYBODY.to_owned(), String::from);
        Ok(Self { tenant, agent, tool: scope.tool.clone() })
    }

    fn statement(&self, of_tenant: &'static PerGrain, of_agent: &'static PerGrain, grain: Grain) -> &'static str {
        let statements = if self.agent.is_some() { of_agent } else { of_tenant };
        &statements[grain.index()]
    }

    async fn total(&self, tx: &mut Transaction, range: UsageRange) -> Result<Counts, ControlError> {
        let statement = self.statement(&TOTAL, &TOTAL_OF_AGENT, range.rows());
        let values = args![range.from(), range.to(), &self.tenant, self.agent, self.tool.as_deref()];
        Ok(tx.one(statement, values).await?)
    }
}

impl Usage<'_> {
    /// What a range saw, beside the one before it.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the agent.
    pub async fn totals(self, actor: &Actor, scope: &UsageScope, range: UsageRange) -> Result<Totals, ControlError> {
        actor.require(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        let scope = Resolved::of(&mut tx, actor, scope).await?;
        let others = scope.statement(&OTHERS, &OTHERS_OF_AGENT, range.rows());
        let values = args![range.from(), range.to(), &scope.tenant, scope.agent];
        Ok(Totals {
            range,
            current: scope.total(&mut tx, range).await?,
            previous: scope.total(&mut tx, range.previous()).await?,
            other_requests: tx.one(others, values).await?,
        })
    }

    /// A chart: every bucket of the range, in order.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the agent.
    pub async fn series(
        self,
        actor: &Actor,
        scope: &UsageScope,
        range: UsageRange,
    ) -> Result<Vec<UsagePoint>, ControlError> {
        actor.require(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        let scope = Resolved::of(&mut tx, actor, scope).await?;
        let statement = scope.statement(&SERIES, &SERIES_OF_AGENT, range.grain());
        let values = args![range.from(), range.to(), &scope.tenant, scope.agent, scope.tool.as_deref()];
        let rows: Vec<BucketRow> = tx.all(statement, values).await?;
        let counted: BTreeMap<_, _> = rows.into_iter().map(|row| (row.bucket, row.counts)).collect();
        let point = |at| UsagePoint { at, counts: counted.get(&at).copied().unwrap_or_default() };
        Ok(range.buckets().map(point).collect())
    }

    /// What a range saw of each tool that was called, by name; `tool` of the scope is not looked at. Requests that call
    /// no known tool come first, as the tool without a name.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the agent.
    pub async fn by_tool(
        self,
        actor: &Actor,
        scope: &UsageScope,
        range: UsageRange,
    ) -> Result<Vec<ToolUsage>, ControlError> {
        actor.require(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        let scope = Resolved::of(&mut tx, actor, scope).await?;
        let statement = scope.statement(&BY_TOOL, &BY_TOOL_OF_AGENT, range.rows());
        let values = args![range.from(), range.to(), &scope.tenant, scope.agent];
        let mut rows: Vec<ToolRow> = tx.all(statement, values).await?;
        rows.sort_by(|one, other| one.tool.cmp(&other.tool));
        let named = |tool: String| Some(tool).filter(|tool| !tool.is_empty());
        Ok(rows.into_iter().map(|row| ToolUsage { tool: named(row.tool), counts: row.counts }).collect())
    }
}
