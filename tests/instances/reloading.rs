//! Changes of the policy through one server: how soon the others enforce them, and what holds while they hear of none.

use std::time::{Duration, Instant};

use sluicegate_tests::Exposition;
use sluicegate_tests::process::signal;

use crate::fleet::{Fleet, Own};
use crate::operator::Operator;

/// How many changes are measured.
const CHANGES: usize = 200;
/// The longest that the policy goes unconfirmed while all is well: what `reload_interval` is by default, and some.
const CONFIRMED: f64 = 7.0;

const BOUNDLESS: &[(&str, &str)] =
    &[("LIMIT_TENANT", "1000000/s"), ("LIMIT_AGENT", "1000000/s"), ("REDIS_TIMEOUT", "5s")];

fn age(metrics: &Exposition) -> f64 {
    metrics.sum("sluicegate_policy_age_seconds", &[])
}

/// The ages of the policies of all servers.
async fn ages(fleet: &Fleet) -> Vec<f64> {
    let mut ages = Vec::new();
    for server in fleet.running() {
        ages.push(age(&Fleet::metrics(server).await));
    }
    ages
}

/// Waits until the age of every policy is so.
async fn until_ages(fleet: &Fleet, are: impl Fn(f64) -> bool) -> Vec<f64> {
    let start = Instant::now();
    loop {
        let ages = ages(fleet).await;
        if ages.iter().all(|age| are(*age)) {
            return ages;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{ages:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Two hundred changes, one after the other, while all is well.
async fn changes_are_enforced_at_once(operator: &Operator) {
    let mut took = Vec::new();
    for change in 0..CHANGES {
        took.extend(operator.change(change % 2 == 1).await);
    }
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() * percent).div_ceil(100) - 1];
    let (p50, p99) = (at(50), at(99));
    say!(
        "{CHANGES} changes through one of three, enforced by the others: p50 {p50:?}, p99 {p99:?}, most {:?}",
        at(100)
    );
    assert!(p99 <= Duration::from_millis(250), "{p99:?}");
}

/// The connections over which servers hear of changes are ended, and then there but dead.
async fn a_change_that_nobody_hears_of_is_found(fleet: &mut Fleet, operator: &Operator) {
    let listeners = fleet.postgres().listeners().await;
    assert_eq!(listeners.len(), 3, "one of each server");
    for listener in &listeners {
        signal(*listener, "TERM").await;
    }
    say!("after the connections for notices were ended: {:?}", operator.change(false).await);
    // The servers have them again within a second.
    let again = async {
        while fleet.postgres().listeners().await.len() < 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        fleet.postgres().listeners().await
    };
    let listeners = tokio::time::timeout(Duration::from_secs(10), again).await.expect("they listen again");
    for listener in &listeners {
        signal(*listener, "STOP").await;
    }
    let took = operator.change(true).await;
    for listener in &listeners {
        signal(*listener, "CONT").await;
    }
    say!("with dead connections for notices: {took:?}");
    assert!(took.iter().all(|took| *took <= Duration::from_secs(6)), "{took:?}");
}

/// The last good policy stays in force, and says how old it is.
async fn without_a_database_the_policy_grows_old(fleet: &mut Fleet, operator: &Operator) {
    operator.change(false).await;
    fleet.postgres().stop().await;
    let old = until_ages(fleet, |age| age > CONFIRMED).await;
    assert_eq!(operator.lets_in().await, [false, false], "the policy in force stays");
    fleet.until_status("degraded").await;
    for server in fleet.running() {
        assert_eq!(Fleet::readiness(server).await["policy"], "stale");
    }
    assert_eq!(operator.lets_in().await, [false, false], "the policy in force stays");
    fleet.postgres().start_again().await;
    let back = Instant::now();
    let took = operator.change(true).await;
    let confirmed = until_ages(fleet, |age| age < CONFIRMED).await;
    fleet.until_status("ready").await;
    say!(
        "without a database policies are {old:.1?} s old; once it is back a change is enforced after {took:?}, and after \
         {:?} all are {confirmed:.1?} s old",
        back.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_through_one_server_reaches_the_others_and_the_last_good_policy_outlives_the_database() {
    let own = Own { postgres: true, ..Own::default() };
    let Some(mut fleet) = Fleet::start_with(own, 3, BOUNDLESS).await else { return };
    let operator = Operator::new(&fleet).await;
    changes_are_enforced_at_once(&operator).await;
    a_change_that_nobody_hears_of_is_found(&mut fleet, &operator).await;
    without_a_database_the_policy_grows_old(&mut fleet, &operator).await;
}
