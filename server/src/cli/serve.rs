//! `serve` and `migrate`.

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use sluicegate_control::{Control, WallClock};

use super::output::Output;
use crate::server::{Running, Server, open_control};
use crate::settings::{AuthMode, Settings};
use crate::telemetry::process;

/// Serve the tools.
#[derive(Debug, Default, Args)]
pub(crate) struct Serve {
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<SocketAddr>,
    /// Serve one caller on standard input and output; its API key or token is in SLUICEGATE_API_KEY.
    #[arg(long, conflicts_with = "bind")]
    stdio: bool,
    /// Serve the demonstration: tools to try the server with, and tenants that are made if they do not exist.
    #[arg(long)]
    demo: bool,
    /// Do not bring the database up to date; refuse to start when it is not.
    #[arg(long)]
    no_migrate: bool,
}

impl Serve {
    /// What is done without a command.
    pub(crate) fn by_default(demo: bool) -> Self {
        Self { demo, ..Self::default() }
    }

    pub(crate) async fn run(self, server: Server, settings: &Settings) -> anyhow::Result<()> {
        let server = match server.demo() {
            Some(demo) if self.demo => demo(server),
            None if self.demo => anyhow::bail!("this server has no demonstration"),
            _ => server,
        };
        if !server.has_tools() {
            let hint = if server.demo().is_some() { ", or try `serve --demo`" } else { "" };
            anyhow::bail!("this server has no tools: register some with `Server::tools` or `Server::tool`{hint}");
        }
        let control = open_control(settings, WallClock::system()).await?;
        if self.no_migrate {
            refuse_pending(&control).await?;
        } else {
            control.migrate().await.context("migrating the database")?;
        }
        if self.stdio {
            let key = match (settings.auth, std::env::var("SLUICEGATE_API_KEY")) {
                (AuthMode::None, _) => String::new(),
                (_, Ok(key)) => key,
                (_, Err(_)) => anyhow::bail!("SLUICEGATE_API_KEY is not set: put the caller's API key or token there"),
            };
            return Ok(server.serve_stdio(control, settings, key).await?);
        }
        process::collect();
        let running = server.start_on(control, settings).await?;
        announce(&running).await?;
        running.until_signal().await?;
        Ok(())
    }
}

/// Tells whoever started the server where its panel is, and how to become its owner.
async fn announce(running: &Running) -> anyhow::Result<()> {
    let text = match (running.panel(), running.set_up_link().await?) {
        (_, Some(link)) => {
            format!("\nThe panel has no owner yet. Open this link once to make yourself one:\n  {link}\n\n")
        }
        (Some(panel), None) => format!("panel: {panel}\n"),
        (None, None) => return Ok(()),
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("writing to standard output")
}

async fn refuse_pending(control: &Control) -> anyhow::Result<()> {
    let pending = control.migration_status().await?.pending;
    anyhow::ensure!(pending.is_empty(), "{} migrations are pending: run `migrate` first", pending.len());
    Ok(())
}

/// Bring the database up to date.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Change nothing; list what is applied and what is pending.
    #[arg(long)]
    status: bool,
}

impl Migrate {
    pub(crate) async fn run(self, settings: &Settings, output: Output) -> anyhow::Result<()> {
        #[derive(Serialize)]
        struct Report<'a> {
            applied: usize,
            pending: &'a [(i64, String)],
        }
        let control = open_control(settings, WallClock::system()).await?;
        if !self.status {
            control.migrate().await.context("migrating the database")?;
        }
        let status = control.migration_status().await?;
        let report = Report { applied: status.applied.len(), pending: &status.pending };
        output.result(&report, || {
            format!("{} migrations applied, {} pending", status.applied.len(), status.pending.len())
        })
    }
}
