//! Valid calls with a few random changes.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::Sent;
use super::corpus;

/// One change.
#[derive(Debug, Clone)]
enum Change {
    Nothing,
    Header(&'static str, Option<&'static str>),
    Again(&'static str, &'static str),
    /// The first text becomes the second, where it stands.
    Text(&'static str, &'static str),
    Insert(Index, &'static str),
    Remove(Index, usize),
    Byte(Index, u8),
}

const HEADERS: &[&str] = &[
    "accept",
    "content-type",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "mcp-session-id",
    "mcp-param-text",
    "user-agent",
];

const VALUES: &[&str] = &[
    "application/json",
    "text/event-stream, application/json",
    "application/json;q=0.1, text/event-stream",
    "*/*",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
    "2026-07-29",
    "tools/call",
    "tools/list",
    "echo",
    "sum",
    "=?base64?ZWNobw==?=",
    "",
    " echo ",
    "python-httpx/0.27",
];

const TEXTS: &[(&str, &str)] = &[
    ("\"id\"", "\"ID\""),
    ("\"id\"", "\"id\":2,\"id\""),
    ("\"echo\"", "\"sum\""),
    ("\"echo\"", "\"\\u0065cho\""),
    ("\"arguments\"", "\"argument\""),
    ("\"text\"", "\"text\":\"y\",\"text\""),
    ("\"text\"", "\"numbers\""),
    ("2026-07-28", "2025-11-25"),
    ("2025-11-25", "2026-07-28"),
    ("tools/call", "tools\\/call"),
    ("{}", "null"),
    ("{}", "{\"roots\":{\"listChanged\":true},\"x\":1}"),
    ("\"_meta\":{", "\"_meta\":{\"progressToken\":1,"),
    ("\"name\"", "\"_meta\":{},\"name\""),
];

const PIECES: &[&str] =
    &[" ", "\n", ",", "{", "}", "[", "]", "\"", "\\", "\\u00e9", "null", "1", "-", "e9", "\"a\":1,", "é", "\u{feff}"];

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => Just(Change::Nothing),
        2 => (select(HEADERS), proptest::option::of(select(VALUES))).prop_map(|(name, value)| Change::Header(name, value)),
        1 => (select(HEADERS), select(VALUES)).prop_map(|(name, value)| Change::Again(name, value)),
        3 => select(TEXTS).prop_map(|(from, to)| Change::Text(from, to)),
        2 => (any::<Index>(), select(PIECES)).prop_map(|(at, piece)| Change::Insert(at, piece)),
        1 => (any::<Index>(), 1_usize..4).prop_map(|(at, length)| Change::Remove(at, length)),
        1 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
    ]
}

fn apply(sent: &mut Sent, change: &Change) {
    let length = sent.body.len();
    match change {
        Change::Nothing => {}
        Change::Header(name, value) => corpus::set(sent, name, *value),
        Change::Again(name, value) => sent.headers.push((name, (*value).to_owned())),
        Change::Text(from, to) => {
            sent.body = String::from_utf8_lossy(&sent.body).replacen(from, to, 1).into_bytes();
        }
        Change::Insert(at, piece) => {
            let at = at.index(length + 1);
            sent.body.splice(at..at, piece.bytes());
        }
        Change::Remove(at, count) if length > *count => {
            let at = at.index(length - count);
            sent.body.drain(at..at + count);
        }
        Change::Byte(at, byte) if length > 0 => sent.body[at.index(length)] = *byte,
        Change::Remove(..) | Change::Byte(..) => {}
    }
}

/// Numbers, texts and nested values as JSON.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        any::<f64>().prop_map(|value| if value.is_finite() { format!("{value:e}") } else { "0".to_owned() }),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((any::<String>(), inner), 0..4).prop_map(|members| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(key, value)| format!("{}:{value}", serde_json::Value::from(key.as_str())))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|id| id.to_string()),
        any::<String>().prop_map(|id| serde_json::Value::from(id).to_string()),
    ]
}

/// A call, changed up to three times.
pub(super) fn mutated() -> impl Strategy<Value = Sent> {
    let tool = select(&["echo", "sum", "list", "fail", "strict", "talks", "none"][..]);
    let arguments = prop_oneof![
        any::<String>().prop_map(|text| format!(r#"{{"text":{}}}"#, serde_json::Value::from(text))),
        proptest::collection::vec(any::<i32>(), 0..4).prop_map(|numbers| format!(r#"{{"numbers":{numbers:?}}}"#)),
        json(),
    ];
    (any::<bool>(), id(), tool, arguments, proptest::collection::vec(change(), 0..3)).prop_map(
        |(is_modern, id, tool, arguments, changes)| {
            let make = if is_modern { corpus::modern } else { corpus::legacy };
            let mut sent = make(&id, tool, &arguments);
            changes.iter().for_each(|change| apply(&mut sent, change));
            sent
        },
    )
}
