use rmcp::model::{ContentBlock, ErrorCode, MetaObject};
use rmcp::transport::DynamicTransportError;
use serde_json::json;

use super::*;

fn from_error(code: i32, data: Value) -> Reading {
    let refused = ErrorData::new(ErrorCode(code), "refused", Some(data));
    error(&ServiceError::McpError(refused), || SystemTime::UNIX_EPOCH)
}

fn from_transport(source: StreamableHttpError<reqwest::Error>) -> Reading {
    let source = DynamicTransportError::from_parts("test", std::any::TypeId::of::<()>(), Box::new(source));
    error(&ServiceError::TransportSend(source), || SystemTime::UNIX_EPOCH)
}

fn from_status(status: u16, retry_after: Option<&str>) -> Reading {
    from_transport(HttpStatusError::new(status, retry_after.map(str::to_owned)).into())
}

fn from_result(meta: Value, structured: Option<Value>) -> Option<Reading> {
    let mut failed = CallToolResult::error(vec![ContentBlock::text("busy")]);
    failed.structured_content = structured;
    result(&failed.with_meta(meta.as_object().cloned().map(MetaObject)))
}

fn again(millis: Option<u64>, may_have_run: bool) -> Verdict {
    Verdict::Again { told: millis.map(Duration::from_millis), may_have_run }
}

#[test]
fn a_wait_is_read_under_each_of_its_names() {
    for (data, millis) in [
        (json!({ "retry_after_ms": 1500 }), Some(1500)),
        (json!({ "retryAfterMs": 1500 }), Some(1500)),
        (json!({ "retry_after_seconds": 12 }), Some(12_000)),
        (json!({ "retryAfterSeconds": 12 }), Some(12_000)),
        (json!({ "retry_after": 1.5 }), Some(1500)),
        (json!({ "retryAfter": "12" }), Some(12_000)),
        (json!({ "retry_after_seconds": 12, "retry_after_ms": 11_731 }), Some(11_731)),
        (json!({ "retry_after_ms": 0 }), Some(0)),
        (json!({ "retry_after_seconds": 1e300 }), Some(86_400_000)),
        (json!({ "retry_after_seconds": "inf" }), Some(86_400_000)),
        (json!({ "retry_after_ms": -5, "retry_after_seconds": 2 }), Some(2000)),
        (json!({ "retry_after_ms": "soon" }), None),
        (json!({ "retry_after_ms": null }), None),
        (json!({ "retry_after_seconds": "NaN" }), None),
        (json!([12]), None),
        (json!(null), None),
    ] {
        assert_eq!(from_error(-32029, data.clone()).verdict, again(millis, false), "{data}");
    }
}

#[test]
fn a_refusal_is_known_by_its_code_or_its_reason_or_its_wait() {
    for code in [-32029, 429, -32023, 503] {
        let reading = from_error(code, json!({}));
        assert_eq!(reading.verdict, again(None, false), "{code}");
        assert!(reading.refusal.is_some());
    }
    assert_eq!(from_error(-32000, json!({ "reason": "overloaded" })).verdict, again(None, false));
    assert_eq!(
        from_error(-32000, json!({ "retry_after_ms": 5 })).verdict,
        again(Some(5), true),
        "not known to be no run"
    );
    for code in [-32000, -32600, -32602, -32603, 401, 403, 404, 500, 504] {
        let reading = from_error(code, json!({}));
        assert_eq!(reading.verdict, Verdict::Final, "{code}");
        assert_eq!(reading.refusal, None);
    }
}

#[test]
fn what_waiting_does_not_help_against_is_final() {
    for reason in ["suspended", "cost_above_limit", "no_tenant"] {
        let reading = from_error(429, json!({ "reason": reason }));
        assert_eq!(reading.verdict, Verdict::Final, "{reason}");
        assert_eq!(reading.refusal.expect("a refusal").reason(), Some(reason));
    }
    for reason in ["rate_limit_exceeded", "concurrency_limit_exceeded", "overloaded"] {
        assert_eq!(from_error(429, json!({ "reason": reason })).verdict, again(None, false), "{reason}");
    }
}

#[test]
fn the_scope_is_kept_for_whoever_plans() {
    for (scope, expected, others) in [
        ("server", Some(RefusalScope::Server), false),
        ("tenant", Some(RefusalScope::Tenant), false),
        ("agent", Some(RefusalScope::Agent), false),
        ("tool", Some(RefusalScope::Tool), true),
        ("galaxy", None, false),
    ] {
        let data = json!({ "scope": scope, "limit": "10 requests / 60s", "retry_after_seconds": 2 });
        let refusal = from_error(-32029, data).refusal.expect("a refusal");
        assert_eq!((refusal.scope(), refusal.other_tools_may_work()), (expected, others), "{scope}");
        assert_eq!((refusal.limit(), refusal.message()), (Some("10 requests / 60s"), "refused"));
        assert_eq!(refusal.to_string(), "refused (retry after 2 s)");
    }
}

#[test]
fn http_statuses_are_read_with_their_retry_after() {
    assert_eq!(from_status(429, Some("2")).verdict, again(Some(2000), false));
    assert_eq!(from_status(429, Some("Thu, 01 Jan 1970 00:00:09 GMT")).verdict, again(Some(9000), false));
    assert_eq!(from_status(429, Some("-2")).verdict, again(None, false));
    assert!(from_status(429, None).refusal.is_some());
    for status in [500, 502, 503, 504] {
        let reading = from_status(status, Some("1"));
        assert_eq!(reading.verdict, again(Some(1000), true), "{status}");
        assert_eq!(reading.refusal, None);
    }
    for status in [400, 403, 501, 505] {
        assert_eq!(from_status(status, Some("1")).verdict, Verdict::Final, "{status}");
    }
}

#[test]
fn a_broken_connection_may_have_run_and_a_dead_transport_is_final() {
    assert_eq!(from_transport(StreamableHttpError::UnexpectedEndOfStream).verdict, again(None, true));
    assert_eq!(
        from_transport(StreamableHttpError::Io(std::io::ErrorKind::ConnectionReset.into())).verdict,
        again(None, true)
    );
    assert_eq!(from_transport(StreamableHttpError::SessionExpired).verdict, Verdict::Final);
    let now = || SystemTime::UNIX_EPOCH;
    assert_eq!(error(&ServiceError::Timeout { timeout: Duration::ZERO }, now).verdict, again(None, true));
    assert_eq!(error(&ServiceError::TransportClosed, now).verdict, Verdict::Final);
    assert_eq!(error(&ServiceError::UnexpectedResponse, now).verdict, Verdict::Final);
}

#[test]
fn a_result_that_carries_a_refusal_is_one() {
    let refusal = json!({ "reason": "rate_limit_exceeded", "scope": "tool", "retry_after_ms": 1200 });
    let reading = from_result(json!({ "sluicegate/refusal": refusal }), None).expect("a refusal");
    assert_eq!(reading.verdict, again(Some(1200), false), "the server's own limit: it has not run");
    assert_eq!(reading.refusal.expect("a refusal").message(), "busy");

    let upstream = json!({ "type": "rate_limited", "retry_after_seconds": 3, "limit": "10 requests / 1s" });
    for reading in [from_result(upstream.clone(), None), from_result(json!({}), Some(upstream))] {
        let reading = reading.expect("a refusal");
        assert_eq!(reading.verdict, again(Some(3000), true), "the tool's upstream: the tool has run");
        assert_eq!(reading.refusal.expect("a refusal").limit(), Some("10 requests / 1s"));
    }
}

#[test]
fn any_other_result_came_through() {
    assert!(from_result(json!({}), None).is_none());
    assert!(from_result(json!({ "type": "upstream_failed" }), Some(json!("rate_limited"))).is_none());
    let refusal = json!({ "sluicegate/refusal": {}, "type": "rate_limited" });
    let fine = CallToolResult::success(Vec::new()).with_meta(refusal.as_object().cloned().map(MetaObject));
    assert!(result(&fine).is_none(), "it is no error");
}
