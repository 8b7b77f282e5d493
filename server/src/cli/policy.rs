//! `export` and `import`.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use sluicegate_control::{PolicyDocument, TenantRef};

use super::Desk;

/// Print the policy as JSON: plans, tenants, limits and switches, for review in git.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Only this tenant.
    #[arg(long)]
    tenant: Option<String>,
}

impl Export {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let tenant = self.tenant.as_deref().map(TenantRef::from);
        let document = desk.control.transfer().export(&desk.actor, tenant.as_ref()).await?;
        let text = serde_json::to_string_pretty(&document)?;
        desk.output.result(&document, || text)
    }
}

/// Bring the policy to what a document says; what it does not name stays as it is.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The document, as `export` prints it; standard input without one.
    file: Option<PathBuf>,
    /// Only say what would change.
    #[arg(long)]
    dry_run: bool,
}

impl Import {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let text = match &self.file {
            Some(file) => std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?,
            None => {
                let mut text = String::new();
                std::io::stdin().lock().read_to_string(&mut text).context("reading standard input")?;
                text
            }
        };
        let document: PolicyDocument = serde_json::from_str(&text).context("this is not a policy document")?;
        let report = desk.control.transfer().import(&desk.actor, &document, self.dry_run).await?;
        desk.output.result(&report, || {
            let mut lines: Vec<_> =
                report.steps.iter().map(|step| format!("{} {}", step.action, step.target)).collect();
            let count = lines.len();
            lines.push(match (count, report.applied) {
                (0, _) => "everything is as the document says".to_owned(),
                (_, true) => format!("{count} changes"),
                (_, false) => format!("{count} changes would be made"),
            });
            lines.join("\n")
        })
    }
}
