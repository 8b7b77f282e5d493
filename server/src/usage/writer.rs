//! Writing what was counted, every second and a last time at the end.
//!
//! Nothing is lost while the database is away: what a batch holds stays in it until it is known to have arrived, and what
//! is counted meanwhile waits for the next. A batch that did arrive, though nobody said so, is not added twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use rand::RngExt as _;
use sluicegate_control::{
    Actor, AgentId, Control, ControlError, Counts, Grain, Retention, TenantId, UsageBatch, UsageRow,
};
use tokio_util::sync::CancellationToken;

use super::series::SeriesKey;
use super::{MOST_EVENTS, Usage};

/// How often is written.
const EVERY: Duration = Duration::from_secs(1);
/// How many seconds lie between two looks for what is too old.
const FORGET_EVERY: u64 = 60;
/// After so many seconds without a call a series is forgotten, unless somebody holds it.
const IDLE: u64 = 300;
/// The most rows of one batch.
const MOST_ROWS: usize = 10_000;
/// When so many rows wait, because the database is away, counters are left where they are: no minute is lost, but the
/// time in which they count becomes coarse.
const MOST_PENDING: usize = 100_000;
/// How exact the time is at which an agent was last seen, in milliseconds.
const SEEN_RESOLUTION_MS: i64 = 30_000;
/// How often the last batch is tried when the server ends.
const LAST_TRIES: u32 = 5;

/// How long is kept what was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep {
    pub(crate) usage: Retention,
    pub(crate) events_ms: i64,
    pub(crate) events: u32,
}

/// How far writing is.
#[derive(Default)]
pub(super) struct Written {
    pending: AtomicU64,
    at: AtomicI64,
}

impl Written {
    pub(super) fn pending(&self) -> u64 {
        self.pending.load(Relaxed)
    }

    /// When the last batch arrived, in epoch milliseconds.
    pub(super) fn at(&self) -> Option<i64> {
        Some(self.at.load(Relaxed)).filter(|at| *at > 0)
    }
}

/// Writes until `shutdown` is cancelled, and the rest then.
pub(crate) async fn write(usage: Arc<Usage>, control: Control, keep: Keep, shutdown: CancellationToken) {
    let mut writer = Writer::new(control);
    for second in 1_u64.. {
        let last = tokio::time::timeout(EVERY, shutdown.cancelled()).await.is_ok();
        writer.write(&usage).await;
        if last {
            break;
        }
        if second.is_multiple_of(FORGET_EVERY) {
            writer.forget(&keep).await;
        }
    }
    for _ in 0..LAST_TRIES {
        if writer.is_done() {
            return;
        }
        tokio::time::sleep(EVERY).await;
        writer.write(&usage).await;
    }
    if !writer.is_done() {
        tracing::error!(rows = writer.waiting(), "the last usage could not be written and is lost");
    }
}

/// What is on its way.
pub(super) struct Writer {
    control: Control,
    actor: Actor,
    /// Unlike that of any other process.
    name: String,
    seq: i64,
    /// What is to go with the next batch, by the minute in which it was counted.
    pending: BTreeMap<(i64, SeriesKey), Counts>,
    /// What was sent, and not yet known to have arrived.
    sent: Option<UsageBatch>,
    /// When each agent was last told to have been seen.
    seen: HashMap<(TenantId, AgentId), i64>,
    failing: bool,
}

impl Writer {
    pub(super) fn new(control: Control) -> Self {
        Self {
            control,
            actor: Actor::system("usage"),
            name: format!("{:032x}", rand::rng().random::<u128>()),
            seq: 0,
            pending: BTreeMap::new(),
            sent: None,
            seen: HashMap::new(),
            failing: false,
        }
    }

    /// Takes what was counted, and writes what there is, as far as the database takes it.
    pub(super) async fn write(&mut self, usage: &Usage) {
        let now_ms = usage.clock.now_ms();
        self.take(usage, now_ms);
        let usage_written = self.send(now_ms).await;
        let events_written = self.send_events(usage).await;
        match usage_written.and(events_written) {
            Ok(()) => {
                if std::mem::take(&mut self.failing) {
                    tracing::info!("usage is written again");
                }
                usage.written.at.store(now_ms, Relaxed);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    let error = error.inside();
                    tracing::warn!(error, "usage cannot be written; it is kept and tried again every second");
                }
            }
        }
        usage.written.pending.store(self.waiting() as u64, Relaxed);
    }

    pub(super) fn is_done(&self) -> bool {
        self.waiting() == 0
    }

    fn waiting(&self) -> usize {
        self.pending.len() + self.sent.as_ref().map_or(0, |batch| batch.rows.len())
    }

    /// Takes from the counters, and lets go of series that nobody uses.
    fn take(&mut self, usage: &Usage, now_ms: i64) {
        if self.pending.len() >= MOST_PENDING {
            return;
        }
        let minute = Grain::Minute.bucket_of(now_ms);
        for shard in &usage.shards {
            shard.lock().retain(|key, series| {
                if let Some(counts) = series.take() {
                    self.pending.entry((minute, key.clone())).or_default().add(&counts);
                }
                // Whoever would take another handle needs the lock that is held here.
                let keep = series.idle() < IDLE || Arc::strong_count(series) > 1;
                if !keep {
                    usage.len.fetch_sub(1, Relaxed);
                }
                keep
            });
        }
    }

    /// Sends batch after batch until nothing is pending.
    async fn send(&mut self, now_ms: i64) -> Result<(), ControlError> {
        loop {
            if self.sent.is_none() {
                if self.pending.is_empty() {
                    return Ok(());
                }
                self.sent = Some(self.batch(now_ms));
            }
            if let Some(batch) = &self.sent {
                self.control.usage().record(&self.actor, batch).await?;
                self.sent = None;
            }
        }
    }

    fn batch(&mut self, now_ms: i64) -> UsageBatch {
        self.seq += 1;
        let mut batch = UsageBatch { writer: self.name.clone(), seq: self.seq, ..UsageBatch::default() };
        while batch.rows.len() < MOST_ROWS
            && let Some(((at, key), counts)) = self.pending.pop_first()
        {
            if let (Some(tenant), Some(agent)) = (key.tenant, key.agent) {
                let told = self.seen.entry((tenant, agent)).or_default();
                if *told + SEEN_RESOLUTION_MS <= now_ms {
                    *told = now_ms;
                    batch.seen.push((tenant, agent, now_ms));
                }
            }
            let tool = key.tool.as_deref().map(str::to_owned);
            batch.rows.push(UsageRow { tenant: key.tenant, agent: key.agent, tool, at, counts });
        }
        self.seen.retain(|_, told| *told + SEEN_RESOLUTION_MS > now_ms);
        batch
    }

    /// Events are samples: those that find no room while the database is away are dropped.
    async fn send_events(&self, usage: &Usage) -> Result<(), ControlError> {
        let events = std::mem::take(&mut *usage.events.lock());
        if events.is_empty() {
            return Ok(());
        }
        let recorded = self.control.events().record(&self.actor, &events).await;
        if recorded.is_err() {
            let mut waiting = usage.events.lock();
            let room = MOST_EVENTS.saturating_sub(waiting.len());
            waiting.extend(events.into_iter().take(room));
        }
        recorded
    }

    async fn forget(&self, keep: &Keep) {
        let forgotten = async {
            self.control.usage().forget(&self.actor, keep.usage).await?;
            self.control.events().forget(&self.actor, keep.events_ms, keep.events).await
        };
        if let Err(error) = forgotten.await {
            tracing::warn!(error = error.inside(), "old usage and events could not be deleted");
        }
    }
}
