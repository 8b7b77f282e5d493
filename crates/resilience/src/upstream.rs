//! One external service, and everything that keeps calls to it well-behaved.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::breaker::{BreakerOptions, BreakerState, CircuitBreaker, CircuitOpen};
use crate::clock::WallClock;
use crate::error::{UpstreamError, UpstreamErrorKind};
use crate::options::OptionsError;
use crate::pace::{Full, Pace, WhenFull};
use crate::quota::Quota;
use crate::retry::{GaveUp, Repeat, Retry, RetryOptions, Tries, Verdict};

pub(crate) mod http;

/// A call ends so long before its deadline, so that its tool is still there to say why.
const MARGIN: Duration = Duration::from_millis(50);

/// How an [`Upstream`] is treated.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// How often it may be called. All of them hold at once, for retries too.
    pub quotas: Vec<Quota>,
    /// What happens to a call that the quotas do not allow now.
    pub when_full: WhenFull,
    /// How failed attempts are repeated.
    pub retry: RetryOptions,
    /// When it is left alone.
    pub breaker: BreakerOptions,
    /// How long one attempt may take.
    pub attempt_timeout: Duration,
    /// How long a call may take, waits and attempts together, if it has no earlier deadline.
    pub call_timeout: Duration,
    /// The longest answer, in bytes, that is read whole.
    pub max_answer: usize,
    /// What dates are compared with when an answer has no `Date`.
    pub wall_clock: WallClock,
}

/// No quotas; 10 s for an attempt and 2 min for a call; answers of up to 16 MiB.
impl Default for UpstreamOptions {
    fn default() -> Self {
        Self {
            quotas: Vec::new(),
            when_full: WhenFull::default(),
            retry: RetryOptions::default(),
            breaker: BreakerOptions::default(),
            attempt_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_mins(2),
            max_answer: 16 * 1024 * 1024,
            wall_clock: WallClock::system(),
        }
    }
}

/// What one call asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallOptions {
    /// When the call has to end, on tokio's clock. The upstream's own `call_timeout` holds as well.
    pub deadline: Option<Instant>,
    /// When the call may be repeated.
    pub repeat: Repeat,
}

/// How one attempt failed.
#[derive(Debug)]
pub enum Failure {
    /// The upstream refused it because it is called too often (429). It has not run.
    Throttled {
        /// The wait that the upstream told.
        retry_after: Option<Duration>,
    },
    /// The upstream answered that it failed (5xx).
    Failed {
        /// The status. Only 500, 502, 503 and 504 are tried again.
        status: u16,
        /// The wait that the upstream told.
        retry_after: Option<Duration>,
    },
    /// It never arrived: no connection was made.
    NotSent(BoxError),
    /// The connection broke before the answer was there. It may have run.
    Lost(BoxError),
    /// No answer came in time. It may have run.
    TimedOut,
    /// The upstream is well, but this call cannot succeed.
    Rejected(BoxError),
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Failure {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Rejected(_) => Verdict::Final,
            Self::Failed { status, .. } if !matches!(status, 500 | 502 | 503 | 504) => Verdict::Final,
            _ => Verdict::Again { told: self.told(), may_have_run: self.may_have_run() },
        }
    }

    const fn may_have_run(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Lost(_) | Self::TimedOut)
    }

    /// The word for it in metrics and in the log.
    const fn word(&self) -> &'static str {
        match self {
            Self::Throttled { .. } => "throttled",
            Self::Failed { .. } => "failed",
            Self::NotSent(_) => "not_sent",
            Self::Lost(_) => "lost",
            Self::TimedOut => "timed_out",
            Self::Rejected(_) => "rejected",
        }
    }

    fn told(&self) -> Option<Duration> {
        match *self {
            Self::Throttled { retry_after } | Self::Failed { retry_after, .. } => retry_after,
            _ => None,
        }
    }
}

/// One external service: its quotas, its retries and their budget, its circuit breaker, its metrics. Clones share them.
///
/// Make one per service and keep it; two for the same service know nothing of each other. Over HTTP it is a middleware
/// of [`reqwest_middleware`], see [`UpstreamRequest`](crate::UpstreamRequest); anything else goes through
/// [`run`](Self::run):
///
/// ```
/// use sluicegate_resilience::{CallOptions, Failure, Quota, Repeat, Upstream, UpstreamOptions};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let quotas = vec![Quota::per_second(10)?, Quota::per_hour(5_000)?];
/// let warehouse = Upstream::new("warehouse", UpstreamOptions { quotas, ..UpstreamOptions::default() })?;
///
/// let reading = CallOptions { repeat: Repeat::Always, ..CallOptions::default() };
/// let rows = warehouse.run(reading, |attempt| async move {
///     if attempt == 1 { Err(Failure::Lost("connection reset".into())) } else { Ok(12) }
/// });
/// assert_eq!(rows.await.unwrap(), 12);
/// # Ok::<_, sluicegate_resilience::OptionsError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Upstream {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: Arc<str>,
    pace: Pace,
    retry: Retry,
    breaker: CircuitBreaker,
    attempt_timeout: Duration,
    call_timeout: Duration,
    max_answer: usize,
    wall_clock: WallClock,
}

impl Upstream {
    /// An upstream that has not been called yet. Its name stands in errors, logs and metrics.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub fn new(name: impl Into<Arc<str>>, options: UpstreamOptions) -> Result<Self, OptionsError> {
        let UpstreamOptions {
            quotas,
            when_full,
            retry,
            breaker,
            attempt_timeout,
            call_timeout,
            max_answer,
            wall_clock,
        } = options;
        for (option, timeout) in [("attempt_timeout", attempt_timeout), ("call_timeout", call_timeout)] {
            let kept = (MARGIN * 2..=Duration::from_hours(24)).contains(&timeout);
            OptionsError::unless(kept, option, timeout, "it must be between 100 ms and a day")?;
        }
        let name = name.into();
        let inner = Inner {
            pace: Pace::new(quotas, when_full),
            retry: Retry::new(retry)?,
            breaker: CircuitBreaker::new(Arc::clone(&name), breaker)?,
            name,
            attempt_timeout,
            call_timeout,
            max_answer,
            wall_clock,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The state of its circuit breaker.
    #[must_use]
    pub fn breaker_state(&self) -> BreakerState {
        self.inner.breaker.state()
    }

    /// Runs a call: waits for its turn, makes an attempt, and repeats it as the options allow. `attempt` is told its
    /// number, from 1 on; it is dropped when its time is over.
    ///
    /// # Errors
    /// When the call was not made, or when its last attempt failed.
    pub async fn run<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        options: CallOptions,
        mut attempt: impl FnMut(u32) -> F,
    ) -> Result<T, UpstreamError> {
        let latest = Instant::now() + self.inner.call_timeout;
        let deadline = options.deadline.map_or(latest, |deadline| deadline.min(latest));
        let deadline = deadline.checked_sub(MARGIN).unwrap_or(deadline);
        let mut tries = self.inner.retry.start(Some(deadline));
        let mut may_have_run = false;
        let result = loop {
            let failure = match self.attempt(&mut tries, deadline, &mut attempt).await {
                Ok(value) => break Ok(value),
                Err(Stopped::Before(kind)) => break Err((kind, None)),
                Err(Stopped::By(failure)) => failure,
            };
            // What has no further effect when it is repeated may be asked for again without a second thought.
            may_have_run |= options.repeat != Repeat::Always && failure.may_have_run();
            match tries.failed(failure.verdict(), options.repeat) {
                Ok(wait) => {
                    self.announce(&failure, tries.made(), wait);
                    sleep(wait).await;
                }
                Err(gave_up) => break Err(self.last(failure, tries.made(), gave_up)),
            }
        };
        let result = result.map_err(|(kind, source)| UpstreamError {
            upstream: Arc::clone(&self.inner.name),
            kind,
            attempts: tries.made(),
            may_have_run,
            source,
        });
        let outcome = result.as_ref().err().map_or("ok", |error| error.kind.word());
        let name = &self.inner.name;
        metrics::counter!("sluicegate_upstream_calls_total", "upstream" => Arc::clone(name), "outcome" => outcome)
            .increment(1);
        metrics::histogram!("sluicegate_upstream_attempts", "upstream" => Arc::clone(name))
            .record(f64::from(tries.made()));
        result
    }

    /// One attempt, if breaker and limits allow it in time.
    async fn attempt<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        tries: &mut Tries<'_>,
        deadline: Instant,
        attempt: &mut impl FnMut(u32) -> F,
    ) -> Result<T, Stopped> {
        let Inner { pace, retry, breaker, attempt_timeout, .. } = &*self.inner;
        // Asked first so that nobody queues for an upstream that is left alone; the queue may outlast the answer.
        breaker.check()?;
        pace.take(deadline).await?;
        let now = Instant::now();
        if now >= deadline {
            return Err(Stopped::Before(UpstreamErrorKind::TimedOut));
        }
        let pass = breaker.admit()?;
        let whole = now + *attempt_timeout;
        let result = match timeout_at(whole.min(deadline), attempt(tries.next())).await {
            Ok(result) => result,
            Err(_) => Err(Failure::TimedOut),
        };
        match &result {
            Ok(_) => {
                pass.succeeded();
                tries.succeeded();
            }
            Err(Failure::Rejected(_)) => pass.succeeded(),
            // It was not given its time: that is the caller's doing. Callers in a hurry must not open it for the others.
            Err(Failure::TimedOut) if deadline < whole => drop(pass),
            Err(Failure::Throttled { .. }) => drop(pass),
            Err(_) => pass.failed(),
        }
        result.map_err(|failure| {
            if let Some(told) = failure.told() {
                pace.pause(retry.bounded(told));
            }
            Stopped::By(failure)
        })
    }

    fn announce(&self, failure: &Failure, attempt: u32, wait: Duration) {
        let (name, reason) = (&self.inner.name, failure.word());
        tracing::info!(
            upstream = &**name,
            attempt,
            reason,
            wait_ms = wait.as_millis(),
            "trying again after a failed attempt"
        );
        metrics::counter!("sluicegate_upstream_retries_total", "upstream" => Arc::clone(name), "reason" => reason)
            .increment(1);
    }

    /// What the failure of the last attempt is to whoever made the call.
    fn last(&self, failure: Failure, attempts: u32, gave_up: GaveUp) -> (UpstreamErrorKind, Option<BoxError>) {
        tracing::info!(upstream = self.name(), attempts, reason = failure.word(), ?gave_up, "gave up");
        match failure {
            Failure::Throttled { retry_after } => {
                let retry_after = retry_after.unwrap_or_else(|| self.inner.retry.suggestion(attempts));
                (UpstreamErrorKind::Throttled { retry_after, limit: None }, None)
            }
            Failure::Failed { status, .. } => (UpstreamErrorKind::Failed { status }, None),
            Failure::TimedOut => (UpstreamErrorKind::TimedOut, None),
            Failure::NotSent(source) | Failure::Lost(source) => (UpstreamErrorKind::Unreachable, Some(source)),
            Failure::Rejected(source) => (UpstreamErrorKind::Rejected, Some(source)),
        }
    }
}

/// Why an attempt gave no result.
enum Stopped {
    /// It was not made.
    Before(UpstreamErrorKind),
    /// It failed.
    By(Failure),
}

impl From<CircuitOpen> for Stopped {
    fn from(open: CircuitOpen) -> Self {
        Self::Before(UpstreamErrorKind::CircuitOpen { retry_after: open.retry_after })
    }
}

impl From<Full> for Stopped {
    fn from(full: Full) -> Self {
        Self::Before(UpstreamErrorKind::Throttled { retry_after: full.retry_after, limit: full.limit })
    }
}
