//! Which style a refused caller gets: data, not code.

use crate::settings::{CompatibilityEntry, RefusalStyle};

/// Clients that break on a status of 429. Measured with their current releases; see docs/limits.md.
fn shipped() -> [CompatibilityEntry; 1] {
    // Python `mcp` 1.x (and fastmcp 3.x on it) loses its session and the body on any error status.
    [CompatibilityEntry {
        user_agent: "python-httpx".to_owned(),
        older_than: Some(super::report::MODERN.to_owned()),
        style: RefusalStyle::Jsonrpc,
    }]
}

/// The compatibility list: the configured entries, then the shipped one; the first that fits decides.
#[derive(Debug, Clone)]
pub(crate) struct CompatibilityList(Vec<CompatibilityEntry>);

impl CompatibilityList {
    pub(crate) fn new(configured: &[CompatibilityEntry]) -> Self {
        Self(configured.iter().cloned().chain(shipped()).collect())
    }

    /// The style for a client under `auto`. A peer that names no version speaks an old one.
    pub(crate) fn style(&self, user_agent: &str, version: Option<&str>) -> RefusalStyle {
        let fits = |entry: &&CompatibilityEntry| {
            user_agent.starts_with(&entry.user_agent)
                && entry.older_than.as_deref().is_none_or(|limit| version.unwrap_or_default() < limit)
        };
        match self.0.iter().find(fits).map(|entry| entry.style) {
            None | Some(RefusalStyle::Auto) => RefusalStyle::Http,
            Some(style) => style,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_list_spares_old_python_clients_only() {
        let list = CompatibilityList::new(&[]);
        for (agent, version, style) in [
            ("python-httpx/0.28", Some("2025-11-25"), RefusalStyle::Jsonrpc),
            ("python-httpx/0.28", None, RefusalStyle::Jsonrpc),
            ("python-httpx/0.28", Some("2026-07-28"), RefusalStyle::Http),
            ("node", Some("2025-11-25"), RefusalStyle::Http),
        ] {
            assert_eq!(list.style(agent, version), style, "{agent} {version:?}");
        }
    }

    #[test]
    fn configured_entries_come_first() {
        let own = CompatibilityEntry {
            user_agent: "python-httpx".to_owned(),
            older_than: None,
            style: RefusalStyle::ToolResult,
        };
        let list = CompatibilityList::new(&[own]);
        assert_eq!(list.style("python-httpx/0.28", Some("2025-11-25")), RefusalStyle::ToolResult);
    }
}
