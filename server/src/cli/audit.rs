//! `audit list|verify`.

use anyhow::bail;
use clap::Subcommand;
use serde::Serialize;
use sluicegate_control::{AuditEntry, AuditFilter, AuditVerdict, PageRequest, TenantRef};

use super::Desk;
use super::output::time;

/// The audit log.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List the newest entries.
    List {
        /// Only those of this tenant.
        #[arg(long)]
        tenant: Option<String>,
        /// Only those with this action (`limit.set`), or of this sort (`limit`).
        #[arg(long)]
        action: Option<String>,
        /// How many: 1 to 200.
        #[arg(long, default_value_t = 50)]
        limit: u16,
    },
    /// Compute every hash again; fails when an entry is altered, missing or out of place.
    Verify,
}

#[derive(Serialize)]
struct Verified {
    entries: i64,
}

impl Audit {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let audit = desk.control.audit();
        match self {
            Self::List { tenant, action, limit } => {
                let tenant = tenant.as_deref().map(TenantRef::from);
                let filter = AuditFilter { tenant, action, ..AuditFilter::default() };
                let page = audit.search(&desk.actor, &filter, &PageRequest::first(limit)).await?;
                desk.output.list(&page.items, ["SEQ", "AT", "ACTOR", "ACTION", "TARGET"], |entry: &AuditEntry| {
                    let (actor, action) = (entry.actor.clone(), entry.action.clone());
                    [entry.seq.to_string(), time(entry.at), actor, action, entry.target.clone()]
                })
            }
            Self::Verify => match audit.verify(&desk.actor).await? {
                AuditVerdict::Intact { entries } => {
                    desk.output.result(&Verified { entries }, || format!("the audit log is intact: {entries} entries"))
                }
                AuditVerdict::Broken { seq } => {
                    bail!("the audit log does not hold: entry {seq} is altered, missing or out of place")
                }
            },
        }
    }
}
