//! A tool that writes down when it ran, for checks of what several servers together have let through.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use sluicegate::prelude::*;

/// The variable with the file that the tool `record` writes to.
pub const RECORD_TO: &str = "SLUICEGATE_TEST_RECORD_TO";

/// What the tool is limited by for each agent.
pub const RECORD_LIMIT: &str = "3/s";

/// A call, as the tool saw it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recorded {
    /// When it ran, in microseconds, by [`now`].
    pub at: u64,
    /// Of which tenant it was.
    pub tenant: String,
    /// Of which agent.
    pub agent: String,
}

/// The tool.
#[derive(Debug)]
pub struct Recorder;

#[tools]
impl Recorder {
    /// Write down who calls, and when.
    #[tool(rate_limit = "3/s")]
    async fn record(&self, caller: Caller) -> Result<&'static str, ToolError> {
        let file = std::env::var(RECORD_TO).map_err(|_| ToolError::new("nowhere to write to"))?;
        let line = format!("{} {} {}\n", now(), caller.tenant().unwrap_or_default(), caller.agent());
        // One write of one line: processes that append to one file do not cut each other's lines.
        let opened = OpenOptions::new().append(true).create(true).open(file);
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|error| ToolError::new(error.to_string()))?;
        Ok("recorded")
    }
}

/// Microseconds of a clock that is the same in all processes and that nobody sets.
#[must_use]
pub fn now() -> u64 {
    let since = clock_gettime(ClockId::Monotonic);
    u64::try_from(since.tv_sec * 1_000_000 + since.tv_nsec / 1_000).unwrap_or_default()
}

/// What was written down, in order of time.
///
/// # Panics
/// When the file holds anything else.
#[must_use]
pub fn read(file: &Path) -> Vec<Recorded> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut calls: Vec<_> = text
        .lines()
        .map(|line| {
            let mut parts = line.split(' ').map(str::to_owned);
            let mut part = || parts.next().expect("three parts");
            Recorded { at: part().parse().expect("a time"), tenant: part(), agent: part() }
        })
        .collect();
    calls.sort();
    calls
}
