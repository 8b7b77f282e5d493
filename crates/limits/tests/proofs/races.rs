//! 7. Threads that race on one key never exceed the limit.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use sluicegate_limits::{Place, Rules};

use crate::{
    world::World,
    writing::{BUCKET, STRICT, cap, limit, rate, rules},
};

const THREADS: usize = 4;

/// How many of `calls` calls by each of some threads are admitted while the clock stands still.
fn race(world: &World, rules: &Rules, calls: usize) -> usize {
    let (barrier, admitted) = (Barrier::new(THREADS), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, admitted) = (&barrier, &admitted);
            scope.spawn(move || {
                let caller = world.caller(&format!("tenant-{}", thread % 2), "a", "t");
                barrier.wait();
                let passed = (0..calls).filter(|_| world.admit(&caller, rules).is_ok()).count();
                admitted.fetch_add(passed, SeqCst);
            });
        }
    });
    admitted.into_inner()
}

#[test]
fn a_limit_in_any_place_admits_exactly_its_count_to_racing_threads() {
    for (place, keys) in [(Place::Server, 1), (Place::ServerTool, 1), (Place::Tenant, 2), (Place::AgentTool, 2)] {
        for limit in [limit(BUCKET, "500/day"), limit(STRICT, "500/day"), limit(STRICT, "1500/day")] {
            let rules = rules(vec![rate(place, limit)], vec![], 1);
            assert_eq!(
                race(&World::new(), &rules, 1_000),
                (keys * limit.capacity() as usize).min(THREADS * 1_000),
                "{place:?} {limit}"
            );
        }
    }
}

#[test]
fn a_call_refused_by_one_limit_takes_nothing_from_another_even_in_a_race() {
    let rules = rules(
        vec![rate(Place::Server, limit(STRICT, "300/day")), rate(Place::Tenant, limit(BUCKET, "200/day"))],
        vec![],
        1,
    );
    let world = World::new();
    assert_eq!(race(&world, &rules, 1_000), 300);
    let report = [0, 1].map(|i| world.inspect(&world.caller(&format!("tenant-{i}"), "a", "t"), &rules)[1].used);
    assert_eq!(report[0] + report[1], 300);
}

#[test]
fn no_more_calls_run_at_a_time_than_the_caps_allow() {
    let world = World::new();
    let rules = rules(vec![], vec![cap(Place::Server, 3), cap(Place::Tenant, 2), cap(Place::ServerTool, 3)], 1);
    let (running, most, refused) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (world, rules, running, most, refused) = (&world, &rules, &running, &most, &refused);
            scope.spawn(move || {
                let caller = world.caller(&format!("tenant-{}", thread % 2), "a", "t");
                for _ in 0..2_000 {
                    let Ok(admission) = world.admit(&caller, rules) else {
                        refused.fetch_add(1, SeqCst);
                        continue;
                    };
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    thread::yield_now();
                    running.fetch_sub(1, SeqCst);
                    drop(admission);
                }
            });
        }
    });
    assert!(most.into_inner() <= 3);
    for report in world.inspect(&world.caller("tenant-0", "a", "t"), &rules) {
        assert_eq!(report.used, 0, "every slot came back");
    }
}

#[test]
fn sweeping_and_forgetting_while_calls_run_loses_nothing() {
    let world = World::new();
    let rules = rules(vec![rate(Place::Agent, limit(BUCKET, "1/day"))], vec![cap(Place::Agent, 1)], 1);
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..2 {
            let (world, rules, done) = (&world, &rules, &done);
            scope.spawn(move || {
                for i in 0..2_000 {
                    let caller = world.caller(&format!("tenant-{thread}-{i}"), "a", "t");
                    assert!(world.admit(&caller, rules).is_ok());
                }
                done.fetch_add(1, SeqCst);
            });
        }
        while done.load(SeqCst) < 2 {
            world.sweep();
        }
    });
    assert!(world.states().is_none_or(|states| states == 4_000));
}
