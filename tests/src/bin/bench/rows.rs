//! The rows of a table: each a server and how it is loaded, measured in turn with all others.

use std::error::Error;
use std::io::Write as _;
use std::time::Duration;

use crate::load::{self, Calls, Load, Sample};
use crate::process::Contender;

/// One row.
pub(crate) struct Row<'a> {
    pub(crate) name: String,
    pub(crate) server: &'a Contender,
    pub(crate) calls: Calls,
    pub(crate) load: Load,
    samples: Vec<Sample>,
}

impl<'a> Row<'a> {
    pub(crate) fn new(name: impl Into<String>, server: &'a Contender, calls: Calls, load: Load) -> Self {
        Self { name: name.into(), server, calls, load, samples: Vec::new() }
    }

    /// The median over the rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Sample) -> f64) -> f64 {
        let mut figures: Vec<_> = self.samples.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    }

    pub(crate) fn calls_per_second(&self) -> f64 {
        self.median(Sample::calls_per_second)
    }

    pub(crate) fn cpu_micros(&self) -> f64 {
        self.median(Sample::cpu_micros_per_call)
    }
}

/// Warms all up, then measures them in turn, as often as is said.
pub(crate) async fn measure(rows: &mut [Row<'_>], rounds: usize) -> Result<(), Box<dyn Error>> {
    for row in rows.iter() {
        let warm_up = Load { length: Duration::from_secs(1), ..row.load };
        load::run(row.server, &row.calls, warm_up).await?;
    }
    for round in 1..=rounds {
        for row in rows.iter_mut() {
            row.samples.push(load::run(row.server, &row.calls, row.load).await?);
        }
        writeln!(std::io::stderr(), "round {round} of {rounds}")?;
    }
    Ok(())
}
