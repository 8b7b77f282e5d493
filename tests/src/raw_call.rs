//! A call as the bytes of one HTTP request, for whoever sends it many times and measures what that costs.

use std::net::SocketAddr;

use crate::client::Era;

/// What calls may give as their argument `text`.
pub const TEXT: &str = "hello from the bench";

/// A call of a tool that takes one `text`, which needs no escapes, on a connection that stays open.
#[must_use]
pub fn raw_call(address: SocketAddr, key: Option<&str>, tool: &str, era: Era, text: &str) -> Vec<u8> {
    let (headers, meta) = match era {
        Era::Legacy => (String::new(), ""),
        Era::Modern => (
            format!("Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"),
            concat!(
                r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
                r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"#,
                r#""io.modelcontextprotocol/clientCapabilities":{}}"#
            ),
        ),
    };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{text}"}}{meta}}}}}"#
    );
    let revision = era.revision();
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\n{key}MCP-Protocol-Version: {revision}\r\n{headers}Content-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
