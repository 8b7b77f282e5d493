use super::*;
use crate::Algorithm;

fn rate(place: Place, ordinal: u8) -> RateRule {
    let limit = RateLimit::new("5/s".parse().expect("a quota"), None, Algorithm::TokenBucket).expect("a limit");
    RateRule { scope: Scope::Agent, place, ordinal, limit, mode: Mode::Enforce }
}

fn cap(place: Place, slots: &str) -> CapRule {
    CapRule { scope: Scope::Agent, place, cap: slots.parse().expect("a cap"), mode: Mode::Enforce }
}

fn allowed(place: Place, slots: &str, priority: Priority, reserve: bool) -> u32 {
    let rules = Rules::new(vec![], vec![cap(place, slots)], 1, priority, reserve).expect("rules");
    rules.compiled.tenant_caps[0].allowed
}

#[test]
fn two_rates_that_would_share_one_state_are_refused() {
    let rates = vec![rate(Place::Agent, 0), rate(Place::Agent, 1), rate(Place::Agent, 0)];
    let error = Rules::new(rates, vec![], 1, Priority::Normal, false).unwrap_err();
    assert_eq!(error, RulesError::DuplicateRate { place: Place::Agent, ordinal: 0 });
}

#[test]
fn two_caps_in_one_place_are_refused() {
    let error = Rules::new(vec![], vec![cap(Place::Agent, "1"), cap(Place::Agent, "2")], 1, Priority::Normal, false)
        .unwrap_err();
    assert_eq!(error.to_string(), "two concurrency caps at Agent: keep the lower one");
    let observed = CapRule { mode: Mode::Observe, ..cap(Place::Agent, "1") };
    let error = Rules::new(vec![], vec![observed, observed], 1, Priority::Normal, false).unwrap_err();
    assert_eq!(error, RulesError::DuplicateCap(Place::Agent));
}

#[test]
fn an_observed_cap_may_lie_beside_an_enforced_one() {
    let observed = CapRule { mode: Mode::Observe, ..cap(Place::Agent, "1") };
    assert!(Rules::new(vec![], vec![observed, cap(Place::Agent, "2")], 1, Priority::Normal, false).is_ok());
}

#[test]
fn a_call_may_have_eighty_rates() {
    let places = &Place::ALL[..5];
    let rates = places.iter().flat_map(|place| (0..Rules::MAX_ORDINALS).map(|ordinal| rate(*place, ordinal)));
    assert_eq!(Rules::new(rates.collect(), vec![], 1, Priority::Normal, false).expect("rules").rates().len(), 80);
}

#[test]
fn too_many_rates_a_large_ordinal_and_a_cost_of_zero_are_refused() {
    let many = (0..97).map(|i| rate(Place::ALL[i / 16], i as u8 % 16)).collect::<Vec<_>>();
    let new = |rates, cost| Rules::new(rates, vec![], cost, Priority::Normal, false).unwrap_err();
    assert_eq!(new(many, 1), RulesError::TooManyRates(97));
    assert_eq!(new(vec![rate(Place::Agent, 16)], 1), RulesError::OrdinalTooLarge { place: Place::Agent, ordinal: 16 });
    assert_eq!(new(vec![], 0), RulesError::Cost(LimitError::CostZero));
}

#[test]
fn a_cap_of_ten_keeps_two_slots_from_low_priority_and_none_from_normal() {
    assert_eq!(allowed(Place::Tenant, "10", Priority::Low, true), 8);
    assert_eq!(allowed(Place::Tenant, "10", Priority::Normal, true), 10);
    assert_eq!(allowed(Place::Tenant, "100", Priority::Normal, true), 95);
    assert_eq!(allowed(Place::Tenant, "10", Priority::High, true), 10);
}

#[test]
fn a_cap_of_two_reserves_nothing() {
    assert_eq!(allowed(Place::Tenant, "2", Priority::Low, true), 2);
}

#[test]
fn nothing_is_reserved_without_a_tool_of_high_priority_or_on_a_tools_own_cap() {
    assert_eq!(allowed(Place::Tenant, "10", Priority::Low, false), 10);
    assert_eq!(allowed(Place::AgentTool, "10", Priority::Low, true), 10);
}

#[test]
fn a_rule_set_keeps_the_rates_and_caps_at_both_ends_apart() {
    let all = [RuleRef::Rate(0), RuleRef::Rate(95), RuleRef::Cap(0), RuleRef::Cap(15)];
    let set = all.into_iter().fold(RuleSet::default(), RuleSet::with);
    assert_eq!(set.iter().collect::<Vec<_>>(), all);
    assert!(set.contains(RuleRef::Cap(15)) && !set.contains(RuleRef::Cap(14)) && !set.is_empty());
}
