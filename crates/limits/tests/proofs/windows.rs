//! 1. A strict window never admits more than its count in any trailing window: whatever the phase, through reloads.

use proptest::prelude::*;
use sluicegate_limits::Place;

use crate::{
    world::World,
    writing::{BUCKET, STRICT, limit, rate, rules, trailing},
};

const SECOND: u64 = 1_000_000_000;

/// Steps that meet the edges of a second and of its sixtieths as often as the middle.
fn step() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(SECOND - 1),
        Just(SECOND),
        Just(SECOND / 60),
        Just(SECOND / 60 + 1),
        0..SECOND / 30,
        0..2 * SECOND,
    ]
}

proptest! {
    #[test]
    fn no_trailing_window_holds_more_than_the_count_in_force(
        counts in prop::collection::vec(prop_oneof![1..20_u64, 990..1_010_u64, 1_000..5_000_u64], 1..4),
        steps in prop::collection::vec((step(), 0..4_usize, 1..900_u32, 1..12_usize), 1..60),
    ) {
        let world = World::new();
        let caller = world.caller("acme", "a", "t");
        let (mut now, mut admitted) = (0, Vec::new());
        for (wait, policy, cost, calls) in steps {
            world.wait(wait);
            now += wait;
            let count = counts[policy % counts.len()];
            let cost = cost.min(count as u32);
            let rules = rules(vec![rate(Place::Tenant, limit(STRICT, &format!("{count}/s")))], vec![], cost);
            for _ in 0..calls {
                if world.admit(&caller, &rules).is_ok() {
                    admitted.push((now, u64::from(cost)));
                    prop_assert!(trailing(&admitted, now, SECOND) <= count);
                }
            }
        }
    }

    #[test]
    fn a_reload_gives_no_free_burst(
        policies in prop::collection::vec((any::<bool>(), 1..40_u64), 2),
        reload in 0..40_usize,
        steps in prop::collection::vec((step(), 1..30_usize), 40),
    ) {
        let world = World::new();
        let caller = world.caller("acme", "a", "t");
        let both = [0, 1].map(|i| {
            let (strict, count) = policies[i];
            limit(if strict { STRICT } else { BUCKET }, &format!("{count}/s"))
        });
        let (mut now, mut admitted) = (0, Vec::new());
        for (i, (wait, calls)) in steps.into_iter().enumerate() {
            world.wait(wait);
            now += wait;
            let rules = rules(vec![rate(Place::Agent, both[usize::from(i >= reload)])], vec![], 1);
            for _ in 0..calls {
                if world.admit(&caller, &rules).is_ok() {
                    admitted.push((now, 1));
                }
            }
        }
        let [old, new] = both;
        let larger = old.worst_case_in_any_window().max(new.worst_case_in_any_window());
        // A bucket does not know when its calls were made, nor a window how they refill: a change of algorithm may admit
        // both counts, but no burst on top.
        let both = old.quota().count() + new.quota().count();
        let most = if old.algorithm() == new.algorithm() { larger } else { larger.max(both) };
        for (at, _) in &admitted {
            prop_assert!(trailing(&admitted, at + SECOND - 1, SECOND) <= most, "more than {} at {}", most, at);
        }
    }
}

#[test]
fn a_call_in_the_last_moment_of_one_window_counts_in_the_next() {
    for count in [100_u64, 2_000] {
        let world = World::new();
        let caller = world.caller("acme", "a", "t");
        let rules = rules(vec![rate(Place::Tenant, limit(STRICT, &format!("{count}/s")))], vec![], 1);
        world.wait(SECOND - 1);
        let first = (0..2 * count).filter(|_| world.admit(&caller, &rules).is_ok()).count() as u64;
        world.wait(2);
        let second = (0..2 * count).filter(|_| world.admit(&caller, &rules).is_ok()).count();
        assert_eq!((first, second), (count, 0));
    }
}

#[test]
fn a_large_window_admits_at_most_a_sixtieth_less_than_asked() {
    let world = World::new();
    let caller = world.caller("acme", "a", "t");
    let rules = rules(vec![rate(Place::Tenant, limit(STRICT, "6000/min"))], vec![], 1);
    // As fast as allowed for ten minutes, in steps of 10 ms.
    let mut admitted = 0;
    for _ in 0..60_000 {
        world.wait(SECOND / 100);
        while world.admit(&caller, &rules).is_ok() {
            admitted += 1;
        }
    }
    assert!((59_000..=66_000).contains(&admitted), "{admitted} of 60000");
}
