//! What a limit is about.

use std::fmt;

use serde::{Deserialize, Serialize};
use sluicegate_limits::Algorithm;
use utoipa::ToSchema;

use crate::ids::{AgentId, KeyId, PlanId, TenantId};

/// What a limit is about. Inside one scope of a call the most specific target replaces
/// the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(tag = "scope", rename_all = "snake_case", deny_unknown_fields)]
pub enum Target {
    /// All calls of the server together.
    Server,
    /// All calls of a tenant together.
    Tenant {
        /// The tenant.
        tenant: TenantId,
    },
    /// All calls of one agent.
    Agent {
        /// Its tenant.
        tenant: TenantId,
        /// The agent.
        agent: AgentId,
    },
    /// All calls with one API key.
    Key {
        /// Its tenant.
        tenant: TenantId,
        /// Its agent.
        agent: AgentId,
        /// The key.
        key: KeyId,
    },
    /// A tool, whoever calls it, in place of what its code declares.
    Tool {
        /// The name of the tool.
        tool: String,
    },
    /// A tool, when a tenant calls it.
    TenantTool {
        /// The tenant.
        tenant: TenantId,
        /// The name of the tool.
        tool: String,
    },
    /// A tool, when one agent calls it.
    AgentTool {
        /// The agent's tenant.
        tenant: TenantId,
        /// The agent.
        agent: AgentId,
        /// The name of the tool.
        tool: String,
    },
    /// Each tenant on a plan.
    Plan {
        /// The plan.
        plan: PlanId,
    },
    /// Each agent of each tenant on a plan.
    PlanAgent {
        /// The plan.
        plan: PlanId,
    },
    /// A tool, when a tenant on a plan calls it.
    PlanTool {
        /// The plan.
        plan: PlanId,
        /// The name of the tool.
        tool: String,
    },
}

impl Target {
    /// The word for the kind of target, as it is stored.
    pub const fn scope(&self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Tenant { .. } => "tenant",
            Self::Agent { .. } => "agent",
            Self::Key { .. } => "key",
            Self::Tool { .. } => "tool",
            Self::TenantTool { .. } => "tenant_tool",
            Self::AgentTool { .. } => "agent_tool",
            Self::Plan { .. } => "plan",
            Self::PlanAgent { .. } => "plan_agent",
            Self::PlanTool { .. } => "plan_tool",
        }
    }

    /// The tenant the limit belongs to; none for those of the server and of plans.
    pub const fn tenant(&self) -> Option<TenantId> {
        match self {
            Self::Tenant { tenant }
            | Self::Agent { tenant, .. }
            | Self::Key { tenant, .. }
            | Self::TenantTool { tenant, .. }
            | Self::AgentTool { tenant, .. } => Some(*tenant),
            _ => None,
        }
    }

    /// The agent it is about.
    pub const fn agent(&self) -> Option<AgentId> {
        match self {
            Self::Agent { agent, .. } | Self::Key { agent, .. } | Self::AgentTool { agent, .. } => Some(*agent),
            _ => None,
        }
    }

    /// The API key it is about.
    pub const fn key(&self) -> Option<KeyId> {
        match self {
            Self::Key { key, .. } => Some(*key),
            _ => None,
        }
    }

    /// The plan it belongs to.
    pub const fn plan(&self) -> Option<PlanId> {
        match self {
            Self::Plan { plan } | Self::PlanAgent { plan } | Self::PlanTool { plan, .. } => Some(*plan),
            _ => None,
        }
    }

    /// The name of the tool it is about.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::Tool { tool }
            | Self::TenantTool { tool, .. }
            | Self::AgentTool { tool, .. }
            | Self::PlanTool { tool, .. } => Some(tool),
            _ => None,
        }
    }

    /// How a rate is counted when nobody says: strictly for the ceilings of the server
    /// and of tenants, with a bucket for the rest.
    pub const fn default_algorithm(&self) -> Algorithm {
        match self {
            Self::Server | Self::Tenant { .. } | Self::Plan { .. } => Algorithm::SlidingWindow,
            _ => Algorithm::TokenBucket,
        }
    }

    /// Puts a target together from the columns of a row; `None` when they do not fit.
    pub(super) fn from_columns(
        scope: &str,
        tenant: Option<TenantId>,
        agent: Option<AgentId>,
        key: Option<KeyId>,
        plan: Option<PlanId>,
        tool: Option<String>,
    ) -> Option<Self> {
        Some(match scope {
            "server" => Self::Server,
            "tenant" => Self::Tenant { tenant: tenant? },
            "agent" => Self::Agent { tenant: tenant?, agent: agent? },
            "key" => Self::Key { tenant: tenant?, agent: agent?, key: key? },
            "tool" => Self::Tool { tool: tool? },
            "tenant_tool" => Self::TenantTool { tenant: tenant?, tool: tool? },
            "agent_tool" => Self::AgentTool { tenant: tenant?, agent: agent?, tool: tool? },
            "plan" => Self::Plan { plan: plan? },
            "plan_agent" => Self::PlanAgent { plan: plan? },
            "plan_tool" => Self::PlanTool { plan: plan?, tool: tool? },
            _ => return None,
        })
    }
}

/// The scope and its parts, separated by `/`: `tenant_tool/ten_…/export`. Two targets
/// have the same text only if they are the same: ids have no `/`, and the tool is last.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scope())?;
        if let Some(tenant) = self.tenant() {
            write!(f, "/{tenant}")?;
        }
        if let Some(agent) = self.agent() {
            write!(f, "/{agent}")?;
        }
        if let Some(key) = self.key() {
            write!(f, "/{key}")?;
        }
        if let Some(plan) = self.plan() {
            write!(f, "/{plan}")?;
        }
        if let Some(tool) = self.tool() {
            write!(f, "/{tool}")?;
        }
        Ok(())
    }
}
