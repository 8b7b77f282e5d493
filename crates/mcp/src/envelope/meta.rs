//! The members of a request's `_meta` that matter to its reading (MCP 2026-07-28, "Request metadata"), and our own.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::attempt::Attempt;
use super::sound::Sound;

/// What `_meta` says about the request; it may hold anything else beside.
#[derive(Debug, Default)]
pub(super) struct Meta<'a> {
    pub(super) protocol_version: Option<Cow<'a, str>>,
    pub(super) capabilities: Option<&'a RawValue>,
    pub(super) attempt: Attempt<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Meta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader(PhantomData))
    }
}

struct Reader<'a>(PhantomData<Meta<'a>>);

impl<'de: 'a, 'a> Visitor<'de> for Reader<'a> {
    type Value = Meta<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Meta<'a>, A::Error> {
        let mut meta = Meta::default();
        let (mut number, mut key) = (None, None);
        while let Some(member) = members.next_key::<Member>()? {
            match member {
                Member::ProtocolVersion if meta.protocol_version.is_none() => {
                    meta.protocol_version = Some(members.next_value::<Text<'_>>()?.0);
                }
                Member::ClientCapabilities if meta.capabilities.is_none() => {
                    meta.capabilities = Some(members.next_value()?);
                }
                Member::Attempt if number.is_none() => number = Some(members.next_value()?),
                Member::IdempotencyKey if key.is_none() => key = Some(Some(members.next_value::<Text<'_>>()?.0)),
                Member::Other => {
                    members.next_value::<Sound>()?;
                }
                Member::ProtocolVersion | Member::ClientCapabilities | Member::Attempt | Member::IdempotencyKey => {
                    return Err(A::Error::custom("a member stands there twice"));
                }
            }
        }
        Ok(Meta { attempt: Attempt::new(number, key), ..meta })
    }
}

#[derive(serde::Deserialize)]
#[serde(field_identifier)]
enum Member {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    ProtocolVersion,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    ClientCapabilities,
    #[serde(rename = "sluicegate/attempt")]
    Attempt,
    #[serde(rename = "sluicegate/idempotencyKey")]
    IdempotencyKey,
    #[serde(other)]
    Other,
}

/// A text, borrowed unless it holds escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
