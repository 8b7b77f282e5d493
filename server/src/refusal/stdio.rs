//! A refusal on stdio: the same report as the error of a JSON-RPC answer.

use sluicegate_mcp::StdioRefusal;

use super::Refusal;
use crate::settings::RefusalCode;

/// Renders a refusal for a peer of this protocol version.
pub(crate) fn render(refusal: &Refusal, code: RefusalCode, version: Option<&str>, request_id: &str) -> StdioRefusal {
    let report = refusal.report(code, version, request_id);
    let data = serde_json::from_str(&report.data).ok();
    StdioRefusal { code: report.code, message: report.message, data }
}
