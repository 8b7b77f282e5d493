//! Admin tokens: how programs, such as CI, administer.

use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Reach, Role};
use crate::admins::{ShownOnce, granted_reach, hash, sees};
use crate::audit::Record;
use crate::clock::check_end;
use crate::control::Control;
use crate::db::{Transaction, args};
use crate::error::ControlError;
use crate::ids::{AdminTokenId, TenantId};
use crate::json::JsonText;
use crate::keys::KeyStatus;
use crate::page::{Page, PageRequest};
use crate::policy::Revision;
use crate::tenants::TenantRef;
use crate::text;

/// Makes a leaked token recognisable to a secret scanner.
const PREFIX: &str = "sgadmin_";

/// What is known of an admin token; not its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow, ToSchema)]
pub struct AdminToken {
    /// Its id.
    pub id: AdminTokenId,
    /// What it is for.
    pub name: String,
    /// What may be done with it.
    pub role: Role,
    /// The tenant inside which that may be done; the whole server when there is none.
    pub tenant_id: Option<TenantId>,
    /// When it was made, in epoch milliseconds.
    pub created_at: i64,
    /// Who made it.
    pub created_by: String,
    /// When it ends by itself, in epoch milliseconds.
    pub expires_at: Option<i64>,
    /// When it was revoked, in epoch milliseconds.
    pub revoked_at: Option<i64>,
    /// When it was last used, in epoch milliseconds, to a minute.
    pub last_used_at: Option<i64>,
    /// The revision of the last change.
    pub revision: Revision,
}

impl AdminToken {
    /// Whether the token opens anything at this time.
    pub const fn status(&self, now_ms: i64) -> KeyStatus {
        KeyStatus::at(now_ms, self.expires_at, self.revoked_at)
    }

    /// The actor that presents this token. Add the request with [`Actor::with_request`].
    pub fn actor(&self) -> Actor {
        Actor::token(&self.name, self.role, Reach::of(self.tenant_id))
    }
}

/// A token as somebody asks for it.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// What it is for.
    pub name: String,
    /// What may be done with it.
    pub role: Role,
    /// The tenant inside which that may be done; the whole server when there is none.
    pub tenant: Option<TenantRef>,
    /// When it ends by itself, in epoch milliseconds.
    pub expires_at: Option<i64>,
}

/// A token that was just made: the only time its text exists.
#[derive(Clone, Debug)]
pub struct MintedToken {
    /// The text, to be shown once.
    pub token: ShownOnce,
    /// What stays known of it.
    pub record: AdminToken,
}

macro_rules! select_tokens {
    ($tail:literal) => {
        concat!(
            "SELECT id, name, role, tenant_id, created_at, created_by, expires_at, revoked_at, last_used_at, revision
             FROM admin_tokens ",
            $tail
        )
    };
}

const BY_ID: &str = select_tokens!("WHERE id = $1");

const BY_HASH: &str = select_tokens!("WHERE token_hash = $1");

const LIST: &str = select_tokens!("WHERE id > $1 ORDER BY id LIMIT $2");

const LIST_OF_TENANT: &str = select_tokens!("WHERE tenant_id = $3 AND id > $1 ORDER BY id LIMIT $2");

const INSERT: &str =
    "INSERT INTO admin_tokens (id, name, token_hash, role, tenant_id, created_at, created_by, expires_at,
         revision)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

const REVOKE: &str = "UPDATE admin_tokens SET revoked_at = $2, revision = $3 WHERE id = $1";

const USE: &str = "UPDATE admin_tokens SET last_used_at = $2 WHERE id = $1";

/// How exact the time of the last use is, in milliseconds.
const USE_RESOLUTION_MS: i64 = 60_000;

/// Use cases on admin tokens. They are the business of owners.
#[derive(Clone, Copy)]
pub struct AdminTokens<'a> {
    pub(crate) control: &'a Control,
}

impl AdminTokens<'_> {
    /// Makes a token.
    ///
    /// # Errors
    /// `Invalid` for a bad name or an expiry that has passed, `NotFound` for the tenant, `Forbidden` for a token that
    /// reaches further than the actor.
    pub async fn create(self, actor: &Actor, new: NewToken) -> Result<MintedToken, ControlError> {
        actor.require(Role::Owner)?;
        text::name("name", &new.name)?;
        let mut change = self.control.change(actor).await?;
        check_end(new.expires_at, change.now)?;
        let tenant_id = granted_reach(&mut change.tx, actor, new.tenant.as_ref()).await?;
        let token = ShownOnce::generate(&mut rand::rng(), PREFIX);
        let record = AdminToken {
            id: AdminTokenId::generate(change.now),
            name: new.name,
            role: new.role,
            tenant_id,
            created_at: change.now,
            created_by: actor.label().to_owned(),
            expires_at: new.expires_at,
            revoked_at: None,
            last_used_at: None,
            revision: change.revision,
        };
        let values = args![
            record.id,
            &record.name,
            token.hash(),
            record.role.as_str(),
            tenant_id,
            record.created_at,
            &record.created_by,
            record.expires_at,
            record.revision,
        ];
        change.execute(INSERT, values).await?;
        change.record(audit("token.create", None, &record)).await?;
        change.commit().await?;
        Ok(MintedToken { token, record })
    }

    /// One token.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn get(self, actor: &Actor, token: AdminTokenId) -> Result<AdminToken, ControlError> {
        actor.require(Role::Owner)?;
        visible(&mut self.control.read().await?, actor, token).await
    }

    /// The tokens, oldest first, revoked and expired ones too: all, or those of the tenant that the actor is confined to.
    ///
    /// # Errors
    /// `Invalid` for a bad page.
    pub async fn list(self, actor: &Actor, page: &PageRequest) -> Result<Page<AdminToken>, ControlError> {
        actor.require(Role::Owner)?;
        let [after] = page.key()?;
        let mut tx = self.control.read().await?;
        let rows = match actor.confined_to() {
            None => tx.all(LIST, args![&after, page.rows()]).await?,
            Some(own) => tx.all(LIST_OF_TENANT, args![&after, page.rows(), own]).await?,
        };
        Ok(Page::new(rows, page, |token: &AdminToken| vec![token.id.to_string()]))
    }

    /// Ends a token now. To revoke a revoked one changes nothing.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn revoke(self, actor: &Actor, token: AdminTokenId) -> Result<AdminToken, ControlError> {
        actor.require(Role::Owner)?;
        let mut change = self.control.change(actor).await?;
        let before = visible(&mut change.tx, actor, token).await?;
        if before.revoked_at.is_some() {
            return Ok(before);
        }
        let after = AdminToken { revoked_at: Some(change.now), revision: change.revision, ..before.clone() };
        change.execute(REVOKE, args![after.id, after.revoked_at, after.revision]).await?;
        change.record(audit("token.revoke", Some(&before), &after)).await?;
        change.commit().await?;
        Ok(after)
    }

    /// The token of a text that somebody presents, if it opens anything now. There is no actor: nobody is known yet.
    ///
    /// # Errors
    /// `Database`.
    pub async fn authenticate(self, text: &str) -> Result<Option<AdminToken>, ControlError> {
        if !text.starts_with(PREFIX) {
            return Ok(None);
        }
        let found: Option<AdminToken> = self.control.db().optional(BY_HASH, args![hash(text)]).await?;
        let now = self.control.now_ms();
        let Some(token) = found.filter(|token| token.status(now) == KeyStatus::Active) else { return Ok(None) };
        if token.last_used_at.is_none_or(|used| used + USE_RESOLUTION_MS <= now) {
            let mut tx = self.control.db().write().await?;
            tx.execute(USE, args![token.id, now]).await?;
            tx.commit().await?;
        }
        Ok(Some(token))
    }
}

async fn visible(tx: &mut Transaction, actor: &Actor, token: AdminTokenId) -> Result<AdminToken, ControlError> {
    let found: Option<AdminToken> = tx.optional(BY_ID, args![token]).await?;
    found.filter(|found| sees(actor, found.tenant_id)).ok_or_else(|| ControlError::not_found("admin token", &token))
}

fn audit(action: &'static str, before: Option<&AdminToken>, after: &AdminToken) -> Record {
    Record {
        action,
        target: format!("admin token {} ({})", after.id, after.name),
        tenant_id: after.tenant_id,
        before: before.map(JsonText::of),
        after: Some(JsonText::of(after)),
    }
}
