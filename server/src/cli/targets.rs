//! What limits are about, in the names that people know.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use sluicegate_control::{AgentId, AgentRef, ControlError, PlanId, PlanRef, Target, TenantId, TenantRef};

use super::Desk;

/// Names that were looked up already.
#[derive(Default)]
pub(crate) struct Names {
    tenants: HashMap<TenantId, String>,
    agents: HashMap<AgentId, String>,
    plans: HashMap<PlanId, String>,
}

impl Names {
    /// A target in words: `tenant acme, tool export`.
    pub(crate) async fn describe(&mut self, desk: &Desk, target: &Target) -> Result<String, ControlError> {
        let mut words = Vec::new();
        if let Some(tenant) = target.tenant() {
            words.push(format!("tenant {}", self.tenant(desk, tenant).await?));
            if let Some(agent) = target.agent() {
                words.push(format!("agent {}", self.agent(desk, tenant, agent).await?));
            }
        }
        if let Some(plan) = target.plan() {
            words.push(format!("plan {}", self.plan(desk, plan).await?));
        }
        match target {
            Target::Server => words.push("server".to_owned()),
            Target::PlanAgent { .. } => words.push("each agent".to_owned()),
            Target::Key { key, .. } => words.push(format!("key {key}")),
            _ => words.extend(target.tool().map(|tool| format!("tool {tool}"))),
        }
        Ok(words.join(", "))
    }

    async fn tenant(&mut self, desk: &Desk, id: TenantId) -> Result<&str, ControlError> {
        Ok(match self.tenants.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(slot) => {
                let tenant = desk.control.tenants().get(&desk.actor, &TenantRef::Id(id)).await?;
                slot.insert(tenant.slug)
            }
        })
    }

    async fn agent(&mut self, desk: &Desk, tenant: TenantId, id: AgentId) -> Result<&str, ControlError> {
        Ok(match self.agents.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(slot) => {
                let agent = desk.control.agents().get(&desk.actor, &TenantRef::Id(tenant), &AgentRef::Id(id)).await?;
                slot.insert(agent.name)
            }
        })
    }

    async fn plan(&mut self, desk: &Desk, id: PlanId) -> Result<&str, ControlError> {
        Ok(match self.plans.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(slot) => {
                let plan = desk.control.plans().get(&desk.actor, &PlanRef::Id(id)).await?;
                slot.insert(plan.name)
            }
        })
    }
}
