//! A refusal as an HTTP response: status, fields and JSON-RPC body, all from one report.

use std::sync::Arc;

use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::json::{Object, member};
use super::report::{MODERN, Report};
use super::style::CompatibilityList;
use super::{Refusal, fields};
use crate::settings::{RefusalCode, RefusalStyle};
use crate::token::resource::Resource;

/// The response field of our correlation id.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The peer as far as it decides how a refusal looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer<'a> {
    /// The JSON-RPC id to echo, if it could be read.
    pub(crate) id: Option<&'a RawValue>,
    /// The protocol version of the request.
    pub(crate) version: Option<&'a str>,
    /// The `User-Agent`.
    pub(crate) user_agent: &'a str,
    /// Whether the request is a `tools/call`.
    pub(crate) is_tool_call: bool,
}

/// How this server words refusals, from its settings.
#[derive(Debug)]
pub(crate) struct Wording {
    pub(crate) style: RefusalStyle,
    pub(crate) code: RefusalCode,
    pub(crate) compatibility: CompatibilityList,
    /// Where tokens are accepted: what is said of where to get one.
    pub(crate) resource: Option<Arc<Resource>>,
}

impl Wording {
    /// Status and body of a refusal for a peer. `tenant_style` is the tenant's own setting.
    pub(crate) fn render(
        &self,
        refusal: &Refusal,
        peer: Peer<'_>,
        tenant_style: Option<RefusalStyle>,
        request_id: &str,
    ) -> (StatusCode, Bytes) {
        let report = refusal.report(self.code, peer.version, request_id);
        let (status, body) = match self.style(refusal, peer, tenant_style) {
            RefusalStyle::ToolResult => (200, tool_result(&report, peer)),
            RefusalStyle::Jsonrpc => (200, json_rpc_error(&report, peer.id)),
            RefusalStyle::Http | RefusalStyle::Auto => (report.status, json_rpc_error(&report, peer.id)),
        };
        (StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), body)
    }

    /// What would be needed to be let in (RFC 6750, section 3). `host` is the `host:port` that was addressed.
    pub(crate) fn challenge<'a>(
        &self,
        refusal: &Refusal,
        host: impl FnOnce() -> Option<&'a str>,
    ) -> Option<HeaderValue> {
        let (error, scope) = match refusal {
            Refusal::Unauthenticated(_) => (None, None),
            Refusal::InvalidToken(_) => (Some("invalid_token"), None),
            Refusal::InsufficientScope(scope) => (Some("insufficient_scope"), Some(&**scope)),
            _ => return None,
        };
        Some(match (&self.resource, error) {
            (Some(resource), _) => resource.challenge(host(), error, scope),
            (None, None) => HeaderValue::from_static("Bearer realm=\"sluicegate\""),
            (None, Some(_)) => HeaderValue::from_static("Bearer realm=\"sluicegate\", error=\"invalid_token\""),
        })
    }

    /// Only what a limit refused has a style, and an answer without an id never has the status 200: clients that wait
    /// for their id would wait for ever.
    fn style(&self, refusal: &Refusal, peer: Peer<'_>, tenant_style: Option<RefusalStyle>) -> RefusalStyle {
        if peer.id.is_none() || !matches!(refusal, Refusal::Throttled(_)) {
            return RefusalStyle::Http;
        }
        match tenant_style.unwrap_or(self.style) {
            RefusalStyle::Auto => self.compatibility.style(peer.user_agent, peer.version),
            RefusalStyle::ToolResult if !peer.is_tool_call => RefusalStyle::Jsonrpc,
            style => style,
        }
    }
}

impl Refusal {
    /// Writes the fields that go with status and body. `challenge` says what would be needed to be let in.
    pub(crate) fn write_fields(&self, headers: &mut HeaderMap, challenge: Option<HeaderValue>) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_seconds().and_then(fields::number) {
            headers.insert(header::RETRY_AFTER, seconds);
        }
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Self::Throttled(throttled) = self {
            throttled.fields.write(headers);
        }
    }
}

/// A refusal of what is not MCP.
pub(crate) fn in_plain_words(refusal: &Refusal) -> Response<Bytes> {
    let report = refusal.report(RefusalCode::Auto, None, "");
    let mut response = Response::new(Bytes::from(report.sentence() + "\n"));
    *response.status_mut() = StatusCode::from_u16(report.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if let Some(seconds) = refusal.retry_after_seconds() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Enough for nearly every refusal, so that its body is written without growing.
const BODY_BYTES: usize = 1_024;

fn json_rpc_error(report: &Report<'_>, id: Option<&RawValue>) -> Bytes {
    message(id, |message| message.object(member!("error"), |error| report.error(error)))
}

/// The data is in `_meta`: `structuredContent` would be checked against the tool's output schema.
fn tool_result(report: &Report<'_>, peer: Peer<'_>) -> Bytes {
    message(peer.id, |message| {
        message.object(member!("result"), |result| {
            if peer.version.is_some_and(|version| version >= MODERN) {
                result.text(member!("resultType"), "complete");
            }
            result.only_item(member!("content"), |content| {
                content.text(member!("type"), "text");
                content.text_of(member!("text"), |text| report.message(text));
            });
            result.boolean(member!("isError"), true);
            result
                .object(member!("_meta"), |meta| meta.object(member!("sluicegate/refusal"), |data| report.data(data)));
        });
    })
}

/// A JSON-RPC message about a refusal. An id that could not be read is left out: the schema of MCP has no null id.
fn message(id: Option<&RawValue>, rest: impl FnOnce(&mut Object<'_>)) -> Bytes {
    let mut text = String::with_capacity(BODY_BYTES);
    Object::write(&mut text, |message| {
        message.text(member!("jsonrpc"), "2.0");
        if let Some(id) = id {
            message.raw(member!("id"), id.get());
        }
        rest(message);
    });
    Bytes::from(text)
}
