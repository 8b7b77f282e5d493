//! The states of a circuit breaker, without clock, lock or metrics.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::{BreakerOptions, BreakerState};

/// What is told to callers whom a probe under way keeps out: nobody knows when it ends.
const WHILE_PROBING: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed { failures_in_a_row: u32 },
    Open { until: Instant },
    HalfOpen { probes: u32 },
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Succeeded,
    Failed,
    /// Nobody knows, or it says nothing about the upstream's health.
    Inconclusive,
}

/// `Closed -> Open -> HalfOpen -> Closed | Open`.
#[derive(Debug)]
pub(super) struct Machine {
    options: BreakerOptions,
    phase: Phase,
    /// Counts transitions. A call that was admitted before the last one says nothing about the present.
    epoch: u64,
    /// The last results while closed, failures are `true`; only kept if there is a failure rate.
    recent: VecDeque<bool>,
}

impl Machine {
    pub(super) fn new(options: BreakerOptions) -> Self {
        Self { options, phase: Phase::Closed { failures_in_a_row: 0 }, epoch: 0, recent: VecDeque::new() }
    }

    pub(super) fn state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Whether a call would be refused now, and when to ask again.
    pub(super) fn refusal(&self, now: Instant) -> Option<Duration> {
        match self.phase {
            Phase::Open { until } if now < until => Some(until - now),
            Phase::HalfOpen { probes } if probes >= self.options.probes => Some(WHILE_PROBING),
            _ => None,
        }
    }

    /// Lets a call through and gives the epoch to settle it in, or says when to ask again.
    pub(super) fn admit(&mut self, now: Instant) -> Result<u64, Duration> {
        if let Some(wait) = self.refusal(now) {
            return Err(wait);
        }
        match &mut self.phase {
            Phase::Closed { .. } => {}
            Phase::Open { .. } => self.enter(Phase::HalfOpen { probes: 1 }),
            Phase::HalfOpen { probes } => *probes += 1,
        }
        Ok(self.epoch)
    }

    /// Takes note of how a call ended that was let through in this epoch.
    pub(super) fn settle(&mut self, epoch: u64, ending: Ending, now: Instant) {
        if epoch != self.epoch {
            return;
        }
        let open = Phase::Open { until: now + self.options.open_for };
        match (&mut self.phase, ending) {
            (Phase::HalfOpen { .. }, Ending::Succeeded) => self.enter(Phase::Closed { failures_in_a_row: 0 }),
            (Phase::HalfOpen { .. }, Ending::Failed) => self.enter(open),
            // The place is free for another probe, or an abandoned one would keep the breaker half open for ever.
            (Phase::HalfOpen { probes }, Ending::Inconclusive) => *probes -= 1,
            (Phase::Closed { failures_in_a_row }, Ending::Succeeded | Ending::Failed) => {
                let failed = ending == Ending::Failed;
                *failures_in_a_row = if failed { *failures_in_a_row + 1 } else { 0 };
                if *failures_in_a_row >= self.options.failures_in_a_row || self.too_many_of_late(failed) {
                    self.enter(open);
                }
            }
            // No call is let through while it is open.
            (Phase::Closed { .. }, Ending::Inconclusive) | (Phase::Open { .. }, _) => {}
        }
    }

    fn too_many_of_late(&mut self, failed: bool) -> bool {
        let Some(rate) = self.options.failure_rate else { return false };
        self.recent.push_back(failed);
        if self.recent.len() > rate.of_calls {
            self.recent.pop_front();
        }
        let failures = self.recent.iter().filter(|failed| **failed).count();
        self.recent.len() == rate.of_calls && failures >= rate.failures
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.epoch += 1;
        self.recent.clear();
    }
}
