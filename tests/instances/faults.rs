//! A load on three servers, undisturbed and while something breaks; what got through is counted inside the tool.

use std::time::{Duration, Instant};

use sluicegate_tests::recorder;

use crate::fleet::Fleet;
use crate::load::{Load, Offered, PATIENT, WATCHFUL, Worst, ideal, length};

/// What became of a load.
struct Outcome {
    admitted: usize,
    ideal: usize,
    worst: Worst,
    offered: Vec<Offered>,
}

impl Outcome {
    async fn of(fleet: &Fleet, load: Load, what: &str) -> Self {
        let offered = load.end().await;
        let recorded = recorder::read(&fleet.recorded());
        let outcome = Self { admitted: recorded.len(), ideal: ideal(&offered), worst: Worst::of(&recorded), offered };
        let slowest = outcome.offered.iter().map(|call| call.took).max().unwrap_or_default();
        say!(
            "{what}: {} offered, {} admitted, {} ideal, {} refused beyond that; most in a window {:?}; slowest answer {slowest:?}",
            outcome.offered.len(),
            outcome.admitted,
            outcome.ideal,
            outcome.ideal.saturating_sub(outcome.admitted),
            outcome.worst,
        );
        outcome
    }

    fn served(&self) -> usize {
        self.offered.iter().filter(|call| call.status == 200).count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_together_keep_every_limit_and_waste_nothing() {
    let Some(fleet) = Fleet::start(3, PATIENT).await else { return };
    let load = Load::start(&fleet).await;
    tokio::time::sleep(length()).await;
    let outcome = Outcome::of(&fleet, load, "undisturbed").await;
    assert!(outcome.worst.is_within(&Worst::bound(1)), "{:?}", outcome.worst);
    assert!(outcome.admitted * 100 >= outcome.ideal * 98, "{} of {}", outcome.admitted, outcome.ideal);
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
