//! Leaving an upstream alone that fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use self::machine::{Ending, Machine};
use crate::options::OptionsError;

mod machine;
#[cfg(test)]
mod tests;

/// When a [`CircuitBreaker`] opens, and how it closes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerOptions {
    /// Opens after so many failures without a success in between.
    pub failures_in_a_row: u32,
    /// Also opens when too many of the last calls failed. Off by default.
    pub failure_rate: Option<FailureRate>,
    /// How long it stays open.
    pub open_for: Duration,
    /// How many calls at once try whether the upstream is back.
    pub probes: u32,
}

/// So many failures of so many calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureRate {
    /// How many failures are too many.
    pub failures: usize,
    /// Of how many last calls. Fewer than that are not judged.
    pub of_calls: usize,
}

/// Opens on 5 failures in a row for 30 s, then lets one probe through.
impl Default for BreakerOptions {
    fn default() -> Self {
        Self { failures_in_a_row: 5, failure_rate: None, open_for: Duration::from_secs(30), probes: 1 }
    }
}

/// The states of a [`CircuitBreaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go through.
    Closed,
    /// A few calls go through, to see whether the upstream is back.
    HalfOpen,
    /// No call goes through.
    Open,
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        })
    }
}

/// Leaves an upstream alone that fails, and finds out carefully when it is back.
///
/// What counts as a failure is the caller's to say. [`Upstream`](crate::Upstream) counts 5xx answers, network errors and
/// timeouts; any other answer but 429 is a success, and a 429 is neither.
///
/// ```
/// use sluicegate_resilience::{BreakerOptions, BreakerState, CircuitBreaker};
///
/// let breaker = CircuitBreaker::new("github", BreakerOptions::default())?;
/// for _ in 0..5 {
///     breaker.admit().expect("it is closed").failed();
/// }
/// assert_eq!(breaker.state(), BreakerState::Open);
/// assert!(breaker.admit().is_err());
/// # Ok::<_, sluicegate_resilience::OptionsError>(())
/// ```
#[derive(Debug)]
pub struct CircuitBreaker {
    upstream: Arc<str>,
    machine: Mutex<Machine>,
}

/// A call was not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitOpen {
    /// When to ask again.
    pub retry_after: Duration,
}

impl CircuitBreaker {
    /// A closed breaker. The upstream's name stands in logs and metrics.
    ///
    /// # Errors
    /// When it would never let a call through, never open, or never close.
    pub fn new(upstream: impl Into<Arc<str>>, options: BreakerOptions) -> Result<Self, OptionsError> {
        let BreakerOptions { failures_in_a_row, failure_rate, open_for, probes } = options;
        OptionsError::unless(
            failures_in_a_row > 0,
            "breaker.failures_in_a_row",
            failures_in_a_row,
            "it must be at least 1",
        )?;
        OptionsError::unless(probes > 0, "breaker.probes", probes, "it must be at least 1")?;
        OptionsError::unless(
            !open_for.is_zero() && open_for <= Duration::from_hours(24),
            "breaker.open_for",
            open_for,
            "it must be longer than nothing and at most a day",
        )?;
        if let Some(rate) = failure_rate {
            let kept = (1..=rate.of_calls).contains(&rate.failures);
            OptionsError::unless(kept, "breaker.failure_rate", rate, "the failures must be from 1 to `of_calls`")?;
        }
        let breaker = Self { upstream: upstream.into(), machine: Mutex::new(Machine::new(options)) };
        breaker.show(BreakerState::Closed);
        Ok(breaker)
    }

    /// The state. An open breaker becomes half-open with the first call after its time.
    pub fn state(&self) -> BreakerState {
        self.machine.lock().state()
    }

    /// Whether a call would be let through now, without letting one through.
    ///
    /// # Errors
    /// When it would not.
    pub fn check(&self) -> Result<(), CircuitOpen> {
        self.machine.lock().refusal(Instant::now()).map_or(Ok(()), |retry_after| Err(CircuitOpen { retry_after }))
    }

    /// Lets a call through, if the state allows it.
    ///
    /// # Errors
    /// When the breaker is open, or half-open with its probes under way.
    pub fn admit(&self) -> Result<Pass<'_>, CircuitOpen> {
        let epoch = self.change(|machine| machine.admit(Instant::now()));
        let epoch = epoch.map_err(|retry_after| CircuitOpen { retry_after })?;
        Ok(Pass { breaker: self, epoch, ending: Ending::Inconclusive })
    }

    /// Everything that may change the state goes through here, so that no transition is missed. It is announced under
    /// the lock: two threads' transitions cannot be shown in the wrong order.
    fn change<T>(&self, change: impl FnOnce(&mut Machine) -> T) -> T {
        let mut machine = self.machine.lock();
        let before = machine.state();
        let result = change(&mut machine);
        let after = machine.state();
        if before != after {
            self.show(after);
            tracing::warn!(upstream = &*self.upstream, from = %before, to = %after, "circuit breaker changed its state");
        }
        result
    }

    fn show(&self, state: BreakerState) {
        let (upstream, value) = (
            Arc::clone(&self.upstream),
            match state {
                BreakerState::Closed => 0.0,
                BreakerState::HalfOpen => 1.0,
                BreakerState::Open => 2.0,
            },
        );
        if state == BreakerState::Open {
            metrics::counter!("sluicegate_circuit_open_total", "upstream" => Arc::clone(&upstream)).increment(1);
        }
        metrics::gauge!("sluicegate_circuit_state", "upstream" => upstream).set(value);
    }
}

/// A call that was let through. Say how it ended; dropped without that, it counts as never made.
#[derive(Debug)]
#[must_use = "say how the call ended"]
pub struct Pass<'a> {
    breaker: &'a CircuitBreaker,
    epoch: u64,
    ending: Ending,
}

impl Pass<'_> {
    /// The upstream is well: it answered.
    pub fn succeeded(mut self) {
        self.ending = Ending::Succeeded;
    }

    /// The upstream is not well: it answered with a failure of its own, or not at all.
    pub fn failed(mut self) {
        self.ending = Ending::Failed;
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.breaker.change(|machine| machine.settle(self.epoch, self.ending, Instant::now()));
    }
}
