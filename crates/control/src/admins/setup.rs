//! The first owner: made once, by whoever can read what the server prints.

use secrecy::SecretString;

use crate::actor::{Actor, Role};
use crate::admins::users::{self, ANYBODY, AdminUser};
use crate::admins::{ShownOnce, hash, password};
use crate::control::Control;
use crate::db::args;
use crate::error::ControlError;
use crate::ids::UserId;

const PREFIX: &str = "sgsetup_";

/// How long a link can be used, in milliseconds: a restart of the server prints another.
const LIVES_FOR_MS: i64 = 24 * 60 * 60 * 1_000;

const OFFER: &str = "INSERT INTO admin_setup (token_hash, ends_at) VALUES ($1, $2)";

const FIND: &str = "SELECT ends_at FROM admin_setup WHERE token_hash = $1 AND ends_at > $2";

const WITHDRAW_ALL: &str = "DELETE FROM admin_setup";

const WITHDRAW_ENDED: &str = "DELETE FROM admin_setup WHERE ends_at <= $1";

/// Use cases on the first set-up.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    pub(crate) control: &'a Control,
}

impl Setup<'_> {
    /// Whether nobody can sign in yet.
    ///
    /// # Errors
    /// `Database`.
    pub async fn is_open(self) -> Result<bool, ControlError> {
        let anybody: Option<(UserId,)> = self.control.db().optional(ANYBODY, args![]).await?;
        Ok(anybody.is_none())
    }

    /// A token for a one-time link, good for a day, while nobody can sign in yet; afterwards `None`. Servers that start
    /// together may each offer one: the first that is used voids the others.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn offer(self, actor: &Actor) -> Result<Option<ShownOnce>, ControlError> {
        actor.require_global(Role::Owner)?;
        if !self.is_open().await? {
            return Ok(None);
        }
        let token = ShownOnce::generate(&mut rand::rng(), PREFIX);
        let now = self.control.now_ms();
        let mut tx = self.control.db().write().await?;
        tx.execute(WITHDRAW_ENDED, args![now]).await?;
        tx.execute(OFFER, args![token.hash(), now + LIVES_FOR_MS]).await?;
        tx.commit().await?;
        Ok(Some(token))
    }

    /// Whether a token could be used now.
    ///
    /// # Errors
    /// `Database`.
    pub async fn accepts(self, token: &str) -> Result<bool, ControlError> {
        let values = args![hash(token), self.control.now_ms()];
        let offered: Option<(i64,)> = self.control.db().optional(FIND, values).await?;
        Ok(offered.is_some() && self.is_open().await?)
    }

    /// Uses a token to make the first owner, and voids all others; `None` when it cannot be used (any more).
    ///
    /// # Errors
    /// `Invalid` for a bad name or password.
    pub async fn redeem(
        self,
        token: &str,
        name: &str,
        password: &SecretString,
        address: Option<String>,
        request_id: Option<String>,
    ) -> Result<Option<AdminUser>, ControlError> {
        users::check_name(name)?;
        password::check(password)?;
        // Before anything is hashed: that is dear.
        if !self.accepts(token).await? {
            return Ok(None);
        }
        let password_hash = password::hash(password).await?;
        let actor = Actor::system("setup").with_request(address, request_id);
        let mut change = self.control.change(&actor).await?;
        // Changes happen one after the other, so of two that come at once only one finds it open.
        let offered: Option<(i64,)> = change.tx.optional(FIND, args![hash(token), change.now]).await?;
        let anybody: Option<(UserId,)> = change.tx.optional(ANYBODY, args![]).await?;
        if offered.is_none() || anybody.is_some() {
            return Ok(None);
        }
        let owner = users::insert(&mut change, name, &password_hash, Role::Owner, None).await?;
        change.execute(WITHDRAW_ALL, args![]).await?;
        change.commit().await?;
        Ok(Some(owner))
    }
}
