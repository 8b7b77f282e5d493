//! What may be sent twice.

use std::collections::HashSet;
use std::time::Duration;

use reqwest::Method;
use sluicegate_resilience::{CallOptions, Failure, Repeat, UpstreamErrorKind, UpstreamRequest as _};

use crate::scripted::{Answer, Scripted, upstream, without_breaker};

const URL: &str = "http://payments.test/charges";

fn down() -> Scripted {
    Scripted::always(Answer::status(503))
}

#[tokio::test(start_paused = true)]
async fn a_key_stays_the_same_in_all_attempts_of_a_call_and_differs_between_calls() {
    let scripted = down();
    let client = scripted.client(&upstream(without_breaker()));
    for _ in 0..2 {
        let error = client.post(URL).body("12").with_idempotency_key().call().await.expect_err("it is down");
        assert_eq!(error.attempts(), 6);
        assert!(error.may_have_run(), "the next call has another key");
        assert!(error.text().ends_with("It may have done what was asked: check before asking again."), "{error}");
    }
    let keys: Vec<_> = scripted.header("idempotency-key").into_iter().map(|key| key.expect("a key")).collect();
    assert_eq!(keys.len(), 12);
    for call in keys.chunks(6) {
        assert!(call.iter().all(|key| *key == call[0]));
    }
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 2);
    assert!(keys[0].parse::<uuid::Uuid>().is_ok(), "{}", keys[0]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_the_request_has_is_kept() {
    let scripted = down();
    let client = scripted.client(&upstream(without_breaker()));
    client.post(URL).header("Idempotency-Key", "mine").with_idempotency_key().call().await.expect_err("it is down");
    assert_eq!(scripted.header("idempotency-key"), vec![Some("mine".to_owned()); 6]);
}

#[tokio::test(start_paused = true)]
async fn without_a_key_nothing_is_repeated_that_may_have_run() {
    for method in [Method::POST, Method::PATCH] {
        for answer in [Answer::status(500), Answer::status(503), Answer::status(200).after(Duration::from_hours(1))] {
            let scripted = Scripted::always(answer.clone());
            let client = scripted.client(&upstream(without_breaker()));
            let error = client.request(method.clone(), URL).body("12").call().await.expect_err("it fails");
            assert_eq!(scripted.count(), 1, "{method} {answer:?}");
            assert!(error.may_have_run());
        }
    }
    let lost = |_| async { Err::<(), _>(Failure::Lost("connection reset".into())) };
    let error = upstream(without_breaker()).run(CallOptions::default(), lost).await.expect_err("lost");
    assert_eq!((error.attempts(), error.may_have_run()), (1, true));
}

#[tokio::test(start_paused = true)]
async fn what_surely_has_not_run_is_repeated_without_a_key() {
    let scripted = Scripted::answers([Answer::status(429)]);
    assert!(scripted.client(&upstream(without_breaker())).post(URL).body("12").call().await.is_ok());
    assert_eq!((scripted.count(), scripted.header("idempotency-key")), (2, vec![None, None]));

    let refused =
        |attempt| async move { if attempt == 1 { Err(Failure::NotSent("connection refused".into())) } else { Ok(()) } };
    assert!(upstream(without_breaker()).run(CallOptions::default(), refused).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn idempotent_methods_need_no_key() {
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE] {
        let scripted = down();
        let error = scripted
            .client(&upstream(without_breaker()))
            .request(method.clone(), URL)
            .call()
            .await
            .expect_err("it is down");
        assert_eq!((scripted.count(), error.may_have_run()), (6, false), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_never_be_repeated_is_not_even_after_a_refusal() {
    let never = CallOptions { repeat: Repeat::Never, ..CallOptions::default() };
    let refused = |_| async { Err::<(), _>(Failure::Throttled { retry_after: None }) };
    let error = upstream(without_breaker()).run(never, refused).await.expect_err("refused");
    assert_eq!(error.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_may_have_run_is_remembered_when_a_later_one_did_not() {
    let by_key = CallOptions { repeat: Repeat::ByKey, ..CallOptions::default() };
    let call = |attempt| async move {
        Err::<(), _>(if attempt == 1 { Failure::TimedOut } else { Failure::Throttled { retry_after: None } })
    };
    let error = upstream(without_breaker()).run(by_key, call).await.expect_err("it never succeeds");
    assert!(matches!(error.kind(), UpstreamErrorKind::Throttled { .. }));
    assert!(error.may_have_run());
}
