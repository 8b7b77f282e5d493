//! 9. A server-wide ceiling that is asked for more than it has is handed out in weighted max-min shares, and nothing of it is
//!    wasted.

use std::{sync::Arc, time::Duration};

use quanta::Mock;
use sluicegate_limits::{Algorithm, Limiter, LimiterOptions, Place, Rules, TurnOutcome};

use crate::{
    world::{Caller, World},
    writing::{BUCKET, STRICT, limit, rate, rules, trailing},
};

const SECOND: u64 = 1_000_000_000;

/// One tenant of a rehearsal: how often it calls, evenly or by chance, from when until when.
#[derive(Clone, Copy)]
struct Asks {
    per_second: f64,
    weight: u32,
    by_chance: bool,
    from: u64,
    until: u64,
}

fn evenly(per_second: f64) -> Asks {
    Asks { per_second, weight: 1, by_chance: false, from: 0, until: u64::MAX }
}

fn by_chance(per_second: f64) -> Asks {
    Asks { by_chance: true, ..evenly(per_second) }
}

/// What became of a rehearsal: when each tenant was admitted, and when it asked.
struct Outcome {
    admitted: Vec<Vec<u64>>,
    asked: Vec<Vec<u64>>,
}

impl Outcome {
    /// Calls of a tenant a second, from `from` on.
    fn rate(times: &[u64], from: u64, until: u64) -> f64 {
        let counted = times.iter().filter(|at| (from..until).contains(at)).count();
        counted as f64 * SECOND as f64 / (until - from) as f64
    }

    fn admitted(&self, tenant: usize, from: u64, until: u64) -> f64 {
        Self::rate(&self.admitted[tenant], from * SECOND, until * SECOND)
    }

    fn all(&self, from: u64, until: u64) -> f64 {
        (0..self.admitted.len()).map(|tenant| self.admitted(tenant, from, until)).sum()
    }
}

fn world(fair_share: bool) -> World {
    let (clock, mock) = quanta::Clock::mock();
    World { limiter: Limiter::new(clock, LimiterOptions { fair_share, ..LimiterOptions::default() }), mock }
}

fn rehearse(fair: bool, algorithm: Algorithm, quota: &str, seconds: u64, tenants: &[Asks]) -> Outcome {
    let world = world(fair);
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let rules = rules(vec![rate(Place::Server, limit(algorithm, quota))], vec![], 1);
    let mut calls: Vec<(u64, usize)> = Vec::new();
    let callers: Vec<Caller> = (tenants.iter().enumerate())
        .map(|(at, asks)| {
            let caller = world.caller(&format!("tenant-{at}"), "agent", "tool");
            caller.tenant.set_weight(asks.weight);
            let mut now = asks.from as f64 + 7.0 * at as f64;
            while now < asks.until.min(seconds * SECOND) as f64 {
                calls.push((now as u64, at));
                // Xorshift: the same chances in every run.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // Above 0, which has no logarithm.
                let chance = ((random >> 32) as f64 + 1.0) / (f64::from(u32::MAX) + 1.0);
                let pause = if asks.by_chance { -chance.ln() } else { 1.0 };
                now += pause * SECOND as f64 / asks.per_second;
            }
            caller
        })
        .collect();
    calls.sort_unstable();
    let mut outcome = Outcome { admitted: vec![Vec::new(); tenants.len()], asked: vec![Vec::new(); tenants.len()] };
    let mut now = 0;
    for (at, tenant) in calls {
        world.wait(at - now);
        now = at;
        outcome.asked[tenant].push(at);
        if world.admit(&callers[tenant], &rules).is_ok() {
            outcome.admitted[tenant].push(at);
        }
    }
    outcome
}

#[test]
fn a_tenant_that_asks_ten_times_as_much_does_not_push_another_below_its_share() {
    for (small, share) in [(50.0, 50.0), (60.0, 50.0), (30.0, 30.0), (10.0, 10.0)] {
        let tenants = [evenly(small), evenly(small * 10.0)];
        let alone = rehearse(false, STRICT, "100/s", 60, &tenants);
        assert!(alone.admitted(0, 10, 60) < share * 0.5 || small * 11.0 < 120.0, "first come, first served: {small}");
        let fair = rehearse(true, STRICT, "100/s", 60, &tenants);
        let (got, used) = (fair.admitted(0, 10, 60), fair.all(10, 60));
        println!("{small}/s against {}/s under 100/s: {got:.1}/s, {used:.1}/s of the ceiling", small * 10.0);
        assert!(got >= 0.95 * share, "{small}/s got {got}/s");
        assert!(used >= 98.0, "{used}/s of the ceiling");
    }
}

#[test]
fn weights_and_several_tenants_get_their_parts() {
    let weighted = rehearse(true, STRICT, "1000/s", 30, &[Asks { weight: 3, ..evenly(2_000.0) }, evenly(2_000.0)]);
    let (heavy, light) = (weighted.admitted(0, 5, 30), weighted.admitted(1, 5, 30));
    println!("weights 3 and 1 under 1000/s: {heavy:.0}/s and {light:.0}/s");
    assert!(heavy >= 0.95 * 750.0 && light >= 0.95 * 250.0, "{heavy} and {light}");
    assert!(heavy + light >= 980.0);

    let mut tenants = vec![evenly(40.0); 9];
    tenants.push(evenly(5_000.0));
    let many = rehearse(true, STRICT, "1000/s", 30, &tenants);
    for tenant in 0..9 {
        let got = many.admitted(tenant, 5, 30);
        assert!(got >= 0.95 * 40.0, "tenant {tenant} got {got}/s of 40/s");
    }
    assert!(many.all(5, 30) >= 980.0, "{}", many.all(5, 30));
}

#[test]
fn calls_that_come_by_chance_get_nearly_their_share_under_ceilings_of_some_size() {
    for (algorithm, quota, ceiling, small) in [
        (STRICT, "1000/s", 1_000.0, 400.0),
        (BUCKET, "1000/s", 1_000.0, 400.0),
        (STRICT, "6000/min", 100.0, 40.0),
        (BUCKET, "6000/min", 100.0, 40.0),
    ] {
        let tenants = [by_chance(small), by_chance(small * 10.0)];
        let outcome = rehearse(true, algorithm, quota, 240, &tenants);
        let asked = Outcome::rate(&outcome.asked[0], 120 * SECOND, 240 * SECOND);
        let (got, used) = (outcome.admitted(0, 120, 240), outcome.all(120, 240));
        println!("{algorithm} {quota}, by chance: {got:.1} of {asked:.1}/s, {:.3} of the ceiling", used / ceiling);
        assert!(got >= 0.95 * asked, "{quota}: {got} of {asked}");
        assert!(used >= 0.98 * ceiling, "{quota}: {used}");
    }
}

#[test]
fn what_somebody_no_longer_asks_for_is_given_to_others_and_back_again() {
    let small = Asks { from: 20 * SECOND, until: 40 * SECOND, ..evenly(50.0) };
    let outcome = rehearse(true, STRICT, "100/s", 60, &[small, evenly(500.0)]);
    assert!(outcome.admitted(1, 10, 20) >= 98.0, "alone it has all of it: {}", outcome.admitted(1, 10, 20));
    assert!(outcome.admitted(0, 22, 40) >= 47.5, "{}", outcome.admitted(0, 22, 40));
    assert!(outcome.admitted(1, 43, 60) >= 98.0, "and again: {}", outcome.admitted(1, 43, 60));
}

#[test]
fn a_tenant_alone_has_the_whole_ceiling_at_once() {
    let world = world(true);
    let caller = world.caller("acme", "a", "t");
    let rules = rules(vec![rate(Place::Server, limit(STRICT, "600/min"))], vec![], 1);
    for _ in 0..5 {
        // Over several epochs, faster than the ceiling allows in the long run.
        let mut admitted = 0;
        for _ in 0..100 {
            admitted += (0..20).filter(|_| world.admit(&caller, &rules).is_ok()).count();
            world.wait(SECOND / 10);
        }
        assert_eq!(admitted, 600);
        world.wait(60 * SECOND);
    }
}

#[test]
fn a_ceiling_that_is_shared_is_still_a_ceiling() {
    for tenants in [&[by_chance(60.0), by_chance(300.0), by_chance(5.0)][..], &[evenly(50.0), evenly(500.0)]] {
        assert_strict(rehearse(true, STRICT, "100/s", 30, tenants).admitted);
    }
}

/// No second has more than a hundred.
fn assert_strict(admitted: Vec<Vec<u64>>) {
    let mut all: Vec<_> = admitted.into_iter().flatten().map(|at| (at, 1)).collect();
    all.sort_unstable();
    for (at, _) in &all {
        assert!(trailing(&all, *at, SECOND) <= 100);
    }
}

#[test]
fn calls_that_a_tenants_own_limits_refuse_are_no_demand() {
    let world = world(true);
    let (small, big) = (world.caller("small", "a", "t"), world.caller("big", "a", "t"));
    let ceiling = rate(Place::Server, limit(STRICT, "100/s"));
    let own = rules(vec![ceiling, rate(Place::Tenant, limit(STRICT, "20/s"))], vec![], 1);
    let free = rules(vec![ceiling], vec![], 1);
    let mut admitted = [0, 0];
    for step in 0..20_000 {
        world.wait(SECOND / 1_000);
        // A thousand a second, of which twenty may pass; and 75 a second, which is less than what the other leaves.
        admitted[0] += usize::from(world.admit(&big, &own).is_ok());
        if step % 40 < 3 {
            admitted[1] += usize::from(world.admit(&small, &free).is_ok());
        }
    }
    assert!(admitted[1] >= 1_480, "{admitted:?}");
}

#[test]
fn fairness_says_no_more_of_others_than_the_ceiling_does() {
    let world = world(true);
    let (small, big) = (world.caller("small", "a", "t"), world.caller("big", "a", "t"));
    let rules = rules(vec![rate(Place::Server, limit(STRICT, "100/s"))], vec![], 1);
    let mut paced = 0;
    for step in 0..5_000 {
        world.wait(SECOND / 1_000);
        if step % 50 == 0 {
            let _ = world.admit(&small, &rules);
        }
        if let Err(refusal) = world.admit(&big, &rules) {
            let wait = refusal.wait().expect("waiting helps");
            assert!(wait.as_duration().as_secs() <= 1, "{wait:?}");
            assert_eq!(refusal.limit().to_string(), "100 requests / 1s");
            assert!(refusal.current_usage() <= 100);
            // Where the ceiling has room, it depends on others whether the wait is enough.
            assert!(refusal.remaining() == 0 || !wait.is_exact(), "{refusal:?}");
            paced += usize::from(!wait.is_exact());
        }
    }
    assert!(paced > 1_000, "{paced} refusals were for the sake of others");
}

/// Instances that share their limits: who decides the ceiling, and what each of them knows of those who ask.
struct Instances {
    decides: Limiter,
    knows: Vec<Limiter>,
    mock: Arc<Mock>,
    rules: Rules,
}

impl Instances {
    /// How often they tell each other, in calls' steps of a millisecond.
    const TELL_EVERY: u64 = 250;

    fn new(count: usize, quota: &str) -> Self {
        let (clock, mock) = quanta::Clock::mock();
        let limiter = |fair_share| Limiter::new(clock.clone(), LimiterOptions { fair_share, ..Default::default() });
        Self {
            decides: limiter(false),
            knows: (0..count).map(|_| limiter(true)).collect(),
            mock,
            rules: rules(vec![rate(Place::Server, limit(STRICT, quota))], vec![], 1),
        }
    }

    fn tell(&self) {
        let used = {
            let nobody = Caller::of(&self.decides, "", "", "");
            self.decides.inspect(&nobody.call(&self.rules))[0].used
        };
        let asked: Vec<_> = self.knows.iter().map(|limiter| limiter.asked_per_second().unwrap_or(0.0)).collect();
        for (at, limiter) in self.knows.iter().enumerate() {
            let others = asked.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, asked)| *asked);
            limiter.hear_of_others(used, others.collect());
        }
    }

    fn admit(&self, instance: usize, tenant: &str) -> bool {
        let here = &self.knows[instance];
        let (asks, decided) =
            (Caller::of(here, tenant, "agent", "tool"), Caller::of(&self.decides, tenant, "agent", "tool"));
        let call = asks.call(&self.rules);
        let Ok(turn) = here.ask_turn(&call) else { return false };
        let admitted = self.decides.admit(&decided.call(&self.rules)).is_ok();
        here.end_turn(&call, turn, if admitted { TurnOutcome::Admitted } else { TurnOutcome::RefusedByCeiling });
        admitted
    }

    /// `asks` says how often each tenant calls at each instance, in calls a second. What they get, from second 10 on.
    fn rehearse(&self, seconds: u64, asks: &[(&str, &[f64])]) -> Vec<f64> {
        let mut due: Vec<Vec<f64>> = asks.iter().map(|(_, rates)| vec![0.0; rates.len()]).collect();
        let (mut got, mut all) = (vec![0_u64; asks.len()], Vec::new());
        for step in 0..seconds * 1_000 {
            self.mock.increment(Duration::from_millis(1));
            if step % Self::TELL_EVERY == 0 {
                self.tell();
            }
            for (tenant, (name, rates)) in asks.iter().enumerate() {
                for (instance, rate) in rates.iter().enumerate() {
                    due[tenant][instance] += rate / 1_000.0;
                    while due[tenant][instance] >= 1.0 {
                        due[tenant][instance] -= 1.0;
                        if self.admit(instance, name) {
                            all.push(step * 1_000_000);
                            got[tenant] += u64::from(step >= 10_000);
                        }
                    }
                }
            }
        }
        assert_strict(vec![all]);
        got.iter().map(|got| *got as f64 / (seconds - 10) as f64).collect()
    }
}

#[test]
fn instances_that_share_a_ceiling_give_each_tenant_its_share_at_each_of_them() {
    for (what, big, small, share) in [
        ("both everywhere", &[250.0, 250.0][..], &[25.0, 25.0][..], 50.0),
        ("the small one asks for less", &[250.0, 250.0], &[15.0, 15.0], 30.0),
        ("three instances", &[200.0, 200.0, 100.0], &[10.0, 10.0, 10.0], 30.0),
        ("each at its own", &[500.0, 0.0], &[0.0, 50.0], 50.0),
        ("few come to one of them", &[490.0, 10.0], &[30.0, 0.0], 30.0),
        ("one instance alone", &[500.0], &[50.0], 50.0),
    ] {
        let instances = Instances::new(big.len(), "100/s");
        let got = instances.rehearse(40, &[("big", big), ("small", small)]);
        println!("{what}: {:.1}/s and {:.1}/s of 100/s", got[0], got[1]);
        assert!(got[1] >= 0.95 * share, "{what}: {got:?}");
        assert!(got[0] + got[1] >= 98.0, "{what}: {got:?}");
    }
}

#[test]
fn a_tenant_alone_on_several_instances_has_the_whole_ceiling_wherever_it_comes() {
    for asks in [&[300.0, 300.0][..], &[600.0, 0.0], &[110.0, 5.0]] {
        let got = Instances::new(2, "100/s").rehearse(30, &[("acme", asks)]);
        assert!(got[0] >= 98.0, "{asks:?}: {got:?}");
    }
}

#[test]
fn a_ceiling_of_few_calls_is_shared_after_some_windows_as_well() {
    for tenants in [[evenly(10.0), evenly(100.0)], [evenly(5.0), evenly(200.0)]] {
        let outcome = rehearse(true, STRICT, "20/s", 15, &tenants);
        let (small, all) = (outcome.admitted(0, 5, 15), outcome.all(5, 15));
        assert!(small >= 0.95 * tenants[0].per_second, "{small}/s");
        // A call of twenty is held back.
        assert!(all >= 19.0, "{all}/s of 20/s");
    }
}
