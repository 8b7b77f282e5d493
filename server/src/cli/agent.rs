//! `agent list|suspend|resume`.

use clap::{Args, Subcommand};
use sluicegate_control::{Agent as AgentRow, TenantRef};

use super::Desk;
use super::output::optional_time;
use crate::pages;

/// Agents of a tenant.
#[derive(Debug, Subcommand)]
pub(crate) enum Agent {
    /// List a tenant's agents.
    List {
        /// The tenant's slug or id.
        #[arg(long)]
        tenant: String,
    },
    /// Refuse all calls of an agent.
    Suspend(Which),
    /// Serve a suspended agent again.
    Resume(Which),
}

/// One agent.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The tenant's slug or id.
    #[arg(long)]
    tenant: String,
    /// The agent's name or id.
    agent: String,
}

impl Agent {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let agents = desk.control.agents();
        let (done, agent) = match self {
            Self::List { tenant } => return list(desk, &TenantRef::from(tenant.as_str())).await,
            Self::Suspend(Which { tenant, agent }) => {
                ("suspended", agents.suspend(&desk.actor, &tenant.as_str().into(), &agent.as_str().into()).await?)
            }
            Self::Resume(Which { tenant, agent }) => {
                ("resumed", agents.resume(&desk.actor, &tenant.as_str().into(), &agent.as_str().into()).await?)
            }
        };
        desk.output.result(&agent, || format!("agent {} {done}", agent.name))
    }
}

async fn list(desk: &Desk, tenant: &TenantRef) -> anyhow::Result<()> {
    let agents = pages::all(async |page| desk.control.agents().list(&desk.actor, tenant, page).await).await?;
    desk.output.list(&agents, ["NAME", "STATUS", "LAST SEEN", "ID"], |agent: &AgentRow| {
        [agent.name.clone(), agent.status.to_string(), optional_time(agent.last_seen_at), agent.id.to_string()]
    })
}
