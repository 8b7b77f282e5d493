//! Settings that are addresses: what they say, and whether they can be used.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;

use super::{EngineKind, Settings, SettingsError, list};
use crate::engine::Redis;

impl Settings {
    /// Where the policy is kept: the configured database, or the embedded one in the data folder.
    #[must_use]
    pub fn database(&self) -> String {
        if self.database_url.is_empty() {
            format!("sqlite:{}", self.data.join("sluicegate.db").display())
        } else {
            self.database_url.clone()
        }
    }

    /// The server of `redis_url`, if limits are shared through one.
    pub(crate) fn redis(&self) -> Result<Option<Redis>, SettingsError> {
        if self.engine == EngineKind::Memory {
            return Ok(None);
        }
        // The address may hold a password, so the message does not repeat it.
        let wrong = |error| SettingsError(format!("redis_url is no address of a Redis server: {error}"));
        Redis::new(&self.redis_url, self.redis_cluster, self.redis_timeout.0).map(Some).map_err(wrong)
    }

    /// The Unix socket on which the running server answers the command line.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        self.data.join("control.sock")
    }

    /// The address of `metrics_bind`.
    pub(crate) fn metrics_address(&self) -> Result<Option<SocketAddr>, SettingsError> {
        let text = self.metrics_bind.as_str();
        let address = (!text.is_empty()).then(|| text.parse()).transpose();
        address.map_err(|_| {
            SettingsError(format!("metrics_bind: `{text}` is not an address and a port such as 127.0.0.1:9464"))
        })
    }

    /// The address that clients use, without the path.
    pub(crate) fn public_url(&self) -> Option<String> {
        let url = self.public_url.trim_end_matches('/');
        (!url.is_empty()).then(|| url.to_owned())
    }

    pub(super) fn check_public_url(&self) -> Result<(), SettingsError> {
        let text = self.public_url.as_str();
        let url = text.parse::<http::Uri>().ok();
        let good = url.is_some_and(|url| {
            matches!(url.scheme_str(), Some("https" | "http")) && url.path() == "/" && url.query().is_none()
        });
        if good || text.is_empty() {
            return Ok(());
        }
        Err(SettingsError(format!("public_url: `{text}` is not like https://mcp.example.com, without a path")))
    }

    /// The host names of `allowed_hosts`.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        list(&self.allowed_hosts)
    }

    /// The origins of `allowed_origins`.
    pub(crate) fn origins(&self) -> impl Iterator<Item = &str> {
        list(&self.allowed_origins)
    }

    /// The addresses and networks of `trusted_proxies`.
    pub(crate) fn proxies(&self) -> Result<Vec<IpNet>, SettingsError> {
        let network = |text: &str| {
            let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| {
                SettingsError(format!("trusted_proxies: `{text}` is not an address or a network such as 10.0.0.0/8"))
            })
        };
        list(&self.trusted_proxies).map(network).collect()
    }
}
