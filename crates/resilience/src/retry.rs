//! Whether to try again, and when.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::budget::{BudgetOptions, RetryBudget};
use crate::options::OptionsError;
use crate::random::Random;
use crate::retry_after::RetryAfter;

/// How a [`Retry`] repeats.
#[derive(Clone, Debug)]
pub struct RetryOptions {
    /// How long to wait when nobody says it, and how often to repeat at most.
    pub backoff: Backoff,
    /// How many retries everyone may make together.
    pub budget: BudgetOptions,
    /// The longest wait that is obeyed when one is told; longer ones are cut to it.
    pub max_wait: Duration,
    /// Where jitter comes from.
    pub random: Random,
}

/// Five retries, 10 % in all, told waits of up to a minute.
impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            budget: BudgetOptions::default(),
            max_wait: Duration::from_mins(1),
            random: Random::system(),
        }
    }
}

/// What a failed attempt says about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would fail again.
    Final,
    /// It may succeed.
    Again {
        /// The wait that was told, if any.
        told: Option<Duration>,
        /// Whether the attempt may have had an effect, although it failed: its answer was lost, not refused.
        may_have_run: bool,
    },
}

/// When a call may be repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeat {
    /// Whenever that may help: a second run has no effect beyond the first.
    Always,
    /// Whenever that may help: a key tells the upstream which attempts are one call. Another call has another key, so
    /// whoever sees this one fail has to be told that it may have run.
    ByKey,
    /// Only if it surely has not run: it was refused, or never arrived.
    #[default]
    UnlessItMayHaveRun,
    /// Not at all.
    Never,
}

/// Why a call is not repeated any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// It would fail again, or may not be repeated.
    Final,
    /// It may have run, and running it twice may do harm.
    MayHaveRun,
    /// It was repeated as often as allowed.
    Exhausted,
    /// The next attempt would start after the deadline.
    Deadline,
    /// All callers together have used up their retries.
    OverBudget,
}

/// Repeats calls to one upstream, and bounds the retries of all of them together.
///
/// ```
/// use sluicegate_resilience::{Repeat, Retry, RetryOptions, Verdict};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let retry = Retry::new(RetryOptions::default())?;
/// let busy = |_: &&str| Verdict::Again { told: None, may_have_run: false };
/// let attempt = |attempt| async move { if attempt < 3 { Err("busy") } else { Ok(attempt) } };
/// assert_eq!(retry.run(None, Repeat::Always, busy, attempt).await, Ok(3));
/// # Ok::<_, sluicegate_resilience::OptionsError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Retry {
    backoff: Backoff,
    budget: RetryBudget,
    max_wait: Duration,
    random: Random,
}

impl Retry {
    /// A retry with a full budget.
    ///
    /// # Errors
    /// When the budget's options make no sense.
    pub fn new(options: RetryOptions) -> Result<Self, OptionsError> {
        let RetryOptions { backoff, budget, max_wait, random } = options;
        Ok(Self { backoff, budget: RetryBudget::new(budget)?, max_wait, random })
    }

    /// Runs `attempt`, which is told its number from 1 on, until it succeeds or is given up; then with the last error.
    ///
    /// No attempt starts at the deadline or after it, and one that runs then is left to end: bound it by a timeout.
    ///
    /// # Errors
    /// The error of the last attempt, and why there is no further one.
    pub async fn run<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        deadline: Option<Instant>,
        repeat: Repeat,
        verdict: impl Fn(&E) -> Verdict,
        mut attempt: impl FnMut(u32) -> F,
    ) -> Result<T, (E, GaveUp)> {
        let mut tries = self.start(deadline);
        loop {
            match attempt(tries.next()).await {
                Ok(value) => {
                    tries.succeeded();
                    return Ok(value);
                }
                Err(error) => match tries.failed(verdict(&error), repeat) {
                    Ok(wait) => tokio::time::sleep(wait).await,
                    Err(gave_up) => return Err((error, gave_up)),
                },
            }
        }
    }

    /// A call whose attempts the caller makes itself.
    pub(crate) fn start(&self, deadline: Option<Instant>) -> Tries<'_> {
        Tries { retry: self, deadline, made: 0 }
    }

    /// A told wait as far as it is obeyed.
    pub(crate) fn bounded(&self, told: Duration) -> Duration {
        told.min(self.max_wait)
    }

    pub(crate) fn random(&self) -> &Random {
        &self.random
    }

    /// The wait to name when giving up and nobody told one.
    pub(crate) fn suggestion(&self, made: u32) -> Duration {
        self.backoff.ceiling(made)
    }
}

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Tries<'a> {
    retry: &'a Retry,
    deadline: Option<Instant>,
    made: u32,
}

impl Tries<'_> {
    /// How many attempts were begun.
    pub(crate) fn made(&self) -> u32 {
        self.made
    }

    /// Begins an attempt and gives its number.
    pub(crate) fn next(&mut self) -> u32 {
        self.made = self.made.saturating_add(1);
        self.made
    }

    /// The last attempt succeeded.
    pub(crate) fn succeeded(&self) {
        self.retry.budget.succeeded();
    }

    /// The last attempt failed: how long to wait before the next, or why there is none.
    ///
    /// A told wait comes first and is never shortened by jitter, only lengthened, so that callers who were told the same
    /// do not come back in step.
    pub(crate) fn failed(&self, verdict: Verdict, repeat: Repeat) -> Result<Duration, GaveUp> {
        let Verdict::Again { told, may_have_run } = verdict else { return Err(GaveUp::Final) };
        let Retry { backoff, budget, random, .. } = self.retry;
        if repeat == Repeat::Never {
            return Err(GaveUp::Final);
        }
        let retry = self.made.saturating_sub(1);
        if retry >= backoff.retries() {
            return Err(GaveUp::Exhausted);
        }
        let wait = match told {
            Some(told) => self.retry.bounded(told).saturating_add(random.up_to(backoff.base())),
            None => backoff.delay(retry, random),
        };
        if let Some(deadline) = self.deadline
            && wait >= deadline.saturating_duration_since(Instant::now())
        {
            return Err(GaveUp::Deadline);
        }
        if repeat == Repeat::UnlessItMayHaveRun && may_have_run {
            return Err(GaveUp::MayHaveRun);
        }
        // Last, so that no token is taken for a retry that does not happen.
        if budget.take() { Ok(wait) } else { Err(GaveUp::OverBudget) }
    }
}

/// When to come back after an answer with this `Retry-After` and `Date`, if it says so at all.
///
/// Two times of one clock are compared where the answer has both, so that it does not matter when ours is wrong.
pub(crate) fn told_wait(
    retry_after: Option<&str>,
    date: Option<&str>,
    now: impl FnOnce() -> std::time::SystemTime,
) -> Option<Duration> {
    let retry_after = RetryAfter::parse(retry_after?)?;
    let sent = date.and_then(|date| httpdate::parse_http_date(date).ok());
    Some(retry_after.wait(sent.unwrap_or_else(now)))
}
