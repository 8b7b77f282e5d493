//! What a rehearsal has shown.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::agents::Tally;
use super::cast::{Cast, Member};
use super::record::Record;

/// How much slower the 95th percentile may get.
const SLOWER: f64 = 1.2;

/// The result of a rehearsal.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) passed: bool,
    runaway: Runaway,
    agents: Vec<Agent>,
    /// The 95th percentiles of all well-behaved agents together, and their factor.
    p95_quiet_ms: f64,
    p95_storm_ms: f64,
    p95_factor: f64,
    /// What the server has written down; absent where it is not known who takes part.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<Record>,
    /// What the well-behaved agents suffered from.
    pub(super) problems: Vec<String>,
}

/// The agent that looped.
#[derive(Debug, Serialize)]
struct Runaway {
    agent: String,
    calls_per_minute: f64,
    calls: u64,
    served: usize,
    refused: u64,
    /// Calls that it sent before the wait was over that it had been told.
    ignored_waits: u64,
}

/// One of the others.
#[derive(Debug, Serialize)]
struct Agent {
    agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    beside_the_runaway: Option<bool>,
    quiet: Phase,
    storm: Phase,
}

/// How one agent fared for a while.
#[derive(Debug, Serialize)]
struct Phase {
    calls: u64,
    /// Share of the calls that were served.
    success: f64,
    refused: u64,
    failed: u64,
    p50_ms: f64,
    p95_ms: f64,
}

impl Phase {
    fn of(tally: &Tally) -> Self {
        let latencies = tally.latencies();
        let calls = tally.sent();
        Self {
            calls,
            success: if calls == 0 { 0.0 } else { latencies.len() as f64 / calls as f64 },
            refused: tally.refused(),
            failed: tally.failed(),
            p50_ms: percentile(&latencies, 50),
            p95_ms: percentile(&latencies, 95),
        }
    }
}

/// In milliseconds, of the sorted times; the smallest that so many percent are not above.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
}

impl Report {
    /// `quiet` and `storm` are in the order of the well-behaved agents; the runaway's is the last of `storm`.
    pub(super) fn of(
        cast: &Cast,
        quiet: &[Arc<Tally>],
        storm: &[Arc<Tally>],
        record: Option<Record>,
        length: Duration,
        floor: Duration,
    ) -> Self {
        let agents: Vec<_> = (cast.good.iter().zip(quiet).zip(storm))
            .map(|((Member { name, beside_the_runaway, .. }, quiet), storm)| Agent {
                agent: name.clone(),
                beside_the_runaway: *beside_the_runaway,
                quiet: Phase::of(quiet),
                storm: Phase::of(storm),
            })
            .collect();
        let mut problems: Vec<_> = agents.iter().flat_map(Agent::refusals).collect();
        problems.extend(cast.good.iter().zip(quiet.iter().zip(storm)).filter_map(|(member, (quiet, storm))| {
            let why = quiet.failure().or_else(|| storm.failure())?;
            Some(format!("a call of {} failed: {why}", member.name))
        }));
        // Of all together: twenty calls of one agent have no 95th percentile to speak of.
        let all = |tallies: &[Arc<Tally>]| {
            let mut all: Vec<_> = tallies[..cast.good.len()].iter().flat_map(|tally| tally.latencies()).collect();
            all.sort_unstable();
            percentile(&all, 95)
        };
        let (before, during) = (all(quiet), all(storm));
        if during > (before * SLOWER).max(before + floor.as_secs_f64() * 1_000.0) {
            problems.push(format!("the 95th percentile went from {before:.1} to {during:.1} ms"));
        }
        problems.extend(record.iter().flat_map(|record| misnamed(record, &cast.runaway.name)));
        let runaway = &storm[cast.good.len()];
        let calls = runaway.sent();
        Self {
            passed: problems.is_empty(),
            runaway: Runaway {
                agent: cast.runaway.name.clone(),
                calls_per_minute: calls as f64 * 60.0 / length.as_secs_f64().max(f64::MIN_POSITIVE),
                calls,
                served: runaway.latencies().len(),
                refused: runaway.refused(),
                ignored_waits: runaway.impatient(),
            },
            agents,
            p95_quiet_ms: before,
            p95_storm_ms: during,
            p95_factor: if before > 0.0 { during / before } else { 0.0 },
            record,
            problems,
        }
    }
}

/// Where the server's events name others than the runaway, or not the runaway.
fn misnamed(record: &Record, runaway: &str) -> Vec<String> {
    let others = record.throttled.keys().chain(&record.runaways).filter(|name| *name != runaway);
    let mut problems: Vec<_> = others.map(|name| format!("the server's events name {name}")).collect();
    problems.dedup();
    if !record.throttled.contains_key(runaway) {
        problems.push("the server's events do not name the runaway".to_owned());
    }
    problems
}

impl Agent {
    fn refusals(&self) -> Option<String> {
        let refused = self.quiet.refused + self.storm.refused;
        let none = self.quiet.calls == 0 || self.storm.calls == 0;
        match (refused, none) {
            (0, false) => None,
            (0, true) => Some(format!("{} made no call: let it take longer, or set a faster pace", self.agent)),
            _ => Some(format!("{} was refused {refused} times", self.agent)),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.agents.iter().map(|agent| agent.agent.len()).max().unwrap_or_default().max(5);
        writeln!(f, "{:width$}  {:^31}  {:^31}", "", "quiet", "with the runaway")?;
        let heading = format!("{:>5} {:>7} {:>8} {:>8}", "CALLS", "SUCCESS", "P50 MS", "P95 MS");
        writeln!(f, "{:width$}  {heading}  {heading}", "AGENT")?;
        for Agent { agent, beside_the_runaway, quiet, storm } in &self.agents {
            let phase = |Phase { calls, success, p50_ms, p95_ms, .. }: &Phase| {
                format!("{calls:>5} {:>6.1}% {p50_ms:>8.1} {p95_ms:>8.1}", success * 100.0)
            };
            let mark = if *beside_the_runaway == Some(true) { "  in its tenant" } else { "" };
            writeln!(f, "{agent:width$}  {}  {}{mark}", phase(quiet), phase(storm))?;
        }
        let Self { p95_quiet_ms, p95_storm_ms, p95_factor, .. } = self;
        writeln!(f, "\nTheir 95th percentile went from {p95_quiet_ms:.1} to {p95_storm_ms:.1} ms: x {p95_factor:.2}.")?;
        let Runaway { agent, calls_per_minute, calls, served, refused, ignored_waits } = &self.runaway;
        writeln!(f, "\nThe runaway is {agent}.")?;
        writeln!(f, "  sent     {calls:>6}  ({calls_per_minute:.0} a minute)")?;
        writeln!(f, "  served   {served:>6}  what its own limits let through")?;
        writeln!(f, "  refused  {refused:>6}  and {ignored_waits} calls were sent before the wait was over")?;
        if let Some(record) = &self.record {
            let named = |(agent, refusals): (&String, &i64)| format!("{agent}, for {refusals} refusals so far");
            let events: Vec<_> = record.throttled.iter().map(named).collect();
            let events = if events.is_empty() { "nobody".to_owned() } else { events.join("; ") };
            writeln!(f, "  The server's events name {events}.")?;
            if !record.runaways.is_empty() {
                writeln!(f, "  It counts as a runaway: {}.", record.runaways.join(", "))?;
            }
        }
        writeln!(f)?;
        match self.problems.as_slice() {
            [] => write!(f, "PASSED: nobody else was refused or slowed down."),
            problems => write!(f, "FAILED:\n  {}", problems.join("\n  ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let times: Vec<_> = (1..=20).map(Duration::from_millis).collect();
        assert_eq!((percentile(&times, 50), percentile(&times, 95)), (10.0, 19.0));
        assert_eq!(percentile(&times[..1], 95), 1.0);
        assert_eq!(percentile(&[], 95), 0.0);
    }
}
