//! `tenant add|list|suspend|resume`.

use clap::Subcommand;
use sluicegate_control::{Tenant as TenantRow, TenantFilter};

use super::Desk;
use super::output::time;
use crate::pages;

/// Tenants.
#[derive(Debug, Subcommand)]
pub(crate) enum Tenant {
    /// Add a tenant.
    Add {
        /// Its slug: lower-case letters, digits and `-`. It never changes.
        slug: String,
        /// Its name for people; the slug if not given.
        #[arg(long)]
        name: Option<String>,
    },
    /// List tenants.
    List,
    /// Refuse all calls of a tenant.
    Suspend {
        /// Its slug or id.
        tenant: String,
    },
    /// Serve a suspended tenant again.
    Resume {
        /// Its slug or id.
        tenant: String,
    },
}

impl Tenant {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let tenants = desk.control.tenants();
        let (done, tenant) = match self {
            Self::Add { slug, name } => {
                let name = name.unwrap_or_else(|| slug.clone());
                ("added", tenants.create(&desk.actor, &slug, &name).await?)
            }
            Self::Suspend { tenant } => ("suspended", tenants.suspend(&desk.actor, &tenant.as_str().into()).await?),
            Self::Resume { tenant } => ("resumed", tenants.resume(&desk.actor, &tenant.as_str().into()).await?),
            Self::List => return list(desk).await,
        };
        desk.output.result(&tenant, || format!("tenant {} {done}", tenant.slug))
    }
}

async fn list(desk: &Desk) -> anyhow::Result<()> {
    let filter = TenantFilter::default();
    let tenants = pages::all(async |page| desk.control.tenants().list(&desk.actor, &filter, page).await).await?;
    desk.output.list(&tenants, ["SLUG", "NAME", "STATUS", "PLAN", "CREATED"], |tenant: &TenantRow| {
        let plan = tenant.plan_name.clone().unwrap_or_else(|| "-".to_owned());
        [tenant.slug.clone(), tenant.name.clone(), tenant.status.to_string(), plan, time(tenant.created_at)]
    })
}
