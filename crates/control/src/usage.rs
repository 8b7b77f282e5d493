//! Usage: what was called, by whom, and what became of it.
//!
//! Every process counts in memory and writes what was added since its last batch, so
//! that any number of them count into the same rows. Minutes, hours and days are written
//! together, in one transaction: no roll-up can lag or run twice, and a question reads
//! the table that suits the length of its range. Beside the rows of agents there are
//! their sums, which totals and charts are read from.

mod counts;
mod lists;
mod matrix;
mod questions;
mod range;
mod runaway;
mod write;

pub use counts::{ATTEMPT_BOUNDS, Counts, LATENCY_BOUNDS_MS};
pub use matrix::{MatrixQuery, MatrixRow, ThrottleCell, ThrottleMatrix, ToolColumn};
pub use questions::{AgentLabel, ToolUsage, Totals, UsagePoint, UsageScope};
pub use range::{Grain, Period, UsageRange};
pub use runaway::{Runaway, RunawayRule};
pub use write::{Retention, UsageBatch, UsageRow};

use std::sync::LazyLock;

use crate::control::Control;

/// Use cases on usage. All of them answer a confined actor with its tenant's alone.
#[derive(Clone, Copy, Debug)]
pub struct Usage<'a> {
    pub(crate) control: &'a Control,
}

/// The tenant in the tables of sums under which everybody is added up. No tenant's id.
pub(crate) const EVERYBODY: &str = "*";

/// A statement for each grain, put together at first use from text that holds no value.
pub(crate) type PerGrain = LazyLock<[String; 3]>;

/// The counters of the rows `u`, summed up.
pub(crate) fn sums() -> String {
    let sums = Counts::COLUMNS.iter().map(|name| format!("CAST(COALESCE(SUM(u.{name}), 0) AS BIGINT) AS {name}"));
    sums.collect::<Vec<_>>().join(", ")
}
