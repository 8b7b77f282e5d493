//! The retries of all callers together.

use std::time::Duration;

use sluicegate_resilience::{BreakerOptions, Random, RetryOptions, Upstream, UpstreamOptions, UpstreamRequest as _};

use crate::scripted::{Answer, Scripted};

const URL: &str = "http://github.test/";

/// The defaults but for the breaker, which would end the outage's retries by itself.
fn by_default() -> Upstream {
    let retry = RetryOptions { random: Random::seeded(3), ..RetryOptions::default() };
    let breaker = BreakerOptions { failures_in_a_row: u32::MAX, ..BreakerOptions::default() };
    Upstream::new("github", UpstreamOptions { retry, breaker, ..UpstreamOptions::default() }).expect("valid")
}

async fn requests_of_a_hundred_parallel_callers(answer: Answer) -> usize {
    let scripted = Scripted::always(answer);
    let client = scripted.client(&by_default());
    let calls: Vec<_> = (0..100).map(|_| tokio::spawn(client.get(URL).call())).collect();
    for call in calls {
        assert!(call.await.expect("no panic").is_err());
    }
    scripted.count()
}

#[tokio::test(start_paused = true)]
async fn a_hundred_parallel_callers_make_ten_retries_while_the_upstream_is_down() {
    for answer in [Answer::status(503), Answer::status(429), Answer::status(200).after(Duration::from_secs(60))] {
        assert_eq!(requests_of_a_hundred_parallel_callers(answer.clone()).await, 110, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_told_wait_holds_even_first_attempts_back() {
    let answer = Answer::status(429).header("retry-after", "1");
    // One request a second finds out that the pause goes on, for the thirty seconds that the others wait.
    assert!(requests_of_a_hundred_parallel_callers(answer).await <= 42);
}

#[tokio::test(start_paused = true)]
async fn callers_who_keep_coming_do_not_make_more() {
    let scripted = Scripted::always(Answer::status(503));
    let client = scripted.client(&by_default());
    for _ in 0..500 {
        client.get(URL).call().await.expect_err("it is down");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(scripted.count(), 510);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_fails_now_and_then_is_tried_again_within_a_tenth() {
    // Every fourth request fails, more than the budget can pay for in the long run.
    let scripted = Scripted::new(|before| Answer::status(if before % 4 == 3 { 503 } else { 200 }));
    let client = scripted.client(&by_default());
    for _ in 0..1_000 {
        let _ = client.get(URL).call().await;
    }
    let retries = scripted.count() - 1_000;
    assert!((80..=110).contains(&retries), "{retries}");
}
