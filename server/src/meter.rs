//! One record for every request, whether it was served or refused: counted in [`Usage`], and logged.
//!
//! Served calls are logged at DEBUG, refusals at INFO. Every refusal is recorded; its log line is sampled when one agent
//! floods: the first, then every 1 000th, with the count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use sluicegate_mcp::Outcome;

use crate::attempts::Attempts;
use crate::caller::Caller;
use crate::gate::authenticate::Principal;
use crate::policy::compile::CallLimits;
use crate::policy::resolve::Who;
use crate::refusal::Refusal;
use crate::usage::Usage;

/// How many refusals of one agent there are for one line in the log, after the first.
const SAMPLE: u64 = 1_000;
/// An agent that was not refused for so long starts with a line again.
const CALM: Duration = Duration::from_secs(60);
const MOST_AGENTS: u64 = 10_000;

/// A request that was served to its end, the response body included.
pub(crate) struct Served<'a> {
    pub(crate) principal: &'a Principal,
    /// The limits that let it in. They know the tool, and remember its counters.
    pub(crate) limits: &'a CallLimits,
    /// How the tool's work ended; `None` when no tool ran.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) latency: Duration,
    /// How many limits in observe mode would have refused it.
    pub(crate) would_throttle: usize,
    pub(crate) request_id: &'a str,
    /// With which attempt it got through, if that is known.
    pub(crate) attempts: Option<u32>,
}

/// Takes the records.
pub(crate) struct Meter {
    usage: Arc<Usage>,
    refusals: Cache<Caller, Arc<AtomicU64>>,
    pub(crate) attempts: Attempts,
}

impl Meter {
    pub(crate) fn new(usage: Arc<Usage>, limiter_clock: quanta::Clock) -> Self {
        let refusals = Cache::builder().max_capacity(MOST_AGENTS).time_to_idle(CALM).build();
        Self { usage, refusals, attempts: Attempts::new(limiter_clock) }
    }

    pub(crate) fn served(&self, served: &Served<'_>) {
        let tool = served.limits.tool.as_deref();
        let series = served.limits.series.get_or_init(|| self.usage.series(served.principal.who, tool));
        series.served(served.outcome, served.latency, served.would_throttle > 0, served.attempts.unwrap_or(1));
        let caller = &served.principal.caller;
        tracing::debug!(
            target: "sluicegate::call",
            tenant = caller.tenant(),
            agent = caller.agent(),
            tool,
            outcome = served.outcome.map(Outcome::as_str),
            latency_us = u64::try_from(served.latency.as_micros()).unwrap_or(u64::MAX),
            would_throttle = served.would_throttle,
            attempts = served.attempts,
            request_id = served.request_id,
            "served"
        );
    }

    /// `called` is the tool that was asked for, if any.
    pub(crate) fn refused(
        &self,
        refusal: &Refusal,
        request_id: &str,
        principal: Option<&Principal>,
        called: Option<&str>,
    ) {
        let who = principal.map_or_else(Who::default, |principal| principal.who);
        self.usage.refused(who, called, refusal, request_id);
        let Some(Principal { caller, .. }) = principal else {
            tracing::debug!(target: "sluicegate::call", request_id, ?refusal, "refused");
            return;
        };
        if let Refusal::Throttled(throttled) = refusal
            && let (Some(tool), Some(wait)) = (throttled.tool_index, throttled.wait)
        {
            self.attempts.refused(who.agent, tool, wait.as_duration());
        }
        let count = self.refusals.get_with_by_ref(caller, Arc::default).fetch_add(1, Ordering::Relaxed) + 1;
        if count != 1 && !count.is_multiple_of(SAMPLE) {
            return;
        }
        let (scope, tool) = match refusal {
            Refusal::Throttled(throttled) => (Some(throttled.scope.as_str()), throttled.tool.as_deref()),
            _ => (None, None),
        };
        tracing::info!(
            target: "sluicegate::call",
            tenant = caller.tenant(),
            agent = caller.agent(),
            tool,
            reason = refusal.reason(),
            scope,
            retry_after = refusal.retry_after_seconds(),
            count,
            request_id,
            "refused"
        );
    }
}
