//! What became of a load: what was offered, what the tool has seen of it, and how long it took.

use std::time::Duration;

use sluicegate_tests::recorder::{self, Recorded};

use crate::decisions::Decisions;
use crate::fleet::Fleet;
use crate::load::{Load, Offered, Worst, ideal};

pub(crate) struct Outcome {
    pub(crate) admitted: usize,
    pub(crate) ideal: usize,
    pub(crate) worst: Worst,
    pub(crate) recorded: Vec<Recorded>,
    offered: Vec<Offered>,
}

impl Outcome {
    /// Of a load that ends with this.
    pub(crate) async fn of(fleet: &Fleet, load: Load, what: &str) -> Self {
        let offered = load.end().await;
        let recorded = recorder::read(&fleet.recorded());
        let (admitted, ideal, worst) = (recorded.len(), ideal(&offered), Worst::of(&recorded));
        let outcome = Self { admitted, ideal, worst, recorded, offered };
        let slowest = outcome.offered.iter().map(|call| call.took).max().unwrap_or_default();
        say!(
            "{what}: {} offered, {admitted} admitted, {ideal} ideal, {} refused beyond that, {} answered with neither; \
             most in a window {:?}; slowest answer {slowest:?}",
            outcome.offered.len(),
            ideal.saturating_sub(admitted),
            outcome.neither(),
            outcome.worst,
        );
        say!("{what}: {}", Decisions::of(fleet).await);
        outcome
    }

    /// Calls that were let in, as their callers have it.
    pub(crate) fn served(&self) -> usize {
        self.offered.iter().filter(|call| call.status == 200).count()
    }

    /// Calls that were neither let in nor refused by a limit.
    pub(crate) fn neither(&self) -> usize {
        self.offered.iter().filter(|call| !matches!(call.status, 200 | 429)).count()
    }

    /// Whether no more was refused than one limiter in process would have refused: two in a hundred, of which a window that
    /// counts in sixtieths may take 1.6.
    pub(crate) fn wastes_nothing(&self) -> bool {
        self.admitted * 100 >= self.ideal * 98
    }

    /// The most calls in any window from one time to another, in microseconds.
    pub(crate) fn worst_between(&self, from: u64, to: u64) -> Worst {
        let during: Vec<_> = self.recorded.iter().filter(|call| (from..to).contains(&call.at)).cloned().collect();
        Worst::of(&during)
    }
}

/// As the recorder counts time.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
