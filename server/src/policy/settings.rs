//! Limits of the settings, read again when a file has changed or the process is told so. What cannot be read, or makes no
//! sense, changes nothing.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::PolicyStore;
use super::baseline::Baseline;
use crate::declared::DeclaredText;
use crate::settings::sources::Origin;
use crate::settings::{SETTINGS, Settings, SettingsError};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Takes over what the files say now.
pub(crate) struct SettingsReload {
    origin: Arc<Origin>,
    /// What the tools declare, by name in the registry's order.
    declared: Vec<(String, DeclaredText)>,
    policy: Arc<PolicyStore>,
    state: Mutex<State>,
}

struct State {
    /// What is in force. A program may have changed what was read; that stays.
    running: Settings,
    /// What was read last and understood.
    read: Settings,
}

/// Copies those fields of one value to another that a reload may change, and that have changed.
macro_rules! take_over {
    ($($field:ident),+; $from:expr, $before:expr, $to:expr) => {
        $(if $from.$field != $before.$field {
            $to.$field.clone_from(&$from.$field);
        })+
    };
}

/// The settings that hold from the next request on. All others need a restart.
const RELOADED: &[&str] = &[
    "limit_server",
    "limit_tenant",
    "limit_agent",
    "limit_tool",
    "requests_per_agent",
    "agent_concurrency",
    "max_in_flight",
    "call_timeout",
];

impl SettingsReload {
    /// For a server that runs with `settings`; `None` if those come from no files.
    pub(crate) fn new(
        settings: &Settings,
        declared: Vec<(String, DeclaredText)>,
        policy: Arc<PolicyStore>,
    ) -> Option<Arc<Self>> {
        let origin = settings.provenance.origin.clone()?;
        let read = origin.read().unwrap_or_else(|_| settings.clone());
        let state = Mutex::new(State { running: settings.clone(), read });
        Some(Arc::new(Self { origin, declared, policy, state }))
    }

    /// Reads the files and puts the limits in them in force.
    pub(crate) async fn reload(&self) {
        match self.read() {
            Ok(baseline) => {
                self.policy.replace_baseline(Arc::new(baseline)).await;
                tracing::info!("the limits of the settings were read again and are in force");
            }
            Err(error) => {
                tracing::error!(%error, "the settings cannot be used; those that were in force stay");
                self.policy.settings_failed(error.to_string());
            }
        }
    }

    fn read(&self) -> Result<Baseline, SettingsError> {
        let fresh = self.origin.read()?;
        let mut state = self.state.lock();
        let State { running, read } = &mut *state;
        let mut next = running.clone();
        take_over!(
            limit_server, limit_tenant, limit_agent, limit_tool, requests_per_agent, agent_concurrency, max_in_flight,
            call_timeout, limits; fresh, read, next
        );
        next.provenance.tool_limits.clone_from(&fresh.provenance.tool_limits);
        next.provenance.sources.clone_from(&fresh.provenance.sources);
        let baseline = Baseline::new(&next, self.declared.iter().cloned())?;
        let changed = |name: &&str| fresh.provenance.values.get(name) != read.provenance.values.get(name);
        let others = SETTINGS.iter().map(|setting| setting.name).filter(|name| !RELOADED.contains(name));
        let waiting: Vec<_> = others.filter(changed).collect();
        if !waiting.is_empty() {
            tracing::warn!(settings = waiting.join(", "), "these settings have changed and need a restart");
        }
        (*running, *read) = (next, fresh);
        Ok(baseline)
    }

    /// Looks at the files until `shutdown` is cancelled.
    pub(crate) async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let mut known = self.stamps().await;
        while tokio::time::timeout(LOOK_EVERY, shutdown.cancelled()).await.is_err() {
            let now = self.stamps().await;
            if now != known {
                known = now;
                self.reload().await;
            }
        }
    }

    async fn stamps(&self) -> Option<[crate::settings::sources::Stamp; 2]> {
        let origin = Arc::clone(&self.origin);
        tokio::task::spawn_blocking(move || origin.stamps()).await.ok()
    }
}
