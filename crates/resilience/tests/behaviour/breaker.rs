//! What opens the breaker of an upstream, and what a tool says of it then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate_mcp::ToolError;
use sluicegate_resilience::{
    Backoff, BreakerOptions, BreakerState, CallOptions, Failure, RetryOptions, Upstream, UpstreamErrorKind,
    UpstreamOptions, UpstreamRequest as _,
};
use tokio::time::{Instant, advance, sleep};

use crate::scripted::{Answer, Scripted, upstream};

const URL: &str = "http://github.test/";
const SECOND: Duration = Duration::from_secs(1);

/// One attempt per call, so that calls and requests are the same.
fn single(breaker: BreakerOptions) -> Upstream {
    let backoff = Backoff::new(SECOND, SECOND, 0).expect("valid");
    upstream(UpstreamOptions {
        retry: RetryOptions { backoff, ..RetryOptions::default() },
        breaker,
        ..UpstreamOptions::default()
    })
}

async fn answered(status: u16, calls: usize) -> BreakerState {
    let upstream = single(BreakerOptions::default());
    let client = Scripted::always(Answer::status(status)).client(&upstream);
    for _ in 0..calls {
        let _ = client.get(URL).call().await;
    }
    upstream.breaker_state()
}

#[tokio::test(start_paused = true)]
async fn five_failures_open_it_and_refusals_and_mistakes_never_do() {
    for status in [500, 501, 502, 503, 504, 599] {
        assert_eq!(answered(status, 4).await, BreakerState::Closed, "{status}");
        assert_eq!(answered(status, 5).await, BreakerState::Open, "{status}");
    }
    for status in [200, 301, 400, 401, 403, 404, 409, 422, 429] {
        assert_eq!(answered(status, 100).await, BreakerState::Closed, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_connections_and_timeouts_open_it_too() {
    let failures: [fn() -> Failure; 3] =
        [|| Failure::NotSent("refused".into()), || Failure::Lost("reset".into()), || Failure::TimedOut];
    for fail in failures {
        let upstream = single(BreakerOptions::default());
        for _ in 0..5 {
            assert_eq!(upstream.breaker_state(), BreakerState::Closed);
            upstream.run(CallOptions::default(), |_| async { Err::<(), _>(fail()) }).await.expect_err("it fails");
        }
        assert_eq!(upstream.breaker_state(), BreakerState::Open);
    }
}

#[tokio::test(start_paused = true)]
async fn callers_in_a_hurry_do_not_open_it_for_the_others() {
    let upstream = single(BreakerOptions::default());
    let client = Scripted::always(Answer::status(200).after(5 * SECOND)).client(&upstream);
    for _ in 0..20 {
        let error = client.get(URL).with_deadline(Instant::now() + SECOND).call().await.expect_err("too slow for it");
        assert_eq!(*error.kind(), UpstreamErrorKind::TimedOut);
    }
    assert_eq!(upstream.breaker_state(), BreakerState::Closed);
    assert!(client.get(URL).call().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_end_the_row_of_failures() {
    let upstream = single(BreakerOptions::default());
    let answers = [503, 503, 429, 503, 503, 429, 503].map(Answer::status);
    let client = Scripted::answers(answers).client(&upstream);
    for _ in 0..7 {
        assert_eq!(upstream.breaker_state(), BreakerState::Closed);
        client.get(URL).call().await.expect_err("it fails");
    }
    assert_eq!(upstream.breaker_state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn while_open_nothing_reaches_the_upstream_and_then_exactly_the_probes() {
    for probes in [1, 2] {
        let well = Arc::new(AtomicBool::new(false));
        let scripted = {
            let well = Arc::clone(&well);
            Scripted::new(move |_| Answer::status(if well.load(Ordering::SeqCst) { 200 } else { 503 }).after(SECOND))
        };
        let upstream = single(BreakerOptions { probes, ..BreakerOptions::default() });
        let client = scripted.client(&upstream);
        for _ in 0..5 {
            client.get(URL).call().await.expect_err("it is down");
        }
        sleep(29 * SECOND).await;
        for _ in 0..100 {
            let error = client.get(URL).call().await.expect_err("open");
            assert_eq!((error.kind(), error.attempts()), (&UpstreamErrorKind::CircuitOpen { retry_after: SECOND }, 0));
        }
        assert_eq!(scripted.count(), 5, "zero calls while it is open");

        sleep(SECOND).await;
        let calls: Vec<_> = (0..50).map(|_| tokio::spawn(client.get(URL).call())).collect();
        advance(SECOND / 2).await;
        assert_eq!(calls.iter().filter(|call| call.is_finished()).count(), 50 - probes as usize, "refused at once");
        for call in calls {
            call.await.expect("no panic").expect_err("down, or refused");
        }
        assert_eq!(scripted.count(), 5 + probes as usize);
        assert_eq!(upstream.breaker_state(), BreakerState::Open, "a failed probe opens it again");

        well.store(true, Ordering::SeqCst);
        sleep(30 * SECOND).await;
        assert!(client.get(URL).call().await.is_ok());
        assert_eq!(upstream.breaker_state(), BreakerState::Closed);
        assert!(client.get(URL).call().await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_tells_a_model_whether_to_wait_or_to_go_on() {
    let upstream = single(BreakerOptions::default());
    let client = Scripted::always(Answer::status(503)).client(&upstream);
    for _ in 0..5 {
        client.get(URL).call().await.expect_err("it is down");
    }
    let open = ToolError::from(client.get(URL).call().await.expect_err("open"));
    let result = serde_json::to_value(open.into_result()).expect("JSON");
    let text =
        "`github` is failing and is left alone, to let it recover. Go on without it, or try again in 30 seconds.";
    assert_eq!(result["content"][0]["text"], text);
    assert_eq!(result["isError"], true);
    assert_eq!(
        result["_meta"],
        serde_json::json!({ "type": "circuit_open", "upstream": "github", "retry_after_seconds": 30 })
    );
    assert_eq!(result.get("structuredContent"), None, "it would have to fit the output schema");
}
