//! The counters of one agent and tool.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
use std::time::Duration;

use sluicegate_control::{ATTEMPT_BOUNDS, AgentId, Counts, Grain, LATENCY_BOUNDS_MS, TenantId};
use sluicegate_limits::Scope;
use sluicegate_mcp::Outcome;

use crate::refusal::{Reason, Throttled};

/// How many refusals of one agent and tool become events in a minute; the next one tells how many there were.
const EVENTS_PER_MINUTE: u32 = 10;

/// Whose counters they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SeriesKey {
    /// None for callers that nobody identified.
    pub(super) tenant: Option<TenantId>,
    /// None for those, and for all beyond the cap.
    pub(super) agent: Option<AgentId>,
    /// None for requests that call no known tool.
    pub(super) tool: Option<Arc<str>>,
}

/// Counters that calls add to and the writer takes from. Each is one atomic addition.
pub(crate) struct Series {
    key: SeriesKey,
    /// Added to last and taken first, so that what is taken with it is complete.
    calls: AtomicI64,
    ok: AtomicI64,
    errors: AtomicI64,
    denied: AtomicI64,
    throttled: AtomicI64,
    would_throttle: AtomicI64,
    ignored_waits: AtomicI64,
    scopes: [AtomicI64; 4],
    reasons: [AtomicI64; 4],
    latency_us: AtomicI64,
    latency: [AtomicI64; LATENCY_BOUNDS_MS.len() + 1],
    attempts: [AtomicI64; ATTEMPT_BOUNDS.len() + 1],
    /// Until when it was told to wait, in epoch milliseconds.
    wait_until: AtomicI64,
    /// The minute of the latest events, and how many there were in it.
    events_minute: AtomicI64,
    events: AtomicU32,
    /// Refusals since the latest event that became none.
    unsampled: AtomicI64,
    /// For how many takes nothing was added.
    idle: AtomicU64,
}

impl Series {
    pub(super) fn new(key: SeriesKey) -> Self {
        Self {
            key,
            calls: AtomicI64::new(0),
            ok: AtomicI64::new(0),
            errors: AtomicI64::new(0),
            denied: AtomicI64::new(0),
            throttled: AtomicI64::new(0),
            would_throttle: AtomicI64::new(0),
            ignored_waits: AtomicI64::new(0),
            scopes: Default::default(),
            reasons: Default::default(),
            latency_us: AtomicI64::new(0),
            latency: Default::default(),
            attempts: Default::default(),
            wait_until: AtomicI64::new(0),
            events_minute: AtomicI64::new(0),
            events: AtomicU32::new(0),
            unsampled: AtomicI64::new(0),
            idle: AtomicU64::new(0),
        }
    }

    pub(super) const fn key(&self) -> &SeriesKey {
        &self.key
    }

    /// Counts a request that was served with so many attempts. `outcome` is how the tool's work ended, if one ran.
    pub(crate) fn served(&self, outcome: Option<Outcome>, latency: Duration, would_throttle: bool, attempts: u32) {
        let served = match outcome {
            Some(Outcome::Ok | Outcome::InputRequired) => &self.ok,
            None if self.key.tool.is_none() => &self.ok,
            _ => &self.errors,
        };
        served.fetch_add(1, Relaxed);
        if would_throttle {
            self.would_throttle.fetch_add(1, Relaxed);
        }
        self.latency_us.fetch_add(i64::try_from(latency.as_micros()).unwrap_or(i64::MAX), Relaxed);
        let bucket = LATENCY_BOUNDS_MS.partition_point(|bound| Duration::from_millis((*bound).into()) < latency);
        self.latency[bucket].fetch_add(1, Relaxed);
        let bucket = ATTEMPT_BOUNDS.partition_point(|bound| *bound < attempts);
        self.attempts[bucket].fetch_add(1, Relaxed);
        self.calls.fetch_add(1, Release);
    }

    /// Counts a request that a limit refused.
    pub(super) fn throttled(&self, throttled: &Throttled, now_ms: i64) {
        let scope = match throttled.scope {
            Scope::Server => 0,
            Scope::Tenant => 1,
            Scope::Agent => 2,
            Scope::Tool => 3,
        };
        let reason = match throttled.reason {
            Reason::RateLimit => 0,
            Reason::Concurrency => 1,
            Reason::Cost => 2,
            Reason::Overloaded => 3,
        };
        self.throttled.fetch_add(1, Relaxed);
        self.scopes[scope].fetch_add(1, Relaxed);
        self.reasons[reason].fetch_add(1, Relaxed);
        if now_ms < self.wait_until.load(Relaxed) {
            self.ignored_waits.fetch_add(1, Relaxed);
        }
        if let Some(wait) = throttled.wait {
            let wait_ms = i64::try_from(wait.retry_after_ms()).unwrap_or(i64::MAX);
            self.wait_until.store(now_ms.saturating_add(wait_ms), Relaxed);
        }
        self.calls.fetch_add(1, Release);
    }

    /// Counts a request that was refused for another reason.
    pub(super) fn denied(&self) {
        self.denied.fetch_add(1, Relaxed);
        self.calls.fetch_add(1, Release);
    }

    /// Whether a refusal becomes an event, and how many it then stands for.
    pub(super) fn sampled(&self, now_ms: i64) -> Option<i64> {
        let minute = Grain::Minute.bucket_of(now_ms);
        if self.events_minute.swap(minute, AcqRel) != minute {
            self.events.store(0, Release);
        }
        if self.events.fetch_add(1, AcqRel) < EVENTS_PER_MINUTE {
            return Some(1 + self.unsampled.swap(0, AcqRel));
        }
        self.unsampled.fetch_add(1, AcqRel);
        None
    }

    /// Takes what was added since the last time; `None` when that is nothing.
    pub(super) fn take(&self) -> Option<Counts> {
        let calls = self.calls.swap(0, Acquire);
        if calls == 0 {
            self.idle.fetch_add(1, Relaxed);
            return None;
        }
        self.idle.store(0, Relaxed);
        let take = |counter: &AtomicI64| counter.swap(0, Relaxed);
        let mut counts = Counts::default();
        counts.calls = calls;
        counts.ok = take(&self.ok);
        counts.errors = take(&self.errors);
        counts.denied = take(&self.denied);
        counts.throttled = take(&self.throttled);
        counts.would_throttle = take(&self.would_throttle);
        counts.ignored_waits = take(&self.ignored_waits);
        [counts.by_server, counts.by_tenant, counts.by_agent, counts.by_tool] = self.scopes.each_ref().map(take);
        [counts.by_rate, counts.by_concurrency, counts.by_cost, counts.by_overload] = self.reasons.each_ref().map(take);
        counts.latency_us = take(&self.latency_us);
        counts.set_latency(self.latency.each_ref().map(take));
        counts.set_attempts(self.attempts.each_ref().map(take));
        Some(counts)
    }

    /// For how many takes in a row nothing was added.
    pub(super) fn idle(&self) -> u64 {
        self.idle.load(Relaxed)
    }
}
