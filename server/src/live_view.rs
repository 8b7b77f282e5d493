//! The running server, as the panel and the admin API see it.

use std::sync::Arc;

use sluicegate_control::{
    Actor, AgentRef, AlertRuleId, Answer, ControlError, EngineHealth, Explanation, Health, KeyId, LiveView,
    PolicyHealth, Question, Revision, TenantRef, Tool, WebhookAnswer,
};
use tokio_util::sync::CancellationToken;

use crate::engine::LimitEngine;
use crate::policy::explain::Explainer;
use crate::usage::Usage;
use crate::webhooks::Webhooks;

/// What is asked for it.
pub(crate) struct Live {
    pub(crate) explainer: Arc<Explainer>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) draining: CancellationToken,
    /// When the server started, in epoch milliseconds.
    pub(crate) started_at: i64,
}

impl LiveView for Live {
    fn revision(&self) -> Revision {
        self.explainer.policy.current().revision
    }

    fn explain_each<'a>(
        &'a self,
        actor: &'a Actor,
        tenant: &'a TenantRef,
        agent: &'a AgentRef,
        key: Option<KeyId>,
        tools: &'a [Tool],
    ) -> Answer<'a, Result<Vec<Explanation>, ControlError>> {
        Box::pin(self.explainer.explain_each(actor, tenant, agent, key, tools))
    }

    fn explain<'a>(&'a self, actor: &'a Actor, question: Question) -> Answer<'a, Result<Explanation, ControlError>> {
        Box::pin(self.explainer.explain(actor, question))
    }

    fn health(&self) -> Health {
        let policy = &self.explainer.policy;
        let live_keys = self.explainer.engine.as_ref().map_or(0, |engine| engine.limiter.live_keys() as u64);
        let engine = self.explainer.engine.as_ref().map(LimitEngine::state).unwrap_or_default();
        let (revision, loaded_at) = {
            let snapshot = policy.current();
            (snapshot.revision.get(), snapshot.made_at)
        };
        Health {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            draining: self.draining.is_cancelled(),
            in_flight: self.explainer.in_flight(),
            engine: EngineHealth { kind: engine.kind.to_owned(), degraded: engine.degraded, live_keys },
            policy: PolicyHealth { revision, loaded_at, error: policy.failure() },
            usage: self.usage.health(),
        }
    }

    fn test_webhook<'a>(
        &'a self,
        actor: &'a Actor,
        rule: AlertRuleId,
    ) -> Answer<'a, Result<WebhookAnswer, ControlError>> {
        Box::pin(self.webhooks.test(actor, rule))
    }
}
