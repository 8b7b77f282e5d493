//! Bringing the policy to what a document says, in one change.

use std::collections::BTreeSet;

use serde::Serialize;
use sluicegate_limits::Mode;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::agents::{self, Agent, AgentRef};
use crate::change::Change;
use crate::db::args;
use crate::error::ControlError;
use crate::ids::TenantId;
use crate::json::JsonText;
use crate::limits::{self, LimitEntry, LimitKindName, LimitRow, Target, select_limits};
use crate::plans::{self, Plan};
use crate::status::Status;
use crate::tenants::{self, Tenant, TenantRef};
use crate::tools::{self, OF_SCOPE, ToolSwitch};
use crate::transfer::Transfer;
use crate::transfer::document::{AgentDocument, LimitDocument, PlanDocument, PolicyDocument, TenantDocument};

/// What an import has done, or would do.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ImportReport {
    /// Whether it was done.
    pub applied: bool,
    /// The changes, in their order; none when everything is as the document says.
    pub steps: Vec<ImportStep>,
}

/// One change of an import, as the audit log tells it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ImportStep {
    /// What is done: `tenant.create`, `limit.set`.
    pub action: String,
    /// To what, in words.
    pub target: String,
    /// How it was before; absent when it is created.
    pub before: Option<JsonText>,
    /// How it is afterwards; absent when it is deleted.
    pub after: Option<JsonText>,
}

const OF_SERVER: &str = select_limits!("WHERE target = 'server'");

const OF_TOOLS: &str = select_limits!("WHERE target > 'tool/' AND target < 'tool0'");

const OF_TENANT: &str = select_limits!("WHERE tenant_id = $1 AND agent_id IS NULL");

const OF_AGENT: &str = select_limits!("WHERE tenant_id = $1 AND agent_id = $2 AND key_id IS NULL");

const OF_PLAN: &str = select_limits!("WHERE plan_id = $1");

impl Transfer<'_> {
    /// Brings the policy to what the document says, all of it or nothing. A dry run finds out what that would change,
    /// and whether it can, and changes nothing.
    ///
    /// # Errors
    /// Those of the use cases that its steps are: `Invalid`, `NotFound`, `UnknownTool` for a switch, `Forbidden` for
    /// what belongs to the server and an actor confined to a tenant.
    pub async fn import(
        self,
        actor: &Actor,
        document: &PolicyDocument,
        dry_run: bool,
    ) -> Result<ImportReport, ControlError> {
        actor.require(Role::Operator)?;
        if document.version != 1 {
            let message = format!("version must be 1, the form that this program reads, not {}", document.version);
            return Err(ControlError::invalid("version", &document.version, &message));
        }
        let mut change = self.control.change(actor).await?;
        if let Some(limits) = &document.limits {
            actor.require_global(Role::Operator)?;
            let mut present = read(&mut change, OF_SERVER, None, None).await?;
            present.extend(read(&mut change, OF_TOOLS, None, None).await?);
            let target = |limit: &LimitDocument| match &limit.tool {
                None => Target::Server,
                Some(tool) => Target::Tool { tool: tool.clone() },
            };
            settle_limits(&mut change, present, limits, target).await?;
        }
        if let Some(disabled) = &document.disabled_tools {
            actor.require_global(Role::Operator)?;
            settle_switches(&mut change, None, disabled).await?;
        }
        for plan in &document.plans {
            settle_plan(&mut change, plan).await?;
        }
        for tenant in &document.tenants {
            settle_tenant(&mut change, tenant).await?;
        }
        let steps = change.steps().iter().map(|record| ImportStep {
            action: record.action.to_owned(),
            target: record.target.clone(),
            before: record.before.clone(),
            after: record.after.clone(),
        });
        let steps: Vec<_> = steps.collect();
        if !dry_run {
            change.finish().await?;
        }
        Ok(ImportReport { applied: !dry_run, steps })
    }
}

async fn settle_plan(change: &mut Change<'_>, document: &PlanDocument) -> Result<(), ControlError> {
    let actor = change.actor();
    actor.require_global(Role::Operator)?;
    let plan: Plan = match plans::visible(&mut change.tx, actor, &document.name.as_str().into()).await {
        Ok(plan) => plans::set_note(change, plan, &document.note).await?,
        Err(ControlError::NotFound { .. }) => plans::create(change, &document.name, &document.note).await?,
        Err(error) => return Err(error),
    };
    let Some(limits) = &document.limits else { return Ok(()) };
    let present = read(change, OF_PLAN, Some(plan.id.to_string()), None).await?;
    let target = |limit: &LimitDocument| match &limit.tool {
        Some(tool) => Target::PlanTool { plan: plan.id, tool: tool.clone() },
        None if limit.each_agent => Target::PlanAgent { plan: plan.id },
        None => Target::Plan { plan: plan.id },
    };
    settle_limits(change, present, limits, target).await
}

async fn settle_tenant(change: &mut Change<'_>, document: &TenantDocument) -> Result<(), ControlError> {
    let actor = change.actor();
    let reference = TenantRef::Slug(document.slug.clone());
    let before = match tenants::visible(&mut change.tx, actor, &reference).await {
        Ok(tenant) => tenant,
        // To an actor confined to another tenant it does not exist, and it may not create one.
        Err(error @ ControlError::NotFound { .. }) if actor.confined_to().is_some() => return Err(error),
        Err(ControlError::NotFound { .. }) => tenants::create(change, &document.slug, &document.name).await?,
        Err(error) => return Err(error),
    };
    let mut after = before.clone();
    crate::text::name("name", &document.name)?;
    after.name.clone_from(&document.name);
    if let Some(status) = document.status {
        after.status = status;
    }
    if let Some(settings) = &document.settings {
        tenants::check_settings(settings)?;
        after.settings = settings.clone();
    }
    if let Some(metadata) = &document.metadata {
        let metadata = JsonText::of(metadata);
        tenants::check_metadata(&metadata)?;
        // What differs only in how it is written is the same.
        let same = serde_json::from_str::<serde_json::Value>(before.metadata.as_str()).ok()
            == serde_json::from_str(metadata.as_str()).ok();
        if !same {
            after.metadata = metadata;
        }
    }
    let mut tenant = tenants::save(change, "tenant.import", before, after).await?;
    if let Some(plan) = &document.plan
        && tenant.plan_name.as_deref().unwrap_or_default() != plan
    {
        let plan = (!plan.is_empty()).then(|| plan.as_str().into());
        tenant = tenants::assign_plan(change, tenant, plan.as_ref()).await?;
    }
    if let Some(disabled) = &document.disabled_tools {
        settle_switches(change, Some(&tenant), disabled).await?;
    }
    if let Some(limits) = &document.limits {
        let present = read(change, OF_TENANT, Some(tenant.id.to_string()), None).await?;
        let target = |limit: &LimitDocument| match &limit.tool {
            None => Target::Tenant { tenant: tenant.id },
            Some(tool) => Target::TenantTool { tenant: tenant.id, tool: tool.clone() },
        };
        settle_limits(change, present, limits, target).await?;
    }
    for agent in &document.agents {
        settle_agent(change, &tenant, agent).await?;
    }
    Ok(())
}

async fn settle_agent(change: &mut Change<'_>, tenant: &Tenant, document: &AgentDocument) -> Result<(), ControlError> {
    let actor = change.actor();
    let reference = AgentRef::Name(document.name.clone());
    let mut agent: Agent = match agents::visible(&mut change.tx, actor, &tenant.id.into(), &reference).await {
        Ok((_, agent)) => agent,
        Err(ControlError::NotFound { .. }) => agents::create(change, tenant, &document.name).await?,
        Err(error) => return Err(error),
    };
    if let Some(status) = document.status {
        let action = if status == Status::Active { "agent.resume" } else { "agent.suspend" };
        agent = agents::set_status(change, tenant, agent, action, status).await?;
    }
    let Some(limits) = &document.limits else { return Ok(()) };
    let present = read(change, OF_AGENT, Some(tenant.id.to_string()), Some(agent.id.to_string())).await?;
    let (tenant, agent) = (tenant.id, agent.id);
    let target = |limit: &LimitDocument| match &limit.tool {
        None => Target::Agent { tenant, agent },
        Some(tool) => Target::AgentTool { tenant, agent, tool: tool.clone() },
    };
    settle_limits(change, present, limits, target).await
}

async fn read(
    change: &mut Change<'_>,
    statement: &'static str,
    one: Option<String>,
    other: Option<String>,
) -> Result<Vec<LimitEntry>, ControlError> {
    let rows: Vec<LimitRow> = match (one, other) {
        (None, _) => change.tx.all(statement, args![]).await?,
        (Some(one), None) => change.tx.all(statement, args![one]).await?,
        (Some(one), Some(other)) => change.tx.all(statement, args![one, other]).await?,
    };
    rows.into_iter().map(LimitEntry::try_from).collect()
}

/// Makes the limits of something exactly those that are listed. Temporary ones that have ended are neither missed nor
/// brought back.
async fn settle_limits(
    change: &mut Change<'_>,
    present: Vec<LimitEntry>,
    wanted: &[LimitDocument],
    target: impl Fn(&LimitDocument) -> Target,
) -> Result<(), ControlError> {
    let mut slots = BTreeSet::<(String, &str, Mode, bool)>::new();
    // Lasting ones first: to set one ends the temporary one over it.
    let mut ordered: Vec<_> = wanted.iter().collect();
    ordered.sort_by_key(|limit| limit.expires_at.is_some());
    for document in ordered {
        if document.each_agent && document.tool.is_some() {
            let message =
                "each_agent is for a plan's limit of agents; the limit of a tool is that of each agent anyway";
            return Err(ControlError::invalid("each_agent", &true, &message));
        }
        let new = document.new_limit(target(document))?;
        let kind = new.value.check(&new.target)?;
        let slot = (new.target.to_string(), kind.name().as_str(), new.mode, new.expires_at.is_some());
        if !slots.insert(slot) {
            let message = format!("the document has two {} limits of {}", kind.name(), new.target);
            return Err(ControlError::invalid("limits", &new.target, &message));
        }
        if new.expires_at.is_some_and(|end| end <= change.now) {
            continue;
        }
        let same = |entry: &&LimitEntry| {
            let is_it = entry.target == new.target && entry.expires_at == new.expires_at;
            is_it && entry.kind == kind && entry.mode == new.mode && entry.note == new.note
        };
        if present.iter().find(same).is_none() {
            limits::set(change, &new).await?;
        }
    }
    for entry in present {
        let temporary = entry.expires_at.is_some();
        let kind: LimitKindName = entry.kind.name();
        let listed = slots.contains(&(entry.target.to_string(), kind.as_str(), entry.mode, temporary));
        if listed || !entry.is_in_force(change.now) {
            continue;
        }
        // It may be gone by now: a lasting one was set in its place.
        let still = limits::of_target(&mut change.tx, &entry.target, kind, entry.mode).await?;
        if still.iter().any(|other| other.id == entry.id) {
            limits::remove(change, &entry).await?;
        }
    }
    Ok(())
}

/// Makes the tools that are off exactly those that are listed.
async fn settle_switches(
    change: &mut Change<'_>,
    tenant: Option<&Tenant>,
    disabled: &[String],
) -> Result<(), ControlError> {
    let scope = tenant.map(|tenant| tenant.id).map(TenantId::into).unwrap_or_default();
    let scope: String = scope;
    let present: Vec<ToolSwitch> = change.tx.all(OF_SCOPE, args![scope]).await?;
    for switch in present.iter().filter(|switch| !switch.enabled && !disabled.contains(&switch.tool)) {
        tools::switch(change, &switch.tool, tenant, true).await?;
    }
    for tool in disabled {
        if !present.iter().any(|switch| !switch.enabled && switch.tool == *tool) {
            tools::switch(change, tool, tenant, false).await?;
        }
    }
    Ok(())
}
