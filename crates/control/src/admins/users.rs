//! People who administer.

use std::fmt;

use secrecy::SecretString;
use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Reach, Role};
use crate::admins::{granted_reach, password, sees};
use crate::audit::Record;
use crate::change::Change;
use crate::control::Control;
use crate::db::{Transaction, args};
use crate::error::ControlError;
use crate::ids::{TenantId, UserId};
use crate::json::JsonText;
use crate::page::{Page, PageRequest};
use crate::policy::Revision;
use crate::status::Status;
use crate::tenants::TenantRef;

/// A person who may sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow, ToSchema)]
pub struct AdminUser {
    /// Their id.
    pub id: UserId,
    /// The name that they sign in with; unique, never changes.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The tenant inside which they may do it; the whole server when there is none.
    pub tenant_id: Option<TenantId>,
    /// Whether they may sign in.
    pub status: Status,
    /// When the account was made, in epoch milliseconds.
    pub created_at: i64,
    /// Who made it.
    pub created_by: String,
    /// When it was last changed, in epoch milliseconds.
    pub updated_at: i64,
    /// When they last signed in, in epoch milliseconds.
    pub last_login_at: Option<i64>,
    /// The revision of the last change.
    pub revision: Revision,
}

impl AdminUser {
    /// The actor that this person is. Add the request with [`Actor::with_request`].
    pub fn actor(&self) -> Actor {
        Actor::user(&self.name, self.role, Reach::of(self.tenant_id)).with_account(self.id)
    }
}

/// An account as somebody asks for it.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// The name to sign in with: 1 to 64 of `a-z`, `0-9` and `.`, `_`, `-`, `@`.
    pub name: String,
    /// The first password: 12 characters or more.
    pub password: SecretString,
    /// What they may do.
    pub role: Role,
    /// The tenant inside which they may do it; the whole server when there is none.
    pub tenant: Option<TenantRef>,
}

/// How a use case is told which user is meant. A text that reads as an id is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRef {
    /// By id.
    Id(UserId),
    /// By name.
    Name(String),
}

impl From<&str> for UserRef {
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

impl From<UserId> for UserRef {
    fn from(id: UserId) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for UserRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

macro_rules! select_users {
    ($tail:literal) => {
        concat!(
            "SELECT id, name, role, tenant_id, status, created_at, created_by, updated_at, last_login_at, revision
             FROM admin_users ",
            $tail
        )
    };
}

const BY_ID: &str = select_users!("WHERE id = $1");

const BY_NAME: &str = select_users!("WHERE name = $1");

const LIST: &str = select_users!("WHERE name > $1 ORDER BY name LIMIT $2");

const LIST_OF_TENANT: &str = select_users!("WHERE tenant_id = $3 AND name > $1 ORDER BY name LIMIT $2");

const PASSWORD_HASH: &str = "SELECT id, password_hash FROM admin_users WHERE name = $1";

const INSERT: &str =
    "INSERT INTO admin_users (id, name, password_hash, role, tenant_id, status, created_at, created_by,
         updated_at, revision)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const UPDATE: &str =
    "UPDATE admin_users SET role = $2, tenant_id = $3, status = $4, updated_at = $5, revision = $6 WHERE id = $1";

const SET_PASSWORD: &str = "UPDATE admin_users SET password_hash = $2, updated_at = $3, revision = $4 WHERE id = $1";

const SIGNED_IN: &str = "UPDATE admin_users SET last_login_at = $2 WHERE id = $1";

const DELETE: &str = "DELETE FROM admin_users WHERE id = $1";

const END_SESSIONS: &str = "DELETE FROM admin_sessions WHERE user_id = $1";

const OTHER_OWNERS: &str = "SELECT COUNT(*) FROM admin_users
     WHERE role = 'owner' AND status = 'active' AND tenant_id IS NULL AND id <> $1";

pub(super) const ANYBODY: &str = "SELECT id FROM admin_users ORDER BY id LIMIT 1";

/// Use cases on people who administer. They are the business of owners.
#[derive(Clone, Copy)]
pub struct Users<'a> {
    pub(crate) control: &'a Control,
}

impl Users<'_> {
    /// Makes an account.
    ///
    /// # Errors
    /// `Invalid` for a bad name or password, `Conflict` when the name is taken, `NotFound` for the tenant, `Forbidden`
    /// for an account that reaches further than the actor.
    pub async fn create(self, actor: &Actor, new: NewUser) -> Result<AdminUser, ControlError> {
        actor.require(Role::Owner)?;
        check_name(&new.name)?;
        password::check(&new.password)?;
        let hash = password::hash(&new.password).await?;
        let mut change = self.control.change(actor).await?;
        let tenant = granted_reach(&mut change.tx, actor, new.tenant.as_ref()).await?;
        let user = insert(&mut change, &new.name, &hash, new.role, tenant).await?;
        change.commit().await?;
        Ok(user)
    }

    /// One account.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn get(self, actor: &Actor, user: &UserRef) -> Result<AdminUser, ControlError> {
        actor.require(Role::Owner)?;
        visible(&mut self.control.read().await?, actor, user).await
    }

    /// The accounts, by name: all, or those of the tenant that the actor is confined to.
    ///
    /// # Errors
    /// `Invalid` for a bad page.
    pub async fn list(self, actor: &Actor, page: &PageRequest) -> Result<Page<AdminUser>, ControlError> {
        actor.require(Role::Owner)?;
        let [after] = page.key()?;
        let mut tx = self.control.read().await?;
        let rows = match actor.confined_to() {
            None => tx.all(LIST, args![&after, page.rows()]).await?,
            Some(own) => tx.all(LIST_OF_TENANT, args![&after, page.rows(), own]).await?,
        };
        Ok(Page::new(rows, page, |user: &AdminUser| vec![user.name.clone()]))
    }

    /// Gives an account another role, or another reach.
    ///
    /// # Errors
    /// `NotFound` for the user or the tenant, `Forbidden` for a reach further than the actor's, `Conflict` for the last
    /// owner of the server.
    pub async fn set_role(
        self,
        actor: &Actor,
        user: &UserRef,
        role: Role,
        tenant: Option<&TenantRef>,
    ) -> Result<AdminUser, ControlError> {
        actor.require(Role::Owner)?;
        let mut change = self.control.change(actor).await?;
        let before = visible(&mut change.tx, actor, user).await?;
        let tenant_id = granted_reach(&mut change.tx, actor, tenant).await?;
        save(change, "user.role", before.clone(), AdminUser { role, tenant_id, ..before }).await
    }

    /// Lets nobody sign in with the account, and ends its sessions.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` for the last owner of the server.
    pub async fn suspend(self, actor: &Actor, user: &UserRef) -> Result<AdminUser, ControlError> {
        self.set_status(actor, user, "user.suspend", Status::Suspended).await
    }

    /// Lets the account be used again.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn resume(self, actor: &Actor, user: &UserRef) -> Result<AdminUser, ControlError> {
        self.set_status(actor, user, "user.resume", Status::Active).await
    }

    async fn set_status(
        self,
        actor: &Actor,
        user: &UserRef,
        action: &'static str,
        status: Status,
    ) -> Result<AdminUser, ControlError> {
        actor.require(Role::Owner)?;
        let mut change = self.control.change(actor).await?;
        let before = visible(&mut change.tx, actor, user).await?;
        save(change, action, before.clone(), AdminUser { status, ..before }).await
    }

    /// Gives somebody a new password, and ends their sessions.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` for a bad password.
    pub async fn reset_password(
        self,
        actor: &Actor,
        user: &UserRef,
        new: &SecretString,
    ) -> Result<AdminUser, ControlError> {
        actor.require(Role::Owner)?;
        password::check(new)?;
        let hash = password::hash(new).await?;
        let mut change = self.control.change(actor).await?;
        let before = visible(&mut change.tx, actor, user).await?;
        set_password(change, before, &hash, "user.reset_password").await
    }

    /// Changes one's own password, and ends all of one's sessions: whoever asks starts a new one.
    ///
    /// # Errors
    /// `Invalid` for a wrong old password or a bad new one.
    pub async fn change_own_password(
        self,
        user: UserId,
        old: &SecretString,
        new: &SecretString,
    ) -> Result<AdminUser, ControlError> {
        password::check(new)?;
        let found = self.active(user).await?.ok_or_else(|| ControlError::not_found("user", &user))?;
        if self.check_password(&found.name, old).await?.is_none() {
            return Err(ControlError::invalid("old_password", "", &"this is not your present password"));
        }
        let hash = password::hash(new).await?;
        let actor = found.actor();
        let change = self.control.change(&actor).await?;
        set_password(change, found, &hash, "user.change_password").await
    }

    /// Deletes an account for good.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` for the last owner of the server.
    pub async fn delete(self, actor: &Actor, user: &UserRef) -> Result<(), ControlError> {
        actor.require(Role::Owner)?;
        let mut change = self.control.change(actor).await?;
        let user = visible(&mut change.tx, actor, user).await?;
        keep_an_owner(&mut change.tx, &user).await?;
        change.execute(DELETE, args![user.id]).await?;
        change.record(record("user.delete", Some(&user), None)).await?;
        change.commit().await
    }

    /// Who signs in with this name and password; `None` for a wrong name, a wrong password and a suspended account,
    /// which take equally long. The caller limits how often that may be tried. There is no actor: nobody is known yet;
    /// `address` and `request_id` are for the audit log.
    ///
    /// # Errors
    /// `Database`.
    pub async fn sign_in(
        self,
        name: &str,
        password: &SecretString,
        address: Option<String>,
        request_id: Option<String>,
    ) -> Result<Option<AdminUser>, ControlError> {
        let Some(user) = self.check_password(name, password).await? else { return Ok(None) };
        let Some(user) = self.active(user).await? else { return Ok(None) };
        let actor = user.actor().with_request(address, request_id);
        let mut change = self.control.change(&actor).await?;
        let signed_in = AdminUser { last_login_at: Some(change.now), ..user };
        change.execute(SIGNED_IN, args![signed_in.id, change.now]).await?;
        change.record(Record { after: None, ..record("user.sign_in", None, Some(&signed_in)) }).await?;
        change.commit().await?;
        Ok(Some(signed_in))
    }

    /// The account, if it may be used: for whoever has proved to be its owner. There is no actor.
    ///
    /// # Errors
    /// `Database`.
    pub async fn active(self, user: UserId) -> Result<Option<AdminUser>, ControlError> {
        let found: Option<AdminUser> = self.control.db().optional(BY_ID, args![user]).await?;
        Ok(found.filter(|user| user.status.is_active()))
    }

    async fn check_password(self, name: &str, password: &SecretString) -> Result<Option<UserId>, ControlError> {
        let found: Option<(UserId, String)> = self.control.db().optional(PASSWORD_HASH, args![name]).await?;
        let (user, hash) = found.unzip();
        let right = password::verify(password, hash).await?;
        Ok(user.filter(|_| right))
    }
}

/// Writes a new account into a change.
pub(super) async fn insert(
    change: &mut Change<'_>,
    name: &str,
    hash: &str,
    role: Role,
    tenant_id: Option<TenantId>,
) -> Result<AdminUser, ControlError> {
    if change.tx.optional::<AdminUser>(BY_NAME, args![name]).await?.is_some() {
        return Err(ControlError::Conflict(format!("there already is a user {name:?}: choose another name")));
    }
    let user = AdminUser {
        id: UserId::generate(change.now),
        name: name.to_owned(),
        role,
        tenant_id,
        status: Status::Active,
        created_at: change.now,
        created_by: change.actor().label().to_owned(),
        updated_at: change.now,
        last_login_at: None,
        revision: change.revision,
    };
    let values = args![
        user.id,
        name,
        hash,
        role.as_str(),
        tenant_id,
        user.status,
        user.created_at,
        &user.created_by,
        user.updated_at,
        user.revision,
    ];
    change.execute(INSERT, values).await?;
    change.record(record("user.create", None, Some(&user))).await?;
    Ok(user)
}

async fn visible(tx: &mut Transaction, actor: &Actor, user: &UserRef) -> Result<AdminUser, ControlError> {
    let found: Option<AdminUser> = match user {
        UserRef::Id(id) => tx.optional(BY_ID, args![*id]).await?,
        UserRef::Name(name) => tx.optional(BY_NAME, args![name]).await?,
    };
    found.filter(|found| sees(actor, found.tenant_id)).ok_or_else(|| ControlError::not_found("user", &user))
}

async fn save(
    mut change: Change<'_>,
    action: &'static str,
    before: AdminUser,
    mut after: AdminUser,
) -> Result<AdminUser, ControlError> {
    if after == before {
        return Ok(before);
    }
    if !is_owner_of_the_server(&after) {
        keep_an_owner(&mut change.tx, &before).await?;
    }
    (after.updated_at, after.revision) = (change.now, change.revision);
    let values = args![after.id, after.role.as_str(), after.tenant_id, after.status, after.updated_at, after.revision];
    change.execute(UPDATE, values).await?;
    if !after.status.is_active() {
        change.execute(END_SESSIONS, args![after.id]).await?;
    }
    change.record(record(action, Some(&before), Some(&after))).await?;
    change.commit().await?;
    Ok(after)
}

async fn set_password(
    mut change: Change<'_>,
    before: AdminUser,
    hash: &str,
    action: &'static str,
) -> Result<AdminUser, ControlError> {
    let after = AdminUser { updated_at: change.now, revision: change.revision, ..before.clone() };
    change.execute(SET_PASSWORD, args![after.id, hash, after.updated_at, after.revision]).await?;
    change.execute(END_SESSIONS, args![after.id]).await?;
    change.record(record(action, Some(&before), Some(&after))).await?;
    change.commit().await?;
    Ok(after)
}

fn is_owner_of_the_server(user: &AdminUser) -> bool {
    user.role == Role::Owner && user.tenant_id.is_none() && user.status.is_active()
}

/// Refuses to lose the last account that can do everything.
async fn keep_an_owner(tx: &mut Transaction, user: &AdminUser) -> Result<(), ControlError> {
    if !is_owner_of_the_server(user) {
        return Ok(());
    }
    let (others,): (i64,) = tx.one(OTHER_OWNERS, args![user.id]).await?;
    if others > 0 {
        return Ok(());
    }
    let name = &user.name;
    Err(ControlError::Conflict(format!("{name:?} is the last active owner of the server: make another one first")))
}

fn record(action: &'static str, before: Option<&AdminUser>, after: Option<&AdminUser>) -> Record {
    let user = after.or(before);
    Record {
        action,
        target: user.map(|user| format!("user {}", user.name)).unwrap_or_default(),
        tenant_id: user.and_then(|user| user.tenant_id),
        before: before.map(JsonText::of),
        after: after.map(JsonText::of),
    }
}

pub(super) fn check_name(name: &str) -> Result<(), ControlError> {
    let good = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_@".contains(&b))
        && name.parse::<UserId>().is_err();
    if good {
        return Ok(());
    }
    let message = format!("name {name:?} must be 1 to 64 lower-case letters, digits and any of .-_@");
    Err(ControlError::invalid("name", name, &message))
}
