//! One record for every request, whether it was served or refused: counted in [`Usage`], and logged.
//!
//! Served calls are logged at DEBUG, refusals at INFO; those of strangers at DEBUG, but for addresses that fail too often.
//! Every refusal is recorded; its log line is sampled when one agent, or strangers together, flood ([`Flood`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_limits::RuleSet;
use sluicegate_mcp::Outcome;

use crate::gate::Trip;
use crate::gate::authenticate::Principal;
use crate::policy::compile::CallLimits;
use crate::policy::resolve::Who;
use crate::refusal::Refusal;
use crate::telemetry::Telemetry;
use crate::usage::{Series, Usage};

mod flood;

pub(crate) use flood::Flood;

/// A request that was served to its end, the response body included.
pub(crate) struct Served<'a> {
    pub(crate) principal: &'a Principal,
    /// The limits that let it in. They know the tool, and remember its counters.
    pub(crate) limits: &'a CallLimits,
    /// How the tool's work ended; `None` when no tool ran.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) latency: Duration,
    /// The limits in observe mode that would have refused it.
    pub(crate) would_throttle: RuleSet,
    pub(crate) request_id: &'a str,
    /// With which attempt it got through, if that is known.
    pub(crate) attempts: Option<u32>,
    pub(crate) client: Option<IpAddr>,
}

/// Takes the records.
pub(crate) struct Meter {
    usage: Arc<Usage>,
    telemetry: Arc<Telemetry>,
    /// How often addresses were refused of late because they fail too often, for the log.
    strangers: Flood,
}

impl Meter {
    pub(crate) fn new(usage: Arc<Usage>, telemetry: Arc<Telemetry>) -> Self {
        Self { usage, telemetry, strangers: Flood::default() }
    }

    /// A request was let in: with which attempt, if that is known. `told` is what the caller says.
    pub(crate) fn admitted(&self, who: Who, limits: &CallLimits, told: Option<u32>) -> Option<u32> {
        self.usage.admitted(self.series(who, limits), told)
    }

    /// What counts the requests of a caller under these limits.
    fn series<'a>(&self, who: Who, limits: &'a CallLimits) -> &'a Series {
        limits.series.get_or_init(|| self.usage.series(who, limits.tool.as_deref()))
    }

    pub(crate) fn served(&self, served: &Served<'_>) {
        let Served { limits, outcome, latency, would_throttle, attempts, .. } = *served;
        let series = self.series(served.principal.who, limits);
        series.served(outcome, latency, !would_throttle.is_empty(), attempts);
        if let (Some(_), Some(attempts)) = (&limits.tool, attempts) {
            self.telemetry.got_through(attempts);
        }
        let caller = &served.principal.caller;
        self.telemetry.served(caller, limits, outcome, latency, would_throttle);
        tracing::debug!(
            target: "sluicegate::call",
            tenant = caller.tenant(),
            agent = caller.agent(),
            client_id = caller.client_id(),
            tool = limits.tool.as_deref(),
            outcome = outcome.map(Outcome::as_str),
            latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX),
            would_throttle = would_throttle.len(),
            attempts,
            request_id = served.request_id,
            client = served.client.map(tracing::field::display),
            "served"
        );
    }

    /// `who` is the caller, with the limits of what it asked for, if that was read.
    pub(crate) fn refused(&self, refusal: &Refusal, trip: &Trip, who: Option<(&Principal, &CallLimits)>) {
        let request_id = &*trip.request_id;
        let client = trip.client.map(tracing::field::display);
        self.telemetry.refused(refusal, who.map(|(principal, limits)| (&principal.caller, limits)));
        let Some((principal, limits)) = who else {
            self.usage.refused(&self.usage.series(Who::default(), None), Who::default(), refusal, request_id);
            self.stranger_refused(refusal, trip);
            return;
        };
        self.usage.refused(self.series(principal.who, limits), principal.who, refusal, request_id);
        let Some(count) = principal.flood.refused(trip.started) else { return };
        let caller = &principal.caller;
        let (scope, tool) = match refusal {
            Refusal::Throttled(throttled) => (Some(throttled.scope.as_str()), throttled.tool.as_deref()),
            _ => (None, None),
        };
        tracing::info!(
            target: "sluicegate::call",
            tenant = caller.tenant(),
            agent = caller.agent(),
            client_id = caller.client_id(),
            tool,
            reason = refusal.reason(),
            scope,
            retry_after = refusal.retry_after_seconds(),
            count,
            request_id,
            client,
            "refused"
        );
    }

    /// The log of a refusal of somebody who has not proved who they are.
    fn stranger_refused(&self, refusal: &Refusal, trip: &Trip) {
        let (request_id, client) = (&*trip.request_id, trip.client.map(tracing::field::display));
        let count = matches!(refusal, Refusal::TooManyFailures { .. }).then(|| self.strangers.refused(trip.started));
        match count.flatten() {
            None => tracing::debug!(target: "sluicegate::call", request_id, client, ?refusal, "refused"),
            Some(count) => tracing::info!(
                target: "sluicegate::call",
                reason = refusal.reason(),
                retry_after = refusal.retry_after_seconds(),
                count,
                request_id,
                client,
                "refused"
            ),
        }
    }
}
