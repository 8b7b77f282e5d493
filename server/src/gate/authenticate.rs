//! Who calls: from the credentials in the headers to a principal, without the database for those who are known.

use std::borrow::Borrow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use sluicegate_control::{Control, ControlError, WallClock};
use sluicegate_limits::Limiter;

use crate::gate::strangers::Strangers;
use crate::last_used::LastUsed;
use crate::policy::PolicyStore;
use crate::refusal::Refusal;
use crate::settings::AuthMode;
use crate::sightings::Sightings;

mod keys;
mod principal;
mod tokens;

use keys::Keys;
use principal::Presented;
pub(crate) use principal::{Opened, Opens, Principal};
pub(crate) use tokens::Tokens;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// What every API key begins with, and no token.
const KEY_PREFIX: &str = "sg_";

/// How long a credential may be used without asking the database again. Changes end it sooner: see `Principal::is_stale`.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// How long a key id that does not exist is remembered.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);
/// How many callers are remembered. A flood of more, each of whom calls once, may not eat the memory of the others.
const MOST_PRINCIPALS: u64 = 32_768;

const MISSING: &str = "Credentials are missing: send `Authorization: Bearer <API key>` or `X-API-Key`.";
const MISSING_TOKEN: &str = "Credentials are missing: send `Authorization: Bearer <token>`.";
const MISSING_EITHER: &str = "Credentials are missing: send `Authorization: Bearer <API key or token>` or `X-API-Key`.";
const KEYS_CLOSED: &str = "API keys open nothing here: send a token of the identity provider.";

/// What callers are identified with.
pub(crate) struct Surroundings {
    pub(crate) control: Control,
    pub(crate) limiter: Limiter,
    pub(crate) policy: Arc<PolicyStore>,
    pub(crate) clock: WallClock,
    /// See [`Principal::reading`].
    pub(crate) reading: usize,
    pub(crate) last_used: Arc<LastUsed>,
    pub(crate) sightings: Arc<Sightings>,
    pub(crate) strangers: Arc<Strangers>,
}

/// Turns credentials into principals.
pub(crate) struct Authenticator {
    around: Surroundings,
    keys: Option<Keys>,
    tokens: Option<Tokens>,
    /// The one caller of a server with `auth = "none"`.
    anonymous: Option<Arc<Principal>>,
}

impl Authenticator {
    /// `tokens` are those that are accepted, if any are.
    pub(crate) fn new(mode: AuthMode, around: Surroundings, tokens: Option<Tokens>) -> Self {
        let anonymous =
            (mode == AuthMode::None).then(|| Arc::new(Principal::anonymous(&around.limiter, around.reading)));
        Self { around, keys: mode.takes_keys().then(Keys::new), tokens, anonymous }
    }

    /// Authenticates a request by its headers, and takes the credentials out of them.
    ///
    /// `client` is where it comes from: who has failed too often waits until others of its sort are looked up.
    pub(crate) async fn authenticate(
        &self,
        headers: &mut HeaderMap,
        client: Option<IpAddr>,
    ) -> Result<Arc<Principal>, Refusal> {
        let bearer = headers.remove(header::AUTHORIZATION);
        let api_key = headers.remove(X_API_KEY);
        let text = bearer.as_ref().and_then(bearer_token).or_else(|| api_key.as_ref()?.to_str().ok());
        self.authenticate_text(text, client).await
    }

    /// Authenticates by the text of an API key or a token.
    pub(crate) async fn authenticate_text(
        &self,
        text: Option<&str>,
        client: Option<IpAddr>,
    ) -> Result<Arc<Principal>, Refusal> {
        if let Some(anonymous) = &self.anonymous {
            return Ok(Arc::clone(anonymous));
        }
        let missing = match (&self.keys, &self.tokens) {
            (Some(_), Some(_)) => MISSING_EITHER,
            (Some(_), None) => MISSING,
            (None, _) => MISSING_TOKEN,
        };
        let text = text.map(str::trim).filter(|text| !text.is_empty()).ok_or(Refusal::Unauthenticated(missing))?;
        match (text.starts_with(KEY_PREFIX), &self.keys, &self.tokens) {
            (true, Some(keys), _) => keys.authenticate(text, client, &self.around).await,
            (true, None, _) => Err(Refusal::InvalidToken(KEYS_CLOSED)),
            (false, _, Some(tokens)) => tokens.authenticate(text, client, &self.around).await,
            (false, _, None) => Err(Refusal::InvalidToken(keys::MALFORMED)),
        }
    }

    /// Whether a caller who was authenticated some time ago would be let in again.
    pub(crate) async fn still_knows(&self, principal: &Principal) -> bool {
        if !principal.is_stale(&self.around.policy) {
            return principal.holds(self.around.clock.now_ms());
        }
        match (&principal.credential, &self.keys) {
            (Presented::Key(key), Some(keys)) => keys.still_accept(key.id, &self.around).await,
            // Only its text could be verified again, and that is not kept.
            _ => false,
        }
    }
}

fn cannot_be_checked(error: impl Borrow<ControlError>) -> Refusal {
    tracing::error!(error = ?error.borrow(), "credentials could not be looked up");
    Refusal::Unavailable("Credentials cannot be checked at the moment.")
}

fn bearer_token(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}
