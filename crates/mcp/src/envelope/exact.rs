//! A `tools/call` that has no member but those that every call has, read in one pass.
//!
//! Nearly all messages are of this form. Anything else, however small the difference, is read the general way.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::meta::Meta;
use super::{Envelope, Kind, is_request_id};

/// What an exact call holds beyond its name and id.
#[derive(Debug, Clone)]
pub(crate) struct ExactCall<'a> {
    /// The arguments as they were sent.
    pub(crate) arguments: Option<&'a RawValue>,
    /// What the caller says in `_meta` that it can do.
    pub(crate) capabilities: Option<&'a RawValue>,
}

/// Reads `body`, if it is of the exact form.
pub(super) fn read(body: &[u8]) -> Option<Envelope<'_>> {
    let text = std::str::from_utf8(body).ok()?;
    let ObjectOnly(message) = serde_json::from_str::<ObjectOnly<Message<'_>>>(text).ok()?;
    let ObjectOnly(params) = message.params;
    let meta = params.meta.unwrap_or_default();
    if message.jsonrpc != "2.0" || message.method != "tools/call" || !is_request_id(message.id.get()) {
        return None;
    }
    Some(Envelope {
        kind: Kind::ToolCall(params.name),
        id: Some(message.id),
        protocol_version: meta.protocol_version,
        attempt: meta.attempt,
        exact: Some(ExactCall { arguments: params.arguments, capabilities: meta.capabilities }),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: ObjectOnly<Params<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "_meta", borrow, default)]
    meta: Option<Meta<'a>>,
}

/// A struct from an object. Serde reads a struct from an array too, by position; the protocol engine does not.
struct ObjectOnly<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ObjectOnly<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = ObjectOnly<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(ObjectOnly)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{"x":1}}}"#;

    #[test]
    fn a_plain_call_is_read_in_one_pass() {
        let envelope = read(PLAIN.as_bytes()).expect("it is exact");
        assert_eq!(envelope.kind, Kind::ToolCall("a".into()));
        assert_eq!(envelope.id.map(RawValue::get), Some("7"));
        let exact = envelope.exact.expect("it is exact");
        assert_eq!(exact.arguments.map(RawValue::get), Some(r#"{"x":1}"#));
    }

    #[test]
    fn metadata_gives_version_and_capabilities_and_may_hold_more() {
        let body = PLAIN.replace(
            r#""name":"a","#,
            r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1,"io.modelcontextprotocol/clientCapabilities":{}},"name":"a","#,
        );
        let envelope = read(body.as_bytes()).expect("it is exact");
        assert_eq!(envelope.protocol_version.as_deref(), Some("2026-07-28"));
        assert_eq!(envelope.exact.and_then(|exact| exact.capabilities).map(RawValue::get), Some("{}"));
    }

    #[test]
    fn anything_more_or_less_is_not_exact() {
        for (from, to) in [
            (r#""id":7,"#, ""),
            (r#""id":7"#, r#""id":null"#),
            (r#""id":7"#, r#""id":1.5"#),
            (r#""id":7"#, r#""id":7,"id":8"#),
            (r#""jsonrpc":"2.0""#, r#""jsonrpc":"1.0""#),
            (r#""jsonrpc":"2.0","#, ""),
            ("tools/call", "tools/list"),
            (r#"{"name":"a","arguments":{"x":1}}"#, r#"["a",{"x":1}]"#),
            (r#"{"name":"a","arguments":{"x":1}}"#, r#"{"name":"a","name":"b"}"#),
            (r#""name":"a""#, r#""name":"a","task":{}"#),
            (r#""name":"a""#, r#""name":"a","requestState":"x""#),
            (r#""name":"a""#, r#""name":"a","_meta":7"#),
            (r#""name":"a""#, r#""name":"a","_meta":[]"#),
            (r#""name":"a""#, r#""name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":7}"#),
            (r#""method""#, r#""result":{},"method""#),
            ("}}}", "}}} x"),
        ] {
            let body = PLAIN.replace(from, to);
            assert_ne!(body, PLAIN, "{from}");
            assert!(read(body.as_bytes()).is_none(), "{body}");
        }
        assert!(read(b"[]").is_none() && read(b"").is_none() && read(b"\xef\xbb\xbf{}").is_none());
    }
}
