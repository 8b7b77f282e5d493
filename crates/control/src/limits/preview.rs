//! What a limit would have done to the calls that were recorded.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use sluicegate_limits::Per;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::db::{Transaction, args};
use crate::error::ControlError;
use crate::ids::{AgentId, TenantId};
use crate::limits::entry::{LimitKind, NewLimit};
use crate::limits::rehearsal::{Minute, Rehearsal};
use crate::limits::target::Target;
use crate::limits::{Limits, check_target};
use crate::usage::{AgentLabel, Grain, Period};

/// What a limit would have refused. An estimate: only the calls of each minute are known, not when in it they came, nor
/// what else would have been different.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Preview {
    /// From when the recorded calls are, in epoch milliseconds.
    pub from: i64,
    /// Until when.
    pub to: i64,
    /// Whether that is all that was asked for; otherwise there was too much to look at, and `from` is later.
    pub complete: bool,
    /// The calls that the limit is about.
    pub calls: i64,
    /// Those that limits did refuse.
    pub refused: i64,
    /// Those that this limit would have refused.
    pub would_refuse: i64,
    /// The agents that it would have refused most, at most 50.
    pub agents: Vec<PreviewedAgent>,
    /// How many agents it would have refused anything.
    pub agents_refused: usize,
}

impl Preview {
    /// The share of calls that would have been refused, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.would_refuse as f64 / self.calls as f64 }
    }
}

/// What a limit would have refused one agent.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct PreviewedAgent {
    /// The agent.
    pub caller: AgentLabel,
    /// Its calls that the limit is about.
    pub calls: i64,
    /// Those that limits did refuse.
    pub refused: i64,
    /// Those that this limit would have refused.
    pub would_refuse: i64,
}

/// `$1` to `$2` is the time, `$3` the tool, `$4` the tenant or the plan, `$5` the agent.
macro_rules! select_minutes {
    ($of:literal) => {
        concat!(
            "SELECT u.tenant_id, u.agent_id, u.bucket, CAST(SUM(u.calls) AS BIGINT) AS calls,
                    CAST(SUM(u.throttled) AS BIGINT) AS throttled, CAST(SUM(u.latency_us) AS BIGINT) AS latency_us
             FROM ",
            $of,
            " AND u.bucket >= $1 AND u.bucket < $2 AND u.tool > '' AND (CAST($3 AS TEXT) IS NULL OR u.tool = $3)
             GROUP BY u.tenant_id, u.agent_id, u.bucket
             ORDER BY u.bucket DESC
             LIMIT $6"
        )
    };
}

const OF_EVERYBODY: &str =
    select_minutes!("usage_minute u WHERE CAST($4 AS TEXT) IS NULL AND CAST($5 AS TEXT) IS NULL");

const OF_TENANT: &str = select_minutes!("usage_minute u WHERE u.tenant_id = $4 AND CAST($5 AS TEXT) IS NULL");

const OF_AGENT: &str = select_minutes!("usage_minute u WHERE u.tenant_id = $4 AND u.agent_id = $5");

const OF_PLAN: &str = select_minutes!(
    "tenants t JOIN usage_minute u ON u.tenant_id = t.id WHERE t.plan_id = $4 AND CAST($5 AS TEXT) IS NULL"
);

const NAMES: &str = "SELECT t.slug, a.name FROM tenants t LEFT JOIN agents a ON a.tenant_id = t.id AND a.id = $2
     WHERE t.id = $1";

/// The most minutes of agents that one preview looks at.
const MOST_ROWS: usize = 200_000;

const MOST_AGENTS: usize = 50;

#[derive(sqlx::FromRow)]
struct MinuteRow {
    tenant_id: String,
    agent_id: String,
    bucket: i64,
    calls: i64,
    throttled: i64,
    latency_us: i64,
}

/// Who shares one count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shared {
    Everybody,
    Tenant,
    Agent,
}

impl Shared {
    fn of(target: &Target, kind: &LimitKind) -> Self {
        let per = match kind {
            LimitKind::Rate { per, .. } => per.unwrap_or(Per::Agent),
            LimitKind::Concurrency { .. } => Per::Agent,
        };
        match target {
            Target::Server => Self::Everybody,
            Target::Tenant { .. } | Target::Plan { .. } => Self::Tenant,
            Target::Agent { .. } | Target::Key { .. } | Target::PlanAgent { .. } => Self::Agent,
            Target::Tool { .. } | Target::TenantTool { .. } | Target::AgentTool { .. } | Target::PlanTool { .. } => {
                match per {
                    Per::Agent => Self::Agent,
                    Per::Tenant => Self::Tenant,
                    Per::Server => Self::Everybody,
                }
            }
        }
    }

    fn unit(self, row: &MinuteRow) -> (&str, &str) {
        match self {
            Self::Everybody => ("", ""),
            Self::Tenant => (&row.tenant_id, ""),
            Self::Agent => (&row.tenant_id, &row.agent_id),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Tally {
    calls: i64,
    refused: i64,
    would_refuse: f64,
}

impl Limits<'_> {
    /// What a limit would have done to the calls of the last day or week (the longest that minutes are kept). It is
    /// looked at alone; a limit of one API key as if its agent had no other.
    ///
    /// # Errors
    /// Those of [`set`](Self::set), so that what can be previewed can be saved; `Invalid` for another period.
    pub async fn preview(self, actor: &Actor, new: &NewLimit, period: Period) -> Result<Preview, ControlError> {
        actor.require(Role::Viewer)?;
        if !matches!(period, Period::Day | Period::Week) {
            return Err(ControlError::invalid("range", &period, &"a preview looks at 24h or at 7d"));
        }
        let kind = new.value.check(&new.target)?;
        let mut tx = self.control.read().await?;
        check_target(&mut tx, actor, &new.target).await?;
        let to = Grain::Minute.bucket_of(self.control.now_ms()) + Grain::Minute.ms();
        let from = to - period.ms();
        let mut rows = read(&mut tx, &new.target, from, to).await?;
        let complete = rows.len() <= MOST_ROWS;
        rows.truncate(MOST_ROWS);
        // Newest first, so the last minute that was read may be only a part.
        let cut = rows.last().filter(|_| !complete).map(|row| row.bucket);
        rows.retain(|row| cut.is_none_or(|cut| row.bucket > cut));
        rows.reverse();
        let tallies = rehearse(&rows, &kind, &new.target);

        let total = tallies.values().fold(Tally::default(), |sum, tally| Tally {
            calls: sum.calls + tally.calls,
            refused: sum.refused + tally.refused,
            would_refuse: sum.would_refuse + tally.would_refuse,
        });
        let mut refused: Vec<_> = tallies.into_iter().filter(|(_, tally)| whole(tally.would_refuse) > 0).collect();
        refused.sort_by(|(one, a), (other, b)| b.would_refuse.total_cmp(&a.would_refuse).then_with(|| one.cmp(other)));
        let agents_refused = refused.len();
        let mut agents = Vec::new();
        for ((tenant, agent), tally) in refused.into_iter().take(MOST_AGENTS) {
            agents.push(PreviewedAgent {
                caller: label(&mut tx, tenant, agent).await?,
                calls: tally.calls,
                refused: tally.refused,
                would_refuse: whole(tally.would_refuse),
            });
        }
        Ok(Preview {
            from: cut.map_or(from, |cut| cut + Grain::Minute.ms()),
            to,
            complete,
            calls: total.calls,
            refused: total.refused,
            would_refuse: whole(total.would_refuse),
            agents,
            agents_refused,
        })
    }
}

async fn read(tx: &mut Transaction, target: &Target, from: i64, to: i64) -> Result<Vec<MinuteRow>, ControlError> {
    let (statement, of) = match (target.plan(), target.tenant(), target.agent()) {
        (Some(plan), _, _) => (OF_PLAN, Some(plan.to_string())),
        (None, Some(tenant), Some(_)) => (OF_AGENT, Some(tenant.to_string())),
        (None, Some(tenant), None) => (OF_TENANT, Some(tenant.to_string())),
        (None, None, _) => (OF_EVERYBODY, None),
    };
    let one_more = i64::try_from(MOST_ROWS + 1).unwrap_or(i64::MAX);
    let values = args![from, to, target.tool(), of, target.agent(), one_more];
    Ok(tx.all(statement, values).await?)
}

/// What would have been refused to each agent: a minute's refusals are shared by the calls of it.
fn rehearse<'r>(rows: &'r [MinuteRow], kind: &LimitKind, target: &Target) -> BTreeMap<(&'r str, &'r str), Tally> {
    let shared = Shared::of(target, kind);
    let mut units = HashMap::<(&str, &str), Rehearsal>::new();
    let mut tallies = BTreeMap::<(&str, &str), Tally>::new();
    for minute in rows.chunk_by(|one, other| one.bucket == other.bucket) {
        let mut of_unit = BTreeMap::<(&str, &str), (i64, i64)>::new();
        for row in minute {
            let (calls, latency_us) = of_unit.entry(shared.unit(row)).or_default();
            *calls += row.calls;
            *latency_us += row.latency_us;
        }
        let refused_share: HashMap<_, _> = of_unit
            .into_iter()
            .map(|(unit, (calls, latency_us))| {
                let rehearsal = units.entry(unit).or_insert_with(|| Rehearsal::of(kind, target.default_algorithm()));
                let in_work = latency_us as f64 / 60e6;
                let refused = rehearsal.refused(Minute { at: minute[0].bucket, calls: calls as f64, in_work });
                (unit, if calls == 0 { 0.0 } else { refused / calls as f64 })
            })
            .collect();
        for row in minute {
            let tally = tallies.entry((&row.tenant_id, &row.agent_id)).or_default();
            tally.calls += row.calls;
            tally.refused += row.throttled;
            tally.would_refuse += row.calls as f64 * refused_share[&shared.unit(row)];
        }
    }
    tallies
}

async fn label(tx: &mut Transaction, tenant: &str, agent: &str) -> Result<AgentLabel, ControlError> {
    let names: Option<(String, Option<String>)> = tx.optional(NAMES, args![tenant, agent]).await?;
    let (tenant_slug, agent_name) = names.unzip();
    Ok(AgentLabel {
        tenant: tenant.parse::<TenantId>().ok(),
        tenant_slug,
        agent: agent.parse::<AgentId>().ok(),
        agent_name: agent_name.flatten(),
    })
}

fn whole(calls: f64) -> i64 {
    calls.round() as i64
}
