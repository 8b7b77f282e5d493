//! Attempts and deadlines.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_resilience::{
    Backoff, CallOptions, Failure, GaveUp, Quota, Random, Repeat, Retry, RetryOptions, UpstreamErrorKind,
    UpstreamOptions, UpstreamRequest as _, Verdict, WhenFull,
};
use tokio::time::{Instant, sleep};

use crate::scripted::{Answer, Scripted, upstream, without_breaker};

const URL: &str = "http://github.test/";
const SECOND: Duration = Duration::from_secs(1);

fn on_paused_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_call_outlasts_its_deadline(
        deadline in 0_u64..30_000,
        takes in 0_u64..8_000,
        told in proptest::option::of(0_u64..30),
        quota in proptest::option::of(1_u32..5),
        seed: u64,
    ) {
        on_paused_time(async {
            let mut options = without_breaker();
            options.quotas = quota.map(|count| Quota::per_minute(count).expect("valid")).into_iter().collect();
            options.retry.random = Random::seeded(seed);
            let mut answer = Answer::status(503).after(Duration::from_millis(takes));
            if let Some(told) = told {
                answer = answer.header("retry-after", told.to_string());
            }
            let client = Scripted::always(answer).client(&upstream(options));
            let end = Instant::now() + Duration::from_millis(deadline);
            client.get(URL).with_deadline(end).call().await.expect_err("it is down");
            assert!(Instant::now() <= end, "{:?} too late", Instant::now() - end);
        });
    }

    #[test]
    fn no_attempt_starts_at_the_deadline_or_after_it(deadline in 1_u64..60_000, seed: u64) {
        on_paused_time(async {
            let retry = Retry::new(RetryOptions { random: Random::seeded(seed), ..RetryOptions::default() }).expect("valid");
            let end = Instant::now() + Duration::from_millis(deadline);
            let attempt = |_| async {
                assert!(Instant::now() < end);
                Err::<(), _>(())
            };
            let (_, gave_up) = retry.run(Some(end), Repeat::Always, |()| Verdict::Again { told: None, may_have_run: true }, attempt)
                .await
                .expect_err("it never succeeds");
            assert!(matches!(gave_up, GaveUp::Deadline | GaveUp::Exhausted));
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_is_over_is_not_made() {
    let scripted = Scripted::answers([]);
    let client = scripted.client(&upstream(UpstreamOptions::default()));
    let error = client.get(URL).with_deadline(Instant::now()).call().await.expect_err("too late");
    assert_eq!((error.kind(), error.attempts(), scripted.count()), (&UpstreamErrorKind::TimedOut, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_deadline_has_the_one_of_its_upstream() {
    let options = UpstreamOptions { call_timeout: 3 * SECOND, ..without_breaker() };
    let scripted = Scripted::always(Answer::status(200).after(Duration::from_hours(1)));
    let (start, client) = (Instant::now(), scripted.client(&upstream(options)));
    let later = start + Duration::from_hours(2);
    let error = client.get(URL).with_deadline(later).call().await.expect_err("it hangs");
    assert_eq!(error.text(), "`github` did not answer in time. Try again later, or go on without it.");
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_dropped_when_its_time_is_over() {
    let dropped = std::sync::atomic::AtomicUsize::new(0);
    struct Guard<'a>(&'a std::sync::atomic::AtomicUsize);
    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }
    let call = |_| async {
        let _guard = Guard(&dropped);
        sleep(Duration::MAX).await;
        Ok::<(), Failure>(())
    };
    let error = upstream(without_breaker()).run(CallOptions::default(), call).await.expect_err("it hangs");
    assert_eq!(*error.kind(), UpstreamErrorKind::TimedOut);
    assert!(error.may_have_run());
    assert_eq!(dropped.into_inner(), 1, "what may have run is not repeated");
}

#[tokio::test(start_paused = true)]
async fn without_retries_there_is_one_attempt() {
    let mut options = without_breaker();
    options.retry.backoff = Backoff::new(SECOND, SECOND, 0).expect("valid");
    let scripted = Scripted::always(Answer::status(503));
    assert!(scripted.client(&upstream(options)).get(URL).call().await.is_err());
    assert_eq!(scripted.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn retries_keep_the_quota_too() {
    let options = UpstreamOptions { quotas: vec![Quota::per_second(1).expect("valid")], ..without_breaker() };
    let scripted = Scripted::answers(vec![Answer::status(503); 3]);
    assert!(scripted.client(&upstream(options)).get(URL).call().await.is_ok());
    assert!(scripted.times().windows(2).all(|pair| pair[1] - pair[0] >= SECOND));
}

#[tokio::test(start_paused = true)]
async fn our_own_limiter_refuses_without_calling() {
    let quotas = vec![Quota::per_minute(1).expect("valid")];
    let options = UpstreamOptions { quotas, when_full: WhenFull::Refuse, ..without_breaker() };
    let scripted = Scripted::answers([]);
    let client = scripted.client(&upstream(options));
    assert!(client.get(URL).call().await.is_ok());
    let error = client.get(URL).call().await.expect_err("refused");
    assert_eq!(scripted.count(), 1);
    assert_eq!(
        error.text(),
        "`github` may not be called more often: 1 request / 60s. Wait 60 seconds before trying again."
    );
    assert_eq!((&error.meta()["limit"], &error.meta()["retry_after_seconds"]), (&"1 request / 60s".into(), &60.into()));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_long_is_no_answer() {
    let options = UpstreamOptions { max_answer: 3, ..without_breaker() };
    let scripted = Scripted::always(Answer::status(200));
    let error = scripted.client(&upstream(options)).get(URL).call().await.expect_err("`body` has four bytes");
    assert_eq!((error.kind(), scripted.count()), (&UpstreamErrorKind::Rejected, 1));
    let options = UpstreamOptions { max_answer: 4, ..without_breaker() };
    let answer = scripted.client(&upstream(options)).get(URL).call().await.expect("it fits");
    assert_eq!(answer.text().await.expect("text"), "body");
}
