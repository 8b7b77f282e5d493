//! What webhooks are told: a row for each call that is to be made, until it is made or given up.
//!
//! The row is written in the transaction in which its alert begins or ends, so that none is forgotten, whatever happens to
//! the server. Any number of servers look for what is due; one of them [claims](Alerts::claim_deliveries) it for a while,
//! and if it is never heard of again another one may. So a receiver gets every message at least once, with the same id.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::{CryptoRng, RngExt as _};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::admins::ShownOnce;
use crate::alerts::evaluation::Alert;
use crate::alerts::rules::{self, AlertRule};
use crate::alerts::{Alerts, NO_WEBHOOK};
use crate::db::{Transaction, args, text_column};
use crate::error::ControlError;
use crate::ids::{AlertRuleId, DeliveryId};

/// What a webhook is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum DeliveryEvent {
    /// An alert has begun.
    #[serde(rename = "alert.began")]
    Began,
    /// An alert has ended.
    #[serde(rename = "alert.ended")]
    Ended,
    /// Somebody wants to see whether the webhook answers.
    #[serde(rename = "alert.test")]
    Test,
}

impl DeliveryEvent {
    /// The word, as it is stored and sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Began => "alert.began",
            Self::Ended => "alert.ended",
            Self::Test => "alert.test",
        }
    }
}

impl fmt::Display for DeliveryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DeliveryEvent {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Self, ControlError> {
        let found = [Self::Began, Self::Ended, Self::Test].into_iter().find(|event| event.as_str() == text);
        found.ok_or_else(|| ControlError::invalid("event", text, &format!("{text:?} is no event of an alert")))
    }
}

text_column!(DeliveryEvent);

/// What became of a call of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Delivery {
    /// Its id, which the receiver has in the header field `webhook-id`.
    pub id: DeliveryId,
    /// What it tells.
    pub event: DeliveryEvent,
    /// How often it was tried.
    pub attempts: i64,
    /// When it is tried next, in epoch milliseconds; null when it is delivered or given up.
    pub next_attempt_at: Option<i64>,
    /// When it was delivered, in epoch milliseconds.
    pub delivered_at: Option<i64>,
    /// The HTTP status of the last answer, if there was one.
    pub status: Option<i64>,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

impl Delivery {
    /// Whether it was never delivered and is not tried any more.
    pub const fn is_given_up(&self) -> bool {
        self.delivered_at.is_none() && self.next_attempt_at.is_none()
    }
}

/// A call of a webhook that is to be made.
#[derive(Clone, Debug)]
pub struct WebhookMessage {
    /// Its id, the same in every attempt.
    pub id: DeliveryId,
    /// The name of the rule.
    pub rule_name: String,
    /// What it tells.
    pub event: DeliveryEvent,
    /// The URL to call.
    pub url: String,
    /// What to sign with, as the operator has it: `whsec_` and base64.
    pub secret: SecretString,
    /// The body, JSON.
    pub body: String,
}

/// A message that this server, and no other, may send until the claim ends.
#[derive(Clone, Debug)]
pub struct ClaimedDelivery {
    /// The message.
    pub message: WebhookMessage,
    /// Which attempt it is, from 1 on.
    pub attempt: i64,
    /// Until when it is claimed, in epoch milliseconds: what tells this claim from others.
    claimed_until: i64,
}

/// How an attempt has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The receiver has it.
    Delivered,
    /// It failed, and is tried again after this many milliseconds.
    TryAgain {
        /// How long to wait.
        wait_ms: i64,
        /// Why it failed.
        error: String,
    },
    /// It failed for the last time.
    GivenUp {
        /// Why it failed.
        error: String,
    },
}

const QUEUE: &str = "INSERT INTO webhook_deliveries (id, rule_id, alert_id, event, body, created_at, attempts, due_at)
     VALUES ($1, $2, $3, $4, $5, $6, 0, $6)";

const DUE: &str = "SELECT id, due_at FROM webhook_deliveries WHERE due_at <= $1 ORDER BY due_at LIMIT $2";

const CLAIM: &str = "UPDATE webhook_deliveries SET due_at = $3, attempts = attempts + 1 WHERE id = $1 AND due_at = $2";

const CLAIMED: &str = "SELECT d.event, d.body, d.attempts, r.name, r.webhook, r.secret
     FROM webhook_deliveries d JOIN alert_rules r ON r.id = d.rule_id WHERE d.id = $1";

const SETTLE: &str = "UPDATE webhook_deliveries SET due_at = $3, delivered_at = $4, status = $5, error = $6
     WHERE id = $1 AND due_at = $2";

const SECRET: &str = "SELECT secret FROM alert_rules WHERE id = $1";

/// The prefix of secrets in the Standard Webhooks specification; what follows is base64.
const SECRET_PREFIX: &str = "whsec_";

/// The specification wants 24 to 64 bytes.
const SECRET_BYTES: usize = 32;

/// A new secret.
pub(super) fn new_secret(rng: &mut impl CryptoRng) -> ShownOnce {
    let bytes: [u8; SECRET_BYTES] = rng.random();
    ShownOnce::from(format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes)))
}

/// The body of a message, as docs/operations.md tells it.
#[derive(Serialize)]
struct Body<T> {
    r#type: DeliveryEvent,
    timestamp: String,
    data: T,
}

fn body(event: DeliveryEvent, at: i64, data: impl Serialize) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1_000_000);
    let timestamp = moment.ok().and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_default();
    serde_json::to_string(&Body { r#type: event, timestamp, data }).unwrap_or_default()
}

/// Writes down that the webhook of a rule is to be told that an alert has begun or ended.
pub(super) async fn queue(tx: &mut Transaction, rule: &AlertRule, alert: &Alert, now: i64) -> Result<(), ControlError> {
    let (event, at) = match alert.ended_at {
        None => (DeliveryEvent::Began, alert.began_at),
        Some(ended_at) => (DeliveryEvent::Ended, ended_at),
    };
    let body = body(event, at, alert);
    tx.execute(QUEUE, args![DeliveryId::generate(now), rule.id, alert.id, event.as_str(), body, now]).await?;
    Ok(())
}

impl Alerts<'_> {
    /// Takes up to `most` messages that are due, for this server alone, for `claim_ms` milliseconds. Those whose rule has no
    /// webhook any more are given up.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn claim_deliveries(
        self,
        actor: &Actor,
        claim_ms: i64,
        most: u32,
    ) -> Result<Vec<ClaimedDelivery>, ControlError> {
        actor.require_global(Role::Operator)?;
        let now = self.control.now_ms();
        let due: Vec<(DeliveryId, i64)> = self.control.read().await?.all(DUE, args![now, i64::from(most)]).await?;
        let mut claimed = Vec::new();
        if due.is_empty() {
            return Ok(claimed);
        }
        let until = now.saturating_add(claim_ms);
        let mut tx = self.control.db().write().await?;
        for (id, due_at) in due {
            // Whoever was faster has moved it.
            if tx.execute(CLAIM, args![id, due_at, until]).await? == 0 {
                continue;
            }
            let (event, body, attempt, rule_name, url, secret): (_, _, _, _, Option<String>, Option<String>) =
                tx.one(CLAIMED, args![id]).await?;
            let (Some(url), Some(secret)) = (url, secret) else {
                settle(&mut tx, id, until, None, None, None, Some(NO_WEBHOOK)).await?;
                continue;
            };
            let message = WebhookMessage { id, rule_name, event, url, secret: secret.into(), body };
            claimed.push(ClaimedDelivery { message, attempt, claimed_until: until });
        }
        tx.commit().await?;
        Ok(claimed)
    }

    /// Notes how an attempt has ended, and the status of the answer if there was one; whether the claim still held.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn settle_delivery(
        self,
        actor: &Actor,
        delivery: &ClaimedDelivery,
        status: Option<u16>,
        outcome: &AttemptOutcome,
    ) -> Result<bool, ControlError> {
        actor.require_global(Role::Operator)?;
        let now = self.control.now_ms();
        let (due_at, delivered_at, error) = match outcome {
            AttemptOutcome::Delivered => (None, Some(now), None),
            AttemptOutcome::TryAgain { wait_ms, error } => (Some(now.saturating_add(*wait_ms)), None, Some(&**error)),
            AttemptOutcome::GivenUp { error } => (None, None, Some(&**error)),
        };
        let (id, claimed_until) = (delivery.message.id, delivery.claimed_until);
        let mut tx = self.control.db().write().await?;
        let held = settle(&mut tx, id, claimed_until, due_at, delivered_at, status, error).await?;
        tx.commit().await?;
        Ok(held)
    }

    /// The message of a test of a rule's webhook, for whoever is to send it. The audit log says who has asked for it.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` for a rule without a webhook.
    pub async fn test_message(self, actor: &Actor, rule: AlertRuleId) -> Result<WebhookMessage, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let rule = rules::visible(&mut change.tx, actor, rule).await?;
        let (secret,): (Option<String>,) = change.tx.one(SECRET, args![rule.id]).await?;
        let (Some(url), Some(secret)) = (rule.webhook.clone(), secret) else {
            return Err(ControlError::Conflict(NO_WEBHOOK.to_owned()));
        };
        change.record(rules::record("alert_rule.test", Some(&rule), Some(&rule))).await?;
        let (event, id) = (DeliveryEvent::Test, DeliveryId::generate(change.now));
        let body = body(event, change.now, &rule);
        change.commit().await?;
        Ok(WebhookMessage { id, rule_name: rule.name, event, url, secret: secret.into(), body })
    }
}

async fn settle(
    tx: &mut Transaction,
    id: DeliveryId,
    claimed_until: i64,
    due_at: Option<i64>,
    delivered_at: Option<i64>,
    status: Option<u16>,
    error: Option<&str>,
) -> Result<bool, ControlError> {
    let values = args![id, claimed_until, due_at, delivered_at, status.map(i64::from), error];
    Ok(tx.execute(SETTLE, values).await? > 0)
}
