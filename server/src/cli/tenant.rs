//! `tenant add|list|suspend|resume|weight`.

use clap::Subcommand;
use sluicegate_control::{Tenant as TenantRow, TenantFilter, TenantRef, TenantSettings};

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
    /// Say how much a tenant's share of the whole server's limit counts for against those of others.
    Weight {
        /// Its slug or id.
        tenant: String,
        /// 1 to 1000; a tenant of weight 2 gets twice the share of one of weight 1, which is what all have at first.
        weight: u32,
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
            Self::Weight { tenant, weight } => {
                let tenant = TenantRef::from(tenant.as_str());
                let before = tenants.get(&desk.actor, &tenant).await?.settings;
                let settings = TenantSettings { weight: Some(weight), ..before };
                ("given its weight", tenants.set_settings(&desk.actor, &tenant, settings).await?)
            }
            Self::List => return list(desk).await,
        };
        desk.output.result(&tenant, || format!("tenant {} {done}", tenant.slug))
    }
}

async fn list(desk: &Desk) -> anyhow::Result<()> {
    let filter = TenantFilter::default();
    let tenants = pages::all(async |page| desk.control.tenants().list(&desk.actor, &filter, page).await).await?;
    desk.output.list(&tenants, ["SLUG", "NAME", "STATUS", "PLAN", "WEIGHT", "CREATED"], |tenant: &TenantRow| {
        let TenantRow { slug, name, status, settings, created_at, .. } = tenant;
        let plan = tenant.plan_name.clone().unwrap_or_else(|| "-".to_owned());
        let weight = settings.weight.unwrap_or(1).to_string();
        [slug.clone(), name.clone(), status.to_string(), plan, weight, time(*created_at)]
    })
}
