use super::*;
use crate::{Algorithm, Mode, Place, Priority, RateLimit, RateRule, Rules, Scope, rules::Identity};

const S: u64 = 1_000_000_000;

fn two_per_second() -> CompiledRate {
    let limit = RateLimit::new("2/s".parse().expect("a quota"), None, Algorithm::TokenBucket).expect("a limit");
    let rule = RateRule { scope: Scope::Agent, place: Place::Agent, ordinal: 0, limit, mode: Mode::Enforce };
    Rules::new(vec![rule], vec![], 1, Priority::Normal, false).expect("rules").compiled.tenant_rates[0]
}

fn key(agent: u32) -> u64 {
    two_per_second().key(&Identity { agent, key: agent, tool: 2 })
}

fn call(table: &mut Table, agent: u32, now: u64) -> bool {
    let rate = two_per_second();
    let now = table.time(now);
    let (site, check) = table.check(&rate, key(agent), now);
    if check.wait == 0 {
        match site {
            Site::OWN => table.charge_new(key(agent), &rate, now),
            Site::SHARED => table.charge_new(rate.overflow_key(key(agent)), &rate, now),
            site => table.charge_at(site.place().expect("a place"), &rate, now),
        };
    }
    table.make_room(now);
    check.wait == 0
}

#[test]
fn asking_creates_nothing() {
    let mut table = Table::new(10);
    assert_eq!(table.check(&two_per_second(), key(1), 0).1.wait, 0);
    assert_eq!(table.len(), 0);
}

#[test]
fn keys_beyond_the_cap_share_one_state() {
    let mut table = Table::new(2);
    assert!(call(&mut table, 1, 0) && call(&mut table, 2, 0));
    assert!(call(&mut table, 3, 0) && call(&mut table, 4, 0));
    assert!(!call(&mut table, 5, 0), "three and four used up what five shares with them");
    assert!(call(&mut table, 1, 0), "one has its own");
    assert_eq!(table.len(), 3);
}

#[test]
fn a_key_that_gets_its_own_state_starts_from_the_overflow() {
    let mut table = Table::new(2);
    assert!(call(&mut table, 1, 0) && call(&mut table, 2, 0));
    assert!(call(&mut table, 3, S) && call(&mut table, 3, S), "one and two are fresh by now, which is seen later");
    assert!(table.len() <= 2, "there is room again");
    assert!(!call(&mut table, 3, S), "its own state is as used as the shared one");
    assert!(call(&mut table, 3, S + S / 2));
}

#[test]
fn sweeping_drops_only_what_is_fresh_and_no_more_than_a_step_at_a_time() {
    let mut table = Table::new(usize::MAX);
    for agent in 1..=1_000 {
        assert!(call(&mut table, agent, if agent <= 500 { 0 } else { S }));
    }
    let now = table.time(S + S / 4);
    for _ in 0..=table.cells.places() / SWEEP_STEP {
        assert!(table.sweep(SWEEP_STEP, now).0 <= SWEEP_STEP);
    }
    assert_eq!(table.len(), 500);
    assert!((501..=1_000).all(|agent| table.cells.get(key(agent)).is_some()), "those still count");
}

#[test]
fn a_table_in_use_cleans_itself() {
    let mut table = Table::new(usize::MAX);
    for agent in 1..=20_000 {
        assert!(call(&mut table, agent, u64::from(agent) * S / 10));
    }
    assert!(table.len() < 100, "{} keys live, of which 5 are in use", table.len());
}

#[test]
fn time_never_runs_backwards() {
    let mut table = Table::new(10);
    assert_eq!(table.time(5), 5);
    assert_eq!(table.time(3), 5);
}

#[test]
fn slots_are_counted_and_forgotten_when_given_back() {
    let mut table = Table::new(10);
    table.take(7);
    table.take(7);
    assert_eq!((table.taken(7), table.taken(8)), (2, 0));
    table.give_back(7);
    table.give_back(7);
    assert!(table.is_idle());
}
