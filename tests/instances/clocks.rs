//! Clocks of the wall that somebody sets while the servers are under load: that of Redis, by which limits are measured, and
//! that of a server, by which none is.

use std::time::Duration;

use sluicegate_tests::SteppedClock;
use sluicegate_tests::recorder::now;

use crate::fleet::{Fleet, Own};
use crate::load::{Load, PATIENT, Worst, length};
use crate::outcome::{Outcome, micros};

const HOUR: i64 = 3_600;
/// The longest window, and what a call may take to be written down.
const A_WINDOW: Duration = Duration::from_millis(2_400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_lets_nobody_in_and_one_set_forward_ends_windows_early() {
    let (of_redis, of_a_server) = (SteppedClock::default(), SteppedClock::default());
    let own = Own { redis_clock: Some(&of_redis), server_clock: Some(&of_a_server), ..Own::default() };
    let Some(fleet) = Fleet::start_with(own, 3, PATIENT).await else { return };
    let load = Load::start(&fleet).await;
    let started = now();
    let quarter = length() / 4;
    tokio::time::sleep(quarter).await;
    of_redis.set(-HOUR);
    of_a_server.set(-HOUR);
    tokio::time::sleep(quarter).await;
    let forward = now();
    of_redis.set(HOUR);
    of_a_server.set(HOUR);
    tokio::time::sleep(quarter.max(2 * A_WINDOW)).await;
    let right = now();
    of_redis.set(0);
    of_a_server.set(0);
    tokio::time::sleep(quarter).await;
    let outcome = Outcome::of(&fleet, load, "clocks set back by an hour, forward by two, and back by one").await;
    assert_eq!(outcome.neither(), 0);
    let once = Worst::bound(1);
    let until_forward = outcome.worst_between(started, forward);
    assert!(until_forward.is_within(&once), "set back, nothing is forgotten: {until_forward:?}");
    let around = outcome.worst_between(started, right);
    assert!(around.is_within(&Worst::bound(2)), "set forward, windows end early once: {around:?}");
    let since = outcome.worst_between(forward + micros(A_WINDOW), u64::MAX);
    assert!(since.is_within(&once), "and then never: {since:?}");
    // Each time that it was set back, what was in use was so for a window more.
    let lost = outcome.ideal.saturating_sub(outcome.admitted);
    assert!(lost <= 2 * once.server + outcome.ideal / 50, "{lost} were refused that need not have been");
}
