//! Who acts, and what they may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::db::text_column;
use crate::error::ControlError;
use crate::ids::{TenantId, UserId};
use crate::policy::Revision;

/// What an actor may do, least first: each role may do all that the ones before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read.
    Viewer,
    /// Read, and change tenants, agents, keys, plans and limits.
    Operator,
    /// Everything.
    Owner,
}

impl Role {
    /// All of them, least first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Owner];

    /// The word, as it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Owner => "owner",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Self, ControlError> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            let message = format!("role {text:?} is none of viewer, operator and owner");
            ControlError::invalid("role", text, &message)
        })
    }
}

text_column!(Role);

impl Reach {
    /// Inside this tenant, or in the whole server when there is none.
    pub(crate) fn of(tenant: Option<TenantId>) -> Self {
        tenant.map_or(Self::Global, Self::Tenant)
    }
}

/// Where an actor's role holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// In the whole server.
    Global,
    /// Inside one tenant. Whatever is outside does not exist for this actor.
    Tenant(TenantId),
}

/// Who asks for a use case: every one takes an actor, checks it, and writes it into the
/// audit log.
#[derive(Clone, Debug)]
pub struct Actor {
    label: String,
    role: Role,
    reach: Reach,
    user: Option<UserId>,
    address: Option<String>,
    request_id: Option<String>,
    expected: Option<Revision>,
}

impl Actor {
    /// Whoever runs the command line, by the name of their account on the machine. They
    /// can open the database file, so they own the server.
    pub fn cli(user: &str) -> Self {
        Self::new("cli", user, Role::Owner, Reach::Global)
    }

    /// A part of the server that acts on its own, such as the tool registry.
    pub fn system(part: &str) -> Self {
        Self::new("system", part, Role::Owner, Reach::Global)
    }

    /// A person who has signed in; see [`AdminUser::actor`](crate::AdminUser::actor).
    pub fn user(name: &str, role: Role, reach: Reach) -> Self {
        Self::new("user", name, role, reach)
    }

    /// Names the account, whose own sessions this actor may list and end.
    pub(crate) fn with_account(mut self, user: UserId) -> Self {
        self.user = Some(user);
        self
    }

    /// A program that presents an admin token, by the token's name.
    pub fn token(name: &str, role: Role, reach: Reach) -> Self {
        Self::new("token", name, role, reach)
    }

    fn new(kind: &str, name: &str, role: Role, reach: Reach) -> Self {
        let label = one_line(&format!("{kind}:{name}"));
        Self { label, role, reach, user: None, address: None, request_id: None, expected: None }
    }

    /// Adds where a request came from, for the audit log.
    #[must_use]
    pub fn with_request(mut self, address: Option<String>, request_id: Option<String>) -> Self {
        self.address = address.as_deref().map(one_line);
        self.request_id = request_id.as_deref().map(one_line);
        self
    }

    /// Makes the next change depend on what it changes: unless that still has this revision, the one the actor has seen,
    /// the change is refused as [`ControlError::Stale`] and undone.
    #[must_use]
    pub const fn expecting(mut self, revision: Revision) -> Self {
        self.expected = Some(revision);
        self
    }

    /// How the actor is written in the audit log: `cli:root`, `user:alice`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What the actor may do.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Where it may do that.
    pub const fn reach(&self) -> Reach {
        self.reach
    }

    /// Whether the role is at least this one, inside the actor's reach. For pages that leave out what they cannot do;
    /// the use cases decide for themselves.
    pub fn may(&self, needed: Role) -> bool {
        self.role >= needed
    }

    /// Whether the role is at least this one in the whole server.
    pub fn may_globally(&self, needed: Role) -> bool {
        self.role >= needed && self.confined_to().is_none()
    }

    /// The account of a person who has signed in.
    pub const fn user_id(&self) -> Option<UserId> {
        self.user
    }

    pub(crate) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// The revision that what is changed must have.
    pub(crate) const fn expected(&self) -> Option<Revision> {
        self.expected
    }

    pub(crate) fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// The tenant the actor is confined to.
    pub const fn confined_to(&self) -> Option<TenantId> {
        match self.reach {
            Reach::Global => None,
            Reach::Tenant(tenant) => Some(tenant),
        }
    }

    /// Whether things of `tenant` exist for this actor.
    pub(crate) fn sees(&self, tenant: TenantId) -> bool {
        self.confined_to().is_none_or(|own| own == tenant)
    }

    /// Refuses an actor without at least this role.
    pub(crate) fn require(&self, needed: Role) -> Result<(), ControlError> {
        if self.may(needed) {
            return Ok(());
        }
        Err(ControlError::Forbidden { actor: self.label.clone(), needed, global: false })
    }

    /// Refuses an actor without at least this role in the whole server.
    pub(crate) fn require_global(&self, needed: Role) -> Result<(), ControlError> {
        if self.may_globally(needed) {
            return Ok(());
        }
        Err(ControlError::Forbidden { actor: self.label.clone(), needed, global: true })
    }
}

/// What stands in the audit log must not look like another line of it.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}
