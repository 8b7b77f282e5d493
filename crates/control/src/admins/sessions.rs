//! Sessions: who is signed in.
//!
//! A session is found by the secret in its cookie, of which the database has only a hash.
//! It ends when it is idle for too long, at a fixed time in any case, and together with
//! its user.

use serde::Serialize;

use crate::actor::{Actor, Role};
use crate::admins::{hash, sees};
use crate::audit::Record;
use crate::control::Control;
use crate::db::args;
use crate::error::ControlError;
use crate::ids::{SessionId, TenantId, UserId};
use crate::json::JsonText;

/// What is known of a session; not its secret, and not its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct Session {
    /// Its id, which opens nothing.
    pub id: SessionId,
    /// Who is signed in; nobody before they are.
    pub user_id: Option<UserId>,
    /// Their name.
    pub user_name: Option<String>,
    /// The network address it was last used from.
    pub address: Option<String>,
    /// The browser, as it calls itself.
    pub user_agent: Option<String>,
    /// When it began, in epoch milliseconds.
    pub created_at: i64,
    /// When it was last saved, in epoch milliseconds.
    pub seen_at: i64,
    /// When it ends if nobody uses it, in epoch milliseconds.
    pub idle_ends_at: i64,
    /// When it ends in any case, in epoch milliseconds.
    pub ends_at: i64,
}

/// What a session holds.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionState {
    /// Who is signed in.
    pub user: Option<UserId>,
    /// What the panel keeps in it.
    pub data: JsonText,
    /// The network address it is used from.
    pub address: Option<String>,
    /// The browser, as it calls itself.
    pub user_agent: Option<String>,
    /// When it ends if nobody uses it, in epoch milliseconds.
    pub idle_ends_at: i64,
    /// When it ends in any case, in epoch milliseconds. Fixed once it is created.
    pub ends_at: i64,
}

#[derive(sqlx::FromRow)]
struct StateRow {
    user_id: Option<UserId>,
    data: JsonText,
    address: Option<String>,
    user_agent: Option<String>,
    idle_ends_at: i64,
    ends_at: i64,
}

const CREATE: &str = "INSERT INTO admin_sessions (hash, id, user_id, data, address, user_agent, created_at, seen_at,
         idle_ends_at, ends_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9)
     ON CONFLICT (hash) DO NOTHING";

const SAVE: &str = "UPDATE admin_sessions SET user_id = $2, data = $3, address = $4, user_agent = $5, seen_at = $6,
         idle_ends_at = $7
     WHERE hash = $1";

/// A session of somebody who was suspended meanwhile is none.
const LOAD: &str = "SELECT s.user_id, s.data, s.address, s.user_agent, s.idle_ends_at, s.ends_at
     FROM admin_sessions s LEFT JOIN admin_users u ON u.id = s.user_id
     WHERE s.hash = $1 AND s.idle_ends_at > $2 AND s.ends_at > $2 AND (s.user_id IS NULL OR u.status = 'active')";

const DELETE: &str = "DELETE FROM admin_sessions WHERE hash = $1";

const DELETE_BY_ID: &str = "DELETE FROM admin_sessions WHERE id = $1";

const END_IDLE: &str = "DELETE FROM admin_sessions WHERE idle_ends_at <= $1";

const END_OLD: &str = "DELETE FROM admin_sessions WHERE ends_at <= $1";

const OWNER: &str = "SELECT u.id, u.name, u.tenant_id FROM admin_sessions s JOIN admin_users u ON u.id = s.user_id
     WHERE s.id = $1";

const USER: &str = "SELECT id, name, tenant_id FROM admin_users WHERE id = $1";

const LIST: &str = "SELECT s.id, s.user_id, u.name AS user_name, s.address, s.user_agent, s.created_at, s.seen_at,
            s.idle_ends_at, s.ends_at
     FROM admin_sessions s JOIN admin_users u ON u.id = s.user_id
     WHERE s.user_id = $1 AND s.idle_ends_at > $2 AND s.ends_at > $2
     ORDER BY s.id LIMIT 200";

#[derive(sqlx::FromRow)]
struct Owner {
    id: UserId,
    name: String,
    tenant_id: Option<TenantId>,
}

/// Use cases on sessions. Whoever holds the secret of one may create, save, load and delete it, so these take no actor.
#[derive(Clone, Copy)]
pub struct Sessions<'a> {
    pub(crate) control: &'a Control,
}

impl Sessions<'_> {
    /// Begins a session; `false` when there is one with this secret.
    ///
    /// # Errors
    /// `Database`.
    pub async fn create(self, secret: &str, state: &SessionState) -> Result<bool, ControlError> {
        let now = self.control.now_ms();
        let values = args![
            hash(secret),
            SessionId::generate(now),
            state.user,
            &state.data,
            state.address.as_deref(),
            state.user_agent.as_deref(),
            now,
            state.idle_ends_at,
            state.ends_at,
        ];
        let mut tx = self.control.db().write().await?;
        let created = tx.execute(CREATE, values).await?;
        tx.commit().await?;
        Ok(created > 0)
    }

    /// Saves what a session holds, its idle end included but not its fixed one. One that was ended stays ended, whoever
    /// still writes to it.
    ///
    /// # Errors
    /// `Database`.
    pub async fn save(self, secret: &str, state: &SessionState) -> Result<(), ControlError> {
        let values = args![
            hash(secret),
            state.user,
            &state.data,
            state.address.as_deref(),
            state.user_agent.as_deref(),
            self.control.now_ms(),
            state.idle_ends_at,
        ];
        let mut tx = self.control.db().write().await?;
        tx.execute(SAVE, values).await?;
        Ok(tx.commit().await?)
    }

    /// What a session holds; nothing when it has ended, or when its user is suspended or gone.
    ///
    /// # Errors
    /// `Database`.
    pub async fn load(self, secret: &str) -> Result<Option<SessionState>, ControlError> {
        let values = args![hash(secret), self.control.now_ms()];
        let row: Option<StateRow> = self.control.db().optional(LOAD, values).await?;
        Ok(row.map(|row| SessionState {
            user: row.user_id,
            data: row.data,
            address: row.address,
            user_agent: row.user_agent,
            idle_ends_at: row.idle_ends_at,
            ends_at: row.ends_at,
        }))
    }

    /// Ends a session.
    ///
    /// # Errors
    /// `Database`.
    pub async fn delete(self, secret: &str) -> Result<(), ControlError> {
        let mut tx = self.control.db().write().await?;
        tx.execute(DELETE, args![hash(secret)]).await?;
        Ok(tx.commit().await?)
    }

    /// Deletes sessions that have ended.
    ///
    /// # Errors
    /// `Database`.
    pub async fn forget_ended(self) -> Result<u64, ControlError> {
        let now = self.control.now_ms();
        let mut tx = self.control.db().write().await?;
        let ended = tx.execute(END_IDLE, args![now]).await? + tx.execute(END_OLD, args![now]).await?;
        tx.commit().await?;
        Ok(ended)
    }

    /// The sessions of somebody, oldest first: one's own for everybody, those of others for owners who see them.
    ///
    /// # Errors
    /// `NotFound` for a user that the actor does not see, `Forbidden` for another's without the role.
    pub async fn list(self, actor: &Actor, user: UserId) -> Result<Vec<Session>, ControlError> {
        let mut tx = self.control.read().await?;
        let owner: Option<Owner> = tx.optional(USER, args![user]).await?;
        may_touch(actor, owner.as_ref(), "user", &user)?;
        Ok(tx.all(LIST, args![user, self.control.now_ms()]).await?)
    }

    /// Ends a session by its id, under the same rules as [`list`](Self::list).
    ///
    /// # Errors
    /// `NotFound`, `Forbidden`.
    pub async fn revoke(self, actor: &Actor, session: SessionId) -> Result<(), ControlError> {
        let mut change = self.control.change(actor).await?;
        let owner: Option<Owner> = change.tx.optional(OWNER, args![session]).await?;
        let owner = may_touch(actor, owner.as_ref(), "session", &session)?;
        let record = Record {
            action: "session.revoke",
            target: format!("session {session} of user {}", owner.name),
            tenant_id: owner.tenant_id,
            before: None,
            after: None,
        };
        change.execute(DELETE_BY_ID, args![session]).await?;
        change.record(record).await?;
        change.commit().await
    }
}

/// Whether the actor is the owner of the session, or an owner of the server (or tenant) that they belong to.
fn may_touch<'o>(
    actor: &Actor,
    owner: Option<&'o Owner>,
    what: &'static str,
    name: &impl ToString,
) -> Result<&'o Owner, ControlError> {
    let owner = owner.ok_or_else(|| ControlError::not_found(what, name))?;
    if actor.user_id() == Some(owner.id) {
        return Ok(owner);
    }
    if !sees(actor, owner.tenant_id) {
        return Err(ControlError::not_found(what, name));
    }
    actor.require(Role::Owner)?;
    Ok(owner)
}
