//! One look at a JSON-RPC message: its kind, id, tool name, protocol version and attempt, borrowed from the body.
//!
//! The envelope decides what a message is charged for; it never decides whether the message is valid. Whatever it
//! cannot read is [`Kind::Unreadable`] and goes to the protocol engine untouched, and a `tools/call` that the engine
//! reads differently is stopped by [`Passage`](crate::Passage): see `handler.rs`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

mod attempt;
pub(crate) mod exact;
mod meta;
mod sound;

pub use attempt::{Attempt, UnusableKey};
use exact::ExactCall;

/// What a JSON-RPC message asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A `tools/call` request for the tool of this name.
    ToolCall(Cow<'a, str>),
    /// Any other request, by method.
    Request(Cow<'a, str>),
    /// A message without an id: nobody waits for an answer.
    Notification,
    /// A client's answer to a request of ours.
    Response,
    /// Not a single JSON-RPC object that can be read without doubt.
    Unreadable,
}

/// The readable outside of one message.
///
/// ```
/// use sluicegate_mcp::{Envelope, Kind};
///
/// let body = br#"{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"name":"export"}}"#;
/// let envelope = Envelope::read(body);
/// assert_eq!(envelope.kind, Kind::ToolCall("export".into()));
/// assert_eq!(envelope.id.map(|id| id.get()), Some("\"a-1\""));
/// ```
#[derive(Debug, Clone)]
pub struct Envelope<'a> {
    /// What is asked for.
    pub kind: Kind<'a>,
    /// The id as its JSON text (`42` or `"a-1"`), when it is an integer or a string as JSON-RPC 2.0 and MCP demand.
    pub id: Option<&'a RawValue>,
    /// The protocol version that the request's `_meta` names.
    pub protocol_version: Option<Cow<'a, str>>,
    /// What a caller that repeats its calls says of this one.
    pub attempt: Attempt<'a>,
    /// The rest of a `tools/call` that has no member but those that every call has.
    pub(crate) exact: Option<ExactCall<'a>>,
}

impl<'a> Envelope<'a> {
    const UNREADABLE: Self = Self {
        kind: Kind::Unreadable,
        id: None,
        protocol_version: None,
        attempt: Attempt { number: None, key: None },
        exact: None,
    };

    /// Reads the envelope of `body`. Never fails: see [`Kind::Unreadable`].
    #[must_use]
    pub fn read(body: &'a [u8]) -> Self {
        exact::read(body).unwrap_or_else(|| Self::read_any(body))
    }

    /// Reads whatever is no plain call, which is rare.
    fn read_any(body: &'a [u8]) -> Self {
        let Some(message) = object::<Message<'a>>(body) else { return Self::UNREADABLE };
        let id = message.id.filter(|id| is_request_id(id.get()));
        let unreadable = Self { id, ..Self::UNREADABLE };
        let Some(method) = message.method else {
            let answers = message.result.is_some() || message.error.is_some();
            return if answers { Self { kind: Kind::Response, ..unreadable } } else { unreadable };
        };
        if message.id.is_none() {
            return Self { kind: Kind::Notification, ..unreadable };
        }
        let params = match message.params {
            None => Params::default(),
            Some(raw) => match object::<Params<'a>>(raw.get().as_bytes()) {
                Some(params) => params,
                None => return unreadable,
            },
        };
        let kind = match (&*method, params.name) {
            ("tools/call", Some(name)) => Kind::ToolCall(name),
            ("tools/call", None) => return unreadable,
            _ => Kind::Request(method),
        };
        let meta = params.meta.and_then(|raw| object::<Meta<'a>>(raw.get().as_bytes())).unwrap_or_default();
        let attempt = Attempt::of_members(meta.attempt, meta.key);
        Self { kind, id, protocol_version: meta.protocol_version, attempt, exact: None }
    }

    /// Whether this is a `tools/call`.
    #[must_use]
    pub fn is_tool_call(&self) -> bool {
        matches!(self.kind, Kind::ToolCall(_))
    }

    /// The tool that is called; nobody has checked that there is one of this name.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        match &self.kind {
            Kind::ToolCall(name) => Some(name),
            _ => None,
        }
    }
}

/// Serde reads a struct from an array too, by position; the protocol engine does not, so arrays are refused here.
fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    let first = json.iter().find(|byte| !byte.is_ascii_whitespace())?;
    if *first != b'{' {
        return None;
    }
    serde_json::from_slice(json).ok()
}

fn is_request_id(raw: &str) -> bool {
    raw.starts_with('"') || raw.parse::<i64>().is_ok()
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(rename = "_meta", borrow, default)]
    meta: Option<&'a RawValue>,
}

/// The part of `_meta` that speaks of the protocol (MCP 2026-07-28, request metadata), and our own.
#[derive(Deserialize, Default)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", borrow, default)]
    protocol_version: Option<Cow<'a, str>>,
    #[serde(rename = "sluicegate/attempt", borrow, default)]
    attempt: Option<&'a RawValue>,
    #[serde(rename = "sluicegate/idempotencyKey", borrow, default)]
    key: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(body: &str) -> Kind<'_> {
        Envelope::read(body.as_bytes()).kind
    }

    #[test]
    fn a_tool_call_gives_name_id_and_version() {
        let body = r#"{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"a\u0062","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let envelope = Envelope::read(body.as_bytes());
        assert_eq!(envelope.kind, Kind::ToolCall("ab".into()));
        assert_eq!(envelope.id.map(RawValue::get), Some("42"));
        assert_eq!(envelope.protocol_version.as_deref(), Some("2026-07-28"));
    }

    #[test]
    fn attempt_and_key_are_read_from_plain_calls_and_from_all_others() {
        let long = "x".repeat(256);
        let unusable = Some(Err(UnusableKey));
        for (meta, number, key) in [
            (r#""sluicegate/attempt":3,"sluicegate/idempotencyKey":"k-\u0031""#.to_owned(), Some(3), Some(Ok("k-1"))),
            (r#""sluicegate/idempotencyKey":"k""#.to_owned(), None, Some(Ok("k"))),
            (r#""sluicegate/attempt":0,"sluicegate/idempotencyKey":"""#.to_owned(), None, unusable),
            (r#""sluicegate/attempt":"3","sluicegate/idempotencyKey":"k""#.to_owned(), None, Some(Ok("k"))),
            (r#""sluicegate/attempt":-1,"sluicegate/idempotencyKey":7"#.to_owned(), None, unusable),
            (r#""sluicegate/attempt":1,"sluicegate/idempotencyKey":{}"#.to_owned(), Some(1), unusable),
            (r#""sluicegate/attempt":4294967296,"sluicegate/idempotencyKey":null"#.to_owned(), None, None),
            (format!(r#""sluicegate/attempt":2,"sluicegate/idempotencyKey":"{long}""#), Some(2), unusable),
        ] {
            // A member that no plain call has leads to the general way of reading.
            for more in ["", r#","requestState":"s""#] {
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28",{meta}}}{more}}}}}"#
                );
                let envelope = Envelope::read(body.as_bytes());
                assert_eq!(envelope.attempt.number, number, "{body}");
                assert_eq!(envelope.attempt.key, key.map(|key| key.map(Cow::from)), "{body}");
                assert_eq!(envelope.protocol_version.as_deref(), Some("2026-07-28"), "{body}");
            }
            let engine = serde_json::from_str(&format!("{{{meta}}}")).expect("an object");
            assert_eq!(Attempt::of_meta(&engine), Attempt { number, key: key.map(|key| key.map(Cow::from)) }, "{meta}");
        }
    }

    #[test]
    fn other_messages_are_told_apart() {
        assert_eq!(kind(r#"{"id":1,"method":"tools/list"}"#), Kind::Request("tools/list".into()));
        assert_eq!(kind(r#"{"method":"notifications/initialized"}"#), Kind::Notification);
        assert_eq!(kind(r#"{"id":1,"result":{}}"#), Kind::Response);
    }

    #[test]
    fn what_two_parsers_could_read_differently_is_unreadable() {
        for body in [
            "",
            "nonsense",
            "[]",
            r#"[{"id":1,"method":"tools/call","params":{"name":"x"}}]"#,
            r#"{"id":1,"method":"tools/call","params":["x"]}"#,
            r#"{"id":1,"method":"tools/call","params":{"name":"x","name":"y"}}"#,
            r#"{"id":1,"method":"tools/list","method":"tools/call","params":{"name":"x"}}"#,
            r#"{"id":1,"method":"tools/call","params":{"name":"x"},"params":{"name":"y"}}"#,
            r#"{"id":1,"method":"tools/call","params":{"name":7}}"#,
            r#"{"id":1,"method":"tools/call"}"#,
            r#"{"id":1,"method":"tools/call","params":{"name":"x"}} trailing"#,
        ] {
            assert_eq!(kind(body), Kind::Unreadable, "{body}");
        }
    }

    #[test]
    fn only_integer_and_string_ids_are_echoed() {
        for (id, echoed) in [("7", true), ("-1", true), ("\"x\"", true), ("1.5", false), ("true", false), ("{}", false)]
        {
            let body = format!(r#"{{"id":{id},"method":"ping"}}"#);
            assert_eq!(Envelope::read(body.as_bytes()).id.is_some(), echoed, "{id}");
        }
    }
}
