//! Keeping the snapshot current: build it anew, then swap it. A policy that cannot be loaded never replaces a good one.

use std::sync::Arc;
use std::time::Duration;

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
        Ok(Self { current, changing: Mutex::new(()), failure: ArcSwapOption::empty(), control, clock })
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
        Ok(())
    }

    /// Follows the database until `shutdown` is cancelled.
    pub(crate) async fn follow(self: Arc<Self>, mut watch: PolicyWatch, shutdown: CancellationToken) {
        let mut retry = false;
        loop {
            let pause = if retry { Some(RETRY_AFTER) } else { self.until_next_expiry() };
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = watch.changed() => {}
                () = elapsed(pause) => {}
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

/// Completes after the pause; never without one.
async fn elapsed(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}
