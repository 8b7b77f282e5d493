//! Usage: what is counted of every request, and how it gets into the database.
//!
//! Each agent and tool has a [`Series`] of counters that calls add to without a lock; a caller's compiled limits remember
//! theirs, so that a served call looks nothing up. The [`writer`] takes what was added every second.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use sluicegate_control::{EventKind, NewEvent, UsageHealth, WallClock};

use crate::policy::resolve::Who;
use crate::refusal::Refusal;

mod series;
mod streak;
mod writer;

pub(crate) use series::Series;
use series::SeriesKey;
use writer::Written;
pub(crate) use writer::{Keep, write};

/// How many parts the series are kept in: only first sights and refusals look one up, and they rarely meet in one.
const SHARDS: usize = 64;

/// The most refusals that wait to be written as events; they are samples, and counted all the same.
const MOST_EVENTS: usize = 2_000;

type Shard = Mutex<HashMap<SeriesKey, Arc<Series>>>;

/// The counters of a server.
pub(crate) struct Usage {
    shards: Box<[Shard]>,
    hasher: RandomState,
    /// How many series there are.
    len: AtomicUsize,
    /// How many agents and tools are counted apart. Beyond, agents are counted with the others of their tenant, and when
    /// there are twice as many, with everybody.
    most: usize,
    tools: HashSet<Arc<str>>,
    clock: WallClock,
    events: Mutex<Vec<NewEvent>>,
    written: Written,
}

impl Usage {
    pub(crate) fn new(most: usize, tools: impl Iterator<Item = Arc<str>>, clock: WallClock) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            len: AtomicUsize::new(0),
            most,
            tools: tools.collect(),
            clock,
            events: Mutex::default(),
            written: Written::default(),
        }
    }

    /// The counters of a caller and a tool; without a tool those of its other requests.
    pub(crate) fn series(&self, who: Who, tool: Option<&str>) -> Arc<Series> {
        let tool = tool.and_then(|tool| self.tools.get(tool)).cloned();
        let key = SeriesKey { tenant: who.tenant, agent: who.agent, tool };
        if let Some(known) = self.shard(&key).lock().get(&key) {
            return Arc::clone(known);
        }
        let key = match self.len.load(Relaxed) {
            len if len >= self.most.saturating_mul(2) => SeriesKey { tenant: None, agent: None, ..key },
            len if len >= self.most => SeriesKey { agent: None, ..key },
            _ => key,
        };
        let mut shard = self.shard(&key).lock();
        let series = shard.entry(key).or_insert_with_key(|key| {
            self.len.fetch_add(1, Relaxed);
            Arc::new(Series::new(key.clone()))
        });
        Arc::clone(series)
    }

    /// A request of a series was let in: with which attempt, if that is known. `told` is what the caller says.
    pub(crate) fn admitted(&self, series: &Series, told: Option<u32>) -> Option<u32> {
        series.admitted(told, || self.clock.now_ms())
    }

    /// Counts a refusal of a series, and keeps it as an event unless the caller floods.
    pub(crate) fn refused(&self, series: &Series, who: Who, refusal: &Refusal, request_id: &str) {
        if refusal.comes_after_admission() {
            // Its ticket has counted it.
            return;
        }
        let now_ms = self.clock.now_ms();
        let kind = match refusal {
            Refusal::Throttled(throttled) => {
                series.throttled(throttled, now_ms);
                EventKind::Throttled
            }
            _ => {
                series.denied();
                EventKind::Denied
            }
        };
        let Some(count) = series.sampled(now_ms) else { return };
        let event = event(who, series, kind, refusal, request_id, count, now_ms);
        let mut events = self.events.lock();
        if events.len() < MOST_EVENTS {
            events.push(event);
        }
    }

    /// How metering is.
    pub(crate) fn health(&self) -> UsageHealth {
        UsageHealth {
            series: self.len.load(Relaxed) as u64,
            pending: self.written.pending(),
            written_at: self.written.at(),
        }
    }

    fn shard(&self, key: &SeriesKey) -> &Mutex<HashMap<SeriesKey, Arc<Series>>> {
        let hash = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        &self.shards[hash]
    }
}

fn event(
    who: Who,
    series: &Series,
    kind: EventKind,
    refusal: &Refusal,
    request_id: &str,
    count: i64,
    now_ms: i64,
) -> NewEvent {
    let throttled = match refusal {
        Refusal::Throttled(throttled) => Some(throttled),
        _ => None,
    };
    let wait = throttled.and_then(|throttled| throttled.wait);
    NewEvent {
        at: now_ms,
        kind,
        tenant: who.tenant,
        agent: who.agent,
        tool: series.key().tool.as_deref().map(str::to_owned),
        scope: throttled.map(|throttled| throttled.scope.as_str().to_owned()),
        reason: refusal.reason().to_owned(),
        detail: throttled.map(|throttled| throttled.limit.to_string()).unwrap_or_default(),
        retry_after_ms: wait.map(|wait| i64::try_from(wait.retry_after_ms()).unwrap_or(i64::MAX)),
        request_id: Some(request_id.to_owned()),
        count,
    }
}

#[cfg(test)]
mod tests;
