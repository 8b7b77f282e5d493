//! What an answer says about the next attempt, in all the ways in which servers say it.

use std::time::{Duration, SystemTime};

use rmcp::model::{CallToolResult, ErrorData, JsonObject};
use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::{HttpStatusError, StreamableHttpError};
use serde_json::Value;

use super::refusal::{McpRefusal, RefusalScope};
use crate::meta_key;
use crate::retry::{Verdict, told_wait};
use crate::retry_after::RetryAfter;

/// An answer that is no success.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) verdict: Verdict,
    pub(super) refusal: Option<McpRefusal>,
}

/// No answer, or none that says that the tool did not run.
pub(super) const LOST: Reading = Reading { verdict: Verdict::Again { told: None, may_have_run: true }, refusal: None };

const NOT_SENT: Reading = Reading { verdict: Verdict::Again { told: None, may_have_run: false }, refusal: None };
const FINAL: Reading = Reading { verdict: Verdict::Final, refusal: None };

/// Codes that mean a refusal whatever comes with them: what guides for older revisions use, what this server answers to
/// newer ones, what SEP-3304 proposes, and a server that is overloaded or going down.
const REFUSED: [i32; 4] = [-32029, 429, -32023, 503];

/// Reasons that waiting helps against; without a wait that was told, any other is final (`suspended`, `cost_above_limit`).
const PASSING: [&str; 4] = ["rate_limit_exceeded", "concurrency_limit_exceeded", "overloaded", "rate_limited"];

/// Reads a result. `None`: the call came through, whatever the tool made of it.
pub(super) fn result(result: &CallToolResult) -> Option<Reading> {
    if result.is_error != Some(true) {
        return None;
    }
    let text =
        || result.content.iter().find_map(|block| block.as_text()).map(|text| text.text.clone()).unwrap_or_default();
    let meta = result.meta.as_ref().map(|meta| &meta.0);
    if let Some(data) = meta.and_then(|meta| meta.get(meta_key::REFUSAL)).and_then(Value::as_object) {
        return Some(refused(text(), data, false));
    }
    // The tool ran until its upstream refused, so it may have done a part of its work.
    let structured = result.structured_content.as_ref().and_then(Value::as_object);
    let data = [meta, structured]
        .into_iter()
        .flatten()
        .find(|data| data.get("type").is_some_and(|word| word == "rate_limited"));
    data.map(|data| refused(text(), data, true))
}

/// Reads an error.
pub(super) fn error(error: &ServiceError, now: impl FnOnce() -> SystemTime) -> Reading {
    match error {
        ServiceError::McpError(error) => json_rpc(error),
        ServiceError::TransportSend(error) => {
            let error = error.error.as_ref();
            match (error.downcast_ref(), error.downcast_ref::<StreamableHttpError<reqwest::Error>>()) {
                (Some(status), _) | (_, Some(StreamableHttpError::HttpStatus(status))) => http_status(status, now),
                (_, Some(StreamableHttpError::Client(error))) if error.is_connect() => NOT_SENT,
                (
                    _,
                    Some(
                        StreamableHttpError::Client(_)
                        | StreamableHttpError::Io(_)
                        | StreamableHttpError::UnexpectedEndOfStream,
                    ),
                ) => LOST,
                _ => FINAL,
            }
        }
        ServiceError::Timeout { .. } => LOST,
        _ => FINAL,
    }
}

fn json_rpc(error: &ErrorData) -> Reading {
    let none = JsonObject::new();
    let data = error.data.as_ref().and_then(Value::as_object).unwrap_or(&none);
    let known = REFUSED.contains(&error.code.0)
        || data.get("reason").and_then(Value::as_str).is_some_and(|reason| PASSING.contains(&reason));
    // Whoever sends a wait with a code of their own may send it from inside the tool.
    if known || told(data).is_some() { refused(error.message.to_string(), data, !known) } else { FINAL }
}

/// Only the status and `Retry-After` are left of such an answer.
fn http_status(error: &HttpStatusError, now: impl FnOnce() -> SystemTime) -> Reading {
    let told = told_wait(error.retry_after.as_deref(), None, now);
    match error.status {
        429 => {
            let message = "The server refuses more requests (HTTP 429).".to_owned();
            let refusal = McpRefusal { message, retry_after: told, scope: None, reason: None, limit: None };
            Reading { verdict: Verdict::Again { told, may_have_run: false }, refusal: Some(refusal) }
        }
        // A proxy may say so of a request that it has passed on.
        500 | 502 | 503 | 504 => Reading { verdict: Verdict::Again { told, may_have_run: true }, refusal: None },
        _ => FINAL,
    }
}

fn refused(message: String, data: &JsonObject, may_have_run: bool) -> Reading {
    let text = |name: &str| data.get(name).and_then(Value::as_str).map(str::to_owned);
    let scope = match data.get("scope").and_then(Value::as_str) {
        Some("server") => Some(RefusalScope::Server),
        Some("tenant") => Some(RefusalScope::Tenant),
        Some("agent") => Some(RefusalScope::Agent),
        Some("tool") => Some(RefusalScope::Tool),
        _ => None,
    };
    let (told, reason) = (told(data), text("reason"));
    let passes = told.is_some() || reason.as_deref().is_none_or(|reason| PASSING.contains(&reason));
    let verdict = if passes { Verdict::Again { told, may_have_run } } else { Verdict::Final };
    Reading { verdict, refusal: Some(McpRefusal { message, retry_after: told, scope, reason, limit: text("limit") }) }
}

/// A wait under any of the names that are in use; the finest unit first. What is no duration is as if it were missing.
fn told(data: &JsonObject) -> Option<Duration> {
    let millis = ["retry_after_ms", "retryAfterMs"].map(|name| (name, 1e-3));
    let seconds = ["retry_after_seconds", "retryAfterSeconds", "retry_after", "retryAfter"].map(|name| (name, 1.0));
    millis.into_iter().chain(seconds).find_map(|(name, unit)| {
        let value = data.get(name)?;
        let value = value.as_f64().or_else(|| value.as_str()?.parse().ok()).filter(|value| *value >= 0.0)?;
        Some(Duration::try_from_secs_f64(value * unit).unwrap_or(RetryAfter::MAX).min(RetryAfter::MAX))
    })
}

#[cfg(test)]
mod tests;
