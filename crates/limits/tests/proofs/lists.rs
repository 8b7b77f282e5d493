//! Editing the list of quotas of one place forgets nothing: every window that stays keeps what it counted, and a new one
//! starts as used as the others.

use proptest::prelude::*;
use sluicegate_limits::{Place, RateLimit, RateRule, Rules};

use crate::{
    world::{Caller, World},
    writing::{BUCKET, Envelope, STRICT, limit, rate, rules, trailing},
};

const SECOND: u64 = 1_000_000_000;
const UNITS: [(&str, u64); 4] = [("s", SECOND), ("7s", 7 * SECOND), ("min", 60 * SECOND), ("h", 3_600 * SECOND)];

/// The rates of a list, numbered in order.
fn list(limits: &[RateLimit]) -> Vec<RateRule> {
    limits.iter().zip(0..).map(|(limit, ordinal)| RateRule { ordinal, ..rate(Place::Agent, *limit) }).collect()
}

fn of(quotas: &[&str]) -> Rules {
    let limits: Vec<_> = quotas.iter().map(|quota| limit(BUCKET, quota)).collect();
    rules(list(&limits), vec![], 1)
}

/// How many calls pass now.
fn passing(world: &World, caller: &Caller, rules: &Rules) -> u64 {
    (0..).take_while(|_| world.admit(caller, rules).is_ok()).count() as u64
}

#[test]
fn a_quota_that_is_used_up_stays_so_whatever_is_put_beside_it() {
    for edited in [&["20/h", "10/s"][..], &["10/s", "20/h"], &["100/h", "20/h"], &["50/d", "20/h", "10/s"]] {
        let world = World::new();
        let caller = world.caller("acme", "a", "t");
        assert_eq!(passing(&world, &caller, &of(&["20/h"])), 20);
        assert_eq!(passing(&world, &caller, &of(edited)), 0, "{edited:?}");
        world.wait(180 * SECOND - 1);
        assert_eq!(passing(&world, &caller, &of(edited)), 0, "{edited:?}");
        world.wait(1);
        assert_eq!(passing(&world, &caller, &of(edited)), 1, "{edited:?}");
    }
}

#[test]
fn a_quota_keeps_its_state_when_those_around_it_are_dropped_or_reordered() {
    let world = World::new();
    let caller = world.caller("acme", "a", "t");
    assert_eq!(passing(&world, &caller, &of(&["1000/d", "20/h", "10/s"])), 10);
    world.wait(SECOND);
    assert_eq!(passing(&world, &caller, &of(&["20/h", "10/s"])), 10);
    assert_eq!(passing(&world, &caller, &of(&["10/s", "20/h"])), 0);
    world.wait(SECOND);
    assert_eq!(passing(&world, &caller, &of(&["20/h"])), 0);
    // As used as the other now: one that was dropped starts anew.
    assert_eq!(passing(&world, &caller, &of(&["50/h", "10/s"])), 0);
    world.wait(SECOND);
    assert_eq!(passing(&world, &caller, &of(&["50/h", "10/s"])), 10);
}

#[test]
fn a_quota_is_not_as_used_as_its_neighbours_because_it_was_idle() {
    let world = World::new();
    let caller = world.caller("acme", "a", "t");
    let rules = of(&["1000/h", "10/s"]);
    for _ in 0..20 {
        assert_eq!(passing(&world, &caller, &rules), 10);
        world.wait(2 * SECOND);
        (0..10).for_each(|_| world.sweep());
    }
}

#[test]
fn looking_at_an_edited_list_foresees_what_a_call_will_find() {
    let world = World::new();
    let caller = world.caller("acme", "a", "t");
    passing(&world, &caller, &of(&["1000/d", "20/h"]));
    let edited = of(&["50/h", "10/s"]);
    let before = world.inspect(&caller, &edited);
    assert_eq!(before.iter().map(|report| report.used).collect::<Vec<_>>(), [20, 10]);
    assert!(world.admit(&caller, &edited).is_err());
    assert_eq!(world.inspect(&caller, &edited), before);
}

#[derive(Clone, Debug)]
struct Edit {
    /// (unit, algorithm, count) in order; units differ.
    quotas: Vec<(usize, bool, u64)>,
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let counts = prop::collection::vec((any::<bool>(), prop_oneof![6 => 1..30_u64, 1 => 1_001..1_010_u64]), 4);
    (prop::sample::subsequence(vec![0, 1, 2, 3], 1..4).prop_shuffle(), counts).prop_map(|(units, counts)| Edit {
        quotas: units.into_iter().map(|unit| (unit, counts[unit].0, counts[unit].1)).collect(),
    })
}

impl Edit {
    fn limits(&self) -> Vec<RateLimit> {
        let one = |(unit, strict, count): &(usize, bool, u64)| {
            limit(if *strict { STRICT } else { BUCKET }, &format!("{count}/{}", UNITS[*unit].0))
        };
        self.quotas.iter().map(one).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(World::CASES))]

    #[test]
    fn no_edit_of_a_list_lets_more_through_than_the_widest_quota_of_each_window(
        edits in prop::collection::vec(any_edit(), 1..6),
        steps in prop::collection::vec((prop_oneof![3 => 0..SECOND, 1 => Just(0), 1 => 0..100 * SECOND], 0..4_u8, 1..40_usize), 6..60),
    ) {
        let world = World::new();
        let caller = world.caller("acme", "a", "t");
        let steps_per_edit = steps.len().div_ceil(edits.len());
        let (mut now, mut admitted) = (0, Vec::new());
        // Since when each window is in every list, and by how wide quotas.
        let mut runs: [Option<(usize, Envelope, bool, u64)>; 4] = Default::default();
        for (i, (wait, sweeps, calls)) in steps.into_iter().enumerate() {
            world.wait(wait);
            now += wait;
            (0..sweeps).for_each(|_| world.sweep());
            let edit = i / steps_per_edit;
            if i % steps_per_edit == 0 {
                for (unit, run) in runs.iter_mut().enumerate() {
                    let in_list = |edit: &Edit| edit.quotas.iter().any(|quota| quota.0 == unit);
                    if !in_list(&edits[edit]) {
                        *run = None;
                    } else if run.is_none() {
                        let same: Vec<_> = edits[edit..].iter().take_while(|edit| in_list(edit)).collect();
                        let quotas = || same.iter().flat_map(|edit| &edit.quotas).filter(|quota| quota.0 == unit);
                        let limits: Vec<_> = same.iter().flat_map(|edit| edit.limits().into_iter().zip(&edit.quotas)).filter(|(_, quota)| quota.0 == unit).map(|(limit, _)| limit).collect();
                        let all_strict = quotas().all(|quota| quota.1);
                        let most = quotas().map(|quota| quota.2).max().unwrap_or(0);
                        *run = Some((admitted.len(), Envelope::of(&limits), all_strict, most));
                    }
                }
            }
            let rules = rules(list(&edits[edit].limits()), vec![], 1);
            for _ in 0..calls {
                if world.admit(&caller, &rules).is_err() {
                    continue;
                }
                admitted.push((now, 1));
                for (unit, run) in runs.iter_mut().enumerate() {
                    let Some((since, widest, all_strict, most)) = run else { continue };
                    prop_assert!(widest.admits(now, 1), "step {}, a bucket of {}", i, UNITS[unit].0);
                    let in_window = trailing(&admitted[*since..], now, UNITS[unit].1);
                    prop_assert!(!*all_strict || in_window <= *most, "step {}, {} in {}", i, in_window, UNITS[unit].0);
                }
            }
        }
    }
}
