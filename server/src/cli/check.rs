//! `check`: is everything as it must be, and what would be in force?

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use sluicegate_control::WallClock;
use tracing_subscriber::EnvFilter;

use super::output::Output;
use crate::live::{self, Status};
use crate::policy::baseline::Baseline;
use crate::policy::explain::{BaselineLimit, Explainer, baseline_limits};
use crate::server::{Server, open_control};
use crate::settings::{SETTINGS, Settings};
use crate::token::Verifier;

/// Check configuration, database and migrations, and say what would be in force.
#[derive(Debug, Args)]
pub(crate) struct Check {}

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    /// The files that were read.
    files: Vec<PathBuf>,
    /// The settings that are not as they are by default.
    settings: Vec<Changed>,
    database: Database,
    limits: Vec<BaselineLimit>,
    /// How many keys the issuer of tokens publishes that they can be checked with.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer_keys: Option<usize>,
    /// The server that runs on the data folder, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<Status>,
    problems: Vec<String>,
}

/// A setting that is not as it is by default.
#[derive(Debug, Serialize)]
struct Changed {
    name: &'static str,
    value: String,
    source: String,
}

/// How the database is.
#[derive(Debug, Serialize)]
struct Database {
    /// `postgres` or `sqlite`.
    sort: &'static str,
    reachable: bool,
    applied: usize,
    pending: usize,
}

impl Check {
    pub(crate) async fn run(self, server: Server, settings: &Settings, output: Output) -> anyhow::Result<()> {
        let mut problems = Vec::new();
        if let Err(error) = EnvFilter::try_new(&settings.log) {
            problems.push(format!("log: `{}` is not a filter: {error}", settings.log));
        }
        let database = database(settings, &mut problems).await;
        if let Some(redis) = settings.redis()?
            && let Err(error) = redis.check().await
        {
            problems.push(format!("Redis, which limits are shared through: {error}"));
        }
        let limits = match limits(server, settings).await {
            Ok(limits) => limits,
            Err(error) => {
                problems.push(format!("{error:#}"));
                Vec::new()
            }
        };
        let issuer_keys = match issuer_keys(settings).await {
            Ok(keys) => keys,
            Err(problem) => {
                problems.push(problem);
                None
            }
        };
        let running = match live::status(&settings.control_socket()).await {
            Ok(running) => running,
            Err(error) => {
                problems.push(format!("the running server: {error:#}"));
                None
            }
        };
        if let Some(problem) = running.as_ref().and_then(|running| running.settings_problem.as_ref()) {
            problems.push(format!("the running server keeps its earlier limits: {problem}"));
        }
        let files = settings.provenance.origin.iter().flat_map(|origin| origin.files());
        let report = Report {
            ok: problems.is_empty(),
            files: files.filter(|file| file.exists()).map(PathBuf::from).collect(),
            settings: changed(settings),
            database,
            limits,
            issuer_keys,
            running,
            problems,
        };
        output.result(&report, || describe(&report))?;
        anyhow::ensure!(report.ok, "{} found: {}", count(report.problems.len()), report.problems.join("; "));
        Ok(())
    }
}

async fn database(settings: &Settings, problems: &mut Vec<String>) -> Database {
    let is_sqlite = settings.database().starts_with("sqlite:");
    let sort = if is_sqlite { "sqlite" } else { "postgres" };
    let looked = async {
        let control = open_control(settings, WallClock::system()).await.context("the database cannot be opened")?;
        let status = control.migration_status().await.context("the database cannot be read")?;
        control.close().await;
        anyhow::Ok((status.applied.len(), status.pending.len()))
    };
    let (reachable, (applied, pending)) = match looked.await {
        Ok(found) => (true, found),
        Err(error) => {
            problems.push(format!("{error:#}"));
            (false, (0, 0))
        }
    };
    Database { sort, reachable, applied, pending }
}

/// How many keys the issuer publishes, where tokens are checked with such keys.
async fn issuer_keys(settings: &Settings) -> Result<Option<usize>, String> {
    let verifier =
        Verifier::new(settings, quanta::Clock::new(), WallClock::system()).map_err(|error| error.to_string())?;
    let Some(jwks) = verifier.as_ref().and_then(Verifier::jwks) else { return Ok(None) };
    match jwks.try_once().await {
        Ok(0) => Err("jwt_jwks_url: none of the keys there can check tokens".to_owned()),
        Ok(keys) => Ok(Some(keys)),
        Err(error) => Err(format!("jwt_jwks_url: {} cannot be read: {error}", settings.jwt_jwks_url)),
    }
}

async fn limits(server: Server, settings: &Settings) -> anyhow::Result<Vec<BaselineLimit>> {
    if server.has_tools() {
        let declared = server.declared().await?;
        return Ok(baseline_limits(&Baseline::new(settings, declared)?));
    }
    // A program without tools of its own is the operator's: the tools are those that servers have registered.
    let control = open_control(settings, WallClock::system()).await.context("the database cannot be opened")?;
    let explainer = Explainer::offline(&control, settings).await.context("limits")?;
    let limits = baseline_limits(&explainer.policy.current().baseline);
    control.close().await;
    Ok(limits)
}

fn changed(settings: &Settings) -> Vec<Changed> {
    let set = SETTINGS.iter().filter(|setting| settings.source_of(setting.name) != "default");
    let set = set.map(|setting| {
        let value = settings.provenance.values.get(setting.name).cloned().unwrap_or_default();
        let value = if setting.holds_a_secret() { "(not shown)".to_owned() } else { value };
        Changed { name: setting.name, value, source: settings.source_of(setting.name).to_owned() }
    });
    set.collect()
}

fn count(problems: usize) -> String {
    if problems == 1 { "1 problem".to_owned() } else { format!("{problems} problems") }
}

fn describe(report: &Report) -> String {
    let mut text = String::from("settings\n");
    for file in &report.files {
        text.push_str(&format!("  read {}\n", file.display()));
    }
    for Changed { name, value, source } in &report.settings {
        text.push_str(&format!("  {name} = {value} ({source})\n"));
    }
    text.push_str("  all others as by default\n\n");
    let Database { sort, reachable, applied, pending } = &report.database;
    let state = match (reachable, pending) {
        (false, _) => "not reachable".to_owned(),
        (true, 0) => format!("{applied} migrations applied, none pending"),
        (true, _) => format!("{applied} migrations applied, {pending} pending: `serve` and `migrate` apply them"),
    };
    text.push_str(&format!("database\n  {sort}: {state}\n\nlimits below the overrides of the database\n"));
    for BaselineLimit { about, kind, text: limit, from } in &report.limits {
        text.push_str(&format!("  {about}: {limit}{} from {from}\n", if *kind == "rate" { "" } else { " at a time" }));
    }
    if let Some(keys) = report.issuer_keys {
        text.push_str(&format!("\ntokens\n  their issuer publishes {keys} keys that they can be checked with\n"));
    }
    text.push_str("\nserver on this data folder\n");
    match &report.running {
        None => text.push_str("  none runs\n"),
        Some(Status { revision, policy_age_ms, draining, .. }) => {
            let state = if *draining { "shutting down" } else { "running" };
            text.push_str(&format!("  {state}, policy at revision {revision}, confirmed {policy_age_ms} ms ago\n"));
        }
    }
    match report.problems.as_slice() {
        [] => text.push_str("\neverything is as it must be"),
        problems => problems.iter().for_each(|problem| text.push_str(&format!("\nproblem: {problem}"))),
    }
    text
}
