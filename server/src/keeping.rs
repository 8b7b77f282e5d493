//! What a server does besides serving: it says that it runs, and looks whether there is something to tell operators.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_control::{Actor, Alert, Control, ControlError, EventKind, Instance, LiveView as _, NewEvent, Signals};
use tokio_util::sync::CancellationToken;

use crate::engine::{Share, Shared};
use crate::live_view::Live;

/// How often a server says that it runs.
const BEAT_EVERY: Duration = Duration::from_secs(5);
/// How many beats lie between two looks at the alert rules.
const LOOK_EVERY: u64 = 3;
/// How many beats lie between two looks for what has ended long ago.
const FORGET_EVERY: u64 = 720;
/// How long alerts that have ended are kept, in milliseconds.
const KEEP_ALERTS_MS: i64 = 90 * 24 * 60 * 60 * 1_000;

/// Goes on until `shutdown` is cancelled, and says goodbye then. `id` is unlike that of any other server.
pub(crate) async fn keep(
    id: String,
    address: String,
    control: Control,
    live: Arc<Live>,
    shared: Option<Arc<Shared>>,
    shutdown: CancellationToken,
) {
    let actor = Actor::system("server");
    let keeping = Keeping { id, address, control, live, shared, actor };
    let mut failing = false;
    for beat in 0_u64.. {
        let kept = keeping.beat(beat).await;
        if let Err(error) = &kept
            && !failing
        {
            tracing::warn!(error = error.inside(), "this server could not say that it runs, or look at alert rules");
        }
        failing = kept.is_err();
        if tokio::time::timeout(BEAT_EVERY, shutdown.cancelled()).await.is_ok() {
            break;
        }
    }
    if let Err(error) = keeping.control.instances().leave(&keeping.actor, &keeping.id).await {
        tracing::debug!(error = error.inside(), "this server could not say that it stops");
    }
}

struct Keeping {
    id: String,
    address: String,
    control: Control,
    live: Arc<Live>,
    shared: Option<Arc<Shared>>,
    actor: Actor,
}

impl Keeping {
    async fn beat(&self, beat: u64) -> Result<(), ControlError> {
        let health = self.live.health();
        let instance = Instance {
            id: self.id.clone(),
            address: self.address.clone(),
            version: health.version,
            revision: self.live.revision(),
            draining: health.draining,
            started_at: health.started_at,
            seen_at: 0,
        };
        self.control.instances().beat(&self.actor, &instance).await?;
        if let Some(shared) = &self.shared {
            let alive = self.control.instances().list(&self.actor).await?;
            shared.set_share(Share::among(&self.id, alive.iter().map(|instance| &*instance.id)));
        }
        if beat.is_multiple_of(LOOK_EVERY) {
            let signals = Signals {
                instance: self.id.clone(),
                engine_degraded: health.engine.degraded,
                open_breakers: Vec::new(),
            };
            let changed = self.control.alerts().evaluate(&self.actor, &signals).await?;
            if !changed.is_empty() {
                let events: Vec<_> = changed.iter().map(event).collect();
                self.control.events().record(&self.actor, &events).await?;
            }
        }
        if beat.is_multiple_of(FORGET_EVERY) {
            self.control.alerts().forget(&self.actor, KEEP_ALERTS_MS).await?;
            self.control.sessions().forget_ended().await?;
        }
        Ok(())
    }
}

/// An alert that has begun or ended, as an event.
fn event(alert: &Alert) -> NewEvent {
    let (reason, at) = match alert.ended_at {
        None => ("alert_began", alert.began_at),
        Some(ended_at) => ("alert_ended", ended_at),
    };
    tracing::info!(rule = alert.rule_name, subject = alert.subject, reason, "{}", alert.message);
    NewEvent {
        at,
        kind: EventKind::State,
        tenant: alert.tenant_id,
        agent: alert.agent_id,
        tool: None,
        scope: None,
        reason: reason.to_owned(),
        detail: alert.message.clone(),
        retry_after_ms: None,
        request_id: None,
        count: 1,
    }
}
