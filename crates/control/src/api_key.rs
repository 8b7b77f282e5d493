//! The text of an API key.
//!
//! ```text
//! sg_live_02vpRr7QmD4mWpZ1v0cXfA_mJ8…(43 characters)…_1hK9Qz
//! │  │    │                      │                     └ CRC-32 of all before it, base62
//! │  │    │                      └ the secret: base62 digits, 256 bits
//! │  │    └ the key id: the row's UUID, base62
//! │  └ the environment the key was made for
//! └ makes a leaked key recognisable to a secret scanner
//! ```
//!
//! The checksum is no protection, it is a courtesy: a mistyped or truncated key is told
//! from a wrong one without asking the database. CRC-32 finds every change within 32
//! neighbouring bits, so no change of a single character passes.

use std::fmt;

use rand::{CryptoRng, RngExt};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::base62;
use crate::ids::KeyId;

const ID_LENGTH: usize = 22;
const SECRET_LENGTH: usize = 43;
const CHECKSUM_LENGTH: usize = 6;
const PREFIX: &str = "sg";

/// Where a key is meant to be used, such as `live` or `test`: 1 to 16 characters of
/// `a-z` and `0-9`. It is part of the key's text and says nothing to authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment(String);

impl Environment {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn accepts(text: &str) -> bool {
        (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self("live".to_owned())
    }
}

impl std::str::FromStr for Environment {
    type Err = KeyFormatError;

    fn from_str(text: &str) -> Result<Self, KeyFormatError> {
        if Self::accepts(text) { Ok(Self(text.to_owned())) } else { Err(KeyFormatError::Environment) }
    }
}

/// Why a text is no API key. Never repeats any part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFormatError {
    /// The text is not made of the five parts with their lengths.
    #[error("not an API key: expected sg_<environment>_<key id>_<secret>_<checksum>")]
    Shape,
    /// The environment is empty, too long, or has other characters than `a-z0-9`.
    #[error("the environment of an API key is 1 to 16 characters of a-z and 0-9")]
    Environment,
    /// The checksum does not match: a character is missing, added or changed.
    #[error("the checksum of this API key does not match: it was mistyped or cut off")]
    Checksum,
}

/// A freshly made API key, whole. It exists once, to be shown to whoever asked for it;
/// the database keeps only [`SecretHash`].
///
/// `Debug` never prints the text, there is no `Display`, and the memory is wiped on drop.
#[derive(Clone, Debug)]
pub struct ApiKey {
    id: KeyId,
    hash: SecretHash,
    text: SecretString,
}

impl ApiKey {
    /// Makes a key with a secret of 256 random bits.
    pub fn generate(rng: &mut impl CryptoRng, id: KeyId, environment: &Environment) -> Self {
        // Drawing digits one by one keeps the secret uniform: 43 of them are 256 bits.
        let secret =
            std::array::from_fn::<u8, SECRET_LENGTH, _>(|_| base62::encode::<1>(rng.random_range(0..62_u128))[0]);
        let hash = SecretHash(Sha256::digest(secret).into());
        let id_text = base62::encode::<ID_LENGTH>(id.as_u128());
        let mut text = String::with_capacity(100);
        for part in [PREFIX.as_bytes(), environment.0.as_bytes(), &id_text, &secret] {
            text.extend(part.iter().copied().map(char::from));
            text.push('_');
        }
        text.pop();
        let checksum = checksum(&text);
        text.push('_');
        text.extend(checksum.map(char::from));
        Self { id, hash, text: text.into() }
    }

    /// Takes a text apart and verifies its checksum, without allocating.
    ///
    /// # Errors
    /// [`KeyFormatError`] for any text that [`ApiKey::generate`] cannot have written.
    pub fn parse(text: &str) -> Result<ParsedKey<'_>, KeyFormatError> {
        // From the end, since only the environment has no fixed length.
        let (rest, stated) = last_part(text, CHECKSUM_LENGTH)?;
        let body = &text[..text.len() - CHECKSUM_LENGTH - 1];
        let (rest, secret) = last_part(rest, SECRET_LENGTH)?;
        let (rest, id) = last_part(rest, ID_LENGTH)?;
        let environment =
            rest.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('_')).ok_or(KeyFormatError::Shape)?;
        if !Environment::accepts(environment) {
            return Err(KeyFormatError::Environment);
        }
        if !secret.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(KeyFormatError::Shape);
        }
        let id = base62::decode(id).map(KeyId::from_u128).ok_or(KeyFormatError::Shape)?;
        if stated.as_bytes() != checksum(body) {
            return Err(KeyFormatError::Checksum);
        }
        Ok(ParsedKey { environment, id, secret })
    }

    /// The id of the key's row.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// The digest that the database keeps.
    pub(crate) const fn secret_hash(&self) -> SecretHash {
        self.hash
    }

    /// The whole text, to be handed out once.
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }
}

/// The parts of a well-formed key that somebody presented. Not yet authenticated.
#[derive(Clone, Copy)]
pub struct ParsedKey<'a> {
    environment: &'a str,
    id: KeyId,
    secret: &'a str,
}

impl ParsedKey<'_> {
    /// The id to look the key up by.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// The environment the text names.
    pub const fn environment(&self) -> &str {
        self.environment
    }

    /// The digest that the database keeps for this secret.
    pub fn secret_hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.secret).into())
    }
}

impl fmt::Debug for ParsedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParsedKey")
            .field("environment", &self.environment)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// SHA-256 of a key's secret. A fast hash is right here: the secret has 256 random
/// bits, so there is nothing to guess.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Whether the presented key carries the secret of this hash, in constant time.
    pub fn verify(&self, presented: &ParsedKey<'_>) -> bool {
        self.0.ct_eq(&presented.secret_hash().0).into()
    }

    pub(crate) fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

impl std::str::FromStr for SecretHash {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Self(bytes))
    }
}

crate::db::text_column!(SecretHash);

/// Splits the last part off, which has so many bytes, and what stands before its separator.
fn last_part(text: &str, length: usize) -> Result<(&str, &str), KeyFormatError> {
    let at = text.len().checked_sub(length).ok_or(KeyFormatError::Shape)?;
    let (rest, part) = text.split_at_checked(at).ok_or(KeyFormatError::Shape)?;
    Ok((rest.strip_suffix('_').ok_or(KeyFormatError::Shape)?, part))
}

fn checksum(body: &str) -> [u8; CHECKSUM_LENGTH] {
    base62::encode(crc32fast::hash(body.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(seed: u8) -> ApiKey {
        let environment = if seed.is_multiple_of(2) { "live" } else { "t" };
        ApiKey::generate(
            &mut rand::rng(),
            KeyId::generate(i64::from(seed) << 30),
            &environment.parse().expect("a good environment"),
        )
    }

    #[test]
    fn the_secret_appears_in_no_debug_output() {
        let key = key(0);
        let parsed = ApiKey::parse(key.expose()).expect("parses");
        let printed = format!("{key:?} {parsed:?} {:?}", parsed.secret_hash());
        assert!(!printed.contains(parsed.secret), "{printed}");
        assert!(!printed.contains(&parsed.secret_hash().to_hex()), "{printed}");
    }

    #[test]
    fn a_hash_verifies_its_own_secret_and_no_other() {
        let (one, other) = (key(0), key(0));
        let one = ApiKey::parse(one.expose()).expect("parses");
        let other = ApiKey::parse(other.expose()).expect("parses");
        let stored: SecretHash = one.secret_hash().to_hex().parse().expect("hexadecimal");
        assert!(stored.verify(&one));
        assert!(!stored.verify(&other));
    }

    #[test]
    fn a_key_id_of_more_than_128_bits_is_refused() {
        let body = format!("sg_live_{}_{}", "z".repeat(ID_LENGTH), "0".repeat(SECRET_LENGTH));
        let text = format!("{body}_{}", String::from_utf8_lossy(&checksum(&body)));
        assert_eq!(ApiKey::parse(&text).expect_err("overflows"), KeyFormatError::Shape);
    }

    proptest! {
        #[test]
        fn a_key_reads_back(seed: u8) {
            let key = key(seed);
            let parsed = ApiKey::parse(key.expose()).expect("parses");
            prop_assert_eq!(parsed.id(), key.id());
            prop_assert_eq!(parsed.environment(), if seed % 2 == 0 { "live" } else { "t" });
        }

        #[test]
        fn a_key_with_one_changed_character_is_refused(
            seed: u8, at: prop::sample::Index, with in "[0-9A-Za-z_]|\\PC",
        ) {
            let key = key(seed);
            let text = key.expose();
            let at = at.index(text.len());
            let changed = format!("{}{with}{}", &text[..at], &text[at + 1..]);
            prop_assume!(changed != text);
            prop_assert!(ApiKey::parse(&changed).is_err());
        }

        #[test]
        fn a_key_that_lost_or_gained_a_character_is_refused(
            seed: u8, at: prop::sample::Index, extra in "[0-9A-Za-z_]",
        ) {
            let key = key(seed);
            let text = key.expose();
            let at = at.index(text.len());
            let shorter = format!("{}{}", &text[..at], &text[at + 1..]);
            prop_assert!(ApiKey::parse(&shorter).is_err());
            let longer = format!("{}{extra}{}", &text[..at], &text[at..]);
            prop_assert!(ApiKey::parse(&longer).is_err());
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*|(sg)?(_[a-zA-Z0-9\u{e9}]{0,50}){0,6}") {
            let _ = ApiKey::parse(&text);
        }
    }
}
