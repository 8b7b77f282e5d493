//! API keys: how an agent proves who it is.
//!
//! A key is shown once, when it is made; see [`ApiKey`] for its text. Keys are never
//! deleted while their tenant exists: revoked and expired ones stay listed, so that the
//! audit log and the refusals in it can be read later.

mod scopes;

pub use scopes::KeyScopes;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::agents::{self, Agent, AgentRef};
use crate::api_key::{ApiKey, Environment};
use crate::audit::Record;
use crate::change::Change;
use crate::clock::{check_end, whole_ms};
use crate::control::Control;
use crate::db::{Transaction, args};
use crate::error::ControlError;
use crate::ids::{AgentId, KeyId, TenantId};
use crate::json::JsonText;
use crate::page::{Page, PageRequest};
use crate::policy::Revision;
use crate::tenants::{self, Tenant, TenantRef};
use crate::text;

/// What is known of an API key; not its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow, ToSchema)]
pub struct KeyRecord {
    /// Its id. The text of the key carries it in another spelling.
    pub id: KeyId,
    /// The tenant of its agent.
    pub tenant_id: TenantId,
    /// The agent it belongs to.
    pub agent_id: AgentId,
    /// What it is for.
    pub name: String,
    /// The environment in its text.
    pub environment: String,
    /// The tools it opens.
    pub scopes: KeyScopes,
    /// When it was made, in epoch milliseconds.
    pub created_at: i64,
    /// Who made it.
    pub created_by: String,
    /// When it ends by itself, in epoch milliseconds.
    pub expires_at: Option<i64>,
    /// When it was revoked, in epoch milliseconds.
    pub revoked_at: Option<i64>,
    /// When it was last used, in epoch milliseconds, as far as already written.
    pub last_used_at: Option<i64>,
    /// The key that it took the place of.
    pub rotated_from: Option<KeyId>,
    /// The revision of its last change.
    pub revision: Revision,
}

impl KeyRecord {
    /// Whether the key opens anything at this time.
    pub const fn status(&self, now_ms: i64) -> KeyStatus {
        KeyStatus::at(now_ms, self.expires_at, self.revoked_at)
    }
}

/// Whether a key opens anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// It does.
    Active,
    /// Its time is over.
    Expired,
    /// Somebody ended it.
    Revoked,
}

impl KeyStatus {
    /// The status at a time (epoch milliseconds) of a key with these ends.
    pub const fn at(now: i64, expires_at: Option<i64>, revoked_at: Option<i64>) -> Self {
        match (revoked_at, expires_at) {
            (Some(_), _) => Self::Revoked,
            (None, Some(end)) if end <= now => Self::Expired,
            (None, _) => Self::Active,
        }
    }
}

impl fmt::Display for KeyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        })
    }
}

/// What a key is to be like.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// What it is for.
    pub name: String,
    /// The environment in its text.
    pub environment: Environment,
    /// The tools it opens.
    pub scopes: KeyScopes,
    /// When it ends by itself, in epoch milliseconds.
    pub expires_at: Option<i64>,
}

impl NewKey {
    /// A key that opens every tool until it is revoked.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), environment: Environment::default(), scopes: KeyScopes::all(), expires_at: None }
    }
}

/// A key that was just made: the only time its text exists.
#[derive(Clone, Debug)]
pub struct MintedKey {
    /// The text, to be shown once.
    pub key: ApiKey,
    /// What stays known of it.
    pub record: KeyRecord,
}

/// How long a rotated key goes on working beside its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Not at all: it is revoked at once.
    None,
    /// One hour.
    Hour,
    /// 24 hours.
    Day,
    /// Seven days.
    Week,
}

impl Overlap {
    const ALL: [Self; 4] = [Self::None, Self::Hour, Self::Day, Self::Week];

    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "0",
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
        }
    }

    const fn duration(self) -> Duration {
        Duration::from_hours(match self {
            Self::None => 0,
            Self::Hour => 1,
            Self::Day => 24,
            Self::Week => 7 * 24,
        })
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Overlap {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Self, ControlError> {
        Self::ALL.into_iter().find(|overlap| overlap.as_str() == text).ok_or_else(|| {
            let message = format!("overlap {text:?} is none of 0, 1h, 24h and 7d");
            ControlError::invalid("overlap", text, &message)
        })
    }
}

macro_rules! select_keys {
    ($tail:literal) => {
        concat!(
            "SELECT id, tenant_id, agent_id, name, environment, scopes, created_at, created_by,
                    expires_at, revoked_at, last_used_at, rotated_from, revision
             FROM api_keys ",
            $tail
        )
    };
}

const BY_ID: &str = select_keys!("WHERE id = $1");

const LIST_OF_TENANT: &str = select_keys!("WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT $3");

const LIST_OF_AGENT: &str = select_keys!("WHERE tenant_id = $1 AND agent_id = $4 AND id > $2 ORDER BY id LIMIT $3");

const INSERT: &str = "INSERT INTO api_keys (id, tenant_id, agent_id, name, environment, secret_hash,
         scopes, created_at, created_by, expires_at, rotated_from, revision)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const END: &str = "UPDATE api_keys SET expires_at = $2, revoked_at = $3, revision = $4 WHERE id = $1";

const USE: &str = "UPDATE api_keys
     SET last_used_at = CASE WHEN last_used_at > $2 THEN last_used_at ELSE $2 END
     WHERE id = $1";

/// Use cases on API keys.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    pub(crate) control: &'a Control,
}

impl Keys<'_> {
    /// Makes a key for an agent.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the agent, `Invalid` for a bad name or an expiry that
    /// has passed.
    pub async fn create(
        self,
        actor: &Actor,
        tenant: &TenantRef,
        agent: &AgentRef,
        new: NewKey,
    ) -> Result<MintedKey, ControlError> {
        actor.require(Role::Operator)?;
        text::name("name", &new.name)?;
        let mut change = self.control.change(actor).await?;
        check_end(new.expires_at, change.now)?;
        let (tenant, agent) = agents::visible(&mut change.tx, actor, tenant, agent).await?;
        let minted = mint(&mut change, &agent, new, None).await?;
        let after = Some(&minted.record);
        change.record(record("key.create", &tenant, &agent, None, after)).await?;
        change.commit().await?;
        Ok(minted)
    }

    /// One key.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn get(self, actor: &Actor, key: KeyId) -> Result<KeyRecord, ControlError> {
        actor.require(Role::Viewer)?;
        visible(&mut self.control.read().await?, actor, key).await
    }

    /// The keys of a tenant or of one of its agents, oldest first; revoked and expired
    /// ones too.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the agent, `Invalid` for a bad page.
    pub async fn list(
        self,
        actor: &Actor,
        tenant: &TenantRef,
        agent: Option<&AgentRef>,
        page: &PageRequest,
    ) -> Result<Page<KeyRecord>, ControlError> {
        actor.require(Role::Viewer)?;
        let [after] = page.key()?;
        let mut tx = self.control.read().await?;
        let rows = match agent {
            None => {
                let tenant = tenants::visible(&mut tx, actor, tenant).await?;
                tx.all(LIST_OF_TENANT, args![tenant.id, &after, page.rows()]).await?
            }
            Some(agent) => {
                let (tenant, agent) = agents::visible(&mut tx, actor, tenant, agent).await?;
                tx.all(LIST_OF_AGENT, args![tenant.id, &after, page.rows(), agent.id]).await?
            }
        };
        Ok(Page::new(rows, page, |key: &KeyRecord| vec![key.id.to_string()]))
    }

    /// Makes a key with the same name, scopes and length of life, and ends the old one
    /// after the overlap.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` for a key that is not active.
    pub async fn rotate(self, actor: &Actor, key: KeyId, overlap: Overlap) -> Result<MintedKey, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let now = change.now;
        let (tenant, agent, old) = with_owner(&mut change.tx, actor, key).await?;
        if old.status(now) != KeyStatus::Active {
            return Err(ControlError::Conflict(format!(
                "API key {key} has ended and cannot be rotated: create a new one"
            )));
        }
        let new = NewKey {
            name: old.name.clone(),
            environment: old.environment.parse().unwrap_or_default(),
            scopes: old.scopes.clone(),
            expires_at: old.expires_at.map(|end| now.saturating_add(end - old.created_at)),
        };
        let minted = mint(&mut change, &agent, new, Some(key)).await?;
        let mut ended = KeyRecord { revision: change.revision, ..old.clone() };
        if overlap == Overlap::None {
            ended.revoked_at = Some(now);
        } else {
            let end = now + whole_ms(overlap.duration());
            ended.expires_at = Some(ended.expires_at.map_or(end, |planned| planned.min(end)));
        }
        end(&mut change, &ended).await?;
        change.record(record("key.rotate", &tenant, &agent, Some(&old), Some(&ended))).await?;
        let after = Some(&minted.record);
        change.record(record("key.create", &tenant, &agent, None, after)).await?;
        change.commit().await?;
        Ok(minted)
    }

    /// Ends a key now. To revoke a revoked key changes nothing.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn revoke(self, actor: &Actor, key: KeyId) -> Result<KeyRecord, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let (tenant, agent, before) = with_owner(&mut change.tx, actor, key).await?;
        if before.revoked_at.is_some() {
            return Ok(before);
        }
        let (revoked_at, revision) = (Some(change.now), change.revision);
        let after = KeyRecord { revoked_at, revision, ..before.clone() };
        end(&mut change, &after).await?;
        change.record(record("key.revoke", &tenant, &agent, Some(&before), Some(&after))).await?;
        change.commit().await?;
        Ok(after)
    }

    /// Writes when keys were used, in epoch milliseconds.
    ///
    /// This is bookkeeping and no change of the policy: no revision, no audit entry. A
    /// caller collects uses and writes them every few seconds.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn record_uses(self, actor: &Actor, uses: &[(KeyId, i64)]) -> Result<(), ControlError> {
        actor.require_global(Role::Operator)?;
        // Each key once and in order, so that two instances cannot wait for each other.
        let mut latest = BTreeMap::new();
        for (key, at) in uses {
            let used = latest.entry(*key).or_insert(*at);
            *used = (*used).max(*at);
        }
        let mut tx = self.control.db().write().await?;
        for (key, at) in latest {
            tx.execute(USE, args![key, at]).await?;
        }
        Ok(tx.commit().await?)
    }
}

/// Draws a secret and writes the row with its hash.
async fn mint(
    change: &mut Change<'_>,
    agent: &Agent,
    new: NewKey,
    rotated_from: Option<KeyId>,
) -> Result<MintedKey, ControlError> {
    let id = KeyId::generate(change.now);
    let key = ApiKey::generate(&mut rand::rng(), id, &new.environment);
    let record = KeyRecord {
        id,
        tenant_id: agent.tenant_id,
        agent_id: agent.id,
        name: new.name,
        environment: new.environment.as_str().to_owned(),
        scopes: new.scopes,
        created_at: change.now,
        created_by: change.actor().label().to_owned(),
        expires_at: new.expires_at,
        revoked_at: None,
        last_used_at: None,
        rotated_from,
        revision: change.revision,
    };
    let values = args![
        id,
        record.tenant_id,
        record.agent_id,
        &record.name,
        &record.environment,
        key.secret_hash().to_hex(),
        &record.scopes,
        record.created_at,
        &record.created_by,
        record.expires_at,
        record.rotated_from,
        record.revision,
    ];
    change.execute(INSERT, values).await?;
    Ok(MintedKey { key, record })
}

async fn end(change: &mut Change<'_>, key: &KeyRecord) -> Result<(), ControlError> {
    let values = args![key.id, key.expires_at, key.revoked_at, key.revision];
    change.execute(END, values).await?;
    Ok(())
}

/// Reads a key; to an actor that is confined to another tenant it does not exist.
pub(crate) async fn visible(tx: &mut Transaction, actor: &Actor, key: KeyId) -> Result<KeyRecord, ControlError> {
    let found: Option<KeyRecord> = tx.optional(BY_ID, args![key]).await?;
    found.filter(|found| actor.sees(found.tenant_id)).ok_or_else(|| ControlError::not_found("API key", &key))
}

async fn with_owner(
    tx: &mut Transaction,
    actor: &Actor,
    key: KeyId,
) -> Result<(Tenant, Agent, KeyRecord), ControlError> {
    let key = visible(tx, actor, key).await?;
    let (tenant, agent) = (TenantRef::Id(key.tenant_id), AgentRef::Id(key.agent_id));
    let (tenant, agent) = agents::visible(tx, actor, &tenant, &agent).await?;
    Ok((tenant, agent, key))
}

fn record(
    action: &'static str,
    tenant: &Tenant,
    agent: &Agent,
    before: Option<&KeyRecord>,
    after: Option<&KeyRecord>,
) -> Record {
    let key = after.or(before).map(|key| key.id.to_string()).unwrap_or_default();
    Record {
        action,
        target: format!("API key {key} of {}", agents::title(tenant, agent)),
        tenant_id: Some(tenant.id),
        before: before.map(JsonText::of),
        after: after.map(JsonText::of),
    }
}
