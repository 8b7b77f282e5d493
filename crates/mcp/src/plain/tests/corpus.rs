//! Requests by rule: plain ones, ones that break exactly one rule, and ones that are merely unusual.

use http::Method;

use super::Sent;

const VERSION: &str = "mcp-protocol-version";
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;

/// Tools with arguments that reach every kind of result.
const CALLS: &[(&str, &str)] = &[
    ("echo", r#"{"text":"hello"}"#),
    ("echo", r#"{"text":"a \"quoted\" \\ \u00e9 \ud83d\ude00 text","times":3}"#),
    ("echo", r#"{"text":"more than asked for","other":[1,{"a":null}]}"#),
    ("echo", r#"{"times":3}"#),
    ("echo", r#"{"text":7}"#),
    ("echo", r#"{"text":"first","text":"second"}"#),
    ("sum", r#"{"numbers":[1,2.5,-3e2]}"#),
    ("sum", r#"{"numbers":[18446744073709551616,9007199254740993,-0]}"#),
    ("list", r#"{"numbers":[]}"#),
    ("list", r#"{"numbers":[1,2]}"#),
    ("fail", r#"{"text":"no such dataset"}"#),
    ("panic", "{}"),
    ("strict", r#"{"text":"x","times":256}"#),
    ("strict", r#"{"text":"x","times":2}"#),
];

/// The ids that a caller may use.
const IDS: &[&str] = &["1", "0", "-7", "9223372036854775807", r#""a-1""#, r#""""#, r#""\u0041 \" é""#, r#""12""#];

fn legacy_headers(version: Option<&str>) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("accept", "application/json, text/event-stream".to_owned()),
    ];
    headers.extend(version.map(|version| (VERSION, version.to_owned())));
    headers
}

/// A legacy call.
pub(super) fn legacy(id: &str, tool: &str, arguments: &str) -> Sent {
    Sent {
        method: Method::POST,
        headers: legacy_headers(Some("2025-11-25")),
        body: format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        )
        .into_bytes(),
    }
}

/// A call of 2026-07-28.
pub(super) fn modern(id: &str, tool: &str, arguments: &str) -> Sent {
    let mut headers = legacy_headers(Some("2026-07-28"));
    headers.push(("mcp-method", "tools/call".to_owned()));
    headers.push(("mcp-name", tool.to_owned()));
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},{META}}}}}"#
    );
    Sent { method: Method::POST, headers, body: body.into_bytes() }
}

/// Calls that break no rule.
pub(super) fn plain() -> Vec<Sent> {
    let mut all = Vec::new();
    for (tool, arguments) in CALLS {
        all.extend([legacy("1", tool, arguments), modern("1", tool, arguments)]);
    }
    for id in IDS {
        all.extend([legacy(id, "echo", r#"{"text":"x"}"#), modern(id, "echo", r#"{"text":"x"}"#)]);
    }
    for version in [None, Some("2024-11-05"), Some("2025-03-26"), Some("2025-06-18"), Some("2025-11-25")] {
        all.push(Sent { headers: legacy_headers(version), ..legacy("1", "list", r#"{"numbers":[1]}"#) });
    }
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"panic"}}"#,
        r#"{"params":{"arguments":{"text":"x"},"name":"echo"},"method":"tools/call","id":1,"jsonrpc":"2.0"}"#,
        " \n{ \"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"tools/call\" , \"params\" : { \"name\" : \"echo\" , \"arguments\" : { \"text\" : \"x\" } } }\r\n",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"\u0065cho","arguments":{"text":"x"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"progressToken":"p","traceparent":"00-1-2-01"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"sluicegate/attempt":2,"sluicegate/idempotencyKey":"k"}}}"#,
    ] {
        all.push(Sent { body: body.into(), ..legacy("1", "echo", "{}") });
    }
    for accept in ["text/event-stream,application/json", "Application/JSON , */*, TEXT/event-stream"] {
        let mut sent = legacy("1", "echo", r#"{"text":"x"}"#);
        set(&mut sent, "accept", Some(accept));
        all.push(sent);
    }
    for content_type in ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json ;x"] {
        let mut sent = modern("1", "echo", r#"{"text":"x"}"#);
        set(&mut sent, "content-type", Some(content_type));
        all.push(sent);
    }
    // Without sessions the header means nothing.
    let mut sent = legacy("1", "echo", r#"{"text":"x"}"#);
    sent.headers.push(("mcp-session-id", "left over".to_owned()));
    all.push(sent);
    all
}

/// Calls each of which breaks one rule, which it names.
pub(super) fn broken() -> Vec<(&'static str, Sent)> {
    let mut all = Vec::new();
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::HEAD, Method::OPTIONS] {
        all.push(("a POST", Sent { method, ..ok_legacy() }));
    }
    for accept in [None, Some(""), Some("*/*"), Some("application/json"), Some("text/event-stream"), Some("a/b")] {
        all.push(("accepts both", with(ok_legacy(), "accept", accept)));
        all.push(("accepts both", with(ok_modern(), "accept", accept)));
    }
    for accept in ["application/json;q=0, text/event-stream", "application/json;q=0.5, text/event-stream;q=1"] {
        all.push(("accepts both, without parameters", with(ok_legacy(), "accept", Some(accept))));
    }
    for content_type in [None, Some("text/plain"), Some("application/jsonx"), Some("")] {
        all.push(("a JSON body", with(ok_legacy(), "content-type", content_type)));
    }
    for version in ["2023-01-01", "2027-01-01", "1.0", "", "2025-11-25 "] {
        all.push(("a known version", with(ok_legacy(), VERSION, Some(version))));
    }
    for (header, value) in [(VERSION, "2025-11-25"), ("accept", "a/b"), ("content-type", "application/json")] {
        let mut sent = ok_legacy();
        sent.headers.push((header, value.to_owned()));
        all.push(("one field", sent));
    }
    for (header, value) in [
        ("mcp-method", None),
        ("mcp-method", Some("tools/list")),
        ("mcp-method", Some("TOOLS/CALL")),
        ("mcp-name", None),
        ("mcp-name", Some("sum")),
        ("mcp-name", Some("Echo")),
        ("mcp-name", Some("=?base64?ZWNobw==?=")),
        ("mcp-name", Some("=?base64?!?=")),
    ] {
        all.push(("headers as the body says", with(ok_modern(), header, value)));
    }
    for header in ["mcp-method", "mcp-name"] {
        let mut sent = ok_modern();
        let again = sent.headers.iter().find(|(name, _)| *name == header).cloned();
        sent.headers.extend(again);
        all.push(("one field", sent));
    }
    all.push(("the version of the header", with(ok_modern(), VERSION, Some("2025-11-25"))));
    all.push(("the version of the header", with(ok_modern(), VERSION, None)));
    all.push(("no inline version before 2026-07-28", with(ok_legacy(), VERSION, Some("2026-07-28"))));
    for (rule, from, to) in BROKEN_BODIES {
        for sent in [ok_legacy(), ok_modern()] {
            let body = String::from_utf8_lossy(&sent.body).replace(from, to);
            if body.as_bytes() != sent.body {
                all.push((rule, Sent { body: body.into_bytes(), ..sent }));
            }
        }
    }
    let mut marked = ok_legacy();
    marked.body.splice(0..0, *b"\xef\xbb\xbf");
    all.push(("JSON without a byte order mark", marked));
    let mut invalid = ok_legacy();
    invalid.body.push(0xff);
    all.push(("UTF-8", invalid));
    all.push(("a tool that needs no peer", legacy("1", "talks", r#"{"text":"x"}"#)));
    all.push(("a tool that is there", legacy("1", "nothing", "{}")));
    all
}

/// Replacements in the body: the rule that is broken, what is replaced, and by what.
const BROKEN_BODIES: &[(&str, &str, &str)] = &[
    ("one object", r#"{"jsonrpc""#, r#"[{"jsonrpc""#),
    ("one object", r#"}}}"#, r#"}}} {}"#),
    ("one object", r#"}}}"#, r#"}}"#),
    ("JSON-RPC 2.0", r#""jsonrpc":"2.0""#, r#""jsonrpc":"1.0""#),
    ("JSON-RPC 2.0", r#""jsonrpc":"2.0","#, ""),
    ("an id", r#""id":1"#, r#""id":null"#),
    ("an id", r#""id":1"#, r#""id":1.0"#),
    ("an id", r#""id":1"#, r#""id":1e2"#),
    ("an id", r#""id":1"#, r#""id":{}"#),
    ("an id", r#""id":1"#, r#""id":[1]"#),
    ("an id", r#""id":1"#, r#""id":true"#),
    ("an id", r#""id":1"#, r#""id":9223372036854775808"#),
    ("an id", r#""id":1,"#, ""),
    ("each member once", r#""id":1"#, r#""id":1,"id":1"#),
    ("each member once", r#""method""#, r#""method":"tools/list","method""#),
    ("each member once", r#""name":"echo""#, r#""name":"sum","name":"echo""#),
    ("each member once", r#""arguments""#, r#""arguments":{},"arguments""#),
    ("no more members", r#""id":1"#, r#""id":1,"extra":1"#),
    ("no more members", r#""id":1"#, r#""id":1,"result":{}"#),
    ("no more members", r#""name":"echo""#, r#""name":"echo","task":{}"#),
    ("no more members", r#""name":"echo""#, r#""name":"echo","inputResponses":{}"#),
    ("no more members", r#""name":"echo""#, r#""name":"echo","requestState":"s""#),
    ("tools/call", "tools/call", "tools/list"),
    ("tools/call", "tools/call", "Tools/Call"),
    ("a name", r#""name":"echo","#, ""),
    ("a name", r#""name":"echo""#, r#""name":7"#),
    ("arguments are an object", r#"{"text":"x"}"#, r#"["x"]"#),
    ("arguments are an object", r#"{"text":"x"}"#, "7"),
    ("metadata is an object", r#""name":"echo""#, r#""name":"echo","_meta":[]"#),
    ("metadata once", r#""_meta""#, r#""_meta":{},"_meta""#),
    ("a version in the metadata", "io.modelcontextprotocol/protocolVersion", "protocolVersion"),
    ("a version in the metadata", r#"Version":"2026-07-28""#, r#"Version":"2026-07-29""#),
    ("a version in the metadata", r#"Version":"2026-07-28""#, r#"Version":7"#),
    ("capabilities in the metadata", "io.modelcontextprotocol/clientCapabilities", "capabilities"),
    ("capabilities that decode", r#"{"elicitation":{}}"#, r#"7"#),
    ("capabilities that decode", r#"{"elicitation":{}}"#, r#"{"elicitation":7}"#),
];

/// Whatever else a careful sender would not send; recognised or not.
pub(super) fn unusual() -> Vec<Sent> {
    let mut all = Vec::new();
    let nested = |depth: usize| format!(r#"{{"text":"x","deep":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let wide = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
    for arguments in [
        r#"{"text":"\u0000\u001f\ud800"}"#,
        r#"{"text":"\udc00\ud800"}"#,
        r#"{"text":null}"#,
        r#"{"text":"x","times":-1}"#,
        r#"{"text":"x","times":1e1}"#,
        r#"{"text":"x","times":10.0}"#,
        r#"{"text":"x","times":1e400}"#,
        r#"{"text":"x","times":123456789012345678901234567890}"#,
        r#"{"":"","text":"x"}"#,
        "null",
        &wide,
        &nested(50),
        &nested(123),
        &nested(124),
        &nested(125),
        &nested(126),
        &nested(127),
        &nested(200),
    ] {
        for tool in ["echo", "strict", "sum"] {
            all.extend([legacy("1", tool, arguments), modern("1", tool, arguments)]);
        }
    }
    for member in [
        r#""a":"\ud800""#,
        r#""a":1e400"#,
        r#""\ud800":1"#,
        r#""a":{"b":[true,null,-1,1.5,"\u00e9"]}"#,
        r#""a":1,"a":2"#,
        r#""sluicegate/attempt":"2""#,
        r#""sluicegate/attempt":1e400"#,
        r#""sluicegate/idempotencyKey":7"#,
        r#""sluicegate/idempotencyKey":"\ud800""#,
        r#""sluicegate/idempotencyKey":"a","sluicegate/idempotencyKey":"b""#,
    ] {
        let mut sent = ok_modern();
        sent.body = String::from_utf8_lossy(&sent.body)
            .replace(r#""_meta":{"#, &format!(r#""_meta":{{{member},"#))
            .into_bytes();
        all.push(sent);
    }
    all
}

fn ok_legacy() -> Sent {
    legacy("1", "echo", r#"{"text":"x"}"#)
}

fn ok_modern() -> Sent {
    modern("1", "echo", r#"{"text":"x"}"#)
}

fn with(mut sent: Sent, header: &'static str, value: Option<&str>) -> Sent {
    set(&mut sent, header, value);
    sent
}

/// Sets a header, or takes it away.
pub(super) fn set(sent: &mut Sent, header: &'static str, value: Option<&str>) {
    sent.headers.retain(|(name, _)| *name != header);
    sent.headers.extend(value.map(|value| (header, value.to_owned())));
}
