//! What authentication asks of the database: one lookup.

use crate::api_key::SecretHash;
use crate::control::Control;
use crate::db::args;
use crate::error::ControlError;
use crate::ids::{AgentId, KeyId, PlanId, TenantId};
use crate::keys::{KeyScopes, KeyStatus};
use crate::status::Status;
use crate::tenants::TenantSettings;

/// An API key with everything about its owner that decides whether a call is let in.
///
/// Made to be cached: times are absolute, so an entry does not get stale by waiting. The
/// change feed names the keys whose entries are stale for other reasons.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Credential {
    /// The key.
    pub key_id: KeyId,
    /// What the presented secret must hash to.
    pub secret_hash: SecretHash,
    /// The tools that the key opens.
    pub scopes: KeyScopes,
    /// When the key ends by itself, in epoch milliseconds.
    pub expires_at: Option<i64>,
    /// When the key was revoked, in epoch milliseconds.
    pub revoked_at: Option<i64>,
    /// The agent that the key belongs to.
    pub agent_id: AgentId,
    /// Its name.
    pub agent_name: String,
    /// Whether it is served.
    pub agent_status: Status,
    /// The agent's tenant.
    pub tenant_id: TenantId,
    /// Its slug.
    pub tenant_slug: String,
    /// Whether it is served.
    pub tenant_status: Status,
    /// The plan it is on.
    pub plan_id: Option<PlanId>,
    /// How it is served.
    pub tenant_settings: TenantSettings,
}

impl Credential {
    /// Whether the key opens anything at this time. The tenant and the agent have
    /// statuses of their own.
    pub const fn key_status(&self, now_ms: i64) -> KeyStatus {
        KeyStatus::at(now_ms, self.expires_at, self.revoked_at)
    }
}

const FIND: &str = "SELECT k.id AS key_id, k.secret_hash, k.scopes, k.expires_at, k.revoked_at,
            a.id AS agent_id, a.name AS agent_name, a.status AS agent_status,
            t.id AS tenant_id, t.slug AS tenant_slug, t.status AS tenant_status,
            t.plan_id, t.settings AS tenant_settings
     FROM api_keys k
     JOIN agents a ON a.id = k.agent_id
     JOIN tenants t ON t.id = k.tenant_id
     WHERE k.id = $1";

/// The subject of a token: its tenant, and its agent if that was seen before.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Subject {
    /// The tenant.
    pub tenant_id: TenantId,
    /// Its slug.
    pub tenant_slug: String,
    /// The agent of that name; `None` until its first sighting is written.
    pub agent_id: Option<AgentId>,
}

const SUBJECT: &str = "SELECT t.id AS tenant_id, t.slug AS tenant_slug, a.id AS agent_id
     FROM tenants t
     LEFT JOIN agents a ON a.tenant_id = t.id AND a.name = $2
     WHERE t.slug = $1";

/// What authentication asks. There is no actor: nobody is known yet.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    pub(crate) control: &'a Control,
}

impl Credentials<'_> {
    /// Looks a presented key up by the id in its text: one query over primary keys.
    /// Whoever asks must go on to [`SecretHash::verify`] and to the three statuses.
    ///
    /// # Errors
    /// `Database`.
    pub async fn find(self, key: KeyId) -> Result<Option<Credential>, ControlError> {
        Ok(self.control.db().optional(FIND, args![key]).await?)
    }

    /// Looks up whom a verified token speaks for: one query over unique keys. `None`
    /// when there is no tenant of that slug; agents come into being by being
    /// [seen](crate::Agents::record_sightings).
    ///
    /// # Errors
    /// `Database`.
    pub async fn subject(self, tenant_slug: &str, agent: &str) -> Result<Option<Subject>, ControlError> {
        Ok(self.control.db().optional(SUBJECT, args![tenant_slug, agent]).await?)
    }
}
