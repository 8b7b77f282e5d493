//! A server that is serving, until it is told to stop.

use std::net::SocketAddr;
use std::sync::Arc;

use sluicegate_control::{Control, ControlError, LiveView};
use tokio::task::JoinHandle;

use super::house::House;
use crate::site::MCP_PATH;

/// A server that is serving.
#[must_use = "a server that is dropped goes on serving; stop it or wait for it"]
pub struct Running {
    pub(super) address: SocketAddr,
    pub(super) metrics_address: Option<SocketAddr>,
    pub(super) accepting: JoinHandle<()>,
    pub(super) house: House,
    pub(super) panel: bool,
}

impl Running {
    /// The address that is listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address that metrics are served on, if it is one of their own.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Where MCP is served.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}{MCP_PATH}", self.address)
    }

    /// Where the panel is served; `None` when it is turned off.
    #[must_use]
    pub fn panel(&self) -> Option<String> {
        self.panel.then(|| format!("http://{}/admin", self.address))
    }

    /// A one-time link that makes the panel's first owner; `None` when there is somebody who can sign in, or no panel.
    /// Show it only to whoever may own the server.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn set_up_link(&self) -> Result<Option<String>, ControlError> {
        if !self.panel {
            return Ok(None);
        }
        let path = sluicegate_admin_ui::set_up_path(&self.house.control).await?;
        Ok(path.map(|path| format!("http://{}{path}", self.address)))
    }

    /// The control plane of this server.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.house.control
    }

    /// The revision of the policy in force.
    #[must_use]
    pub fn policy_revision(&self) -> i64 {
        self.house.explainer.policy.current().revision.get()
    }

    /// What the panel and the admin API ask of this server.
    #[must_use]
    pub fn live(&self) -> Arc<dyn LiveView> {
        Arc::clone(&self.house.live) as Arc<dyn LiveView>
    }

    /// Reads the limits of the settings again, and looks for changes in the database. What makes no sense changes nothing
    /// and is logged.
    pub async fn reload(&self) {
        match &self.house.settings_reload {
            Some(reload) => reload.reload().await,
            None => tracing::info!("the settings come from no file: there is nothing to read again"),
        }
        if let Err(error) = self.house.explainer.policy.refresh().await {
            tracing::error!(?error, "the policy could not be reloaded; the one in force stays");
        }
    }

    /// Stops: new calls are refused, running ones may end within `drain_timeout`, then everything is closed.
    pub async fn stop(self) {
        let Self { accepting, house, .. } = self;
        house.draining.cancel();
        if let Err(error) = accepting.await {
            tracing::error!(%error, "the accept loop failed");
        }
        house.close().await;
    }

    /// Serves until the process is told to stop (SIGTERM, Ctrl-C), then [stops](Self::stop). SIGHUP reads the limits of
    /// the settings again.
    ///
    /// # Errors
    /// When the signals cannot be listened for.
    pub async fn until_signal(self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                interrupted = tokio::signal::ctrl_c() => break interrupted?,
                _ = hang_up.recv() => self.reload().await,
            }
        }
        tracing::info!("stopping");
        self.stop().await;
        Ok(())
    }
}
