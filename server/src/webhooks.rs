//! Webhooks of alert rules: who is told over HTTP that an alert has begun or ended.
//!
//! What is to be told is in the database ([`Alerts::claim_deliveries`](sluicegate_control::Alerts::claim_deliveries)); this
//! is the worker that tells it, with a time limit for each attempt and, between them, the backoff of the toolkit.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use sluicegate_control::{
    Actor, AlertRuleId, AttemptOutcome, ClaimedDelivery, Control, ControlError, WallClock, WebhookAnswer,
};
use sluicegate_resilience::{Backoff, OptionsError, Random};
use tokio_util::sync::CancellationToken;

use crate::settings::Settings;
use crate::telemetry::Telemetry;

mod addresses;
mod sender;

use sender::{Attempt, Sender};

/// How often a server looks for what is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many messages are on their way at once: a receiver that is slow does not hold up the others.
const AT_ONCE: u32 = 8;
/// How much longer than an attempt a message is claimed, so that nobody else sends it while its end is written down.
const CLAIM_MARGIN: Duration = Duration::from_secs(30);
/// The longest wait before the second attempt; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(5);
const LONGEST_WAIT: Duration = Duration::from_mins(10);
/// How often a message is tried again. With these waits it is given up after some ten minutes at most.
const RETRIES: u32 = 7;

/// Calls webhooks.
pub(crate) struct Webhooks {
    control: Control,
    sender: Sender,
    backoff: Backoff,
    random: Random,
    telemetry: Arc<Telemetry>,
    actor: Actor,
}

impl Webhooks {
    pub(crate) fn new(
        control: Control,
        settings: &Settings,
        clock: WallClock,
        telemetry: Arc<Telemetry>,
    ) -> Result<Self, OptionsError> {
        let sender = Sender::new(settings.webhook_timeout.0, settings.webhook_private_addresses, clock);
        let backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT, RETRIES)?;
        let actor = Actor::system("webhooks");
        Ok(Self { control, sender, backoff, random: Random::system(), telemetry, actor })
    }

    /// Delivers what is due until `shutdown` is cancelled. What is on its way then is tried again by whoever comes next.
    pub(crate) async fn deliver(self: Arc<Self>, shutdown: CancellationToken) {
        let mut failing = false;
        loop {
            let round = tokio::select! {
                () = shutdown.cancelled() => return,
                round = self.deliver_due() => round,
            };
            if let Err(error) = &round
                && !failing
            {
                tracing::warn!(error = error.inside(), "webhooks could not be looked after");
            }
            failing = round.is_err();
            if tokio::time::timeout(LOOK_EVERY, shutdown.cancelled()).await.is_ok() {
                return;
            }
        }
    }

    async fn deliver_due(&self) -> Result<(), ControlError> {
        let claim = self.sender.timeout().saturating_add(CLAIM_MARGIN);
        let claim = i64::try_from(claim.as_millis()).unwrap_or(i64::MAX);
        let claimed = self.control.alerts().claim_deliveries(&self.actor, claim, AT_ONCE).await?;
        let settled: Vec<_> = stream::iter(claimed)
            .map(|delivery| self.attempt(delivery))
            .buffer_unordered(AT_ONCE as usize)
            .collect()
            .await;
        settled.into_iter().collect()
    }

    async fn attempt(&self, delivery: ClaimedDelivery) -> Result<(), ControlError> {
        let ClaimedDelivery { message, attempt, .. } = &delivery;
        let Attempt { status, failure, took } = self.sender.send(message).await;
        let retry = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let outcome = match failure {
            None => AttemptOutcome::Delivered,
            Some(error) if retry >= self.backoff.retries() => AttemptOutcome::GivenUp { error },
            Some(error) => {
                let wait = self.backoff.delay(retry, &self.random);
                AttemptOutcome::TryAgain { wait_ms: i64::try_from(wait.as_millis()).unwrap_or(i64::MAX), error }
            }
        };
        let (rule, event, id) = (&*message.rule_name, message.event.as_str(), message.id.to_string());
        let took_ms = took.as_millis();
        // Not the URL: in what many services hand out, the path is a secret.
        match &outcome {
            AttemptOutcome::Delivered => {
                tracing::info!(rule, event, id, attempt, status, took_ms, "webhook delivered");
            }
            AttemptOutcome::TryAgain { wait_ms, error } => {
                tracing::warn!(rule, event, id, attempt, status, took_ms, error, wait_ms, "webhook failed");
            }
            AttemptOutcome::GivenUp { error } => {
                tracing::error!(rule, event, id, attempt, status, took_ms, error, "webhook given up");
            }
        }
        self.telemetry.webhook(&outcome);
        self.control.alerts().settle_delivery(&self.actor, &delivery, status, &outcome).await?;
        Ok(())
    }

    /// Calls the webhook of a rule once.
    pub(crate) async fn test(&self, actor: &Actor, rule: AlertRuleId) -> Result<WebhookAnswer, ControlError> {
        let message = self.control.alerts().test_message(actor, rule).await?;
        let Attempt { status, failure, took } = self.sender.send(&message).await;
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let (rule, id) = (&*message.rule_name, message.id.to_string());
        tracing::info!(rule, id, status, took_ms, error = failure, "webhook tested");
        Ok(WebhookAnswer { delivered: failure.is_none(), status, error: failure, took_ms })
    }
}
