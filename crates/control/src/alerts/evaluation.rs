//! Looking whether there is something to tell.

use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::alerts::Alerts;
use crate::alerts::deliveries::{self, Delivery, DeliveryEvent};
use crate::alerts::rules::{ALL_RULES, AlertKind, AlertRule};
use crate::db::{Transaction, args};
use crate::error::ControlError;
use crate::ids::{AgentId, AlertId, AlertRuleId, DeliveryId, TenantId};
use crate::page::{Page, PageRequest};
use crate::usage::{EVERYBODY, Grain, RunawayRule};

/// Something that operators wanted to be told of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow, ToSchema)]
pub struct Alert {
    /// Its id.
    pub id: AlertId,
    /// The rule.
    pub rule_id: AlertRuleId,
    /// The rule's name.
    pub rule_name: String,
    /// What the rule watches.
    pub kind: AlertKind,
    /// The tenant it is about.
    pub tenant_id: Option<TenantId>,
    /// The agent it is about.
    pub agent_id: Option<AgentId>,
    /// What it is about, in words: `tenant acme`, `agent acme/u-42`.
    pub subject: String,
    /// What there is to tell.
    pub message: String,
    /// The worst that was seen, in the unit of the rule's threshold.
    pub value: i64,
    /// When it began, in epoch milliseconds.
    pub began_at: i64,
    /// When it ended, in epoch milliseconds; while it lasts there is none.
    pub ended_at: Option<i64>,
    /// What became of the last call of the rule's webhook about it; nothing when there was none.
    #[sqlx(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub last_delivery: Option<Delivery>,
}

/// An alert as it is found, beside its last delivery.
#[derive(sqlx::FromRow)]
struct Found {
    #[sqlx(flatten)]
    alert: Alert,
    delivery_id: Option<DeliveryId>,
    event: Option<DeliveryEvent>,
    attempts: Option<i64>,
    due_at: Option<i64>,
    delivered_at: Option<i64>,
    status: Option<i64>,
    error: Option<String>,
}

impl From<Found> for Alert {
    fn from(found: Found) -> Self {
        let Found { alert, delivery_id, event, attempts, due_at, delivered_at, status, error } = found;
        let last_delivery = delivery_id.zip(event).zip(attempts).map(|((id, event), attempts)| Delivery {
            id,
            event,
            attempts,
            next_attempt_at: due_at,
            delivered_at,
            status,
            error,
        });
        Self { last_delivery, ..alert }
    }
}

/// What this process knows that is not in the database.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// The name of the process among those that run on the database.
    pub instance: String,
    /// Whether its engine decides alone what it should decide with others.
    pub engine_degraded: bool,
    /// The upstreams whose circuit breakers are open.
    pub open_breakers: Vec<String>,
}

/// A subject for which a rule alerts now.
struct Firing {
    subject: String,
    tenant: Option<TenantId>,
    agent: Option<AgentId>,
    value: i64,
    message: String,
}

macro_rules! select_alerts {
    ($tail:literal) => {
        concat!(
            "SELECT l.id, l.rule_id, r.name AS rule_name, r.kind, l.tenant_id, l.agent_id, l.subject, l.message,
                    l.value, l.began_at, l.ended_at,
                    d.id AS delivery_id, d.event, d.attempts, d.due_at, d.delivered_at, d.status, d.error
             FROM alerts l JOIN alert_rules r ON r.id = l.rule_id
             LEFT JOIN webhook_deliveries d
                 ON d.id = (SELECT MAX(n.id) FROM webhook_deliveries n WHERE n.alert_id = l.id) ",
            $tail
        )
    };
}

const LIST: &str = select_alerts!("WHERE l.id < $1 ORDER BY l.id DESC LIMIT $2");

const LIST_OF_TENANT: &str = select_alerts!("WHERE l.tenant_id = $3 AND l.id < $1 ORDER BY l.id DESC LIMIT $2");

const OPEN: &str = select_alerts!("WHERE l.open > '' ORDER BY l.open LIMIT 200");

const OPEN_OF_TENANT: &str = select_alerts!("WHERE l.tenant_id = $1 AND l.open > '' ORDER BY l.id LIMIT 200");

const OPEN_OF_RULE: &str = select_alerts!("WHERE l.rule_id = $1 AND l.open > ''");

const BEGIN: &str = "INSERT INTO alerts (id, rule_id, tenant_id, agent_id, subject, open, message, value, began_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
     ON CONFLICT (open) DO NOTHING";

const WORSE: &str = "UPDATE alerts SET value = $2, message = $3 WHERE id = $1 AND value < $2";

const END: &str = "UPDATE alerts SET open = NULL, ended_at = $2 WHERE id = $1 AND open IS NOT NULL";

const SLUG: &str = "SELECT slug FROM tenants WHERE id = $1";

const FORGET: &str = "DELETE FROM alerts WHERE ended_at < $1";

/// Calls and refusals of each minute, for the rules about throttling.
const MINUTES: &str = "SELECT bucket, CAST(SUM(calls) AS BIGINT) AS calls, CAST(SUM(throttled) AS BIGINT) AS throttled
     FROM usage_sum_minute
     WHERE tenant_id = $1 AND bucket >= $2 AND bucket < $3 AND (CAST($4 AS TEXT) IS NULL OR tool = $4)
     GROUP BY bucket";

/// A minute with fewer calls says nothing about a share.
const FEWEST_CALLS: i64 = 10;

/// Sorts behind every id.
const BEHIND_ALL: &str = "alr_~";

impl Alerts<'_> {
    /// The alerts, newest first; a confined actor gets its tenant's.
    ///
    /// # Errors
    /// `Invalid` for a bad page.
    pub async fn list(self, actor: &Actor, page: &PageRequest) -> Result<Page<Alert>, ControlError> {
        actor.require(Role::Viewer)?;
        let [before] = page.key()?;
        let before = if before.is_empty() { BEHIND_ALL } else { &before };
        let mut tx = self.control.read().await?;
        let found: Vec<Found> = match actor.confined_to() {
            None => tx.all(LIST, args![before, page.rows()]).await?,
            Some(own) => tx.all(LIST_OF_TENANT, args![before, page.rows(), own]).await?,
        };
        let rows = found.into_iter().map(Alert::from).collect();
        Ok(Page::new(rows, page, |alert: &Alert| vec![alert.id.to_string()]))
    }

    /// The alerts that last, at most 200.
    ///
    /// # Errors
    /// `Database`.
    pub async fn open(self, actor: &Actor) -> Result<Vec<Alert>, ControlError> {
        actor.require(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        let found: Vec<Found> = match actor.confined_to() {
            None => tx.all(OPEN, args![]).await?,
            Some(own) => tx.all(OPEN_OF_TENANT, args![own]).await?,
        };
        Ok(found.into_iter().map(Alert::from).collect())
    }

    /// Looks at every rule, begins and ends alerts, and returns those that this call has begun or ended. Webhooks that are to
    /// be told of them are due at once.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn evaluate(self, actor: &Actor, signals: &Signals) -> Result<Vec<Alert>, ControlError> {
        actor.require_global(Role::Operator)?;
        let rules: Vec<AlertRule> = self.control.read().await?.all(ALL_RULES, args![]).await?;
        let mut changed = Vec::new();
        for rule in rules {
            let firing = if rule.enabled { self.firing(actor, &rule, signals).await? } else { Vec::new() };
            self.settle(&rule, firing, signals, &mut changed).await?;
        }
        Ok(changed)
    }

    /// Deletes alerts that ended longer ago than this, in milliseconds.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn forget(self, actor: &Actor, keep_ms: i64) -> Result<u64, ControlError> {
        actor.require_global(Role::Operator)?;
        let mut tx = self.control.db().write().await?;
        let deleted = tx.execute(FORGET, args![self.control.now_ms().saturating_sub(keep_ms)]).await?;
        tx.commit().await?;
        Ok(deleted)
    }

    async fn firing(self, actor: &Actor, rule: &AlertRule, signals: &Signals) -> Result<Vec<Firing>, ControlError> {
        let of_instance = |what: &str, message: String| Firing {
            subject: format!("{what} on {}", signals.instance),
            tenant: None,
            agent: None,
            value: 1,
            message,
        };
        Ok(match rule.kind {
            AlertKind::Throttling => self.throttling(rule).await?.into_iter().collect(),
            AlertKind::Runaway => self.runaways(actor, rule).await?,
            AlertKind::EngineDegraded if signals.engine_degraded => {
                let message = "The engine decides alone what it should decide with the other servers.".to_owned();
                vec![of_instance("engine", message)]
            }
            AlertKind::EngineDegraded => Vec::new(),
            AlertKind::BreakerOpen => {
                let breaker = |upstream: &String| {
                    of_instance(&format!("breaker {upstream}"), format!("The circuit breaker of {upstream} is open."))
                };
                signals.open_breakers.iter().map(breaker).collect()
            }
        })
    }

    /// The share of refused calls in the last whole minutes, if it was too high in each of them.
    async fn throttling(self, rule: &AlertRule) -> Result<Option<Firing>, ControlError> {
        let mut tx = self.control.read().await?;
        let to = Grain::Minute.bucket_of(self.control.now_ms());
        let from = to - rule.minutes * Grain::Minute.ms();
        let tenant = rule.tenant_id.map_or_else(|| EVERYBODY.to_owned(), String::from);
        let minutes: Vec<(i64, i64, i64)> = tx.all(MINUTES, args![&tenant, from, to, rule.tool.as_deref()]).await?;
        let shares: Vec<_> = minutes
            .into_iter()
            .filter(|(_, calls, _)| *calls >= FEWEST_CALLS)
            .map(|(_, calls, throttled)| throttled * 100 / calls)
            .filter(|share| *share >= rule.threshold)
            .collect();
        if i64::try_from(shares.len()).unwrap_or(i64::MAX) < rule.minutes {
            return Ok(None);
        }
        let worst = shares.into_iter().max().unwrap_or_default();
        let whose = subject(&mut tx, rule.tenant_id, rule.tool.as_deref()).await?;
        let message = format!(
            "{worst} % of the calls of {whose} were refused by limits, for {} minutes in a row at least {} %.",
            rule.minutes, rule.threshold
        );
        Ok(Some(Firing { subject: whose, tenant: rule.tenant_id, agent: None, value: worst, message }))
    }

    async fn runaways(self, actor: &Actor, rule: &AlertRule) -> Result<Vec<Firing>, ControlError> {
        let default = RunawayRule::default();
        let found = self
            .control
            .usage()
            .runaways(actor, RunawayRule { refusals_per_minute: rule.threshold, ..default })
            .await?;
        let of_rule =
            found.into_iter().filter(|found| rule.tenant_id.is_none_or(|own| found.caller.tenant == Some(own)));
        let firing = of_rule.map(|found| {
            let name = |name: Option<String>| name.unwrap_or_default();
            let (tenant, agent) = (found.caller.tenant, found.caller.agent);
            let subject = format!("agent {}/{}", name(found.caller.tenant_slug), name(found.caller.agent_name));
            let message = format!(
                "The {subject} was refused {} times in one minute; {} of its calls did not wait as they were told.",
                found.refusals, found.ignored_waits
            );
            Firing { subject, tenant, agent, value: found.refusals, message }
        });
        Ok(firing.collect())
    }

    /// Begins what is new, notes what is worse, ends what is over.
    async fn settle(
        self,
        rule: &AlertRule,
        firing: Vec<Firing>,
        signals: &Signals,
        settled: &mut Vec<Alert>,
    ) -> Result<(), ControlError> {
        let open: Vec<Found> = self.control.read().await?.all(OPEN_OF_RULE, args![rule.id]).await?;
        let open: Vec<Alert> = open.into_iter().map(Alert::from).collect();
        // What another process has seen of itself is not ours to end.
        let ours = |alert: &Alert| match rule.kind {
            AlertKind::EngineDegraded | AlertKind::BreakerOpen if rule.enabled => {
                alert.subject.ends_with(&format!(" on {}", signals.instance))
            }
            _ => true,
        };
        let over: Vec<_> = open
            .iter()
            .filter(|alert| ours(alert) && !firing.iter().any(|firing| firing.subject == alert.subject))
            .collect();
        if firing.is_empty() && over.is_empty() {
            return Ok(());
        }
        let now = self.control.now_ms();
        let mut tx = self.control.db().write().await?;
        let mut changed = Vec::new();
        for found in firing {
            if let Some(known) = open.iter().find(|alert| alert.subject == found.subject) {
                tx.execute(WORSE, args![known.id, found.value, &found.message]).await?;
                continue;
            }
            let alert = Alert {
                id: AlertId::generate(now),
                rule_id: rule.id,
                rule_name: rule.name.clone(),
                kind: rule.kind,
                tenant_id: found.tenant,
                agent_id: found.agent,
                subject: found.subject,
                message: found.message,
                value: found.value,
                began_at: now,
                ended_at: None,
                last_delivery: None,
            };
            let values = args![
                alert.id,
                rule.id,
                alert.tenant_id,
                alert.agent_id,
                &alert.subject,
                format!("{}/{}", rule.id, alert.subject),
                &alert.message,
                alert.value,
                now,
            ];
            if tx.execute(BEGIN, values).await? > 0 {
                changed.push(alert);
            }
        }
        for alert in over {
            if tx.execute(END, args![alert.id, now]).await? > 0 {
                changed.push(Alert { ended_at: Some(now), last_delivery: None, ..alert.clone() });
            }
        }
        if rule.webhook.is_some() {
            for alert in &changed {
                deliveries::queue(&mut tx, rule, alert, now).await?;
            }
        }
        tx.commit().await?;
        settled.append(&mut changed);
        Ok(())
    }
}

/// Whose calls a rule watches, in words.
async fn subject(tx: &mut Transaction, tenant: Option<TenantId>, tool: Option<&str>) -> Result<String, ControlError> {
    let whose = match tenant {
        None => "everybody".to_owned(),
        Some(id) => {
            let slug: Option<(String,)> = tx.optional(SLUG, args![id]).await?;
            format!("tenant {}", slug.map(|(slug,)| slug).unwrap_or_default())
        }
    };
    Ok(tool.map_or(whose.clone(), |tool| format!("{whose} to tool {tool}")))
}
