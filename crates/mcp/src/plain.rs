//! The short path: a plain `tools/call` is recognised and answered here, everything else by rmcp.
//!
//! rmcp spawns a task, opens a channel and parses every message several times. Nearly all traffic is one sort of request
//! that needs none of this. It is recognised by [`Recogniser::recognise`], whose rules are stricter than the protocol's:
//! what breaks one of them, every error included, is rmcp's to answer. So the short path never interprets the protocol, and
//! a test sends both paths the same requests and compares the answers.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use http_body_util::Full;
use rmcp::model::{
    ClientCapabilities, JsonObject, JsonRpcError, JsonRpcResponse, JsonRpcVersion2_0, ProtocolVersion, RequestId,
    ServerResult,
};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::admitted::Admitted;
use crate::call::Call;
use crate::call_scope::{run, scope};
use crate::envelope::Envelope;
use crate::replay::{Replays, once};
use crate::sessions::MCP_SESSION_ID;
use crate::tool::Tool;

const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Enough for a short answer, so that its body is written without growing.
const BODY_BYTES: usize = 512;
const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Tells plain calls from all other requests.
pub(crate) struct Recogniser {
    /// Whether the server speaks 2026-07-28 with its peers; an author's handler may not.
    speaks_modern: bool,
    /// Whether peers before 2026-07-28 have sessions.
    has_sessions: bool,
    decodable: Decodable,
}

/// A request that was recognised.
#[derive(Debug)]
pub struct PlainCall {
    id: RequestId,
    arguments: JsonObject,
    era: Era,
}

/// Before 2026-07-28 requests follow a handshake; from then on each one says everything about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

impl Recogniser {
    pub(crate) fn new(speaks_modern: bool, has_sessions: bool) -> Self {
        Self { speaks_modern, has_sessions, decodable: Decodable::default() }
    }

    /// Recognises a plain call of `tool`, or leaves the request to rmcp.
    ///
    /// | rule | of the MCP specification |
    /// |---|---|
    /// | a POST that accepts both JSON and event streams, with a JSON body | Streamable HTTP, "Sending messages to the server" |
    /// | one JSON-RPC request `tools/call` with name, arguments, `_meta` and nothing else; the id is an integer or a string | Basic protocol, "Requests"; Tools, "Calling tools" |
    /// | no session, where there could be one | Streamable HTTP, "Session management" (up to 2025-11-25) |
    /// | at most one `MCP-Protocol-Version`, of a known revision | Streamable HTTP, "Protocol version header" |
    /// | up to 2025-11-25: no version in `_meta` | (a version there is inline negotiation, of 2026-07-28) |
    /// | from 2026-07-28: `_meta` names the same version and decodable client capabilities | Basic protocol, "Request metadata" |
    /// | from 2026-07-28: exactly one `Mcp-Method` and `Mcp-Name`, both as in the body and unencoded | Streamable HTTP, "Standard headers" |
    /// | the tool talks to no peer while it runs, and none of its arguments has a header | Streamable HTTP, "Custom headers from tool parameters" |
    pub(crate) fn recognise(&self, parts: &Parts, envelope: &Envelope<'_>, tool: &Tool) -> Option<PlainCall> {
        let exact = envelope.exact.as_ref()?;
        let headers = &parts.headers;
        let common = tool.is_plain() && parts.method == Method::POST && accepts_both(headers) && sends_json(headers);
        if !common || (self.has_sessions && headers.contains_key(&MCP_SESSION_ID)) {
            return None;
        }
        let era = match (version(headers)?, envelope.protocol_version.as_deref()) {
            (Era::Legacy, None) if !self.has_sessions => Era::Legacy,
            (Era::Modern, Some(named)) if self.speaks_modern && named == ProtocolVersion::V_2026_07_28.as_str() => {
                let agree = is_only(headers, &MCP_METHOD, "tools/call") && is_only(headers, &MCP_NAME, tool.name());
                (agree && self.decodable.contains(exact.capabilities?)).then_some(Era::Modern)?
            }
            _ => return None,
        };
        let arguments = match exact.arguments {
            Some(raw) if is_shallow(raw.get()) => serde_json::from_str(raw.get()).ok()?,
            Some(_) => return None,
            None => JsonObject::new(),
        };
        Some(PlainCall { id: request_id(envelope.id?)?, arguments, era })
    }
}

impl PlainCall {
    /// Runs the call and renders the answer as rmcp does: the same types, serialised the same way. Its fields are put into
    /// `headers`.
    pub(crate) async fn answer(
        self,
        tool: &Tool,
        admitted: Admitted,
        replays: &Replays,
        mut headers: HeaderMap,
    ) -> Response<Full<Bytes>> {
        let Self { id, arguments, era } = self;
        let keyed = replays.keyed(tool, &admitted, Some(&arguments));
        let work = |context| once(keyed, || run(tool, Call::new(arguments, context)));
        // Whoever goes away drops this future, which ends the call's scope.
        let body = match scope(tool.name(), admitted, None, None, work).await {
            Ok(response) => {
                let mut result = ServerResult::from(response);
                if era == Era::Legacy {
                    result.strip_result_type_for_legacy_peer();
                    result.strip_non_object_output_for_legacy_peer();
                }
                written(&JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result: &result })
            }
            Err(error) => written(&JsonRpcError::new(Some(id), error)),
        };
        headers.insert(header::CONTENT_TYPE, APPLICATION_JSON);
        let mut response = Response::new(Full::from(body));
        *response.headers_mut() = headers;
        response
    }
}

/// A message as JSON. It is made of JSON values, so there is nothing in it that could not be written.
fn written(message: &impl Serialize) -> Vec<u8> {
    let mut body = Vec::with_capacity(BODY_BYTES);
    serde_json::to_writer(&mut body, message).map(|()| body).unwrap_or_default()
}

/// Whether the peer takes JSON and event streams, said in the simplest way: types without parameters, in one field.
fn accepts_both(headers: &HeaderMap) -> bool {
    let Some(accept) = only(headers, &header::ACCEPT) else { return false };
    // As nearly every client writes it.
    if accept.as_bytes() == b"application/json, text/event-stream" {
        return true;
    }
    let Ok(accept) = accept.to_str() else { return false };
    let (mut json, mut events) = (false, false);
    for entry in accept.split(',') {
        let media_type = entry.trim();
        json |= media_type.eq_ignore_ascii_case("application/json");
        events |= media_type.eq_ignore_ascii_case("text/event-stream");
    }
    json && events && !accept.contains(['"', ';'])
}

fn sends_json(headers: &HeaderMap) -> bool {
    let Some(content_type) = only(headers, &header::CONTENT_TYPE) else { return false };
    content_type == APPLICATION_JSON
        || content_type.to_str().is_ok_and(|content_type| {
            let essence = content_type.split(';').next().unwrap_or_default();
            essence.trim().eq_ignore_ascii_case("application/json")
        })
}

/// The era that the version header selects; a peer without one is of the oldest kind. `None` for what is not known.
fn version(headers: &HeaderMap) -> Option<Era> {
    let mut named = headers.get_all(&MCP_PROTOCOL_VERSION).iter();
    let named = match (named.next(), named.next()) {
        (None, _) => return Some(Era::Legacy),
        (Some(named), None) => named.as_bytes(),
        _ => return None,
    };
    match ProtocolVersion::KNOWN_VERSIONS.iter().find(|known| known.as_str().as_bytes() == named)? {
        version if *version == ProtocolVersion::V_2026_07_28 => Some(Era::Modern),
        version if *version < ProtocolVersion::V_2026_07_28 => Some(Era::Legacy),
        _ => None,
    }
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value),
        _ => None,
    }
}

fn is_only(headers: &HeaderMap, name: &HeaderName, value: &str) -> bool {
    only(headers, name).is_some_and(|named| named.as_bytes() == value.as_bytes())
}

/// Whether JSON is surely not nested so deeply that it matters how deep the place is where it stands: parsers stop at 128
/// levels. Most texts are too short for that.
fn is_shallow(json: &str) -> bool {
    const ENOUGH: usize = 100;
    // Long ones are long texts, mostly, in which brackets are found faster than they are counted.
    let opens_few = || memchr::memchr2_iter(b'[', b'{', json.as_bytes()).take(ENOUGH).count() < ENOUGH;
    json.len() < ENOUGH || opens_few() || deepest(json) < ENOUGH
}

/// At least the depth of `json`, which may count brackets inside of texts as well.
fn deepest(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in json.bytes() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn request_id(raw: &RawValue) -> Option<RequestId> {
    match raw.get().parse() {
        Ok(number) => Some(RequestId::Number(number)),
        Err(_) => serde_json::from_str::<String>(raw.get()).ok().map(|text| RequestId::String(text.into())),
    }
}

/// Texts of client capabilities that are known to decode. There are as many as there are sorts of clients, and decoding
/// costs as much as all the rest of recognising a call, so the last ones are remembered.
#[derive(Default)]
struct Decodable {
    known: [ArcSwapOption<Box<str>>; 16],
}

impl Decodable {
    /// Longer ones are not worth the memory.
    const MOST_BYTES: usize = 4_096;

    fn contains(&self, capabilities: &RawValue) -> bool {
        let text = capabilities.get();
        if text.len() > Self::MOST_BYTES || !is_shallow(text) {
            return false;
        }
        let place = &self.known[text.len() % self.known.len()];
        if place.load().as_deref().is_some_and(|known| **known == *text) {
            return true;
        }
        // In two steps, as rmcp does: it is stricter about members that the type does not know.
        let decodes =
            serde_json::from_str::<Value>(text).is_ok_and(|value| ClientCapabilities::deserialize(value).is_ok());
        if decodes {
            place.store(Some(Arc::new(text.into())));
        }
        decodes
    }
}

#[cfg(test)]
mod tests;
