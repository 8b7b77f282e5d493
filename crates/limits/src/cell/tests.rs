use super::*;
use crate::{Algorithm, Mode, Place, Priority, RateLimit, RateRule, Rules, Scope};

const S: u64 = 1_000_000_000;

fn rate_of(cost: u32, quota: &str, burst: Option<u32>, algorithm: Algorithm) -> CompiledRate {
    let limit = RateLimit::new(quota.parse().expect("a quota"), burst, algorithm).expect("a limit");
    let rule = RateRule { scope: Scope::Agent, place: Place::Agent, ordinal: 0, limit, mode: Mode::Enforce };
    let rules = Rules::new(vec![rule], vec![], cost, Priority::Normal, false).expect("rules");
    rules.compiled.tenant_rates[0]
}

fn bucket(quota: &str) -> CompiledRate {
    rate_of(1, quota, None, Algorithm::TokenBucket)
}

fn window(quota: &str) -> CompiledRate {
    rate_of(1, quota, None, Algorithm::SlidingWindow)
}

/// A cell of this rate after `calls` calls at `now`.
fn used(rate: &CompiledRate, calls: u64, now: u64) -> Cell {
    let mut cell = Cell::fresh(rate);
    for _ in 0..calls {
        assert_eq!(cell.check(rate, now).wait, 0);
        cell.charge(rate, now);
    }
    cell
}

/// How many calls pass at `now`.
fn passing(cell: &mut Cell, rate: &CompiledRate, now: u64) -> u64 {
    let mut passed = 0;
    while cell.check(rate, now).wait == 0 {
        cell.charge(rate, now);
        passed += 1;
    }
    passed
}

impl Cell {
    /// Asks about a call, after giving the state the numbers of `rate` if it has others.
    fn check(&mut self, rate: &CompiledRate, now: u64) -> Check {
        if !self.fits(rate, now) {
            *self = Self::succeeding([(&*self, true)], rate, now);
        }
        self.judge(rate, now)
    }
}

#[test]
fn a_cell_is_two_words() {
    assert_eq!(size_of::<Cell>(), 16);
}

#[test]
fn a_bucket_passes_its_burst_at_once_and_then_one_per_interval() {
    let rate = rate_of(1, "10/s", Some(3), Algorithm::TokenBucket);
    let mut cell = Cell::fresh(&rate);
    assert_eq!(passing(&mut cell, &rate, S), 3);
    assert_eq!(cell.check(&rate, S).wait, S / 10);
    assert_eq!(passing(&mut cell, &rate, S + S / 10), 1);
    assert_eq!(passing(&mut cell, &rate, 9 * S), 3);
}

#[test]
fn a_window_refuses_until_its_oldest_call_has_left() {
    let rate = window("2/s");
    let mut cell = used(&rate, 1, 0);
    cell.charge(&rate, S / 2);
    assert_eq!(cell.check(&rate, S - 1).wait, 1);
    assert_eq!(passing(&mut cell, &rate, S), 1);
    assert_eq!(cell.check(&rate, S).wait, S / 2);
}

#[test]
fn a_window_asked_for_several_waits_for_as_many_to_leave() {
    let one = window("3/s");
    let mut cell = Cell::fresh(&one);
    for i in 0..3 {
        cell.charge(&one, i * 100);
    }
    assert_eq!(cell.check(&rate_of(2, "3/s", None, Algorithm::SlidingWindow), 200).wait, S + 100 - 200);
}

#[test]
fn both_shapes_of_window_agree_on_a_full_window() {
    for quota in ["1000/min", "1001/min"] {
        let rate = window(quota);
        let mut cell = Cell::fresh(&rate);
        assert_eq!(passing(&mut cell, &rate, 0), rate.capacity);
        assert_eq!(passing(&mut cell, &rate, 60 * S - 1), 0);
        assert_eq!(passing(&mut cell, &rate, 61 * S), rate.capacity);
    }
}

#[test]
fn usage_says_how_much_is_in_use_and_when_the_first_comes_back() {
    let rate = bucket("10/s");
    let cell = used(&rate, 3, S);
    assert_eq!(cell.usage(S + 1), Usage { used: 3, reset: S / 10 - 1 });
    let rate = window("10/s");
    let cell = used(&rate, 3, S);
    assert_eq!(cell.usage(S + 1), Usage { used: 3, reset: S - 1 });
    assert_eq!(Cell::fresh(&rate).usage(S), Usage { used: 0, reset: 0 });
}

#[test]
fn after_five_used_fifty_a_minute_leaves_forty_five() {
    let mut cell = used(&bucket("10/min"), 5, 0);
    assert_eq!(passing(&mut cell, &bucket("50/min"), 0), 45);
}

#[test]
fn a_lowered_bucket_is_full_at_most_and_drains_at_the_new_rate_even_if_nothing_is_admitted() {
    let mut cell = used(&bucket("5000/day"), 4_000, 0);
    let lowered = bucket("10/min");
    assert_eq!(cell.check(&lowered, 0).wait, 6 * S);
    for second in 1..6 {
        assert_eq!(cell.check(&lowered, second * S).wait, (6 - second) * S);
    }
    assert_eq!(passing(&mut cell, &lowered, 6 * S), 1);
}

#[test]
fn a_bucket_whose_burst_alone_is_lowered_is_full_at_most() {
    let mut cell = used(&bucket("100/s"), 100, 0);
    let lowered = rate_of(1, "100/s", Some(2), Algorithm::TokenBucket);
    assert_eq!(cell.check(&lowered, 0).wait, S / 100);
}

#[test]
fn a_bucket_made_a_window_starts_with_the_used_share_in_it() {
    let mut cell = used(&bucket("10/s"), 7, 0);
    let rate = window("10/s");
    assert_eq!(passing(&mut cell, &rate, 0), 3);
    assert_eq!(cell.check(&rate, S - 1).wait, 1);
}

#[test]
fn a_window_made_a_bucket_keeps_what_is_used() {
    let mut cell = used(&window("10/s"), 7, 0);
    assert_eq!(passing(&mut cell, &bucket("10/s"), S / 2), 3);
    let mut cell = used(&window("10/s"), 7, 0);
    assert_eq!(passing(&mut cell, &bucket("10/s"), S), 10);
}

#[test]
fn lowering_and_raising_a_window_forgets_no_call() {
    for (high, low) in [("100/min", "10/min"), ("5000/min", "10/min"), ("5000/min", "1500/min")] {
        let (high, low) = (window(high), window(low));
        let mut cell = used(&high, high.capacity - 5, 0);
        assert_eq!(passing(&mut cell, &low, S), 0);
        assert_eq!(passing(&mut cell, &high, 2 * S), 5);
    }
}

#[test]
fn a_window_of_another_length_counts_the_calls_it_knows() {
    for (from, to) in [("10/s", "10/min"), ("2000/s", "2000/min"), ("900/s", "1100/min"), ("2000/s", "900/min")] {
        let (from, to) = (window(from), window(to));
        let mut cell = used(&from, from.capacity.min(900), S);
        let left = to.capacity - from.capacity.min(900);
        assert_eq!(passing(&mut cell, &to, S + S / 2), left, "{from:?} {to:?}");
    }
}

#[test]
fn an_idle_cell_is_fresh_exactly_when_it_no_longer_matters() {
    for rate in [bucket("10/s"), window("10/s")] {
        let cell = used(&rate, 10, 0);
        assert!(!cell.is_fresh(S - 1) && cell.is_fresh(S));
    }
    let cell = used(&window("2000/s"), 1, 0);
    assert!(!cell.is_fresh(S) && cell.is_fresh(S + S / 50));
}
