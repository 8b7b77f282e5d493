//! Why a server could not be started.

use std::net::SocketAddr;
use std::path::PathBuf;

use sluicegate_control::ControlError;
use sluicegate_mcp::{LearnError, RegistryError};

use crate::settings::SettingsError;

/// Any error, as hooks return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data folder could not be made.
    #[error("the data folder {} could not be made", folder.display())]
    DataFolder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The database did not do what it was told.
    #[error("the database could not be {what}")]
    Database {
        /// What it was told.
        what: &'static str,
        /// Why it did not.
        source: ControlError,
    },
    /// A setting, or a limit in a tool, cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The tools do not go together.
    #[error(transparent)]
    Tools(#[from] RegistryError),
    /// The rmcp handler does not say which tools it has.
    #[error(transparent)]
    Handler(#[from] LearnError),
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The peer on stdio never spoke the protocol, or the streams broke.
    #[error("the stdio transport failed")]
    Stdio(#[source] std::io::Error),
    /// What [`Server::on_ready`](crate::Server::on_ready) was given failed.
    #[error("the server was started, but its first work failed")]
    Ready(#[source] BoxError),
}

impl StartError {
    pub(crate) fn database(what: &'static str) -> impl FnOnce(ControlError) -> Self {
        move |source| Self::Database { what, source }
    }
}
