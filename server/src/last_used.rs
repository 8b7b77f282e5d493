//! When each API key was last used: noted on the call path, written in batches.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_control::{Actor, Control, KeyId};
use tokio_util::sync::CancellationToken;

/// The keys that were used since the last batch.
#[derive(Default)]
pub(crate) struct LastUsed {
    noted: Mutex<HashMap<KeyId, i64>>,
}

impl LastUsed {
    /// How exact the time of the last use is, in milliseconds.
    pub(crate) const RESOLUTION_MS: i64 = 30_000;

    /// Notes a use.
    pub(crate) fn note(&self, key: KeyId, now_ms: i64) {
        self.noted.lock().insert(key, now_ms);
    }

    /// Writes batches until `shutdown` is cancelled, and a last one then.
    pub(crate) async fn write(self: Arc<Self>, control: Control, shutdown: CancellationToken) {
        let actor = Actor::system("last-used");
        let pause = Duration::from_millis(Self::RESOLUTION_MS.unsigned_abs());
        loop {
            let last = tokio::time::timeout(pause, shutdown.cancelled()).await.is_ok();
            let batch: Vec<_> = std::mem::take(&mut *self.noted.lock()).into_iter().collect();
            if !batch.is_empty()
                && let Err(error) = control.keys().record_uses(&actor, &batch).await
            {
                tracing::warn!(?error, keys = batch.len(), "the last use of API keys could not be written");
            }
            if last {
                return;
            }
        }
    }
}
