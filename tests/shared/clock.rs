//! Redis measures by the clock on the wall: its numbers are large, and it may be set back.

use sluicegate::limits::{Place, Wait};

use crate::world::World;
use crate::writing::{BUCKET, STRICT, limit, rate, rules, trailing};

const MICROSECOND: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;
/// Some time in 2026, since 1970.
const TODAY: u64 = 1_796_000_000 * SECOND + 123_457 * MICROSECOND;

#[test]
fn nothing_is_rounded_in_microseconds_of_today() {
    for limit in [limit(BUCKET, "7/s"), limit(STRICT, "7/s"), limit(STRICT, "2000/7s"), limit(BUCKET, "5000/day")] {
        let world = World::counting_in(MICROSECOND);
        world.wait(TODAY);
        let caller = world.caller("acme", "a", "t");
        let rules = rules(vec![rate(Place::Agent, limit)], vec![], limit.capacity() as u32);
        for _ in 0..5 {
            assert!(world.admit(&caller, &rules).is_ok());
            let wait = world.admit(&caller, &rules).expect_err("all is used").wait().expect("it fits").as_nanos();
            world.wait(wait - MICROSECOND);
            let early = world.admit(&caller, &rules).expect_err("a microsecond early");
            assert_eq!(early.wait().map(Wait::as_nanos), Some(MICROSECOND), "{limit}");
            world.wait(MICROSECOND);
        }
    }
}

#[test]
fn a_clock_that_is_set_back_locks_nobody_out() {
    for limit in [limit(BUCKET, "5/min"), limit(STRICT, "5/min"), limit(STRICT, "500/min")] {
        let world = World::new();
        world.wait(86_400 * SECOND);
        let caller = world.caller("acme", "a", "t");
        let rules = rules(vec![rate(Place::Agent, limit)], vec![], 1);
        let passing = || (0..).take_while(|_| world.admit(&caller, &rules).is_ok()).count() as u64;
        assert_eq!(passing(), limit.capacity());
        world.set_back(3_600 * SECOND);
        assert_eq!(passing(), 0, "{limit}: nothing is forgiven");
        // A window that counts in sixtieths lasts one of them longer.
        world.wait(61 * SECOND);
        assert_eq!(passing(), limit.capacity(), "{limit}");
    }
}

#[test]
fn however_often_the_clock_is_set_back_no_window_holds_more_than_its_count() {
    // Whatever is in use is in use anew from then on: where that happens within every window, nothing comes back.
    assert_eq!(admitted_with_a_clock_set_back_every(7), 20);
    let admitted = admitted_with_a_clock_set_back_every(13);
    assert!(admitted >= 60, "{admitted} were admitted");
}

/// How many calls pass under 20/min in 60 steps of seven seconds, of which one in `steps` begins with an earlier time.
fn admitted_with_a_clock_set_back_every(steps: u64) -> usize {
    let world = World::new();
    world.wait(86_400 * SECOND);
    let caller = world.caller("acme", "a", "t");
    let rules = rules(vec![rate(Place::Agent, limit(STRICT, "20/min"))], vec![], 1);
    // By a clock that nobody sets.
    let (mut now, mut admitted) = (0, Vec::new());
    for step in 0..60 {
        world.wait(7 * SECOND);
        now += 7 * SECOND;
        if step % steps == 3 {
            world.set_back(step * 11 * SECOND);
        }
        while world.admit(&caller, &rules).is_ok() {
            admitted.push((now, 1));
            assert!(trailing(&admitted, now, 60 * SECOND) <= 20, "step {step}");
        }
    }
    admitted.len()
}
