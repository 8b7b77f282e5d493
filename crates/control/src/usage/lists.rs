//! What those on one page of a list have called.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::actor::{Actor, Role};
use crate::db::{Arg, Transaction, args, filled_up, places};
use crate::error::ControlError;
use crate::ids::{AgentId, TenantId};
use crate::tenants::{self, TenantRef};
use crate::usage::matrix::ThrottleCell;
use crate::usage::range::{Grain, UsageRange};
use crate::usage::{PerGrain, Usage};

/// How many are asked about at once.
const AT_ONCE: usize = 50;

/// Calls of tools in `$1` to `$2`, of those whose ids are from `first` on.
fn calls(table: &str, id: &str, of: &str, first: usize, grain: Grain) -> String {
    format!(
        "SELECT u.{id} AS id, CAST(SUM(u.throttled) AS BIGINT) AS refusals, CAST(SUM(u.calls) AS BIGINT) AS calls
         FROM {table}_{} u
         WHERE u.{id} IN ({}) AND u.bucket >= $1 AND u.bucket < $2 AND u.tool > '' {of}
         GROUP BY u.{id}",
        grain.word(),
        places(first, AT_ONCE)
    )
}

static OF_TENANTS: PerGrain = LazyLock::new(|| Grain::ALL.map(|grain| calls("usage_sum", "tenant_id", "", 3, grain)));
static OF_AGENTS: PerGrain =
    LazyLock::new(|| Grain::ALL.map(|grain| calls("usage", "agent_id", "AND u.tenant_id = $3", 4, grain)));

#[derive(sqlx::FromRow)]
struct CallsRow {
    id: String,
    refusals: i64,
    calls: i64,
}

impl Usage<'_> {
    /// The calls of some agents of a tenant (those of one page of a list), by agent. One that has not called, and one
    /// that is not the tenant's, has none.
    ///
    /// # Errors
    /// `NotFound` for the tenant.
    pub async fn of_agents(
        self,
        actor: &Actor,
        tenant: &TenantRef,
        agents: &[AgentId],
        range: UsageRange,
    ) -> Result<BTreeMap<AgentId, ThrottleCell>, ControlError> {
        actor.require(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        let tenant = tenants::visible(&mut tx, actor, tenant).await?.id;
        of_each(&mut tx, &OF_AGENTS, range, Some(tenant), agents).await
    }

    /// The calls of some tenants (those of one page of a list), by tenant. What the actor does not see is left out.
    ///
    /// # Errors
    /// `Database`.
    pub async fn of_tenants(
        self,
        actor: &Actor,
        tenants: &[TenantId],
        range: UsageRange,
    ) -> Result<BTreeMap<TenantId, ThrottleCell>, ControlError> {
        actor.require(Role::Viewer)?;
        let seen: Vec<_> = tenants.iter().filter(|tenant| actor.sees(**tenant)).copied().collect();
        of_each(&mut self.control.read().await?, &OF_TENANTS, range, None, &seen).await
    }
}

async fn of_each<Id>(
    tx: &mut Transaction,
    statements: &'static PerGrain,
    range: UsageRange,
    tenant: Option<TenantId>,
    ids: &[Id],
) -> Result<BTreeMap<Id, ThrottleCell>, ControlError>
where
    Id: Copy + Ord + ToString + Into<Arg<'static>>,
{
    let by_text: BTreeMap<_, _> = ids.iter().map(|id| (id.to_string(), *id)).collect();
    let mut found: BTreeMap<_, _> = ids.iter().map(|id| (*id, ThrottleCell::default())).collect();
    for some in ids.chunks(AT_ONCE) {
        let mut values = args![range.from(), range.to()].to_vec();
        values.extend(tenant.map(Arg::from));
        values.extend(filled_up(some, AT_ONCE).map(Into::into));
        let rows: Vec<CallsRow> = tx.all(&statements[range.rows().index()], &values).await?;
        for CallsRow { id, refusals, calls } in rows {
            found.extend(by_text.get(&id).map(|id| (*id, ThrottleCell { refusals, calls })));
        }
    }
    Ok(found)
}
