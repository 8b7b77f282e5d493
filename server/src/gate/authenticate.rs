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
use crate::token::Verifier;

mod keys;
mod last_caller;
mod principal;
mod tokens;

use keys::Keys;
pub(crate) use last_caller::LastCaller;
use principal::Presented;
pub(crate) use principal::{Opened, Opens, Principal};
use tokens::Tokens;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// What every API key begins with, and no token.
const KEY_PREFIX: &str = "sg_";

/// How long a credential may be used without asking the database again. Changes end it sooner: see `Principal::is_stale`.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// How long a key id that does not exist is remembered.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);
/// How many callers are remembered, by keys and tokens together. A flood of more, each of whom calls once, may not eat the
/// memory of the others.
const MOST_PRINCIPALS: u64 = 24_576;

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
    /// `verifier` says which tokens are good, if any are accepted, and `asked` are the scopes that tools ask them for.
    pub(crate) fn new(
        mode: AuthMode,
        around: Surroundings,
        verifier: Option<Arc<Verifier>>,
        asked: Box<[Arc<str>]>,
    ) -> Self {
        let anonymous =
            (mode == AuthMode::None).then(|| Arc::new(Principal::anonymous(&around.limiter, around.reading)));
        let room = if mode == AuthMode::Both { MOST_PRINCIPALS / 2 } else { MOST_PRINCIPALS };
        let keys = mode.takes_keys().then(|| Keys::new(room));
        Self { around, keys, tokens: verifier.map(|verifier| Tokens::new(verifier, asked, room)), anonymous }
    }

    /// Authenticates a request by its headers, and takes the credentials out of them.
    ///
    /// `client` is where it comes from: who has failed too often waits until others of its sort are looked up. `last` is whom
    /// its connection was let in as before.
    pub(crate) async fn authenticate(
        &self,
        headers: &mut HeaderMap,
        client: Option<IpAddr>,
        last: &LastCaller,
    ) -> Result<Arc<Principal>, Refusal> {
        let bearer = headers.remove(header::AUTHORIZATION);
        let api_key = headers.remove(X_API_KEY);
        let text = bearer.as_ref().and_then(bearer_token).or_else(|| api_key.as_ref()?.to_str().ok());
        let now_ms = self.around.clock.now_ms();
        if let Some(text) = text
            && let Some(principal) = last.find(text, |principal| self.is_still_good(principal, now_ms))
        {
            self.note(&principal, now_ms);
            return Ok(principal);
        }
        let principal = self.authenticate_text(text, client).await?;
        if let Some(text) = text.filter(|_| !principal.is_anonymous()) {
            last.remember(text, &principal);
        }
        Ok(principal)
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
        let principal = match (text.starts_with(KEY_PREFIX), &self.keys, &self.tokens) {
            (true, Some(keys), _) => keys.authenticate(text, client, &self.around).await?,
            (true, None, _) => return Err(Refusal::InvalidToken(KEYS_CLOSED)),
            (false, _, Some(tokens)) => tokens.authenticate(text, client, &self.around).await?,
            (false, _, None) => return Err(Refusal::InvalidToken(keys::MALFORMED)),
        };
        self.note(&principal, self.around.clock.now_ms());
        Ok(principal)
    }

    /// Whether a credential that was good before is so without being looked up again.
    fn is_still_good(&self, principal: &Principal, now_ms: i64) -> bool {
        principal.is_known(now_ms) && principal.holds(now_ms) && !principal.is_stale(&self.around.policy)
    }

    /// Notes now and then that a credential is used: of a key when, of a token whose agent is new that there is one.
    fn note(&self, principal: &Principal, now_ms: i64) {
        match &principal.credential {
            Presented::Key(key) if principal.is_to_be_noted(now_ms) => self.around.last_used.note(key.id, now_ms),
            Presented::Token(_) if principal.who.agent.is_none() && principal.is_to_be_noted(now_ms) => {
                self.around.sightings.note(principal, now_ms);
            }
            _ => {}
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
