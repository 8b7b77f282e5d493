//! Tokens of an identity provider (JWT, RFC 7519): which are good, and whom they speak for.
//!
//! [`rules`] are the settings; [`keys`] are what signatures are checked with, [`jwks`] where they come from when the issuer
//! publishes them; [`claims`] makes a [`Subject`] of what a good token says. [`resource`] is how clients find out where to get
//! one (RFC 9728). No text of a token is ever logged or repeated.

use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::{Map, Value};
use sluicegate_control::WallClock;

use crate::refusal::Refusal;
use crate::settings::{Settings, SettingsError};

mod claims;
mod fetch;
pub(crate) mod jwks;
mod keys;
pub(crate) mod resource;
pub(crate) mod rules;

pub(crate) use claims::Subject;
use jwks::Jwks;
use keys::{Keys, Missing};
use rules::TokenRules;

/// The longest token that is looked at.
const MOST_BYTES: usize = 16 << 10;

/// Why a token does not open anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bad {
    /// It proves nothing. The sentence may be shown to whoever sent it.
    Token(&'static str),
    /// It is good, and speaks for no tenant of this server.
    NoTenant(&'static str),
    /// It is good, and speaks for nobody who could be an agent.
    NoAgent(&'static str),
    /// It cannot be checked at the moment.
    Unknowable,
}

impl From<Bad> for Refusal {
    fn from(bad: Bad) -> Self {
        match bad {
            Bad::Token(what) => Self::InvalidToken(what),
            Bad::NoTenant(what) => Self::NoTenant(what),
            Bad::NoAgent(what) => Self::NoAgent(what),
            Bad::Unknowable => Self::Unavailable("The keys of the token's issuer cannot be fetched at the moment."),
        }
    }
}

/// Says whether tokens are good.
pub(crate) struct Verifier {
    rules: TokenRules,
    keys: Keys,
    wall: WallClock,
}

impl Verifier {
    /// `None` when the settings accept no tokens.
    ///
    /// # Errors
    /// Names the setting that cannot be used.
    pub(crate) fn new(
        settings: &Settings,
        clock: quanta::Clock,
        wall: WallClock,
    ) -> Result<Option<Self>, SettingsError> {
        let Some(rules) = TokenRules::new(settings)? else { return Ok(None) };
        let keys = Keys::new(&rules, clock)?;
        Ok(Some(Self { rules, keys, wall }))
    }

    /// The published keys, where they have to be kept fresh.
    pub(crate) fn jwks(&self) -> Option<&std::sync::Arc<Jwks>> {
        self.keys.jwks()
    }

    pub(crate) fn rules(&self) -> &TokenRules {
        &self.rules
    }

    /// Whom a token speaks for, if it is good.
    pub(crate) async fn verify(&self, token: &str) -> Result<Subject, Bad> {
        if token.len() > MOST_BYTES {
            return Err(Bad::Token("The token is too long."));
        }
        // Extensions that must be understood are among what this refuses.
        let header = decode_header(token).map_err(|_| Bad::Token("The token cannot be read."))?;
        if !self.rules.algorithms.contains(&header.alg) {
            return Err(Bad::Token("The token is signed in a way that is not accepted here."));
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await.map_err(|missing| match missing {
            Missing::Unknown => Bad::Token("The token is signed with a key that its issuer does not have."),
            Missing::Unknowable => Bad::Unknowable,
        })?;
        // A key of one family never meets an algorithm of another: an RSA public key is no secret of HMAC.
        if key.family() != header.alg.family() {
            return Err(Bad::Token("The token is signed in a way that is not accepted here."));
        }
        let claims = decode::<Map<String, Value>>(token, &key, &only_the_signature(header.alg))
            .map_err(|_| Bad::Token("The signature of the token is wrong."))?
            .claims;
        self.rules.subject(&claims, self.wall.now_ms())
    }
}

/// The claims are checked by [`claims`], by the clock of this server and with words of their own.
fn only_the_signature(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    validation
}
