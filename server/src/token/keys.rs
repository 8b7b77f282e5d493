//! The keys that signatures are checked with.

use std::sync::Arc;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::jwks::Jwks;
use super::rules::{KeySource, TokenRules};
use crate::settings::SettingsError;

/// Where keys are found.
pub(super) enum Keys {
    One(Arc<DecodingKey>),
    Published(Arc<Jwks>),
}

/// Why there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The issuer does not have it.
    Unknown,
    /// What the issuer has could not be asked.
    Unknowable,
}

impl Keys {
    pub(super) fn new(rules: &TokenRules, clock: quanta::Clock) -> Result<Self, SettingsError> {
        Ok(match &rules.key {
            KeySource::Secret(secret) => {
                let key = DecodingKey::from_secret(secret.expose_secret().as_bytes());
                Self::One(Arc::new(key.map_err(|error| SettingsError(format!("jwt_secret: {error}")))?))
            }
            KeySource::Public(key) => Self::One(Arc::new(key.clone())),
            KeySource::Jwks(url) => Self::Published(Arc::new(Jwks::new(url.clone(), clock)?)),
        })
    }

    /// The key of a token: by its name, or the only one that there is.
    pub(super) async fn find(&self, name: Option<&str>, algorithm: Algorithm) -> Result<Arc<DecodingKey>, Missing> {
        match self {
            Self::One(key) => Ok(Arc::clone(key)),
            Self::Published(jwks) => jwks.find(name, algorithm).await,
        }
    }

    pub(super) fn jwks(&self) -> Option<&Arc<Jwks>> {
        match self {
            Self::One(_) => None,
            Self::Published(jwks) => Some(jwks),
        }
    }
}

/// What an issuer publishes (RFC 7517), as far as it can sign tokens for us.
#[derive(Default)]
pub(super) struct KeySet(Vec<PublishedKey>);

struct PublishedKey {
    name: Option<String>,
    algorithm: Algorithm,
    key: Arc<DecodingKey>,
}

impl KeySet {
    /// Reads a document. Keys of other kinds, and for other uses, are left out: one odd key does not lose the others.
    pub(super) fn read(document: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(document).ok()?;
        let keys = document.get("keys")?.as_array()?;
        Some(Self(keys.iter().filter_map(PublishedKey::read).collect()))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The key of this name for this algorithm. A token that names none has to be of the only one.
    pub(super) fn find(&self, name: Option<&str>, algorithm: Algorithm) -> Option<&Arc<DecodingKey>> {
        let mut fitting = self.0.iter().filter(|key| key.algorithm == algorithm);
        match name {
            Some(name) => fitting.find(|key| key.name.as_deref() == Some(name)).map(|found| &found.key),
            None => match (fitting.next(), fitting.next()) {
                (Some(only), None) => Some(&only.key),
                _ => None,
            },
        }
    }
}

impl PublishedKey {
    fn read(value: &Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
        // Symmetric keys are never published, and an algorithm of another strength is another algorithm.
        let algorithm = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => Algorithm::RS256,
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
            _ => return None,
        };
        let common = &jwk.common;
        let signs = common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
        let same = common.key_algorithm.is_none_or(|named| named == algorithm.into());
        let key = Arc::new(DecodingKey::from_jwk(&jwk).ok()?);
        (signs && same).then(|| Self { name: common.key_id.clone(), algorithm, key })
    }
}
