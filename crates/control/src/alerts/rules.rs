//! What operators want to be told of.

use std::fmt;
use std::str::FromStr;

use rand::rng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::admins::ShownOnce;
use crate::alerts::deliveries::new_secret;
use crate::alerts::{Alerts, NO_WEBHOOK};
use crate::audit::Record;
use crate::change::Change;
use crate::db::{Transaction, args, text_column};
use crate::error::ControlError;
use crate::ids::{AlertRuleId, TenantId};
use crate::json::JsonText;
use crate::page::{Page, PageRequest};
use crate::policy::Revision;
use crate::tenants::{self, TenantRef};
use crate::text;
use crate::tools;

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow, ToSchema)]
pub struct AlertRule {
    /// Its id.
    pub id: AlertRuleId,
    /// Its name for people.
    pub name: String,
    /// What it watches.
    pub kind: AlertKind,
    /// The tenant whose calls it watches; everybody's when there is none.
    pub tenant_id: Option<TenantId>,
    /// The tool whose calls it watches; all when there is none.
    pub tool: Option<String>,
    /// From where on it alerts, see [`AlertKind`].
    pub threshold: i64,
    /// For how many minutes in a row.
    pub minutes: i64,
    /// Whether it is looked at.
    pub enabled: bool,
    /// The URL that is told when an alert begins and ends.
    pub webhook: Option<String>,
    /// Who made it.
    pub created_by: String,
    /// When, in epoch milliseconds.
    pub created_at: i64,
    /// When it was last changed, in epoch milliseconds.
    pub updated_at: i64,
    /// The revision of that change.
    pub revision: Revision,
}

/// What a rule watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// The share of calls that limits refuse; the threshold is in percent.
    Throttling,
    /// Agents that do not heed their refusals; the threshold is in refusals per minute.
    Runaway,
    /// An engine that decides alone what it should decide with others; the threshold is not looked at.
    EngineDegraded,
    /// A circuit breaker that is open; the threshold is not looked at.
    BreakerOpen,
}

impl AlertKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Throttling, Self::Runaway, Self::EngineDegraded, Self::BreakerOpen];

    /// The word, as it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Throttling => "throttling",
            Self::Runaway => "runaway",
            Self::EngineDegraded => "engine_degraded",
            Self::BreakerOpen => "breaker_open",
        }
    }

    /// Whether it is about calls, so that it may be about those of a tenant.
    const fn is_about_calls(self) -> bool {
        matches!(self, Self::Throttling | Self::Runaway)
    }
}

impl fmt::Display for AlertKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AlertKind {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Self, ControlError> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let message = format!("kind {text:?} is none of throttling, runaway, engine_degraded and breaker_open");
            ControlError::invalid("kind", text, &message)
        })
    }
}

text_column!(AlertKind);

/// A rule as somebody asks for it.
#[derive(Clone, Debug)]
pub struct NewAlertRule {
    /// Its name for people.
    pub name: String,
    /// What it watches.
    pub kind: AlertKind,
    /// The tenant whose calls it watches.
    pub tenant: Option<TenantRef>,
    /// The tool whose calls it watches; for [`AlertKind::Throttling`].
    pub tool: Option<String>,
    /// From where on it alerts.
    pub threshold: i64,
    /// For how many minutes in a row: 1 to 60.
    pub minutes: i64,
    /// Whether it is looked at.
    pub enabled: bool,
    /// The URL that is told when an alert begins and ends, `http` or `https`.
    pub webhook: Option<String>,
}

/// A rule with the secret that its calls of the webhook are signed with, which is shown once.
#[derive(Clone, Debug)]
pub struct MintedAlertRule {
    /// The rule.
    pub rule: AlertRule,
    /// The secret; none without a webhook, or when it kept the one it had.
    pub secret: Option<ShownOnce>,
}

macro_rules! select_rules {
    ($tail:literal) => {
        concat!(
            "SELECT id, name, kind, tenant_id, tool, threshold, minutes, enabled, webhook, created_by, created_at,
                    updated_at, revision
             FROM alert_rules ",
            $tail
        )
    };
}

const BY_ID: &str = select_rules!("WHERE id = $1");

const LIST: &str = select_rules!("WHERE id > $1 ORDER BY id LIMIT $2");

const LIST_OF_TENANT: &str = select_rules!("WHERE tenant_id = $3 AND id > $1 ORDER BY id LIMIT $2");

pub(super) const ALL_RULES: &str = select_rules!("ORDER BY id");

const COUNT: &str = "SELECT COUNT(*) FROM alert_rules";

const UPSERT: &str = "INSERT INTO alert_rules (id, name, kind, tenant_id, tool, threshold, minutes, enabled, webhook,
         secret, created_by, created_at, updated_at, revision)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
     ON CONFLICT (id) DO UPDATE SET name = excluded.name, kind = excluded.kind, tenant_id = excluded.tenant_id,
         tool = excluded.tool, threshold = excluded.threshold, minutes = excluded.minutes, enabled = excluded.enabled,
         webhook = excluded.webhook, secret = excluded.secret, updated_at = excluded.updated_at,
         revision = excluded.revision";

const SECRET: &str = "SELECT secret FROM alert_rules WHERE id = $1";

const DELETE: &str = "DELETE FROM alert_rules WHERE id = $1";

/// All of them are looked at several times a minute.
const MOST_RULES: i64 = 500;

impl Alerts<'_> {
    /// Makes a rule.
    ///
    /// # Errors
    /// `Invalid` for a bad field, `NotFound` for the tenant, `UnknownTool`, `Conflict` when there are 500, `Forbidden`
    /// for a rule that watches more than the actor sees.
    pub async fn create_rule(self, actor: &Actor, new: NewAlertRule) -> Result<MintedAlertRule, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let tenant_id = check(&mut change.tx, actor, &new).await?;
        let (count,): (i64,) = change.tx.one(COUNT, args![]).await?;
        if count >= MOST_RULES {
            return Err(ControlError::Conflict(format!(
                "there are {MOST_RULES} alert rules already: delete one first"
            )));
        }
        let rule = AlertRule {
            id: AlertRuleId::generate(change.now),
            name: new.name,
            kind: new.kind,
            tenant_id,
            tool: new.tool,
            threshold: new.threshold,
            minutes: new.minutes,
            enabled: new.enabled,
            webhook: new.webhook,
            created_by: actor.label().to_owned(),
            created_at: change.now,
            updated_at: change.now,
            revision: change.revision,
        };
        let secret = rule.webhook.is_some().then(|| new_secret(&mut rng()));
        write(&mut change, &rule, secret.as_ref().map(ShownOnce::expose)).await?;
        change.record(record("alert_rule.create", None, Some(&rule))).await?;
        change.commit().await?;
        Ok(MintedAlertRule { rule, secret })
    }

    /// Replaces a rule. With another webhook it gets another secret.
    ///
    /// # Errors
    /// `NotFound`, and as [`create_rule`](Self::create_rule).
    pub async fn replace_rule(
        self,
        actor: &Actor,
        rule: AlertRuleId,
        new: NewAlertRule,
    ) -> Result<MintedAlertRule, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let before = visible(&mut change.tx, actor, rule).await?;
        let tenant_id = check(&mut change.tx, actor, &new).await?;
        let after = AlertRule {
            name: new.name,
            kind: new.kind,
            tenant_id,
            tool: new.tool,
            threshold: new.threshold,
            minutes: new.minutes,
            enabled: new.enabled,
            webhook: new.webhook,
            ..before.clone()
        };
        if after == before {
            return Ok(MintedAlertRule { rule: before, secret: None });
        }
        let after = AlertRule { updated_at: change.now, revision: change.revision, ..after };
        let moved = after.webhook != before.webhook;
        let secret = (moved && after.webhook.is_some()).then(|| new_secret(&mut rng()));
        let (kept,): (Option<String>,) = change.tx.one(SECRET, args![rule]).await?;
        let kept = kept.filter(|_| !moved);
        write(&mut change, &after, secret.as_ref().map(ShownOnce::expose).or(kept.as_deref())).await?;
        change.record(record("alert_rule.replace", Some(&before), Some(&after))).await?;
        change.commit().await?;
        Ok(MintedAlertRule { rule: after, secret })
    }

    /// Gives a rule's webhook another secret. What is signed from then on is signed with it.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` for a rule without a webhook.
    pub async fn rotate_secret(self, actor: &Actor, rule: AlertRuleId) -> Result<MintedAlertRule, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let before = visible(&mut change.tx, actor, rule).await?;
        if before.webhook.is_none() {
            return Err(ControlError::Conflict(NO_WEBHOOK.to_owned()));
        }
        let after = AlertRule { updated_at: change.now, revision: change.revision, ..before.clone() };
        let secret = new_secret(&mut rng());
        write(&mut change, &after, Some(secret.expose())).await?;
        change.record(record("alert_rule.rotate_secret", Some(&before), Some(&after))).await?;
        change.commit().await?;
        Ok(MintedAlertRule { rule: after, secret: Some(secret) })
    }

    /// One rule.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn rule(self, actor: &Actor, rule: AlertRuleId) -> Result<AlertRule, ControlError> {
        actor.require(Role::Viewer)?;
        visible(&mut self.control.read().await?, actor, rule).await
    }

    /// The rules, oldest first; a confined actor gets its tenant's.
    ///
    /// # Errors
    /// `Invalid` for a bad page.
    pub async fn rules(self, actor: &Actor, page: &PageRequest) -> Result<Page<AlertRule>, ControlError> {
        actor.require(Role::Viewer)?;
        let [after] = page.key()?;
        let mut tx = self.control.read().await?;
        let rows = match actor.confined_to() {
            None => tx.all(LIST, args![&after, page.rows()]).await?,
            Some(own) => tx.all(LIST_OF_TENANT, args![&after, page.rows(), own]).await?,
        };
        Ok(Page::new(rows, page, |rule: &AlertRule| vec![rule.id.to_string()]))
    }

    /// Deletes a rule with its alerts.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn delete_rule(self, actor: &Actor, rule: AlertRuleId) -> Result<(), ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let rule = visible(&mut change.tx, actor, rule).await?;
        change.execute(DELETE, args![rule.id]).await?;
        change.record(record("alert_rule.delete", Some(&rule), None)).await?;
        change.commit().await
    }
}

/// Checks a rule, and says whose calls it watches.
async fn check(tx: &mut Transaction, actor: &Actor, new: &NewAlertRule) -> Result<Option<TenantId>, ControlError> {
    text::name("name", &new.name)?;
    let tenant = match &new.tenant {
        Some(tenant) => Some(tenants::visible(tx, actor, tenant).await?.id),
        None => {
            actor.require_global(Role::Operator)?;
            None
        }
    };
    if tenant.is_some() && !new.kind.is_about_calls() {
        let message = format!("a rule about {} is about the server, not about a tenant", new.kind);
        return Err(ControlError::invalid("tenant", &new.kind, &message));
    }
    if let Some(tool) = &new.tool {
        if new.kind != AlertKind::Throttling {
            return Err(ControlError::invalid("tool", tool, &"only a rule about throttling can be about one tool"));
        }
        tools::check_known(tx, tool).await?;
    }
    let most = if new.kind == AlertKind::Throttling { 100 } else { 1_000_000 };
    if !(1..=most).contains(&new.threshold) {
        let message = format!("threshold must be 1 to {most}, not {}", new.threshold);
        return Err(ControlError::invalid("threshold", &new.threshold, &message));
    }
    if !(1..=60).contains(&new.minutes) {
        let message = format!("minutes must be 1 to 60, not {}", new.minutes);
        return Err(ControlError::invalid("minutes", &new.minutes, &message));
    }
    if let Some(url) = &new.webhook {
        let address = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or_default();
        if address.is_empty() || url.len() > 500 || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            let message = "webhook must be an http:// or https:// URL of at most 500 bytes";
            return Err(ControlError::invalid("webhook", url, &message));
        }
        if address.split('/').next().is_some_and(|authority| authority.contains('@')) {
            let message = "webhook must not hold credentials: its calls are signed with a secret of their own";
            return Err(ControlError::invalid("webhook", "", &message));
        }
    }
    Ok(tenant)
}

async fn write(change: &mut Change<'_>, rule: &AlertRule, secret: Option<&str>) -> Result<(), ControlError> {
    let values = args![
        rule.id,
        &rule.name,
        rule.kind.as_str(),
        rule.tenant_id,
        rule.tool.as_deref(),
        rule.threshold,
        rule.minutes,
        rule.enabled,
        rule.webhook.as_deref(),
        secret,
        &rule.created_by,
        rule.created_at,
        rule.updated_at,
        rule.revision,
    ];
    change.execute(UPSERT, values).await?;
    Ok(())
}

pub(super) async fn visible(tx: &mut Transaction, actor: &Actor, rule: AlertRuleId) -> Result<AlertRule, ControlError> {
    let found: Option<AlertRule> = tx.optional(BY_ID, args![rule]).await?;
    let seen = found.filter(|found| match actor.confined_to() {
        None => true,
        Some(own) => found.tenant_id == Some(own),
    });
    seen.ok_or_else(|| ControlError::not_found("alert rule", &rule))
}

pub(super) fn record(action: &'static str, before: Option<&AlertRule>, after: Option<&AlertRule>) -> Record {
    let rule = after.or(before);
    Record {
        action,
        target: rule.map(|rule| format!("alert rule {} ({})", rule.id, rule.name)).unwrap_or_default(),
        tenant_id: rule.and_then(|rule| rule.tenant_id),
        before: before.map(JsonText::of),
        after: after.map(JsonText::of),
    }
}
