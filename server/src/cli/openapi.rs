//! `openapi`.

use std::io::Write as _;

/// Prints the document of the admin API, which is the same whatever is configured.
pub(crate) fn print() -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&crate::api::document())?;
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}
