//! `simulate`: a rehearsal of the day on which one agent runs away.
//!
//! Well-behaved agents call a tool of the running server, first alone, then while one agent loops and ignores what it is
//! told. Whoever else suffers makes the rehearsal fail.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use reqwest::Url;
use serde_json::Value;
use sluicegate_limits::Quota;
use tokio_util::sync::CancellationToken;

use super::Desk;
use crate::settings::Span;
use crate::site::MCP_PATH;

mod agents;
mod calls;
mod cast;
mod record;
mod report;

use agents::{Manners, Tally};
use calls::Caller;
use cast::{Cast, Member};
use record::Record;
use report::Report;

/// Rehearse a runaway agent against the running server.
///
/// Calls a tool for real: choose one that does no harm. Nine agents keep to a pace and wait as they are told; one, in the
/// tenant of three of them, loops and ignores every Retry-After. Fails when any of the nine is refused or gets slower.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The tool to call.
    #[arg(long)]
    tool: String,
    /// Its arguments, a JSON object.
    #[arg(long, default_value = "{}", value_name = "JSON")]
    arguments: String,
    /// Where MCP is served (default: the address of the settings).
    #[arg(long)]
    url: Option<String>,
    /// Well-behaved agents.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=200))]
    agents: u16,
    /// How often each of them calls.
    #[arg(long, default_value = "30/min", value_name = "QUOTA")]
    pace: Quota,
    /// How often the runaway calls.
    #[arg(long, default_value = "1200/min", value_name = "QUOTA")]
    runaway: Quota,
    /// How long the agents are alone.
    #[arg(long, default_value = "15s", value_name = "TIME")]
    quiet: Span,
    /// How long the runaway is there.
    #[arg(long, default_value = "30s", value_name = "TIME")]
    storm: Span,
    /// How much slower the others' 95th percentile may get before the factor of 1.2 counts: what is too small to be felt.
    #[arg(long, default_value = "5ms", value_name = "TIME")]
    floor: Span,
    /// A file with API keys or tokens, one a line, the runaway's first, instead of tenants, agents and keys that are made for
    /// the rehearsal and deleted afterwards.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

impl Simulate {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let arguments: Value = serde_json::from_str(&self.arguments).context("--arguments is no JSON")?;
        anyhow::ensure!(arguments.is_object(), "--arguments is no JSON object");
        let url = self.url.clone().unwrap_or_else(|| format!("http://{}{MCP_PATH}", desk.settings.bind));
        let url = Url::parse(&url).with_context(|| format!("--url `{url}` is no address"))?;
        let cast = match &self.keys {
            Some(file) => Cast::from_file(file)?,
            None => Cast::hire(desk, self.agents).await?,
        };
        let report = tokio::select! {
            report = self.rehearse(desk, &cast, &url, &arguments) => report,
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
        };
        // Whatever happened: what was made is taken away.
        cast.dismiss(desk).await?;
        let report = report?;
        desk.output.result(&report, || report.to_string())?;
        anyhow::ensure!(report.passed, "others suffered from the runaway: {}", report.problems.join("; "));
        Ok(())
    }

    async fn rehearse(&self, desk: &Desk, cast: &Cast, url: &Url, arguments: &Value) -> anyhow::Result<Report> {
        let caller = |member: &Member| Caller::new(url, member.key.clone(), &self.tool, arguments);
        caller(&cast.runaway)?.try_once().await.with_context(|| format!("a first call of `{}` at {url}", self.tool))?;
        let quiet = self.act("quiet", self.quiet.0, cast, None, &caller).await?;
        let storm = self.act("storm", self.storm.0, cast, Some(&cast.runaway), &caller).await?;
        // Of whose keys came from a file nobody knows the names.
        let record = if cast.tenants().is_empty() { None } else { Some(Record::read(desk, cast).await?) };
        Ok(Report::of(cast, &quiet, &storm, record, self.storm.0, self.floor.0))
    }

    /// Lets everybody call for a while: what became of it, by agent; the runaway's is the last.
    async fn act(
        &self,
        name: &str,
        length: Duration,
        cast: &Cast,
        runaway: Option<&Member>,
        caller: &impl Fn(&Member) -> anyhow::Result<Caller>,
    ) -> anyhow::Result<Vec<Arc<Tally>>> {
        let over = CancellationToken::new();
        let pause = |quota: Quota| quota.window() / u32::try_from(quota.count()).unwrap_or(u32::MAX);
        let mut tallies = Vec::new();
        let mut tasks = Vec::new();
        let good = cast.good.iter().map(|member| (member, Manners::Waits, pause(self.pace)));
        let bad = runaway.map(|member| (member, Manners::Loops, pause(self.runaway)));
        for (at, (member, manners, pause)) in good.chain(bad).enumerate() {
            let tally = Arc::new(Tally::default());
            tallies.push(Arc::clone(&tally));
            // Not all in the same moment.
            let delay = pause.mul_f64(at as f64 / (cast.good.len() + 1) as f64);
            tasks.push(tokio::spawn(agents::play(caller(member)?, manners, pause, delay, tally, over.clone())));
        }
        let start = Instant::now();
        while start.elapsed() < length {
            tokio::time::sleep((length - start.elapsed()).min(Duration::from_millis(500))).await;
            progress(name, start.elapsed().min(length), length, &tallies);
        }
        over.cancel();
        for task in tasks {
            task.await.context("an agent broke down")?;
        }
        progress_done();
        Ok(tallies)
    }
}

/// For whoever watches at a terminal.
fn progress(name: &str, elapsed: Duration, length: Duration, tallies: &[Arc<Tally>]) {
    let mut terminal = std::io::stderr().lock();
    if terminal.is_terminal() {
        let sum = |count: fn(&Tally) -> u64| tallies.iter().map(|tally| count(tally)).sum::<u64>();
        let (sent, refused) = (sum(Tally::sent), sum(Tally::refused));
        let (elapsed, length) = (elapsed.as_secs(), length.as_secs());
        let _ = write!(terminal, "\r{name}: {elapsed} of {length} s, {sent} calls, {refused} refused ");
    }
}

fn progress_done() {
    let mut terminal = std::io::stderr().lock();
    if terminal.is_terminal() {
        let _ = writeln!(terminal);
    }
}
