//! A refusal on stdio: the same report as the error of a JSON-RPC answer.

use serde::Deserialize;
use serde_json::Value;
use sluicegate_mcp::StdioRefusal;

use super::Refusal;
use super::json::Object;
use crate::settings::RefusalCode;

/// The error as HTTP would send it.
#[derive(Deserialize)]
struct Error {
    code: i32,
    message: String,
    data: Value,
}

/// Renders a refusal for a peer of this protocol version.
pub(crate) fn render(refusal: &Refusal, code: RefusalCode, version: Option<&str>, request_id: &str) -> StdioRefusal {
    let report = refusal.report(code, version, request_id);
    let mut text = String::new();
    Object::write(&mut text, |error| report.error(error));
    let Error { code, message, data } = serde_json::from_str(&text).expect("what was written as JSON can be read");
    StdioRefusal { code, message, data: Some(data) }
}
