//! The command line of every server: `serve`, and the operator's commands on its database.

use std::ffi::OsString;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use sluicegate_control::{Actor, Control, WallClock};
use tracing_subscriber::EnvFilter;

use crate::live;
use crate::server::{Server, open_control};
use crate::settings::{LogFormat, Overrides, Settings};

mod admin;
mod agent;
mod audit;
mod check;
mod key;
mod limit;
mod openapi;
mod output;
mod plan;
mod policy;
mod serve;
mod simulate;
mod targets;
mod tenant;

use output::Output;

/// A multi-tenant MCP server.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Configuration file (default: sluicegate.toml, if there is one).
    #[arg(long, global = true, value_name = "FILE", env = "SLUICEGATE_CONFIG")]
    config: Option<PathBuf>,
    /// Folder of the embedded database and the control socket.
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Database: postgres://… or sqlite:PATH.
    #[arg(long, global = true, value_name = "URL")]
    database_url: Option<String>,
    /// Print JSON instead of text for people.
    #[arg(long, global = true)]
    json: bool,
    /// Serve the demonstration: short for `serve --demo`.
    #[arg(long)]
    demo: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the tools (the default).
    Serve(serve::Serve),
    /// Check configuration, database and migrations, and say what would be in force.
    Check(check::Check),
    /// Bring the database up to date, or say whether it is.
    Migrate(serve::Migrate),
    /// Tenants: add, list, suspend, resume.
    #[command(subcommand)]
    Tenant(tenant::Tenant),
    /// Agents of a tenant: list, suspend, resume.
    #[command(subcommand)]
    Agent(agent::Agent),
    /// API keys: add, list, rotate, revoke.
    #[command(subcommand)]
    Key(key::Key),
    /// Plans: add, list, assign, unassign, delete.
    #[command(subcommand)]
    Plan(plan::Plan),
    /// Limits: set, list, unset, explain.
    #[command(subcommand)]
    Limit(limit::Limit),
    /// Who administers: add-user, reset-password, token.
    #[command(subcommand)]
    Admin(admin::Admin),
    /// The audit log: list, verify.
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Print the policy as a document.
    Export(policy::Export),
    /// Bring the policy to what a document says.
    Import(policy::Import),
    /// Rehearse a runaway agent against the running server.
    Simulate(simulate::Simulate),
    /// Print the OpenAPI document of the admin API.
    Openapi,
    /// Print what a shell needs to complete these commands.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// What the operator's commands work with.
struct Desk {
    control: Control,
    actor: Actor,
    settings: Settings,
    output: Output,
}

/// Runs the command line of a server.
pub(crate) fn run(server: Server) -> ExitCode {
    run_with(server, std::env::args_os())
}

fn run_with(server: Server, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let about = format!("The MCP server `{}`.", server.name());
    let without_demo = server.demo().is_none();
    let command = Arguments::command().about(about);
    let command = command.mut_arg("demo", |demo| demo.hide(without_demo));
    let command = command.mut_subcommand("serve", |serve| serve.mut_arg("demo", |demo| demo.hide(without_demo)));
    let mut whole = command.clone();
    let mut arguments = arguments.into_iter().peekable();
    let name = arguments.peek().map(PathBuf::from);
    let name = name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let matches = command.get_matches_from(arguments);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let Some(Command::Completions { shell }) = &arguments.command {
        clap_complete::generate(*shell, &mut whole, name.unwrap_or_default(), &mut std::io::stdout());
        return ExitCode::SUCCESS;
    }
    match execute(server, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The causes belong to people at the terminal; they hold no secrets.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(server: Server, arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { config, data, database_url, json, demo, command } = arguments;
    let command = match command {
        None => Command::Serve(serve::Serve::by_default(demo)),
        Some(_) if demo => anyhow::bail!("--demo stands alone, or behind `serve`"),
        Some(command) => command,
    };
    let bind: Option<SocketAddr> = match &command {
        Command::Serve(serve) => serve.bind,
        _ => None,
    };
    let overrides = Overrides { bind, data, database_url };
    let settings = Settings::load_with_data(config.as_deref(), &overrides, server.data_folder().map(PathBuf::as_path))?;
    let serves = matches!(command, Command::Serve(_));
    log_to_stderr(&settings, serves)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Openapi => openapi::print(),
            Command::Serve(serve) => serve.run(server, &settings).await,
            Command::Check(check) => check.run(server, &settings, Output::new(json)).await,
            Command::Migrate(migrate) => migrate.run(&settings, Output::new(json)).await,
            command => {
                let desk = Desk::open(settings, Output::new(json)).await?;
                match command {
                    Command::Tenant(tenant) => tenant.run(&desk).await,
                    Command::Agent(agent) => agent.run(&desk).await,
                    Command::Key(key) => key.run(&desk).await,
                    Command::Plan(plan) => plan.run(&desk).await,
                    Command::Limit(limit) => limit.run(&desk).await,
                    Command::Admin(admin) => admin.run(&desk).await,
                    Command::Audit(audit) => audit.run(&desk).await,
                    Command::Export(export) => export.run(&desk).await,
                    Command::Import(import) => import.run(&desk).await,
                    Command::Simulate(simulate) => simulate.run(&desk).await,
                    Command::Serve(_)
                    | Command::Check(_)
                    | Command::Migrate(_)
                    | Command::Openapi
                    | Command::Completions { .. } => {
                        unreachable!("handled above")
                    }
                }?;
                desk.control.close().await;
                Ok(())
            }
        }
    })
}

impl Desk {
    async fn open(settings: Settings, output: Output) -> anyhow::Result<Self> {
        let control = open_control(&settings, WallClock::system()).await?;
        if !control.migration_status().await?.pending.is_empty() {
            control.migrate().await.context("migrating the database")?;
        }
        Ok(Self { control, actor: Actor::cli(&account()), settings, output })
    }

    /// Saves a server on this data folder the wait for its next look; others notice by themselves.
    async fn tell_server(&self) {
        if let Err(error) = live::reload(&self.settings.control_socket()).await {
            tracing::warn!(?error, "the running server could not be told; it will notice by itself");
        }
    }
}

/// The name of the account that runs the command, for the audit log.
fn account() -> String {
    ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(|| "unknown".to_owned())
}

/// Logs go to standard error: standard output belongs to results and to the stdio transport. Commands log warnings only.
fn log_to_stderr(settings: &Settings, serves: bool) -> anyhow::Result<()> {
    let filter = if serves { settings.log.as_str() } else { "warn" };
    let filter = EnvFilter::try_new(filter).with_context(|| format!("log: `{filter}` is not a filter"))?;
    // What rmcp logs below errors holds arguments and results.
    let filter = filter.add_directive("rmcp=error".parse()?);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A program that has set up its own logging keeps it.
    let _ = match settings.log_format {
        LogFormat::Pretty => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    Ok(())
}
