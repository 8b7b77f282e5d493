//! A load on three servers, undisturbed and while something breaks; what got through is counted inside the tool.

use std::time::{Duration, Instant};

use sluicegate::control::{Period, UsageRange, UsageScope, WallClock};
use sluicegate_tests::server;

use crate::fleet::{Fleet, Own};
use crate::load::{Load, PATIENT, WATCHFUL, Worst, length};
use crate::outcome::Outcome;

/// Long enough that what a window in sixtieths loses at its ends hardly counts.
const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_together_keep_every_limit_and_waste_nothing() {
    let Some(fleet) = Fleet::start(3, PATIENT).await else { return };
    let load = Load::start(&fleet).await;
    tokio::time::sleep(length().max(LONG)).await;
    let outcome = Outcome::of(&fleet, load, "undisturbed").await;
    assert!(outcome.worst.is_within(&Worst::bound(1)), "{:?}", outcome.worst);
    assert!(outcome.wastes_nothing(), "{} of {}", outcome.admitted, outcome.ideal);
    assert_eq!(outcome.served(), outcome.admitted, "what was served is what the tool has seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_takes_no_limit_along() {
    let Some(mut fleet) = Fleet::start(3, PATIENT).await else { return };
    let load = Load::start(&fleet).await;
    tokio::time::sleep(length() / 3).await;
    fleet.servers[1].take().expect("it runs").signal("KILL").await;
    tokio::time::sleep(length() * 2 / 3).await;
    let outcome = Outcome::of(&fleet, load, "one of three killed").await;
    assert!(outcome.worst.is_within(&Worst::bound(1)), "{:?}", outcome.worst);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_gone_no_window_holds_more_than_twice_the_limit() {
    let Some(mut fleet) = Fleet::start(3, WATCHFUL).await else { return };
    let load = Load::start(&fleet).await;
    tokio::time::sleep(length() / 3).await;
    fleet.redis.stop().await;
    let noticed = fleet.until_degraded(true).await;
    tokio::time::sleep(length() / 3).await;
    let back = Instant::now();
    fleet.redis.start_again().await;
    let started = back.elapsed();
    let recovered = fleet.until_degraded(false).await;
    say!("Redis gone: noticed after {noticed:?}, found again {recovered:?} after it answered ({started:?} to start)");
    tokio::time::sleep(length() / 3).await;
    let outcome = Outcome::of(&fleet, load, "Redis stopped and started").await;
    assert!(outcome.worst.is_within(&Worst::bound(2)), "{:?}", outcome.worst);
    // On a machine of its own it takes a quarter of a second.
    assert!(recovered < Duration::from_secs(5), "{recovered:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_holds_nobody_up() {
    let Some(fleet) = Fleet::start(3, WATCHFUL).await else { return };
    let load = Load::start(&fleet).await;
    tokio::time::sleep(length() / 3).await;
    fleet.redis.signal("STOP").await;
    let noticed = fleet.until_degraded(true).await;
    tokio::time::sleep(length()).await;
    fleet.redis.signal("CONT").await;
    let recovered = fleet.until_degraded(false).await;
    say!("Redis frozen for {:?}: noticed after {noticed:?}, found again after {recovered:?}", length());
    tokio::time::sleep(length() / 3).await;
    for server in fleet.running() {
        let metrics = Fleet::metrics(server).await;
        let count = |bucket: &str| metrics.sum("sluicegate_admission_seconds_bucket", &[("le", bucket)]);
        let (all, late) = (count("+Inf"), count("+Inf") - count("0.1"));
        say!("decisions: {all}, of which {} within 1 ms, {} within 50 ms", count("0.001"), count("0.05"));
        // Those that were on their way when Redis froze, and none after them.
        assert!(late <= all / 20.0, "{late} of {all} decisions took more than 100 ms");
    }
    let outcome = Outcome::of(&fleet, load, "Redis frozen").await;
    assert!(outcome.worst.is_within(&Worst::bound(2)), "{:?}", outcome.worst);
}

/// How many calls of the recording tool were served, as the database has it.
async fn served_by_the_database(fleet: &Fleet) -> usize {
    let scope = UsageScope { tenant: None, agent: None, tool: Some("record".to_owned()) };
    let range = UsageRange::last(Period::Hour, WallClock::system().now_ms());
    let totals = fleet.control.usage().totals(&server::actor(), &scope, range).await.expect("totals");
    usize::try_from(totals.current.ok).expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_caller_notices_that_postgres_is_restarted_and_no_call_is_lost_to_the_books() {
    let own = Own { postgres: true, ..Own::default() };
    let Some(mut fleet) = Fleet::start_with(own, 3, PATIENT).await else { return };
    let load = Load::start(&fleet).await;
    tokio::time::sleep(length().max(LONG) / 3).await;
    fleet.postgres().stop().await;
    tokio::time::sleep(length().max(LONG) / 3).await;
    let back = Instant::now();
    fleet.postgres().start_again().await;
    let started = back.elapsed();
    while fleet.postgres().listeners().await.len() < 3 {
        assert!(back.elapsed() < Duration::from_secs(20), "the servers do not listen again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    say!(
        "Postgres gone: all servers listen again {:?} after it answered ({started:?} to start)",
        back.elapsed() - started
    );
    tokio::time::sleep(length().max(LONG) / 3).await;
    let outcome = Outcome::of(&fleet, load, "Postgres stopped and started").await;
    assert!(outcome.worst.is_within(&Worst::bound(1)), "{:?}", outcome.worst);
    assert!(outcome.wastes_nothing(), "{} of {}", outcome.admitted, outcome.ideal);
    assert_eq!((outcome.served(), outcome.neither()), (outcome.admitted, 0));
    // Servers write down once a second what was called.
    let start = Instant::now();
    while served_by_the_database(&fleet).await != outcome.admitted {
        let written = served_by_the_database(&fleet).await;
        assert!(start.elapsed() < Duration::from_secs(10), "{written} of {} are written down", outcome.admitted);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
