//! What `/metrics` shows of one server, in the text format of Prometheus.
//!
//! Every server has a recorder of its own, since several may run in one process. The call path holds handles: who is
//! counted where is looked up once per caller and tool ([`labels`]), afterwards a call is an atomic addition. What only a
//! scrape wants to know (permits held, the age of the policy) is read when it is asked for.
//!
//! Metrics that belong to the process rather than to a server (breakers towards upstreams, and whatever the author of the
//! tools counts with the crate `metrics`) are in [`process`].

use std::sync::Arc;
use std::time::Duration;

use ::metrics::{Counter, Gauge, Key, Label, Level, Metadata, Recorder as _, SharedString};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use sluicegate_control::AttemptOutcome;
use sluicegate_limits::{RuleRef, RuleSet, Scope};
use sluicegate_mcp::{Outcome, Registry};

mod buckets;
mod histogram;
pub(crate) mod labels;
pub(crate) mod process;

use crate::caller::Caller;
use crate::engine::LimitEngine;
use crate::policy::PolicyStore;
use crate::policy::compile::CallLimits;
use crate::policy::resolve::Asked;
use crate::refusal::{Reason, Refusal};
use crate::token::jwks::Jwks;
use histogram::Histogram;
use labels::{CallCounters, CallOutcome, Labels};

/// The two histograms that every call adds to.
const ADMISSION: &str = "sluicegate_admission_seconds";
const LATENCY: &str = "sluicegate_call_seconds";

/// Names and help texts of the metrics, as docs/operations.md lists them.
const HELP: &[(&str, Kind, &str)] = &[
    ("sluicegate_calls_total", Kind::Counter, "Calls of tools by how they ended."),
    ("sluicegate_throttled_total", Kind::Counter, "Requests that a limit refused, by the scope of the limit."),
    ("sluicegate_would_throttle_total", Kind::Counter, "Requests that a limit in observe mode would have refused."),
    ("sluicegate_refused_total", Kind::Counter, "Requests that were refused for another reason than a limit."),
    (ADMISSION, Kind::Histogram, "Time spent deciding whether a request is admitted."),
    (LATENCY, Kind::Histogram, "Time from the arrival of a call to the end of its tool's work."),
    ("sluicegate_retry_attempts", Kind::Histogram, "Attempts until a call got through that was throttled before."),
    ("sluicegate_policy_age_seconds", Kind::Gauge, "Time since the policy in force was last known to be the newest."),
    (
        "sluicegate_policy_reloads_total",
        Kind::Counter,
        "Policies and limits of the settings that were taken over, or not.",
    ),
    ("sluicegate_engine_degraded", Kind::Gauge, "1 while limits are not enforced as configured."),
    ("sluicegate_engine_outages_total", Kind::Counter, "Times that Redis could no longer be asked about limits."),
    ("sluicegate_issuer_key_reads_total", Kind::Counter, "Times that the keys of the tokens' issuer were asked for."),
    ("sluicegate_in_flight", Kind::Gauge, "Concurrency permits held, by the scope of their caps."),
    ("sluicegate_streams", Kind::Gauge, "Streams that are open."),
    ("sluicegate_keys_live", Kind::Gauge, "Limiter states in memory."),
    ("sluicegate_webhook_attempts_total", Kind::Counter, "Attempts to call webhooks of alert rules, by their result."),
    ("sluicegate_draining", Kind::Gauge, "1 while the server is shutting down."),
];

enum Kind {
    Counter,
    Gauge,
    Histogram,
}

fn help_of(name: &str) -> &'static str {
    HELP.iter().find(|(known, ..)| *known == name).map_or("", |(_, _, help)| help)
}

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// The metrics of one server.
pub(crate) struct Telemetry {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    clock: quanta::Clock,
    admission: Histogram,
    attempts: ::metrics::Histogram,
    /// Latency by tool, by index, with the label of the tool.
    latency: Box<[(Histogram, String)]>,
    labels: Labels,
    /// By reason.
    refused: Box<[(&'static str, Counter)]>,
    /// Reloads of the policy: those that succeeded, those that failed, and settings that made no sense.
    reloads: [Counter; 3],
    /// Attempts that delivered, that failed, and that were the last.
    webhooks: [Counter; 3],
    /// Times that the keys of the issuer of tokens were read, and could not be.
    issuer_keys: [Counter; 2],
    /// How often limits could no longer be shared.
    outages: Counter,
    gauges: Gauges,
}

/// What is read when somebody asks.
struct Gauges {
    policy_age: Gauge,
    engine_degraded: Gauge,
    in_flight: [Gauge; 4],
    streams: Gauge,
    keys_live: Gauge,
    draining: Gauge,
}

/// What a scrape reads elsewhere.
pub(crate) struct Readings<'a> {
    pub(crate) engine: &'a LimitEngine,
    pub(crate) policy: &'a PolicyStore,
    /// Where tokens are checked with keys that their issuer publishes.
    pub(crate) issuer: Option<&'a Jwks>,
    /// How many streams are open.
    pub(crate) streams: usize,
    pub(crate) draining: bool,
}

impl Telemetry {
    /// For a server with these tools; at most `series` combinations of tenant, agent and tool have labels of their own.
    pub(crate) fn new(registry: &Registry, series: usize) -> Self {
        let recorder = buckets::configure(PrometheusBuilder::new()).build_recorder();
        for (name, kind, help) in HELP.iter().filter(|(name, ..)| ![ADMISSION, LATENCY].contains(name)) {
            let (name, help) = ((*name).into(), (*help).into());
            match kind {
                Kind::Counter => recorder.describe_counter(name, None, help),
                Kind::Gauge => recorder.describe_gauge(name, None, help),
                Kind::Histogram => recorder.describe_histogram(name, None, help),
            }
        }
        let latency =
            registry.iter().map(|(_, tool)| (Histogram::new(buckets::CALL), histogram::label("tool", tool.name())));
        let gauge = |name, labels: Vec<Label>| recorder.register_gauge(&Key::from_parts(name, labels), &METADATA);
        let scope = |scope: Scope| gauge("sluicegate_in_flight", vec![Label::new("scope", scope.as_str())]);
        let refused = |reason: &&'static str| {
            let labels = vec![Label::new("reason", *reason)];
            (*reason, recorder.register_counter(&Key::from_parts("sluicegate_refused_total", labels), &METADATA))
        };
        let by_result = |name: &'static str| {
            let recorder = &recorder;
            move |result: &'static str| {
                let labels = vec![Label::new("result", result)];
                recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
            }
        };
        Self {
            handle: recorder.handle(),
            clock: quanta::Clock::new(),
            admission: Histogram::new(buckets::DECISION),
            attempts: recorder.register_histogram(&Key::from_name("sluicegate_retry_attempts"), &METADATA),
            latency: latency.collect(),
            labels: Labels::new(series),
            refused: Refusal::REASONS.iter().map(refused).collect(),
            reloads: ["ok", "failed", "invalid"].map(by_result("sluicegate_policy_reloads_total")),
            webhooks: ["delivered", "failed", "given_up"].map(by_result("sluicegate_webhook_attempts_total")),
            issuer_keys: ["ok", "failed"].map(by_result("sluicegate_issuer_key_reads_total")),
            outages: recorder.register_counter(&Key::from_name("sluicegate_engine_outages_total"), &METADATA),
            gauges: Gauges {
                policy_age: gauge("sluicegate_policy_age_seconds", Vec::new()),
                engine_degraded: gauge("sluicegate_engine_degraded", Vec::new()),
                in_flight: [Scope::Server, Scope::Tenant, Scope::Agent, Scope::Tool].map(scope),
                streams: gauge("sluicegate_streams", Vec::new()),
                keys_live: gauge("sluicegate_keys_live", Vec::new()),
                draining: gauge("sluicegate_draining", Vec::new()),
            },
            recorder,
        }
    }

    /// The time, to be given to [`admission_took`](Self::admission_took).
    pub(crate) fn now(&self) -> u64 {
        self.clock.raw()
    }

    /// A decision about a request took since `start`.
    pub(crate) fn admission_took(&self, start: u64) {
        self.admission.record(self.clock.delta(start, self.clock.raw()));
    }

    /// A call got through that was throttled before, or whose caller counts its attempts.
    pub(crate) fn got_through(&self, attempts: u32) {
        self.attempts.record(f64::from(attempts));
    }

    /// A request that was admitted has ended, response body included.
    pub(crate) fn served(
        &self,
        caller: &Caller,
        limits: &CallLimits,
        outcome: Option<Outcome>,
        latency: Duration,
        would_throttle: RuleSet,
    ) {
        self.would_throttle(caller, limits, would_throttle);
        let outcome = match (limits.asked, outcome) {
            (Asked::Tool(tool), Some(outcome)) => {
                self.latency[tool.get() as usize].0.record(latency);
                CallOutcome::from(outcome)
            }
            // The engine found it wrong, or the caller has no such tool: nothing ran.
            (Asked::Tool(_), None) | (Asked::UnknownTool, _) => CallOutcome::Denied,
            (Asked::Request | Asked::Notification | Asked::Listen | Asked::Stream, _) => return,
        };
        self.counters(caller, limits).outcome(outcome, self);
    }

    /// A request of a caller that is known was refused; `limits` are those that hold for it, if it could be read.
    pub(crate) fn refused(&self, refusal: &Refusal, who: Option<(&Caller, &CallLimits)>) {
        let throttled = match refusal {
            Refusal::Throttled(throttled) => Some((throttled.scope, throttled.reason)),
            // The server itself is what is full.
            Refusal::Unavailable(_) => Some((Scope::Server, Reason::Overloaded)),
            _ => None,
        };
        if throttled.is_none() || who.is_none() {
            let counter = self.refused.iter().find(|(reason, _)| *reason == refusal.reason());
            counter.into_iter().for_each(|(_, counter)| counter.increment(1));
        }
        let Some((caller, limits)) = who else { return };
        let counters = self.counters(caller, limits);
        if let Some((scope, reason)) = throttled {
            counters.throttled(scope, reason, self);
        }
        if let Refusal::Throttled(throttled) = refusal {
            self.would_throttle(caller, limits, throttled.would_throttle);
        }
        if matches!(limits.asked, Asked::Tool(_) | Asked::UnknownTool) {
            counters.outcome(if throttled.is_some() { CallOutcome::Throttled } else { CallOutcome::Denied }, self);
        }
    }

    /// A webhook was called.
    pub(crate) fn webhook(&self, outcome: &AttemptOutcome) {
        let [delivered, failed, given_up] = &self.webhooks;
        let counter = match outcome {
            AttemptOutcome::Delivered => delivered,
            AttemptOutcome::TryAgain { .. } => failed,
            AttemptOutcome::GivenUp { .. } => given_up,
        };
        counter.increment(1);
    }

    fn would_throttle(&self, caller: &Caller, limits: &CallLimits, rules: RuleSet) {
        if rules.is_empty() {
            return;
        }
        let counters = self.counters(caller, limits);
        for rule in rules.iter() {
            let reason = match rule {
                RuleRef::Rate(_) => Reason::RateLimit,
                RuleRef::Cap(_) => Reason::Concurrency,
            };
            counters.would_throttle(limits.rules.rule(rule).0, reason, self);
        }
    }

    /// Moves what was recorded to where it is counted, so that it does not pile up between scrapes.
    pub(crate) fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    /// The text of `/metrics`.
    pub(crate) fn render(&self, readings: &Readings<'_>) -> String {
        let Gauges { policy_age, engine_degraded, in_flight, streams, keys_live, draining } = &self.gauges;
        policy_age.set(readings.policy.age().as_secs_f64());
        for (counter, count) in self.reloads.iter().zip(readings.policy.reloads()) {
            counter.absolute(count);
        }
        for (counter, count) in self.issuer_keys.iter().zip(readings.issuer.into_iter().flat_map(Jwks::reads)) {
            counter.absolute(count);
        }
        let engine = readings.engine.state();
        engine_degraded.set(f64::from(u8::from(engine.degraded)));
        self.outages.absolute(engine.outages);
        streams.set(readings.streams as f64);
        draining.set(f64::from(u8::from(readings.draining)));
        for (gauge, (_, taken)) in in_flight.iter().zip(readings.engine.limiter.slots_taken()) {
            gauge.set(taken as f64);
        }
        keys_live.set(readings.engine.limiter.live_keys() as f64);
        let mut text = self.handle.render();
        histogram::write_head(&mut text, ADMISSION, help_of(ADMISSION));
        self.admission.write(&mut text, ADMISSION, "");
        if !self.latency.is_empty() {
            histogram::write_head(&mut text, LATENCY, help_of(LATENCY));
            self.latency.iter().for_each(|(latency, tool)| latency.write(&mut text, LATENCY, tool));
        }
        text.push_str(&process::render());
        text
    }

    /// The counters of a caller's calls with these limits: found once, afterwards at hand.
    fn counters<'a>(&self, caller: &Caller, limits: &'a CallLimits) -> &'a CallCounters {
        limits.counters.get_or_init(|| {
            let tool: SharedString = match (&limits.tool, limits.asked) {
                (Some(tool), _) => Arc::clone(tool).into(),
                (None, Asked::UnknownTool) => labels::UNKNOWN_TOOL.into(),
                (None, _) => labels::NO_TOOL.into(),
            };
            self.labels.counters(caller.tenant().unwrap_or_default(), caller.agent(), tool)
        })
    }

    fn counter(&self, name: &'static str, labels: Vec<Label>) -> Counter {
        self.recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
    }
}

#[cfg(test)]
mod tests;
