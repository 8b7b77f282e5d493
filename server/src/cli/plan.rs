//! `plan add|list|assign|unassign|delete`.

use clap::Subcommand;
use sluicegate_control::{Plan as PlanRow, PlanRef, TenantRef};

use super::Desk;
use super::output::time;
use crate::pages;

/// Plans: named sets of limits that tenants share.
#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    /// Add a plan; its limits are set with `limit set --plan NAME`.
    Add {
        /// Its name: lower-case letters, digits and `-`. It never changes.
        name: String,
        /// A remark for operators.
        #[arg(long, default_value = "")]
        note: String,
    },
    /// List plans.
    List,
    /// Put a tenant on a plan, in place of the one it is on.
    Assign {
        /// The plan's name or id.
        plan: String,
        /// The tenant's slug or id.
        #[arg(long)]
        tenant: String,
    },
    /// Take a tenant off its plan.
    Unassign {
        /// The tenant's slug or id.
        #[arg(long)]
        tenant: String,
    },
    /// Delete a plan that no tenant is on, with its limits.
    Delete {
        /// The plan's name or id.
        plan: String,
    },
}

impl Plan {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let plans = desk.control.plans();
        match self {
            Self::Add { name, note } => {
                let plan = plans.create(&desk.actor, &name, &note).await?;
                desk.output.result(&plan, || format!("plan {} added", plan.name))
            }
            Self::List => {
                let plans = pages::all(async |page| plans.list(&desk.actor, page).await).await?;
                desk.output.list(&plans, ["NAME", "NOTE", "CREATED", "ID"], |plan: &PlanRow| {
                    [plan.name.clone(), plan.note.clone(), time(plan.created_at), plan.id.to_string()]
                })
            }
            Self::Assign { plan, tenant } => assign(desk, &tenant, Some(&plan.as_str().into())).await,
            Self::Unassign { tenant } => assign(desk, &tenant, None).await,
            Self::Delete { plan } => {
                plans.delete(&desk.actor, &plan.as_str().into()).await?;
                desk.output.result(&plan, || format!("plan {plan} deleted"))
            }
        }
    }
}

async fn assign(desk: &Desk, tenant: &str, plan: Option<&PlanRef>) -> anyhow::Result<()> {
    let tenant = desk.control.tenants().assign_plan(&desk.actor, &TenantRef::from(tenant), plan).await?;
    desk.tell_server().await;
    desk.output.result(&tenant, || match &tenant.plan_name {
        Some(plan) => format!("tenant {} is on plan {plan}", tenant.slug),
        None => format!("tenant {} is on no plan", tenant.slug),
    })
}
