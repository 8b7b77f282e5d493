//! Tools that an operator has switched off, for everybody or for one tenant.

use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::audit::Record;
use crate::change::Change;
use crate::db::args;
use crate::error::ControlError;
use crate::ids::TenantId;
use crate::json::JsonText;
use crate::policy::Revision;
use crate::tenants::{self, Tenant, TenantRef};
use crate::tools::{Tools, check_known};

/// Whether a tool is served, to everybody or to one tenant. A tool without a switch is served; one that is off for
/// everybody is off, whatever a tenant's switch says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow, ToSchema)]
pub struct ToolSwitch {
    /// The name of the tool.
    pub tool: String,
    /// The tenant; everybody when there is none.
    pub tenant_id: Option<TenantId>,
    /// Whether it is served.
    pub enabled: bool,
    /// Who switched last.
    pub updated_by: String,
    /// When, in epoch milliseconds.
    pub updated_at: i64,
    /// The revision of that change.
    pub revision: Revision,
}

macro_rules! select_switches {
    ($tail:literal) => {
        concat!("SELECT tool, tenant_id, enabled, updated_by, updated_at, revision FROM tool_switches ", $tail)
    };
}

const BY_TOOL: &str = select_switches!("WHERE tool = $1 AND scope = $2");

pub(crate) const OF_SCOPE: &str = select_switches!("WHERE scope = $1 ORDER BY scope, tool");

const OF_TOOL: &str =
    select_switches!("WHERE tool = $1 AND (CAST($2 AS TEXT) IS NULL OR scope IN ('', $2)) ORDER BY scope");

pub(crate) const ALL_SWITCHES: &str = select_switches!("");

pub(crate) const SWITCHES_SINCE: &str = select_switches!("WHERE revision > $1");

const UPSERT: &str = "INSERT INTO tool_switches (tool, scope, tenant_id, enabled, updated_by, updated_at, revision)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (tool, scope) DO UPDATE SET enabled = excluded.enabled, updated_by = excluded.updated_by,
         updated_at = excluded.updated_at, revision = excluded.revision";

/// As the table writes it: the tenant's id, or nothing for everybody.
fn scope(tenant: Option<TenantId>) -> String {
    tenant.map(String::from).unwrap_or_default()
}

impl Tools<'_> {
    /// Stops serving a tool, to everybody or to one tenant: it is not listed, and a call of it is answered like one of
    /// an unknown tool. Running calls end by themselves.
    ///
    /// # Errors
    /// `UnknownTool`, `NotFound` for the tenant, `Forbidden` for an actor confined to a tenant that asks for everybody.
    pub async fn disable(
        self,
        actor: &Actor,
        tool: &str,
        tenant: Option<&TenantRef>,
    ) -> Result<ToolSwitch, ControlError> {
        self.switch(actor, tool, tenant, false).await
    }

    /// Serves a tool again. One that is off for everybody stays off for a tenant for which it is on.
    ///
    /// # Errors
    /// As [`disable`](Self::disable).
    pub async fn enable(
        self,
        actor: &Actor,
        tool: &str,
        tenant: Option<&TenantRef>,
    ) -> Result<ToolSwitch, ControlError> {
        self.switch(actor, tool, tenant, true).await
    }

    /// The switches of one tool: for everybody first, then for each tenant that has one and that the actor sees.
    ///
    /// # Errors
    /// `Database`.
    pub async fn switches_of(self, actor: &Actor, tool: &str) -> Result<Vec<ToolSwitch>, ControlError> {
        actor.require(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        Ok(tx.all(OF_TOOL, args![tool, actor.confined_to()]).await?)
    }

    /// The switches for everybody, or those for one tenant, by tool.
    ///
    /// # Errors
    /// `NotFound` for the tenant.
    pub async fn switches(self, actor: &Actor, tenant: Option<&TenantRef>) -> Result<Vec<ToolSwitch>, ControlError> {
        actor.require(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        let tenant = match tenant {
            Some(tenant) => Some(tenants::visible(&mut tx, actor, tenant).await?.id),
            None => None,
        };
        Ok(tx.all(OF_SCOPE, args![scope(tenant)]).await?)
    }

    async fn switch(
        self,
        actor: &Actor,
        tool: &str,
        tenant: Option<&TenantRef>,
        enabled: bool,
    ) -> Result<ToolSwitch, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let tenant = match tenant {
            Some(tenant) => Some(tenants::visible(&mut change.tx, actor, tenant).await?),
            None => {
                actor.require_global(Role::Operator)?;
                None
            }
        };
        let after = switch(&mut change, tool, tenant.as_ref(), enabled).await?;
        change.finish().await?;
        Ok(after)
    }
}

/// Switches a tool in a change of somebody who may.
pub(crate) async fn switch(
    change: &mut Change<'_>,
    tool: &str,
    tenant: Option<&Tenant>,
    enabled: bool,
) -> Result<ToolSwitch, ControlError> {
    check_known(&mut change.tx, tool).await?;
    let tenant_id = tenant.map(|tenant| tenant.id);
    let before: Option<ToolSwitch> = change.tx.optional(BY_TOOL, args![tool, scope(tenant_id)]).await?;
    if let Some(before) = before.as_ref().filter(|before| before.enabled == enabled) {
        return Ok(before.clone());
    }
    let after = ToolSwitch {
        tool: tool.to_owned(),
        tenant_id,
        enabled,
        updated_by: change.actor().label().to_owned(),
        updated_at: change.now,
        revision: change.revision,
    };
    let values =
        args![tool, scope(tenant_id), tenant_id, enabled, &after.updated_by, after.updated_at, after.revision,];
    change.execute(UPSERT, values).await?;
    let for_whom = tenant.map(|tenant| format!(" for tenant {}", tenant.slug)).unwrap_or_default();
    change
        .record(Record {
            action: if enabled { "tool.enable" } else { "tool.disable" },
            target: format!("tool {tool}{for_whom}"),
            tenant_id,
            before: before.as_ref().map(JsonText::of),
            after: Some(JsonText::of(&after)),
        })
        .await?;
    Ok(after)
}
