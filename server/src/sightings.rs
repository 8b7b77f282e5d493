//! Agents that a token names and nobody has seen before: noted on the call path, written in batches, by which they come into
//! being. That known ones were seen is written with their usage.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sluicegate_control::{Actor, Control, Sighting, TenantId};
use tokio_util::sync::CancellationToken;

use crate::gate::authenticate::Principal;

/// How soon a new agent is in the database.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Sightings that wait to be written; those beyond are noted again when their caller is.
const MOST_NOTED: usize = 10_000;
/// For how long it is remembered that a tenant has as many agents as it may.
const FULL_FOR: Duration = Duration::from_secs(60);

/// The agents that were seen since the last batch.
#[derive(Default)]
pub(crate) struct Sightings {
    noted: Mutex<HashMap<(TenantId, Arc<str>), i64>>,
    /// Tenants that have as many agents as they may, and since when that is known.
    full: Mutex<HashMap<TenantId, Instant>>,
}

impl Sightings {
    /// Notes that a caller was seen who has no row yet.
    pub(crate) fn note(&self, principal: &Principal, now_ms: i64) {
        let Some(tenant) = principal.who.tenant else { return };
        if self.is_full(tenant) {
            return;
        }
        let mut noted = self.noted.lock();
        if noted.len() < MOST_NOTED {
            noted.insert((tenant, Arc::clone(&principal.owner.member)), now_ms);
        }
    }

    /// Whether a tenant has as many agents as it may: whoever is new goes without a row, and so without limits and
    /// usage of its own.
    pub(crate) fn is_full(&self, tenant: TenantId) -> bool {
        self.full.lock().get(&tenant).is_some_and(|since| since.elapsed() < FULL_FOR)
    }

    /// Writes batches until `shutdown` is cancelled, and a last one then.
    pub(crate) async fn write(self: Arc<Self>, control: Control, shutdown: CancellationToken) {
        let actor = Actor::system("sightings");
        loop {
            let last = tokio::time::timeout(WRITE_EVERY, shutdown.cancelled()).await.is_ok();
            let batch = std::mem::take(&mut *self.noted.lock());
            let batch: Vec<_> = batch
                .into_iter()
                .map(|((tenant, agent), at)| Sighting { tenant, agent: agent.to_string(), at })
                .collect();
            if !batch.is_empty() {
                match control.agents().record_sightings(&actor, &batch).await {
                    Ok(report) => self.keep_in_mind(&report.full),
                    Err(error) => {
                        tracing::warn!(?error, agents = batch.len(), "it could not be written which agents were seen");
                    }
                }
            }
            if last {
                return;
            }
        }
    }

    fn keep_in_mind(&self, tenants: &[TenantId]) {
        let mut full = self.full.lock();
        full.retain(|_, since| since.elapsed() < FULL_FOR);
        for tenant in tenants {
            tracing::warn!(%tenant, "tokens name more agents than the tenant may have: new ones are counted with others");
            full.insert(*tenant, Instant::now());
        }
    }
}
