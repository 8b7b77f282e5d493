//! Lowering a limit for a while forgives nothing: whatever the sequence of limits, no window holds more than the widest of
//! them would have let through by itself.

use proptest::prelude::*;
use sluicegate_limits::{Algorithm, Place, RateLimit};

use crate::{
    world::{Caller, World},
    writing::{BUCKET, Envelope, STRICT, limit, rate, rules, trailing},
};

const SECOND: u64 = 1_000_000_000;

fn bucket(quota: &str, burst: Option<u32>) -> RateLimit {
    RateLimit::new(quota.parse().expect("a quota"), burst, BUCKET).expect("a limit")
}

/// How many calls pass now.
fn passing(world: &World, caller: &Caller, limit: RateLimit) -> u64 {
    let rules = rules(vec![rate(Place::Agent, limit)], vec![], 1);
    (0..).take_while(|_| world.admit(caller, &rules).is_ok()).count() as u64
}

#[test]
fn a_bucket_that_is_lowered_for_three_seconds_is_as_full_as_before() {
    let world = World::new();
    let caller = world.caller("acme", "a", "t");
    let (five, one) = (bucket("5/min", None), bucket("1/min", None));
    assert_eq!(passing(&world, &caller, five), 5);
    assert_eq!(passing(&world, &caller, one), 0);
    world.wait(3 * SECOND);
    assert_eq!(passing(&world, &caller, one), 0);
    assert_eq!(passing(&world, &caller, five), 0);
    world.wait(9 * SECOND);
    assert_eq!(passing(&world, &caller, five), 1, "the twelve seconds count as if nothing had happened");
}

#[test]
fn a_days_quota_is_not_refunded_by_a_quota_of_a_minute() {
    for algorithm in [BUCKET, STRICT] {
        let world = World::new();
        let caller = world.caller("acme", "a", "t");
        let (day, minute) = (limit(algorithm, "100/day"), limit(algorithm, "1/min"));
        assert_eq!(passing(&world, &caller, day), 100);
        for _ in 0..10 {
            passing(&world, &caller, minute);
            world.wait(60 * SECOND);
        }
        assert_eq!(passing(&world, &caller, day), 0, "{algorithm}");
        world.wait(86_400 * SECOND);
        assert_eq!(passing(&world, &caller, day), 100, "{algorithm}");
    }
}

#[test]
fn a_burst_or_an_algorithm_that_is_changed_for_a_while_forgives_nothing() {
    for other in [bucket("5/min", Some(1)), bucket("1/s", Some(1)), limit(STRICT, "1/min"), limit(STRICT, "2/s")] {
        for usual in [bucket("5/min", None), limit(STRICT, "5/min")] {
            let world = World::new();
            let caller = world.caller("acme", "a", "t");
            assert_eq!(passing(&world, &caller, usual), 5);
            passing(&world, &caller, other);
            world.wait(3 * SECOND);
            passing(&world, &caller, other);
            assert_eq!(passing(&world, &caller, usual), 0, "{usual:?} {other:?}");
        }
    }
}

#[test]
fn what_was_cut_off_locks_nobody_out_of_the_lower_limit() {
    let world = World::new();
    let caller = world.caller("acme", "a", "t");
    let lower = bucket("10/min", None);
    assert_eq!(passing(&world, &caller, bucket("5000/day", None)), 5_000);
    assert_eq!(passing(&world, &caller, lower), 0);
    for _ in 0..100 {
        world.wait(6 * SECOND);
        assert_eq!(passing(&world, &caller, lower), 1);
    }
    world.wait(60 * SECOND);
    assert_eq!(passing(&world, &caller, lower), 10);
}

#[test]
fn a_plain_raise_takes_nothing_but_what_is_used() {
    let world = World::new();
    let caller = world.caller("acme", "a", "t");
    assert_eq!(passing(&world, &caller, bucket("5/min", None)), 5);
    assert_eq!(passing(&world, &caller, bucket("50/min", None)), 45);
    let caller = world.caller("acme", "b", "t");
    assert_eq!(passing(&world, &caller, bucket("5/min", None)), 5);
    assert_eq!(passing(&world, &caller, bucket("1/min", None)), 0);
    assert_eq!(passing(&world, &caller, bucket("50/min", None)), 45, "after a detour too");
}

fn any_limit() -> impl Strategy<Value = RateLimit> {
    let count = prop_oneof![4 => 1..30_u64, 1 => 1_001..1_100_u64];
    (any::<bool>(), count, prop::sample::select(vec!["s", "7s", "min"]), prop::option::of(1..40_u32)).prop_map(
        |(strict, count, unit, burst)| {
            let quota = format!("{count}/{unit}");
            if strict { limit(STRICT, &quota) } else { bucket(&quota, burst) }
        },
    )
}

fn any_wait() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(SECOND), 2 => 0..SECOND, 2 => 0..10 * SECOND, 1 => 0..70 * SECOND]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(World::CASES))]

    #[test]
    fn no_sequence_of_limits_lets_more_through_than_the_widest_of_them(
        limits in prop::collection::vec(any_limit(), 1..4),
        steps in prop::collection::vec((any_wait(), 0..4_usize, 1..20_u32, 1..40_usize), 1..80),
    ) {
        let world = World::new();
        let caller = world.caller("acme", "a", "t");
        let mut widest = Envelope::of(&limits);
        let mut now = 0;
        for (i, (wait, which, cost, calls)) in steps.into_iter().enumerate() {
            world.wait(wait);
            now += wait;
            let limit = limits[which % limits.len()];
            let cost = cost.min(limit.capacity() as u32);
            let rules = rules(vec![rate(Place::Agent, limit)], vec![], cost);
            for _ in 0..calls {
                if world.admit(&caller, &rules).is_ok() {
                    prop_assert!(widest.admits(now, cost.into()), "step {}", i);
                }
            }
        }
    }

    #[test]
    fn no_window_forgets_its_calls_while_another_is_in_force(
        limits in prop::collection::vec((1..30_u64, 0..3_usize), 1..5),
        steps in prop::collection::vec((any_wait(), 0..4_usize, 1..40_usize), 1..80),
    ) {
        const UNITS: [(&str, u64); 3] = [("s", SECOND), ("7s", 7 * SECOND), ("min", 60 * SECOND)];
        let world = World::new();
        let caller = world.caller("acme", "a", "t");
        let mut admitted: [Vec<(u64, u64)>; 3] = Default::default();
        let mut now = 0;
        for (wait, which, calls) in steps {
            world.wait(wait);
            now += wait;
            let (count, unit) = limits[which % limits.len()];
            let (name, window) = UNITS[unit];
            let most = limits.iter().filter(|(_, other)| *other == unit).map(|(count, _)| *count).max().unwrap_or(0);
            let limit: (Algorithm, String) = (STRICT, format!("{count}/{name}"));
            let rules = rules(vec![rate(Place::Agent, self::limit(limit.0, &limit.1))], vec![], 1);
            for _ in 0..calls {
                if world.admit(&caller, &rules).is_ok() {
                    admitted[unit].push((now, 1));
                    prop_assert!(trailing(&admitted[unit], now, window) <= most);
                }
            }
        }
    }
}
