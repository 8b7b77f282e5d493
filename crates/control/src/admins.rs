//! Who administers: people with passwords, programs with tokens, and the sessions of
//! people who have signed in.

mod password;
mod sessions;
mod setup;
mod tokens;
mod users;

pub use sessions::{Session, SessionState, Sessions};
pub use setup::Setup;
pub use tokens::{AdminToken, AdminTokens, MintedToken, NewToken};
pub use users::{AdminUser, NewUser, UserRef, Users};

use rand::{CryptoRng, RngExt};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::actor::{Actor, Reach, Role};
use crate::base62;
use crate::db::Transaction;
use crate::error::ControlError;
use crate::ids::TenantId;
use crate::tenants::{self, TenantRef};

/// 43 digits of base62 are 256 bits.
const SECRET_DIGITS: usize = 43;

/// A text that opens something, to be shown once. The database keeps a hash of it, but of the secrets that webhooks are
/// signed with. `Debug` never prints it.
#[derive(Clone, Debug)]
pub struct ShownOnce(SecretString);

impl ShownOnce {
    pub(crate) fn generate(rng: &mut impl CryptoRng, prefix: &str) -> Self {
        let mut text = String::with_capacity(prefix.len() + SECRET_DIGITS);
        text.push_str(prefix);
        text.extend((0..SECRET_DIGITS).map(|_| char::from(base62::encode::<1>(rng.random_range(0..62_u128))[0])));
        Self(text.into())
    }

    /// The text.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    fn hash(&self) -> String {
        hash(self.expose())
    }
}

impl From<String> for ShownOnce {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

/// What the database keeps of a text of 256 random bits, and looks it up by. A fast hash is right: there is nothing to
/// guess, and what an index lookup tells by its time is about a hash that nobody can choose.
fn hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret))
}

/// Where a new or changed role is to hold, if the actor may give one there: inside a tenant that it sees, or in the
/// whole server.
async fn granted_reach(
    tx: &mut Transaction,
    actor: &Actor,
    tenant: Option<&TenantRef>,
) -> Result<Option<TenantId>, ControlError> {
    match tenant {
        Some(tenant) => Ok(Some(tenants::visible(tx, actor, tenant).await?.id)),
        None => {
            actor.require_global(Role::Owner)?;
            Ok(None)
        }
    }
}

/// Whether an account or token exists for the actor: its own tenant's, or any for one of the whole server.
fn sees(actor: &Actor, tenant: Option<TenantId>) -> bool {
    match actor.reach() {
        Reach::Global => true,
        Reach::Tenant(own) => tenant == Some(own),
    }
}
