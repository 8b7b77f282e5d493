//! Keeping the snapshot current: build it anew, then swap it. A policy that cannot be loaded never replaces a good one.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use sluicegate_control::{Control, ControlError, PolicyWatch, WallClock};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::Snapshot;
use super::baseline::Baseline;

/// How long to wait before a failed load is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The policy in force, swapped atomically.
pub(crate) struct PolicyStore {
    current: ArcSwap<Snapshot>,
    /// Held by whoever makes the next snapshot.
    changing: Mutex<()>,
    /// Why the last reload failed, until one succeeds.
    failure: ArcSwapOption<String>,
    control: Control,
    clock: WallClock,
    /// When the policy in force was last known to be the newest.
    confirmed: parking_lot::Mutex<Instant>,
    reloads: Reloads,
    /// Why the limits of the settings, as they were last read, are not in force.
    settings_problem: ArcSwapOption<String>,
}

/// What became of the changes that were noticed.
#[derive(Default)]
struct Reloads {
    ok: AtomicU64,
    failed: AtomicU64,
    invalid: AtomicU64,
}

impl PolicyStore {
    /// Loads the whole policy.
    ///
    /// # Errors
    /// When the database cannot be read or holds a policy that makes no sense: there is none to start with.
    pub(crate) async fn load(
        control: Control,
        clock: WallClock,
        baseline: Arc<Baseline>,
    ) -> Result<Self, ControlError> {
        let delta = control.policy().load_all().await?;
        let current = ArcSwap::from_pointee(Snapshot::empty(baseline).after(delta, clock.now_ms()));
        Ok(Self {
            current,
            changing: Mutex::new(()),
            failure: ArcSwapOption::empty(),
            control,
            clock,
            confirmed: parking_lot::Mutex::new(Instant::now()),
            reloads: Reloads::default(),
            settings_problem: ArcSwapOption::empty(),
        })
    }

    /// The policy in force.
    pub(crate) fn current(&self) -> Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// Why the last reload failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.load().as_deref().cloned()
    }

    /// Takes over what has changed in the database.
    ///
    /// # Errors
    /// See [`load`](Self::load). The policy in force stays.
    pub(crate) async fn refresh(&self) -> Result<(), ControlError> {
        let looked = Instant::now();
        let refreshed = self.catch_up().await;
        match refreshed {
            Ok(()) => *self.confirmed.lock() = looked,
            Err(_) => {
                self.reloads.failed.fetch_add(1, Relaxed);
            }
        }
        refreshed
    }

    async fn catch_up(&self) -> Result<(), ControlError> {
        let _alone = self.changing.lock().await;
        let current = self.current.load_full();
        let delta = self.control.policy().changes_since(current.revision).await?;
        let now_ms = self.clock.now_ms();
        let unchanged = delta.revision == current.revision && !delta.complete;
        if unchanged && current.next_expiry().is_none_or(|end| end > now_ms) {
            return Ok(());
        }
        let next = current.after(delta, now_ms);
        tracing::info!(revision = next.revision.get(), "policy reloaded");
        self.current.store(Arc::new(next));
        self.reloads.ok.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Puts other limits of the settings in force, below what the database says.
    pub(crate) async fn replace_baseline(&self, baseline: Arc<Baseline>) {
        let _alone = self.changing.lock().await;
        let next = self.current.load_full().on(baseline, self.clock.now_ms());
        self.current.store(Arc::new(next));
        self.reloads.ok.fetch_add(1, Relaxed);
        self.settings_problem.store(None);
    }

    /// The limits of the settings cannot be put in force; those before them stay.
    pub(crate) fn settings_failed(&self, problem: String) {
        self.reloads.invalid.fetch_add(1, Relaxed);
        self.settings_problem.store(Some(Arc::new(problem)));
    }

    /// For how long the policy in force has not been known to be the newest.
    pub(crate) fn age(&self) -> Duration {
        self.confirmed.lock().elapsed()
    }

    /// How many reloads succeeded, how many failed, and how often the settings made no sense.
    pub(crate) fn reloads(&self) -> [u64; 3] {
        let Reloads { ok, failed, invalid } = &self.reloads;
        [ok, failed, invalid].map(|count| count.load(Relaxed))
    }

    /// Why the limits of the settings, as they were last read, are not in force.
    pub(crate) fn settings_problem(&self) -> Option<Arc<String>> {
        self.settings_problem.load_full()
    }

    /// Follows the database until `shutdown` is cancelled: looks when there is a notice, and every `interval` to know
    /// that the policy in force still is the newest.
    pub(crate) async fn follow(
        self: Arc<Self>,
        mut watch: PolicyWatch,
        interval: Duration,
        shutdown: CancellationToken,
    ) {
        let mut retry = false;
        loop {
            let pause =
                if retry { RETRY_AFTER } else { self.until_next_expiry().map_or(interval, |end| end.min(interval)) };
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = watch.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
            retry = false;
            let failure = self.refresh().await.err();
            if let Some(error) = &failure {
                tracing::error!(?error, "the policy could not be reloaded; the one in force stays");
                retry = true;
            }
            self.failure.store(failure.map(|error| Arc::new(error.to_string())));
        }
    }

    fn until_next_expiry(&self) -> Option<Duration> {
        let end = self.current().next_expiry()?;
        Some(Duration::from_millis((end - self.clock.now_ms()).max(0).unsigned_abs()))
    }
}
