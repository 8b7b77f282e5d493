use proptest::prelude::*;
use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn far() -> Instant {
    Instant::now() + Duration::from_hours(1_000)
}

fn per_second(count: u32, burst: u32) -> Quota {
    Quota::per_second(count).and_then(|quota| quota.with_burst(burst)).expect("valid")
}

async fn refused(pace: &Pace) -> Full {
    pace.take(far()).await.expect_err("full")
}

#[tokio::test(start_paused = true)]
async fn refusing_says_which_quota_and_how_long() {
    let hourly = Quota::per_hour(2).and_then(|quota| quota.with_burst(2)).expect("valid");
    let pace = Pace::new(vec![per_second(1, 1), hourly], WhenFull::Refuse);
    assert_eq!(pace.take(far()).await, Ok(()));
    assert_eq!(refused(&pace).await, Full { retry_after: SECOND, limit: Some("1 request / 1s".into()) });
    advance(SECOND).await;
    assert_eq!(pace.take(far()).await, Ok(()));
    advance(SECOND).await;
    let full = refused(&pace).await;
    assert_eq!(full, Full { retry_after: Duration::from_secs(3598), limit: Some("2 requests / 3600s".into()) });
    advance(full.retry_after).await;
    assert_eq!(pace.take(far()).await, Ok(()), "whoever waits as told is let through");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_one_quota_costs_nothing_of_the_others() {
    let hourly = Quota::per_hour(100).and_then(|quota| quota.with_burst(3)).expect("valid");
    let pace = Pace::new(vec![per_second(1, 1), hourly], WhenFull::Refuse);
    for _ in 0..3 {
        assert_eq!(pace.take(far()).await, Ok(()));
        for _ in 0..10 {
            refused(&pace).await;
        }
        advance(SECOND).await;
    }
    assert_eq!(refused(&pace).await.limit.as_deref(), Some("100 requests / 3600s"));
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_go_in_the_order_in_which_they_came() {
    let pace = Arc::new(Pace::new(vec![per_second(10, 1)], WhenFull::Wait(SECOND)));
    let start = Instant::now();
    let callers: Vec<_> = (0..10)
        .map(|_| {
            let pace = Arc::clone(&pace);
            tokio::spawn(async move {
                let taken = pace.take(far()).await;
                taken.map(|()| start.elapsed().as_millis())
            })
        })
        .collect();
    for (place, caller) in callers.into_iter().enumerate() {
        assert_eq!(caller.await.expect("no panic"), Ok(place as u128 * 100));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_in_vain() {
    let pace = Pace::new(vec![Quota::per_minute(1).expect("valid")], WhenFull::Wait(Duration::from_secs(10)));
    assert_eq!(pace.take(far()).await, Ok(()));
    let start = Instant::now();
    assert_eq!(refused(&pace).await.retry_after, Duration::from_mins(1));
    assert_eq!(start.elapsed(), Duration::ZERO, "a wait that is too long is not begun");
    advance(Duration::from_secs(55)).await;
    assert!(pace.take(Instant::now() + SECOND).await.is_err(), "the deadline is earlier than the turn");
    assert_eq!(pace.take(far()).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_get_the_turn_in_time_gives_up() {
    let pace = Arc::new(Pace::new(vec![Quota::per_minute(12).expect("valid")], WhenFull::Wait(Duration::from_secs(7))));
    let start = Instant::now();
    let take = || {
        let pace = Arc::clone(&pace);
        tokio::spawn(async move { (pace.take(far()).await.is_ok(), start.elapsed().as_secs()) })
    };
    let callers: Vec<_> = (0..4).map(|_| take()).collect();
    let mut ended = Vec::new();
    for caller in callers {
        ended.push(caller.await.expect("no panic"));
    }
    // The third gets the turn when the second goes, and sees that it cannot go itself before 10 s.
    assert_eq!(ended, [(true, 0), (true, 5), (false, 5), (false, 5)]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_everybody_back_and_a_shorter_one_does_not_end_it() {
    let pace = Pace::new(Vec::new(), WhenFull::Wait(Duration::from_mins(1)));
    let start = Instant::now();
    pace.pause(Duration::from_secs(12));
    pace.pause(SECOND);
    assert_eq!(pace.take(far()).await, Ok(()));
    assert_eq!(start.elapsed(), Duration::from_secs(12));
    pace.pause(Duration::from_mins(2));
    assert_eq!(refused(&pace).await, Full { retry_after: Duration::from_mins(2), limit: None });
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_comes_while_somebody_waits_holds_too() {
    let pace = Arc::new(Pace::new(vec![per_second(1, 1)], WhenFull::Wait(Duration::from_mins(1))));
    assert_eq!(pace.take(far()).await, Ok(()));
    let start = Instant::now();
    let waiting = {
        let pace = Arc::clone(&pace);
        tokio::spawn(async move { pace.take(far()).await })
    };
    tokio::task::yield_now().await;
    pace.pause(Duration::from_secs(5));
    assert_eq!(waiting.await.expect("no panic"), Ok(()));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

fn quota() -> impl Strategy<Value = Quota> {
    (1_u32..12, 20_u64..3_000).prop_flat_map(|(count, period)| {
        let quota = Quota::new(count, Duration::from_millis(period)).expect("valid");
        (1..=count).prop_map(move |burst| quota.with_burst(burst).expect("valid"))
    })
}

/// When `calls` calls go through that come after these rests.
async fn times(pace: &Pace, rests: Vec<u64>) -> Vec<Duration> {
    let start = Instant::now();
    let mut times = Vec::new();
    for rest in rests {
        sleep(Duration::from_millis(rest)).await;
        pace.take(far()).await.expect("it waits as long as needed");
        times.push(start.elapsed());
    }
    times
}

fn on_paused_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_stretch_of_a_period_has_more_calls_than_the_quota(
        quotas in proptest::collection::vec(quota(), 1..4),
        rests in proptest::collection::vec(prop_oneof![4 => Just(0_u64), 1 => 0_u64..4_000], 1..80),
    ) {
        let times = on_paused_time(async {
            times(&Pace::new(quotas.clone(), WhenFull::Wait(Duration::MAX)), rests).await
        });
        for quota in quotas {
            let count = quota.count() as usize;
            for (first, after) in times.iter().zip(times.iter().skip(count)) {
                prop_assert!(*after - *first >= quota.period(), "{} from {:?} to {:?}", quota, first, after);
            }
        }
    }
}

#[test]
fn without_a_burst_the_whole_quota_can_be_used() {
    let times =
        on_paused_time(async { times(&Pace::new(vec![per_second(20, 1)], WhenFull::default()), vec![0; 101]).await });
    assert_eq!(times.last(), Some(&Duration::from_secs(5)));
}
