//! `audit list|verify`.

use clap::Subcommand;
use serde::Serialize;
use sluicegate_control::{AuditEntry, AuditVerdict, PageRequest, TenantRef};

use super::Desk;
use super::output::time;

/// The audit log.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List who changed what, newest first.
    List {
        /// Only what concerns this tenant.
        #[arg(long)]
        tenant: Option<String>,
        /// How many entries at most.
        #[arg(long, default_value = "50")]
        limit: usize,
    },
    /// Compute every hash of the log again: is it as it was written?
    Verify,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Verified {
    intact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<i64>,
    /// The first entry that is altered, missing or out of place.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken_at: Option<i64>,
}

impl Audit {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        match self {
            Self::List { tenant, limit } => {
                let entries = list(desk, tenant.as_deref().map(TenantRef::from).as_ref(), limit).await?;
                desk.output.list(&entries, ["SEQ", "AT", "WHO", "WHAT", "ABOUT"], |entry: &AuditEntry| {
                    let AuditEntry { seq, at, actor, action, target, .. } = entry;
                    [seq.to_string(), time(*at), actor.clone(), action.clone(), target.clone()]
                })
            }
            Self::Verify => verify(desk).await,
        }
    }
}

async fn list(desk: &Desk, tenant: Option<&TenantRef>, limit: usize) -> anyhow::Result<Vec<AuditEntry>> {
    let mut entries = Vec::new();
    let mut request = PageRequest::first(PageRequest::MAX);
    while entries.len() < limit {
        let page = desk.control.audit().list(&desk.actor, tenant, &request).await?;
        entries.extend(page.items);
        match page.next {
            Some(next) => request.after = Some(next),
            None => break,
        }
    }
    entries.truncate(limit);
    Ok(entries)
}

async fn verify(desk: &Desk) -> anyhow::Result<()> {
    let verified = match desk.control.audit().verify(&desk.actor).await? {
        AuditVerdict::Intact { entries } => Verified { intact: true, entries: Some(entries), broken_at: None },
        AuditVerdict::Broken { seq } => Verified { intact: false, entries: None, broken_at: Some(seq) },
    };
    desk.output.result(&verified, || match &verified {
        Verified { entries: Some(entries), .. } => format!("the audit log is intact: {entries} entries"),
        Verified { broken_at, .. } => {
            format!("entry {} of the audit log is altered, missing or out of place", broken_at.unwrap_or_default())
        }
    })?;
    anyhow::ensure!(verified.intact, "the audit log is not as it was written");
    Ok(())
}
