//! Staying within an upstream's limits.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use governor::RateLimiter;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use crate::quota::Quota;

/// What to do with a call that the quotas do not allow now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Let it wait for its turn, first come, first served, unless that takes longer than this or than its deadline.
    Wait(Duration),
    /// Refuse it and say when to come back.
    Refuse,
}

/// Waits for up to 30 s.
impl Default for WhenFull {
    fn default() -> Self {
        Self::Wait(Duration::from_secs(30))
    }
}

/// A call that was not made because the upstream's limits do not allow it in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) retry_after: Duration,
    /// The quota that is used up; `None` when the upstream itself asked for a pause.
    pub(crate) limit: Option<Arc<str>>,
}

/// Makes calls keep all quotas of an upstream at once, and the pauses that it asks for.
#[derive(Debug)]
pub(crate) struct Pace {
    quotas: Vec<Paced>,
    when_full: WhenFull,
    /// Whoever has the turn is next; tokio's mutex is fair. In it: which quotas have already given the next call.
    turn: tokio::sync::Mutex<Vec<bool>>,
    paused_until: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Paced {
    limit: Arc<str>,
    clock: TokioClock,
    limiter: RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Duration>>,
}

/// Tokio's clock as governor reads it, so that tests can pause it.
#[derive(Clone, Copy, Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Pace {
    pub(crate) fn new(mut quotas: Vec<Quota>, when_full: WhenFull) -> Self {
        // Scarce ones last: the last is taken only when the others have given, so it is never carried over.
        quotas.sort_by_key(|quota| (Reverse(quota.count()), quota.period()));
        let (clock, last) = (TokioClock(Instant::now()), quotas.len().saturating_sub(1));
        let paced = quotas.iter().enumerate().map(|(index, quota)| Paced {
            limit: quota.to_string().into(),
            clock,
            limiter: RateLimiter::direct_with_clock(quota.bucket(u32::from(index < last)), clock),
        });
        let paced: Vec<_> = paced.collect();
        Self {
            turn: tokio::sync::Mutex::new(vec![false; paced.len()]),
            quotas: paced,
            when_full,
            paused_until: Mutex::new(None),
        }
    }

    /// Nobody is let through for so long. A pause that ends later stays.
    pub(crate) fn pause(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut paused_until = self.paused_until.lock();
        *paused_until = paused_until.max(Some(until));
    }

    /// Waits for a call's turn.
    pub(crate) async fn take(&self, deadline: Instant) -> Result<(), Full> {
        let start = Instant::now();
        let (patience, turn) = match self.when_full {
            // Nobody keeps the turn for long then.
            WhenFull::Refuse => (start, Ok(self.turn.lock().await)),
            WhenFull::Wait(at_most) => {
                let patience = start.checked_add(at_most).map_or(deadline, |patience| patience.min(deadline));
                (patience, timeout_at(patience, self.turn.lock()).await)
            }
        };
        let limit = || self.quotas.last().map(|quota| Arc::clone(&quota.limit));
        // How long the others ahead will take is not known; as long again is a guess.
        let mut given = turn.map_err(|_| Full { retry_after: patience - start, limit: limit() })?;
        loop {
            let Err(full) = self.check(&mut given) else { return Ok(()) };
            if Instant::now() + full.retry_after > patience {
                return Err(full);
            }
            sleep(full.retry_after).await;
        }
    }

    /// Takes from all quotas or says which one is used up. What the others have given by then is kept for the next call.
    fn check(&self, given: &mut [bool]) -> Result<(), Full> {
        let pause = self.paused_until.lock().and_then(|until| until.checked_duration_since(Instant::now()));
        if let Some(retry_after) = pause.filter(|pause| !pause.is_zero()) {
            return Err(Full { retry_after, limit: None });
        }
        for (quota, given) in self.quotas.iter().zip(&mut *given) {
            if !*given {
                quota.limiter.check().map_err(|not_yet| Full {
                    retry_after: not_yet.wait_time_from(quota.clock.now()),
                    limit: Some(Arc::clone(&quota.limit)),
                })?;
                *given = true;
            }
        }
        given.fill(false);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
