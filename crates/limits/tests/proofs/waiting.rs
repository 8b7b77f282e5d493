//! 2. Who waits exactly as long as told is admitted, and not a nanosecond earlier.

use proptest::prelude::*;
use sluicegate_limits::{Place, Wait};

use crate::{
    world::World,
    writing::{BUCKET, STRICT, limit, rate, rules},
};

const PLACES: [Place; 5] = [Place::Tenant, Place::Agent, Place::AgentTool, Place::Server, Place::ServerTool];

proptest! {
    #[test]
    fn waiting_exactly_as_told_is_always_enough_and_less_never_is(
        limits in prop::collection::vec((any::<bool>(), prop_oneof![1..9_u64, 1_001..1_100_u64], prop::sample::select(vec!["s", "7s", "min", "123ms"])), 1..5),
        other in (any::<bool>(), 1..2_000_u64),
        steps in prop::collection::vec((0..2_000_000_000_u64, 1..700_u32, any::<bool>()), 1..60),
    ) {
        let world = World::new();
        let caller = world.caller("acme", "a", "t");
        let with = |i: usize, strict, count, unit: &str| rate(PLACES[i], limit(if strict { STRICT } else { BUCKET }, &format!("{count}/{unit}")));
        let usual: Vec<_> = limits.iter().enumerate().map(|(i, (strict, count, unit))| with(i, *strict, *count, unit)).collect();
        let mut reloaded = usual.clone();
        reloaded[0] = with(0, other.0, other.1, "s");
        for (ns, cost, reload) in steps {
            world.wait(ns);
            let rates = if reload { &reloaded } else { &usual };
            let least = rates.iter().map(|rate| rate.limit.capacity()).min().unwrap_or(1);
            let rules = rules(rates.clone(), vec![], cost.min(least as u32));
            for attempt in 0.. {
                let Err(refusal) = world.admit(&caller, &rules) else { break };
                prop_assert!(attempt < 1, "told to wait twice");
                let wait = refusal.wait().expect("a cost that fits").as_nanos();
                prop_assert!(wait > 0);
                world.wait(wait - 1);
                let early = world.admit(&caller, &rules).expect_err("a nanosecond early");
                prop_assert_eq!(early.wait().map(Wait::as_nanos), Some(1));
                world.wait(1);
            }
        }
    }
}

#[test]
fn the_wait_that_people_read_is_enough_too() {
    let world = World::new();
    let caller = world.caller("acme", "a", "t");
    let rules = rules(vec![rate(Place::Agent, limit(BUCKET, "7/s"))], vec![], 1);
    for _ in 0..100 {
        if let Err(refusal) = world.admit(&caller, &rules) {
            world.wait(refusal.wait().expect("a wait").retry_after_ms() * 1_000_000);
            assert!(world.admit(&caller, &rules).is_ok());
        }
    }
}
