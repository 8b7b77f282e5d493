//! Agents that call on and on though they are refused.

use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::db::args;
use crate::error::ControlError;
use crate::ids::{AgentId, TenantId};
use crate::usage::Usage;
use crate::usage::questions::AgentLabel;
use crate::usage::range::Grain;

/// When an agent counts as a runaway. One of the two is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RunawayRule {
    /// So many refusals by limits in one minute.
    pub refusals_per_minute: i64,
    /// So many calls in one minute that did not wait as long as the refusal before them had said.
    pub ignored_waits_per_minute: i64,
}

impl Default for RunawayRule {
    fn default() -> Self {
        Self { refusals_per_minute: 300, ignored_waits_per_minute: 100 }
    }
}

/// An agent that does not heed its refusals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Runaway {
    /// The agent.
    pub caller: AgentLabel,
    /// Its refusals in its worst minute.
    pub refusals: i64,
    /// How many of its calls in one minute came before the advertised wait was over.
    pub ignored_waits: i64,
    /// When the latest minute that made it one began, in epoch milliseconds.
    pub at: i64,
}

const RUNAWAYS: &str = "SELECT m.tenant_id, t.slug, m.agent_id, a.name, CAST(MAX(m.throttled) AS BIGINT) AS refusals,
            CAST(MAX(m.ignored_waits) AS BIGINT) AS ignored, CAST(MAX(m.bucket) AS BIGINT) AS at
     FROM usage_throttled_minute m
     JOIN agents a ON a.id = m.agent_id
     JOIN tenants t ON t.id = a.tenant_id
     WHERE m.bucket >= $1 AND (m.throttled >= $2 OR m.ignored_waits >= $3)
       AND (CAST($4 AS TEXT) IS NULL OR m.tenant_id = $4) AND m.agent_id > ''
     GROUP BY m.tenant_id, t.slug, m.agent_id, a.name";

/// Who counts as one now: what happened in these minutes, the present one included.
const MINUTES: i64 = 3;

#[derive(sqlx::FromRow)]
struct RunawayRow {
    tenant_id: TenantId,
    slug: String,
    agent_id: AgentId,
    name: String,
    refusals: i64,
    ignored: i64,
    at: i64,
}

impl Usage<'_> {
    /// The agents that run away now, worst first.
    ///
    /// # Errors
    /// `Database`.
    pub async fn runaways(self, actor: &Actor, rule: RunawayRule) -> Result<Vec<Runaway>, ControlError> {
        actor.require(Role::Viewer)?;
        let from = Grain::Minute.bucket_of(self.control.now_ms()) - (MINUTES - 1) * Grain::Minute.ms();
        let values = args![from, rule.refusals_per_minute, rule.ignored_waits_per_minute, actor.confined_to()];
        let rows: Vec<RunawayRow> = self.control.read().await?.all(RUNAWAYS, values).await?;
        let mut found: Vec<_> = rows
            .into_iter()
            .map(|row| Runaway {
                caller: AgentLabel {
                    tenant: Some(row.tenant_id),
                    tenant_slug: Some(row.slug),
                    agent: Some(row.agent_id),
                    agent_name: Some(row.name),
                },
                refusals: row.refusals,
                ignored_waits: row.ignored,
                at: row.at,
            })
            .collect();
        found.sort_by(|one, other| other.refusals.cmp(&one.refusals).then_with(|| one.caller.cmp(&other.caller)));
        Ok(found)
    }
}
