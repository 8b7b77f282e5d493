//! `throttle_by_tool`: who was refused what, as a matrix of agents and tools.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::db::{Arg, args};
use crate::error::ControlError;
use crate::ids::{AgentId, TenantId};
use crate::page::{Page, PageRequest};
use crate::tenants::TenantRef;
use crate::usage::questions::{AgentLabel, Resolved, UsageScope};
use crate::usage::range::{Grain, UsageRange};
use crate::usage::{EVERYBODY, PerGrain, Usage};

/// Which matrix is asked for.
#[derive(Clone, Debug)]
pub struct MatrixQuery {
    /// The time.
    pub range: UsageRange,
    /// Only this tenant's agents.
    pub tenant: Option<TenantRef>,
    /// Only this tool.
    pub tool: Option<String>,
    /// How many tools have a column: those with the most refusals.
    pub columns: usize,
}

impl MatrixQuery {
    /// Everybody and every tool, with up to 20 columns.
    pub const fn of(range: UsageRange) -> Self {
        Self { range, tenant: None, tool: None, columns: 20 }
    }
}

/// Refusals by limits, by agent and tool. Agents and tools that were refused nothing are left out.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ThrottleMatrix {
    /// The time.
    pub range: UsageRange,
    /// The tools that have a column, most refused first.
    pub tools: Vec<ToolColumn>,
    /// How many more tools were refused; their refusals are in the totals of the rows.
    pub more_tools: usize,
    /// One page of agents, most refused first.
    pub rows: Vec<MatrixRow>,
    /// All refusals and calls of everybody who was asked about, those on other pages included. `calls` are those of
    /// every tool, of the agents without refusals as well.
    pub total: ThrottleCell,
    /// Where the next page goes on.
    #[serde(serialize_with = "crate::page::as_text")]
    #[schema(value_type = Option<String>)]
    pub next: Option<crate::page::Cursor>,
}

/// One column: a tool with all that were refused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolColumn {
    /// The tool; none for requests that call no known tool.
    pub tool: Option<String>,
    /// Over all agents.
    pub total: ThrottleCell,
}

/// One row: an agent with what it was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct MatrixRow {
    /// The agent.
    pub caller: AgentLabel,
    /// One cell for each of [`ThrottleMatrix::tools`]; none where it did not call the tool.
    pub cells: Vec<Option<ThrottleCell>>,
    /// Over all tools, those without a column included.
    pub total: ThrottleCell,
}

/// Refusals among calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ThrottleCell {
    /// Calls that a limit refused.
    pub refusals: i64,
    /// All calls, the refused ones included.
    pub calls: i64,
}

impl ThrottleCell {
    /// The share of calls that were refused, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.refusals as f64 / self.calls as f64 }
    }

    const fn add(&mut self, other: Self) {
        self.refusals += other.refusals;
        self.calls += other.calls;
    }
}

/// Columns and totals: every tool of a tenant (or everybody) in a range.
static COLUMNS: PerGrain = LazyLock::new(|| {
    Grain::ALL.map(|grain| {
        format!(
            "SELECT u.tool, CAST(SUM(u.throttled) AS BIGINT) AS refusals, CAST(SUM(u.calls) AS BIGINT) AS calls
             FROM usage_sum_{} u
             WHERE u.tenant_id = $3 AND u.bucket >= $1 AND u.bucket < $2
               AND (CAST($4 AS TEXT) IS NULL OR u.tool = $4)
             GROUP BY u.tool",
            grain.word()
        )
    })
});

/// A page of agents by refusals, with what each called. `$3` to `$5` are where the page before it ended, `$6` is how
/// many agents there are on one, `$7` the tenant, `$8` the tool, if only one is asked about: its refusals are among the
/// rows of usage, those of all tools are added up already.
fn page(grain: Grain, of_tenant: bool, of_tool: bool) -> String {
    let grain = grain.word();
    let tenant = if of_tenant { "tenant_id = $7" } else { "CAST($7 AS TEXT) = '*'" };
    let (from, and_tool) = match of_tool {
        true => ("usage", "AND tool = $8 AND throttled > 0"),
        false => ("usage_throttled", ""),
    };
    let and_tool_of_cell = if of_tool { "AND u.tool = $8" } else { "" };
    format!(
        "WITH top AS (
             SELECT tenant_id, agent_id, CAST(SUM(throttled) AS BIGINT) AS refused
             FROM {from}_{grain}
             WHERE bucket >= $1 AND bucket < $2 AND {tenant} {and_tool}
             GROUP BY tenant_id, agent_id
             HAVING CAST(SUM(throttled) AS BIGINT) < $3
                 OR (CAST(SUM(throttled) AS BIGINT) = $3 AND (tenant_id, agent_id) > ($4, $5))
             ORDER BY refused DESC, tenant_id, agent_id
             LIMIT $6
         ), cells AS (
             SELECT top.refused, top.tenant_id, top.agent_id, u.tool,
                    CAST(SUM(u.throttled) AS BIGINT) AS refusals, CAST(SUM(u.calls) AS BIGINT) AS calls
             FROM top
             JOIN usage_{grain} u ON u.tenant_id = top.tenant_id AND u.agent_id = top.agent_id
              AND u.bucket >= $1 AND u.bucket < $2 {and_tool_of_cell}
             GROUP BY top.refused, top.tenant_id, top.agent_id, u.tool
         )
         SELECT c.refused, c.tenant_id, t.slug AS tenant_slug, c.agent_id, a.name AS agent_name, c.tool, c.refusals,
                c.calls
         FROM cells c
         LEFT JOIN tenants t ON t.id = c.tenant_id
         LEFT JOIN agents a ON a.id = c.agent_id"
    )
}

static PAGE: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| page(grain, false, false)));
static PAGE_OF_TENANT: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| page(grain, true, false)));
static PAGE_OF_TOOL: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| page(grain, false, true)));
static PAGE_OF_TENANT_AND_TOOL: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| page(grain, true, true)));

#[derive(sqlx::FromRow)]
struct ColumnRow {
    tool: String,
    refusals: i64,
    calls: i64,
}

#[derive(sqlx::FromRow)]
struct CellRow {
    refused: i64,
    tenant_id: String,
    tenant_slug: Option<String>,
    agent_id: String,
    agent_name: Option<String>,
    tool: String,
    refusals: i64,
    calls: i64,
}

/// An agent with its cells by tool, before they are put into columns.
struct AgentCells {
    refused: i64,
    tenant: String,
    agent: String,
    caller: AgentLabel,
    cells: BTreeMap<String, ThrottleCell>,
}

impl Usage<'_> {
    /// Who was refused what: one page of agents with the most refusals, a column for each of the tools with the most.
    /// The first rows and columns are also the answer to who and what is throttled most.
    ///
    /// # Errors
    /// `NotFound` for the tenant, `Invalid` for a bad page.
    pub async fn throttle_by_tool(
        self,
        actor: &Actor,
        query: &MatrixQuery,
        request: &PageRequest,
    ) -> Result<ThrottleMatrix, ControlError> {
        actor.require(Role::Viewer)?;
        let [refused, after_tenant, after_agent] = request.key()?;
        let refused = match refused.as_str() {
            "" => i64::MAX,
            text => text
                .parse()
                .map_err(|_| ControlError::invalid("cursor", text, "this cursor belongs to another list"))?,
        };
        let (range, tool) = (query.range, query.tool.as_deref());
        let mut tx = self.control.read().await?;
        let scope = UsageScope { tenant: query.tenant.clone(), agent: None, tool: None };
        let tenant = Resolved::of(&mut tx, actor, &scope).await?.tenant;
        let (from, to, grain) = (range.from(), range.to(), range.rows().index());

        let columns: Vec<ColumnRow> = tx.all(&COLUMNS[grain], args![from, to, &tenant, tool]).await?;
        let mut total = ThrottleCell::default();
        let mut tools = Vec::new();
        for ColumnRow { tool, refusals, calls } in columns {
            let cell = ThrottleCell { refusals, calls };
            total.add(cell);
            if refusals > 0 {
                tools.push((tool, cell));
            }
        }
        tools.sort_by(|(name, cell), (other, than)| than.refusals.cmp(&cell.refusals).then_with(|| name.cmp(other)));
        let more_tools = tools.len().saturating_sub(query.columns);
        tools.truncate(query.columns);

        let statements = match (tenant == EVERYBODY, tool) {
            (true, None) => &PAGE,
            (false, None) => &PAGE_OF_TENANT,
            (true, Some(_)) => &PAGE_OF_TOOL,
            (false, Some(_)) => &PAGE_OF_TENANT_AND_TOOL,
        };
        let mut values = args![from, to, refused, &after_tenant, &after_agent, request.rows(), &tenant].to_vec();
        values.extend(tool.map(Arg::from));
        let cells: Vec<CellRow> = tx.all(&statements[grain], &values).await?;
        let key = |agent: &AgentCells| vec![agent.refused.to_string(), agent.tenant.clone(), agent.agent.clone()];
        let page = Page::new(by_agent(cells), request, key);
        let rows = page.items.into_iter().map(|agent| {
            let mut total = ThrottleCell::default();
            agent.cells.values().for_each(|cell| total.add(*cell));
            let cells = tools.iter().map(|(tool, _)| agent.cells.get(tool).copied()).collect();
            MatrixRow { caller: agent.caller, cells, total }
        });
        Ok(ThrottleMatrix {
            range,
            rows: rows.collect(),
            tools: tools.into_iter().map(|(tool, total)| ToolColumn { tool: named(tool), total }).collect(),
            more_tools,
            total,
            next: page.next,
        })
    }
}

/// Puts the cells of each agent together; the agents in the order of the page.
fn by_agent(rows: Vec<CellRow>) -> Vec<AgentCells> {
    let mut agents = BTreeMap::<(i64, String, String), AgentCells>::new();
    for row in rows {
        let key = (-row.refused, row.tenant_id.clone(), row.agent_id.clone());
        let agent = agents.entry(key).or_insert_with(|| AgentCells {
            refused: row.refused,
            caller: AgentLabel {
                tenant: row.tenant_id.parse::<TenantId>().ok(),
                tenant_slug: row.tenant_slug,
                agent: row.agent_id.parse::<AgentId>().ok(),
                agent_name: row.agent_name,
            },
            tenant: row.tenant_id,
            agent: row.agent_id,
            cells: BTreeMap::new(),
        });
        agent.cells.insert(row.tool, ThrottleCell { refusals: row.refusals, calls: row.calls });
    }
    agents.into_values().collect()
}

fn named(tool: String) -> Option<String> {
    Some(tool).filter(|tool| !tool.is_empty())
}
