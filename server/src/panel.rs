//! The panel beside the gate, and what it asks the running server.

use std::sync::Arc;

use axum::Router;
use sluicegate_admin_ui::Panel;
use sluicegate_control::{
    Actor, Answer, ControlError, EngineHealth, Explanation, Health, LiveView, PolicyHealth, Question, Revision,
    UsageHealth,
};
use sluicegate_limits::Limiter;
use tokio_util::sync::CancellationToken;

use crate::policy::explain::Explainer;
use crate::server::House;
use crate::settings::Settings;

/// The pages under `/admin`.
pub(crate) fn router(house: &House, settings: &Settings) -> Router {
    let live = Live {
        explainer: Arc::clone(&house.explainer),
        limiter: house.limiter.clone(),
        draining: house.draining.clone(),
        started_at: house.clock.now_ms(),
    };
    sluicegate_admin_ui::router(Panel {
        control: house.control.clone(),
        live: Arc::new(live),
        clock: house.clock.clone(),
        settings: settings.shown(),
    })
}

/// The running server, as the panel sees it.
struct Live {
    explainer: Arc<Explainer>,
    limiter: Limiter,
    draining: CancellationToken,
    started_at: i64,
}

impl LiveView for Live {
    fn revision(&self) -> Revision {
        self.explainer.policy.current().revision
    }

    fn explain<'a>(&'a self, actor: &'a Actor, question: Question) -> Answer<'a, Result<Explanation, ControlError>> {
        Box::pin(self.explainer.explain(actor, question))
    }

    fn health(&self) -> Health {
        let policy = self.explainer.policy.current();
        Health {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            draining: self.draining.is_cancelled(),
            in_flight: self.limiter.in_flight().into(),
            engine: EngineHealth {
                kind: "memory".to_owned(),
                degraded: false,
                live_keys: u64::try_from(self.limiter.live_keys()).unwrap_or(u64::MAX),
            },
            policy: PolicyHealth { revision: policy.revision.get(), loaded_at: policy.made_at, error: None },
            usage: UsageHealth::default(),
        }
    }
}
