//! How the agents of a rehearsal behave, and what they count.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::{Caller, Outcome};

/// How an agent takes a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manners {
    /// It waits for as long as it is told.
    Waits,
    /// It goes on.
    Loops,
}

/// What became of an agent's calls.
#[derive(Debug, Default)]
pub(super) struct Tally {
    sent: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    /// Calls that were sent before the wait was over that the agent was told.
    impatient: AtomicU64,
    /// How long the served ones took.
    latencies: Mutex<Vec<Duration>>,
    /// What went wrong with the first that failed.
    failure: Mutex<Option<String>>,
}

impl Tally {
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    pub(super) fn impatient(&self) -> u64 {
        self.impatient.load(Relaxed)
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long served calls took, the fastest first.
    pub(super) fn latencies(&self) -> Vec<Duration> {
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        latencies.sort_unstable();
        latencies
    }

    fn count(&self, outcome: Outcome, took: Duration) -> Option<Duration> {
        match outcome {
            Outcome::Served => {
                self.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(took);
                None
            }
            Outcome::Refused(wait) => {
                self.refused.fetch_add(1, Relaxed);
                Some(wait)
            }
            Outcome::Failed(why) => {
                self.failed.fetch_add(1, Relaxed);
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
                None
            }
        }
    }
}

/// Calls once every `pause`, until it is over. A call that is on its way is waited for.
pub(super) async fn play(
    caller: Caller,
    manners: Manners,
    pause: Duration,
    delay: Duration,
    tally: Arc<Tally>,
    over: CancellationToken,
) {
    let mut next = Instant::now() + delay;
    let mut told = next;
    while tokio::time::timeout_at(next, over.cancelled()).await.is_err() {
        let start = Instant::now();
        if start < told {
            tally.impatient.fetch_add(1, Relaxed);
        }
        tally.sent.fetch_add(1, Relaxed);
        let outcome = caller.call().await;
        if let Some(wait) = tally.count(outcome, start.elapsed()) {
            told = Instant::now() + wait;
        }
        next = match manners {
            Manners::Waits => (next + pause).max(told).max(Instant::now()),
            Manners::Loops => (next + pause).max(Instant::now()),
        };
    }
}
