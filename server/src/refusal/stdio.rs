//! A refusal on stdio: the same report as the error of a JSON-RPC answer.

use sluicegate_mcp::StdioRefusal;

use super::Refusal;
use crate::settings::RefusalCode;

/// Renders a refusal for a peer of this protocol version.
pub(crate) fn render(refusal: &Refusal, code: RefusalCode, version: Option<&str>, request_id: &str) -> StdioRefusal {
    let report = refusal.report(code, version, request_id);
    let data = serde_json::to_value(&report).ok();
    StdioRefusal { code: report.code, message: report.message, data }
}
