//! Senders that mean no good, or know no better: each gets an answer, nobody else notices, nothing grows.

use std::time::Duration;

use serde_json::json;
use sluicegate_tests::{Client, Database, Era, TestServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What `server` answers to these bytes, up to its close or to half a second of silence.
async fn answer(server: &TestServer, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).await.expect("it connects");
    // It may be refused, and the connection closed, before all of it is sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let mut buffer = [0; 65_536];
    while let Ok(Ok(read)) = tokio::time::timeout(Duration::from_millis(500), stream.read(&mut buffer)).await {
        if read == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// A POST with a key, more header lines and a body.
fn post(server: &TestServer, key: &str, more: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{more}\r\n{body}",
        server.address(),
        body.len()
    )
    .into_bytes()
}

const ECHO: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sort_of_hostile_input_is_answered_and_the_next_call_is_served() {
    let server = TestServer::start(&Database::sqlite().await).await;
    let client = server.client("acme", "u-42").await;
    let key = client.key();
    let big = format!(r#"{{"text":"{}"}}"#, "x".repeat(5 << 20));
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_arguments = ECHO.replace(r#"{"text":"x"}"#, &format!(r#"{{"text":{deep}}}"#));
    let many_headers: String = (0..1_000).map(|at| format!("X-{at}: y\r\n")).collect();
    let long_header = format!("X-Long: {}\r\n", "y".repeat(64 << 10));
    let version = "MCP-Protocol-Version: 2025-11-25\r\n";
    let call = |more: &str, body: &str| post(&server, key, more, body);
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("a body of 5 MB", call("", &big), &["413"]),
        ("10 000 levels of JSON", call("", &deep), &["415"]),
        ("10 000 levels of arguments", call("", &deep_arguments), &["415"]),
        ("1 000 headers", call(&many_headers, ECHO), &["431"]),
        ("a header of 64 KB", call(&long_header, ECHO), &["200", "431"]),
        ("binary garbage", vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0xfc, 0x03, 0x03, 0xff, 0x0a, 0x0d], &["400"]),
        ("an id that is an object", call("", &ECHO.replace(r#""id":1"#, r#""id":{}"#)), &["415"]),
        ("a batch", call("", &format!("[{ECHO},{ECHO}]")), &["415"]),
        ("an unknown method", call("", &ECHO.replace("tools/call", "tools/destroy")), &["200"]),
        ("a notification", call("", r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), &["202"]),
        ("an unknown notification", call("", r#"{"jsonrpc":"2.0","method":"notifications/x"}"#), &["202"]),
        ("an answer that nobody asked for", call("", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), &["400"]),
        ("a wrong version", call("MCP-Protocol-Version: 1\r\n", ECHO), &["400"]),
        ("a version twice", call(&version.repeat(2), ECHO), &["200"]),
        ("two lengths", call("Content-Length: 7\r\n", ECHO), &["400"]),
        ("a length and chunks", call("Transfer-Encoding: chunked\r\n", ECHO), &["200", "400", "415"]),
        ("HTTP/1.0", String::from_utf8_lossy(&call("", ECHO)).replace("HTTP/1.1", "HTTP/1.0").into_bytes(), &["200"]),
        ("HTTP/7", String::from_utf8_lossy(&call("", ECHO)).replace("HTTP/1.1", "HTTP/7.0").into_bytes(), &["400"]),
        ("another method", String::from_utf8_lossy(&call("", ECHO)).replace("POST", "PATCH").into_bytes(), &["405"]),
        ("no key", post(&server, "", "", ECHO), &["401"]),
        ("half a key", post(&server, &key[..20], "", ECHO), &["401"]),
    ];
    for (what, bytes, expected) in cases {
        let answer = answer(&server, &bytes).await;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(answer.starts_with("HTTP/1.") && expected.contains(&status), "{what}: {answer}");
        assert!(client.call("echo", json!({ "text": "x" })).await.is_ok(), "after {what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_calls_are_answered_in_their_order() {
    let server = TestServer::start(&Database::sqlite().await).await;
    let client = server.client("acme", "u-42").await;
    let bodies: Vec<_> = (1..=20).map(|id| ECHO.replace(r#""id":1"#, &format!(r#""id":{id}"#))).collect();
    let bytes: Vec<u8> = bodies.iter().flat_map(|body| post(&server, client.key(), "", body)).collect();
    let answers = answer(&server, &bytes).await;
    let mut from = 0;
    for id in 1..=20 {
        let wanted = format!(r#""id":{id},"#);
        let at = answers[from..].find(&wanted).unwrap_or_else(|| panic!("no answer to {id} in its place: {answers}"));
        from += at + wanted.len();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_in_base64_is_the_name_it_stands_for() {
    let server = TestServer::start(&Database::sqlite().await).await;
    let client = server.client("acme", "u-42").await;
    for (name, status) in [("=?base64?ZWNobw==?=", 200), ("=?base64?ZXhwb3J0?=", 400), ("=?base64?!?=", 400)] {
        let body = Client::call_body(Era::Modern, "echo", json!({ "text": "x" }), json!({}));
        let answer = client.modern("tools/call", name).send(body).await;
        assert_eq!(answer.status, status, "{name}: {answer:?}");
    }
}
