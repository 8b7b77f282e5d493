use std::{sync::Arc, time::Duration};

use proptest::prelude::*;
use quanta::Mock;

use super::*;
use crate::{Algorithm, CapRule, Limit, Mode, Priority, RateLimit, RateRule, Reason, Refusal, RuleRef, Scope};

fn rate(place: Place, algorithm: Algorithm, quota: &str) -> RateRule {
    let limit = RateLimit::new(quota.parse().expect("a quota"), None, algorithm).expect("a limit");
    RateRule { scope: Scope::Agent, place, ordinal: 0, limit, mode: Mode::Enforce }
}

fn bucket(place: Place, quota: &str) -> RateRule {
    rate(place, Algorithm::TokenBucket, quota)
}

fn window(place: Place, quota: &str) -> RateRule {
    rate(place, Algorithm::SlidingWindow, quota)
}

fn cap(place: Place, slots: &str) -> CapRule {
    CapRule { scope: Scope::Tool, place, cap: slots.parse().expect("a cap"), mode: Mode::Enforce }
}

fn rules(rates: Vec<RateRule>, caps: Vec<CapRule>) -> Rules {
    Rules::new(rates, caps, 1, Priority::Normal, false).expect("rules")
}

struct World {
    limiter: Limiter,
    mock: Arc<Mock>,
    tenant: TenantHandle,
    agent: AgentId,
    tool: ToolId,
}

impl World {
    fn new() -> Self {
        Self::with(LimiterOptions::default())
    }

    fn with(options: LimiterOptions) -> Self {
        let (clock, mock) = quanta::Clock::mock();
        let limiter = Limiter::new(clock, options);
        let tenant = limiter.tenant(TenantIdentity::Named("acme"));
        let (agent, tool) = (tenant.agent("u-42"), limiter.tool("export"));
        Self { limiter, mock, tenant, agent, tool }
    }

    fn call<'a>(&'a self, rules: &'a Rules) -> Call<'a> {
        Call { rules, tenant: &self.tenant, agent: self.agent, key: None, tool: self.tool }
    }

    fn admit(&self, rules: &Rules) -> Result<crate::Admission, Refusal> {
        self.limiter.admit(&self.call(rules))
    }

    /// Every state of the tenant and of the server.
    fn state(&self) -> String {
        let (tenant, server) = (self.tenant.0.table.lock(), self.limiter.core.server.lock());
        format!("{} {} {:?}", tenant.state(), server.state(), self.limiter.core.server_slots)
    }
}

#[test]
fn the_longest_wait_is_the_answer_and_all_that_refused_are_named() {
    let world = World::new();
    let rules = rules(
        vec![bucket(Place::Agent, "1/s"), window(Place::Tenant, "1/min"), bucket(Place::AgentTool, "5/s")],
        vec![],
    );
    drop(world.admit(&rules).expect("the first call"));
    let refusal = world.admit(&rules).expect_err("the second call");
    assert_eq!((refusal.rule(), refusal.reason()), (RuleRef::Rate(1), Reason::RateLimit));
    assert_eq!(refusal.wait().map(|wait| (wait.retry_after_seconds(), wait.is_exact())), Some((60, true)));
    assert_eq!((refusal.current_usage(), refusal.remaining()), (1, 0));
    assert_eq!(refusal.limit(), Limit::Rate(rules.rates()[1].limit));
    assert_eq!(refusal.refused().iter().collect::<Vec<_>>(), [RuleRef::Rate(0), RuleRef::Rate(1)]);
}

#[test]
fn a_cost_above_the_capacity_is_refused_for_good_even_if_another_limit_would_only_wait() {
    let world = World::new();
    let one = rules(vec![bucket(Place::Agent, "9/min")], vec![]);
    (0..9).for_each(|_| drop(world.admit(&one)));
    for rates in [
        vec![bucket(Place::Agent, "9/min"), bucket(Place::AgentTool, "4/s")],
        vec![bucket(Place::Agent, "9/min"), window(Place::AgentTool, "4/s")],
    ] {
        let rules = Rules::new(rates, vec![], 5, Priority::Normal, false).expect("rules");
        for _ in 0..2 {
            let refusal = world.admit(&rules).expect_err("too dear");
            assert_eq!(
                (refusal.rule(), refusal.reason(), refusal.wait()),
                (RuleRef::Rate(1), Reason::CostAboveCapacity, None)
            );
            assert_eq!((refusal.current_usage(), refusal.remaining()), (0, 4));
        }
        let report = world.limiter.inspect(&world.call(&rules));
        assert!(report[1].refuses && report[1].wait.is_none());
    }
}

#[test]
fn the_largest_cost_on_the_slowest_bucket_does_not_overflow_into_an_admission() {
    let world = World::new();
    let one = rules(vec![bucket(Place::Agent, "1/366d")], vec![]);
    let dear =
        Rules::new(vec![bucket(Place::Agent, "1/366d")], vec![], u32::MAX, Priority::High, false).expect("rules");
    assert!(world.admit(&dear).is_err());
    drop(world.admit(&one).expect("the first call"));
    assert_eq!(world.admit(&dear).expect_err("too dear").reason(), Reason::CostAboveCapacity);
}

#[test]
fn the_nearest_limit_is_the_one_with_the_least_left() {
    let world = World::new();
    let rules = rules(
        vec![
            window(Place::Tenant, "7/min"),
            bucket(Place::Agent, "100/min"),
            bucket(Place::AgentTool, "60/min"),
            window(Place::Server, "9/s"),
        ],
        vec![],
    );
    let nearest = world.admit(&rules).expect("a call").nearest.expect("a limit");
    assert_eq!((nearest.rule, nearest.limit, nearest.used, nearest.remaining), (RuleRef::Rate(0), 7, 1, 6));
    assert_eq!(nearest.reset.retry_after_seconds(), 60);
    (0..5).for_each(|_| drop(world.admit(&rules)));
    world.mock.increment(Duration::from_secs(59));
    let nearest = world.admit(&rules).expect("a call").nearest.expect("a limit");
    assert_eq!((nearest.remaining, nearest.reset.retry_after_ms()), (0, 1_000));
}

#[test]
fn a_server_wide_limit_can_be_the_nearest() {
    let world = World::new();
    let rules = rules(vec![bucket(Place::Agent, "100/min"), bucket(Place::Server, "3/s")], vec![]);
    for remaining in [2, 1, 0] {
        let nearest = world.admit(&rules).expect("a call").nearest.expect("a limit");
        assert_eq!((nearest.rule, nearest.remaining), (RuleRef::Rate(1), remaining));
    }
}

#[test]
fn an_observed_limit_reports_and_lets_pass_without_counting_beyond_itself() {
    let world = World::new();
    let observed = RateRule { mode: Mode::Observe, ..bucket(Place::Agent, "1/min") };
    let observed_cap = CapRule { mode: Mode::Observe, ..cap(Place::Agent, "1") };
    let rules = rules(vec![observed, bucket(Place::AgentTool, "3/min")], vec![observed_cap]);
    let first = world.admit(&rules).expect("within all");
    assert!(first.would_throttle.is_empty());
    assert_eq!(
        first.nearest.map(|nearest| nearest.rule),
        Some(RuleRef::Rate(1)),
        "observed limits are not shown to callers"
    );
    let second = world.admit(&rules).expect("beyond the observed");
    assert_eq!(second.would_throttle.iter().collect::<Vec<_>>(), [RuleRef::Rate(0), RuleRef::Cap(0)]);
    assert_eq!((first.permit.slots(), second.permit.slots()), (1, 0));
    assert_eq!(world.limiter.inspect(&world.call(&rules))[0].used, 1);
    drop(world.admit(&rules).expect("the third"));
    let refusal = world.admit(&rules).expect_err("beyond the tool's");
    assert_eq!(refusal.refused().iter().collect::<Vec<_>>(), [RuleRef::Rate(1)]);
    assert_eq!(refusal.would_throttle().iter().collect::<Vec<_>>(), [RuleRef::Rate(0), RuleRef::Cap(0)]);
}

#[test]
fn an_observed_cap_beside_an_enforced_one_looks_at_the_same_slots() {
    for place in Place::ALL {
        for (observed, enforced, would) in [("1", "2", [false, true]), ("3", "2", [false, false])] {
            let world = World::new();
            let observed = CapRule { mode: Mode::Observe, ..cap(place, observed) };
            let rules = rules(vec![], vec![observed, cap(place, enforced)]);
            let running = would.map(|would| {
                let admission = world.admit(&rules).expect("below the enforced cap");
                assert_eq!(admission.would_throttle.contains(RuleRef::Cap(0)), would, "{place:?}");
                assert_eq!(admission.permit.slots(), 1);
                admission
            });
            let refusal = world.admit(&rules).expect_err("at the enforced cap");
            assert_eq!((refusal.rule(), refusal.current_usage()), (RuleRef::Cap(1), 2), "{place:?}");
            drop(running);
            assert_eq!(world.limiter.inspect(&world.call(&rules))[1].used, 0, "{place:?}");
        }
    }
}

#[test]
fn an_observed_rate_beside_an_enforced_one_counts_on_its_own() {
    let world = World::new();
    let observed = RateRule { mode: Mode::Observe, ordinal: 8, ..bucket(Place::Agent, "1/min") };
    let rules = rules(vec![bucket(Place::Agent, "3/min"), observed], vec![]);
    for would in [false, true, true] {
        assert_eq!(!world.admit(&rules).expect("within three").would_throttle.is_empty(), would);
    }
    assert_eq!(world.admit(&rules).expect_err("beyond three").rule(), RuleRef::Rate(0));
}

#[test]
fn a_call_of_eighty_rates_is_admitted_by_all_of_them() {
    let world = World::new();
    let places = [Place::Server, Place::ServerTool, Place::Tenant, Place::Agent, Place::AgentTool];
    let rates = places.iter().flat_map(|place| (0..16).map(|ordinal| RateRule { ordinal, ..bucket(*place, "2/min") }));
    let rules = rules(rates.collect(), vec![]);
    assert!(world.admit(&rules).is_ok() && world.admit(&rules).is_ok());
    assert_eq!(world.admit(&rules).expect_err("the third").refused().iter().count(), 80);
}

#[test]
fn a_server_wide_rate_with_a_longer_wait_is_the_answer_even_if_the_tenants_own_refuses() {
    let world = World::new();
    let server = RateRule { scope: Scope::Server, ..window(Place::Server, "1/min") };
    let rules = rules(vec![bucket(Place::AgentTool, "1/s"), server], vec![]);
    assert!(world.admit(&rules).is_ok());
    let before = world.state();
    let refusal = world.admit(&rules).expect_err("both are used up");
    assert_eq!((refusal.scope(), refusal.rule()), (Scope::Server, RuleRef::Rate(1)));
    assert_eq!(refusal.refused().iter().collect::<Vec<_>>(), [RuleRef::Rate(0), RuleRef::Rate(1)]);
    assert_eq!(world.state(), before);
    world.mock.increment(refusal.wait().expect("a wait").as_duration());
    assert!(world.admit(&rules).is_ok());
}

#[test]
fn what_is_in_use_comes_back_within_the_window_even_if_it_is_counted_in_sixtieths() {
    let world = World::new();
    let rules = rules(vec![window(Place::Agent, "2000/min")], vec![]);
    let nearest = world.admit(&rules).expect("a call").nearest.expect("a limit");
    assert_eq!(nearest.reset.retry_after_seconds(), 60);
    while world.admit(&rules).is_ok() {}
    let wait = world.admit(&rules).expect_err("full").wait().expect("a wait");
    assert_eq!(wait.retry_after_seconds(), 61, "a refused caller is told the truth");
}

#[test]
fn a_cap_holds_in_every_place_and_slots_come_back() {
    for place in Place::ALL {
        let world = World::new();
        let rules = rules(vec![], vec![cap(place, "2")]);
        let first = world.admit(&rules).expect("the first");
        let second = world.admit(&rules).expect("the second");
        assert_eq!(second.permit.slots(), 1);
        let refusal = world.admit(&rules).expect_err("the third");
        assert_eq!(
            (refusal.reason(), refusal.current_usage(), refusal.remaining()),
            (Reason::Concurrency, 2, 0),
            "{place:?}"
        );
        assert_eq!(refusal.wait().map(|wait| (wait.retry_after_seconds(), wait.is_exact())), Some((1, false)));
        drop(first);
        let third = world.admit(&rules).expect("a slot came back");
        drop((second, third));
        assert_eq!(world.limiter.inspect(&world.call(&rules))[0].used, 0, "{place:?}");
    }
}

#[test]
fn an_observed_rate_that_is_taken_away_leaves_the_enforced_one_as_it_was() {
    let world = World::new();
    let enforced = bucket(Place::Agent, "5/min");
    let observed = RateRule { mode: Mode::Observe, ordinal: 8, ..window(Place::Agent, "50/min") };
    let (with, without) = (rules(vec![enforced, observed], vec![]), rules(vec![enforced], vec![]));
    let used = |rules: &Rules| world.limiter.inspect(&world.call(rules))[0].used;
    for _ in 0..5 {
        drop(world.admit(&with).expect("within the limit"));
    }
    world.mock.increment(Duration::from_secs(48));
    assert_eq!((used(&with), used(&without)), (1, 1), "the window still holds all five");
    drop(world.admit(&without).expect("within the limit"));
    assert_eq!(used(&without), 2);
    drop(world.admit(&with).expect("within the limit"));
    assert_eq!((used(&with), used(&without)), (3, 3));
}

#[test]
fn slots_are_summed_by_the_scope_of_their_caps() {
    let world = World::new();
    let places = [Place::Server, Place::ServerTool, Place::Tenant, Place::Agent, Place::AgentKey, Place::AgentTool];
    let rules = rules(vec![], places.map(|place| cap(place, "5")).to_vec());
    let held = [world.admit(&rules).expect("there is room"), world.admit(&rules).expect("there is room")];
    let sums = |per_call: [u64; 4]| per_call.map(|slots| slots * held.len() as u64);
    assert_eq!(world.limiter.slots_taken().map(|(_, taken)| taken), sums([1, 1, 2, 2]));
    drop(held);
    assert_eq!(world.limiter.slots_taken().map(|(_, taken)| taken), [0; 4]);
}

#[test]
fn a_call_without_caps_holds_an_empty_permit() {
    let world = World::new();
    let admission = world.admit(&rules(vec![bucket(Place::Agent, "1/s")], vec![])).expect("a call");
    assert_eq!(admission.permit.slots(), 0);
}

#[test]
fn the_wait_for_a_slot_is_what_calls_of_the_tool_took_lately() {
    let world = World::new();
    let rules = rules(vec![], vec![cap(Place::AgentTool, "1")]);
    let running = world.admit(&rules).expect("a call");
    world.mock.increment(Duration::from_millis(7_500));
    drop(running);
    let _running = world.admit(&rules).expect("a call");
    let wait = world.admit(&rules).expect_err("full").wait().expect("a wait");
    assert_eq!((wait.as_duration(), wait.is_exact()), (Duration::from_millis(7_500), false));
}

#[test]
fn a_lower_cap_drains_and_kills_nothing() {
    let world = World::new();
    let (three, one) = (rules(vec![], vec![cap(Place::Agent, "3")]), rules(vec![], vec![cap(Place::Agent, "1")]));
    let mut running: Vec<_> = (0..3).map(|_| world.admit(&three).expect("a call")).collect();
    for left in [2, 1] {
        assert_eq!(world.admit(&one).expect_err("full").current_usage(), left + 1);
        running.pop();
    }
    assert!(world.admit(&one).is_err());
    running.pop();
    assert!(world.admit(&one).is_ok());
}

#[test]
fn low_priority_leaves_the_last_fifth_of_a_shared_cap_to_others() {
    let world = World::new();
    let with = |priority| Rules::new(vec![], vec![cap(Place::Tenant, "10")], 1, priority, true).expect("rules");
    let (low, normal, high) = (with(Priority::Low), with(Priority::Normal), with(Priority::High));
    let mut running: Vec<_> = (0..8).map(|_| world.admit(&low).expect("a call")).collect();
    let refusal = world.admit(&low).expect_err("the ninth");
    assert_eq!((refusal.current_usage(), refusal.limit().value(), refusal.remaining()), (8, 10, 0));
    running.push(world.admit(&normal).expect("normal passes"));
    running.push(world.admit(&high).expect("high passes"));
    assert!(world.admit(&high).is_err());
}

#[test]
fn requests_and_calls_of_an_agent_count_apart() {
    let world = World::new();
    let calls = rules(vec![bucket(Place::Agent, "1/min")], vec![]);
    let requests = rules(vec![bucket(Place::AgentRequests, "1/min")], vec![]);
    assert!(world.admit(&calls).is_ok() && world.admit(&requests).is_ok());
    assert!(world.admit(&calls).is_err() && world.admit(&requests).is_err());
}

#[test]
fn keys_of_one_agent_have_limits_of_their_own_and_a_call_without_one_has_the_agents() {
    let world = World::new();
    let rules = rules(vec![bucket(Place::AgentKey, "1/min")], vec![]);
    let with = |key| world.limiter.admit(&Call { key, ..world.call(&rules) }).is_ok();
    let (a, b) = (world.tenant.key("u-42", "a"), world.tenant.key("u-42", "b"));
    assert!(with(Some(a)) && with(Some(b)) && with(None));
    assert!(!with(Some(a)) && !with(Some(b)) && !with(None));
    assert_ne!(world.tenant.key("u-43", "a"), a);
}

#[test]
fn inspecting_tells_the_truth_and_touches_nothing() {
    let world = World::new();
    let rules =
        rules(vec![bucket(Place::Agent, "2/min"), window(Place::ServerTool, "3/s")], vec![cap(Place::Server, "5")]);
    let fresh = world.state();
    let report = world.limiter.inspect(&world.call(&rules));
    assert_eq!(
        report.iter().map(|one| (one.used, one.remaining, one.refuses)).collect::<Vec<_>>(),
        [(0, 2, false), (0, 3, false), (0, 5, false)]
    );
    assert_eq!(world.state(), fresh);
    let _running = [world.admit(&rules).expect("a call"), world.admit(&rules).expect("a call")];
    let used = world.state();
    let report = world.limiter.inspect(&world.call(&rules));
    assert_eq!(
        report.iter().map(|one| (one.used, one.remaining, one.refuses)).collect::<Vec<_>>(),
        [(2, 0, true), (2, 1, false), (2, 3, false)]
    );
    assert_eq!(report[0].wait.map(crate::Wait::retry_after_seconds), Some(30));
    assert_eq!(world.state(), used);
}

#[test]
fn names_beyond_the_cap_share_one_identity_until_old_ones_are_forgotten() {
    let options = LimiterOptions { max_names_per_tenant: 2, ..LimiterOptions::default() };
    let world = World::with(options);
    assert_ne!(world.tenant.agent("second"), AgentId::OVERFLOW);
    assert_eq!(world.tenant.agent("third"), AgentId::OVERFLOW);
    assert_eq!(world.tenant.key("third", "k"), KeyId::OVERFLOW);
    world.mock.increment(Duration::from_secs(3_601));
    assert_eq!(world.tenant.agent("second"), world.tenant.agent("second"));
    assert_ne!(world.tenant.agent("third"), AgentId::OVERFLOW, "u-42 was not asked for in an hour and counts nothing");
}

#[test]
fn a_name_is_not_forgotten_while_something_counts_under_it() {
    let options = LimiterOptions { max_names_per_tenant: 1, ..LimiterOptions::default() };
    let world = World::with(options);
    let rules = rules(vec![bucket(Place::Agent, "1/day")], vec![cap(Place::Agent, "1")]);
    let running = world.admit(&rules).expect("a call");
    world.mock.increment(Duration::from_secs(7_200));
    assert_eq!(world.tenant.agent("other"), AgentId::OVERFLOW, "its bucket is in use");
    world.mock.increment(Duration::from_secs(86_400));
    while world.limiter.live_keys() > 0 {
        world.limiter.sweep();
    }
    assert_eq!(world.tenant.agent("other"), AgentId::OVERFLOW, "its slot is in use");
    drop(running);
    assert_ne!(world.tenant.agent("other"), AgentId::OVERFLOW);
}

#[test]
fn sweeping_reaches_all_tenants_and_forgets_those_nobody_holds() {
    let world = World::new();
    let rules = rules(vec![bucket(Place::Agent, "1/s"), bucket(Place::ServerTool, "999/s")], vec![]);
    let admit = |tenant: &TenantHandle| {
        let agent = tenant.agent("a");
        drop(world.limiter.admit(&Call { tenant, agent, ..world.call(&rules) }).expect("a call"));
    };
    let names: Vec<_> = (0..300).map(|i| format!("t{i}")).collect();
    for name in &names {
        admit(&world.limiter.tenant(TenantIdentity::Named(name)));
    }
    assert_eq!(world.limiter.live_keys(), 301);
    (0..1_000).for_each(|_| assert_eq!(world.limiter.sweep(), 0, "all of it is in use"));
    world.mock.increment(Duration::from_secs(2));
    let dropped: usize = (0..1_000).map(|_| world.limiter.sweep()).sum();
    assert_eq!((dropped, world.limiter.live_keys()), (301, 0));
    (0..1_000).for_each(|_| assert_eq!(world.limiter.sweep(), 0));
    assert_eq!(world.limiter.tenants.lock().tenants.len(), 1, "only acme has a handle");
}

proptest! {
    #[test]
    fn a_refused_call_leaves_every_state_byte_identical(
        quotas in prop::collection::vec((1..6_u64, any::<bool>()), 5),
        slots in 1..4_u32,
        steps in prop::collection::vec((0..400_u64, any::<bool>()), 1..60),
    ) {
        let world = World::new();
        let places = [Place::Tenant, Place::Agent, Place::AgentTool, Place::Server, Place::ServerTool];
        let rates = places.into_iter().zip(quotas).map(|(place, (count, strict))| {
            rate(place, if strict { Algorithm::SlidingWindow } else { Algorithm::TokenBucket }, &format!("{count}/s"))
        });
        let slots = slots.to_string();
        let rules = rules(rates.collect(), vec![cap(Place::Server, &slots), cap(Place::ServerTool, &slots), cap(Place::AgentTool, "2")]);
        let mut running = Vec::new();
        for (ms, ends) in steps {
            world.mock.increment(Duration::from_millis(ms));
            if ends {
                running.pop();
            }
            let before = world.state();
            match world.admit(&rules) {
                Ok(admission) => running.push(admission),
                Err(_) => prop_assert_eq!(world.state(), before),
            }
        }
    }
}

#[test]
fn what_was_admitted_elsewhere_counts_here_up_to_the_limit() {
    let world = World::new();
    let rules = rules(vec![bucket(Place::Agent, "1/min"), window(Place::Tenant, "5/min")], vec![]);
    for _ in 0..3 {
        world.limiter.note(&world.call(&rules));
    }
    let used: Vec<_> = world.limiter.inspect(&world.call(&rules)).iter().map(|report| report.used).collect();
    assert_eq!(used, [1, 3], "a rate without room keeps no other from counting");
    assert!(world.admit(&rules).is_err());
}

#[test]
fn looking_ahead_charges_nothing_and_minds_no_cap() {
    let world = World::new();
    let rules = rules(vec![bucket(Place::Agent, "1/min")], vec![cap(Place::Agent, "1")]);
    let running = world.admit(&rules);
    assert!(running.is_ok());
    let before = world.state();
    let ahead = world.limiter.peek(&world.call(&rules)).expect_err("the rate is used up");
    assert_eq!(ahead.rule(), RuleRef::Rate(0));
    assert_eq!(world.state(), before);
    world.mock.increment(Duration::from_secs(60));
    assert!(world.limiter.peek(&world.call(&rules)).is_ok());
}

#[test]
fn a_part_decides_its_rules_and_names_them_as_the_whole_does() {
    let world = World::new();
    let whole =
        rules(vec![bucket(Place::Agent, "9/min"), window(Place::Tenant, "9/min")], vec![cap(Place::Agent, "1")]);
    let third = RateLimit::new("3/min".parse().expect("a quota"), None, Algorithm::SlidingWindow).expect("a limit");
    let part = whole.part(|rule| (rule.place == Place::Tenant).then_some(third), |_| None);
    let running: Vec<_> = std::iter::from_fn(|| world.admit(&part).ok()).collect();
    assert_eq!(running.len(), 3);
    let refusal = world.admit(&part).expect_err("three are a third of nine");
    assert_eq!((refusal.rule(), refusal.limit()), (RuleRef::Rate(1), Limit::Rate(whole.rates()[1].limit)));
}
