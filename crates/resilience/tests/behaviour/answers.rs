//! Which answers are tried again, and when.

use std::time::{Duration, SystemTime};

use sluicegate_resilience::{
    CallOptions, Failure, Repeat, UpstreamErrorKind, UpstreamOptions, UpstreamRequest as _, WallClock,
};
use tokio::time::Instant;

use crate::scripted::{Answer, Scripted, upstream, without_breaker};

const URL: &str = "http://github.test/";
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn refusals_and_passing_failures_are_tried_again() {
    for status in [429, 500, 502, 503, 504] {
        let scripted = Scripted::answers([Answer::status(status)]);
        let response =
            scripted.client(&upstream(without_breaker())).get(URL).call().await.expect("the second succeeds");
        assert_eq!((response.status().as_u16(), scripted.count()), (200, 2), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_other_answer_is_an_answer() {
    for status in [200, 204, 301, 304, 400, 401, 403, 404, 408, 409, 410, 422, 451] {
        let scripted = Scripted::always(Answer::status(status));
        let response = scripted.client(&upstream(without_breaker())).get(URL).call().await.expect("an answer");
        assert_eq!((response.status().as_u16(), scripted.count()), (status, 1), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_does_not_pass_is_one_at_once() {
    for status in [501, 505, 507, 511, 599] {
        let scripted = Scripted::always(Answer::status(status));
        let error = scripted.client(&upstream(without_breaker())).get(URL).call().await.expect_err("a failure");
        assert_eq!((error.kind(), scripted.count()), (&UpstreamErrorKind::Failed { status }, 1), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_connections_and_timeouts_are_tried_again() {
    type Fail = fn() -> Failure;
    let failures: [Fail; 3] = [
        || Failure::NotSent("connection refused".into()),
        || Failure::Lost("connection reset".into()),
        || Failure::TimedOut,
    ];
    for fail in failures {
        let always = CallOptions { repeat: Repeat::Always, ..CallOptions::default() };
        let call = |attempt| async move { if attempt < 3 { Err(fail()) } else { Ok(attempt) } };
        assert_eq!(upstream(without_breaker()).run(always, call).await.expect("the third succeeds"), 3);
    }
    let slow = Scripted::answers([Answer::status(200).after(11 * SECOND)]);
    assert!(slow.client(&upstream(without_breaker())).get(URL).call().await.is_ok());
    assert_eq!(slow.count(), 2);
    assert!(slow.times()[1] >= 10 * SECOND, "an attempt has ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_call_is_repeated_five_times_and_then_fails_with_the_last_answer() {
    let scripted = Scripted::always(Answer::status(503));
    let error = scripted.client(&upstream(without_breaker())).get(URL).call().await.expect_err("it stays down");
    assert_eq!((scripted.count(), error.attempts()), (6, 6));
    assert_eq!(error.text(), "`github` failed with status 503 (6 attempts). Try again later, or go on without it.");
    for (retry, pair) in scripted.times().windows(2).enumerate() {
        assert!(pair[1] - pair[0] <= SECOND / 2 * 2_u32.pow(retry as u32) + SECOND / 1000, "{retry}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_told_wait_comes_before_backoff_and_gets_a_little_jitter() {
    for told in [0, 7, 59] {
        let scripted = Scripted::answers([Answer::status(429).header("retry-after", told.to_string())]);
        assert!(scripted.client(&upstream(without_breaker())).get(URL).call().await.is_ok());
        let (waited, told) = (scripted.times()[1], Duration::from_secs(told));
        assert!((told..=told + SECOND / 2 + SECOND / 1000).contains(&waited), "{waited:?} for {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_told_wait_is_obeyed_as_a_date_in_all_three_forms() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    for date in ["Sun, 06 Nov 1994 08:49:47 GMT", "Sunday, 06-Nov-94 08:49:47 GMT", "Sun Nov  6 08:49:47 1994"] {
        let scripted = Scripted::answers([Answer::status(503).header("retry-after", date)]);
        let options = UpstreamOptions { wall_clock: WallClock::starting_at(now), ..without_breaker() };
        assert!(scripted.client(&upstream(options)).get(URL).call().await.is_ok());
        assert_eq!(scripted.times()[1].as_secs(), 10, "{date}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_date_is_compared_with_the_date_of_the_answer_whatever_our_clock_says() {
    let answer = Answer::status(429)
        .header("date", "Sun, 06 Nov 1994 08:49:37 GMT")
        .header("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT");
    let scripted = Scripted::answers([answer]);
    assert!(scripted.client(&upstream(without_breaker())).get(URL).call().await.is_ok());
    assert_eq!(scripted.times()[1].as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_absurd_wait_is_cut_and_a_negative_one_is_as_if_missing() {
    for absurd in ["86400", "1700000000", "99999999999999999999"] {
        let scripted = Scripted::answers([Answer::status(429).header("retry-after", absurd)]);
        let options = UpstreamOptions { call_timeout: Duration::from_mins(10), ..without_breaker() };
        assert!(scripted.client(&upstream(options)).get(URL).call().await.is_ok());
        assert_eq!(scripted.times()[1].as_secs(), 60, "{absurd}");
    }
    for missing in ["-1", "soon", ""] {
        let scripted = Scripted::answers([Answer::status(429).header("retry-after", missing)]);
        assert!(scripted.client(&upstream(without_breaker())).get(URL).call().await.is_ok());
        assert!(scripted.times()[1] <= SECOND / 2 + SECOND / 1000, "{missing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_passes_the_told_wait_on() {
    let scripted = Scripted::always(Answer::status(429).header("retry-after", "12"));
    let deadline = Instant::now() + 5 * SECOND;
    let client = scripted.client(&upstream(without_breaker()));
    let error = client.get(URL).with_deadline(deadline).call().await.expect_err("it cannot wait so long");
    assert_eq!(scripted.count(), 1);
    assert_eq!(error.text(), "`github` limits how often it is called. Wait 12 seconds before trying again.");
    let meta = serde_json::json!({ "type": "rate_limited", "upstream": "github", "retry_after_seconds": 12, "limit": "set by github" });
    assert_eq!(serde_json::Value::Object(error.meta()), meta);
    assert!(Instant::now() < deadline);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_without_a_wait_names_one_all_the_same() {
    let error = Scripted::always(Answer::status(429))
        .client(&upstream(without_breaker()))
        .get(URL)
        .call()
        .await
        .expect_err("refused");
    assert_eq!(error.retry_after(), Some(30 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_pause_that_one_call_was_told_holds_for_all() {
    let scripted = Scripted::answers([Answer::status(429).header("retry-after", "10")]);
    let client = scripted.client(&upstream(without_breaker()));
    let first = tokio::spawn(client.get(URL).call());
    tokio::task::yield_now().await;
    assert!(client.get(URL).call().await.is_ok());
    assert!(first.await.expect("no panic").is_ok());
    assert!(scripted.times()[1] >= 10 * SECOND, "the other call waited too");
}
