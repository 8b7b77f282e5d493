//! 4. Different identities never share state, whatever they are called; and their keys as bytes differ.

use std::collections::HashSet;

use proptest::{prelude::*, sample::Index};
use sluicegate_limits::{Place, StateKey, TenantIdentity};

use crate::{
    world::World,
    writing::{BUCKET, limit, rate, rules},
};

/// Names that are easily confused: quotes, colons, NUL, nothing at all, and pieces of each other.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[:/\"\\x00ab]{0,4}", "\\PC{0,6}", Just(String::new()), Just("a:b".to_owned()), Just("b:c".to_owned())]
}

fn tenant() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.8, prop_oneof![name(), Just("u".to_owned()), Just("default".to_owned())])
}

fn identity(name: &Option<String>) -> TenantIdentity<'_> {
    name.as_deref().map_or(TenantIdentity::Untenanted, TenantIdentity::Named)
}

type Names = (Option<String>, String, String, String);

/// The key of one place out of these names, and what tells it from all others.
fn state_key(place: Place, (tenant, agent, key, tool): &Names) -> StateKey<'_> {
    StateKey::of(place, identity(tenant), agent, key, tool)
}

proptest! {
    #[test]
    fn keys_as_bytes_are_equal_exactly_when_the_keys_are(
        names in prop::collection::vec((tenant(), name(), name(), name()), 1..6),
        picks in prop::collection::vec((any::<Index>(), 0..8_usize, 0..3_u8), 2..30),
    ) {
        let (mut keys, mut bytes) = (HashSet::new(), HashSet::new());
        for (pick, place, ordinal) in picks {
            let key = state_key(Place::ALL[place], pick.get(&names));
            prop_assert_eq!(keys.insert((key, ordinal)), bytes.insert(key.to_bytes(ordinal)));
        }
    }

    #[test]
    fn no_key_as_bytes_begins_another(
        a in (tenant(), name(), name(), name()), b in (tenant(), name(), name(), name()), places in (0..8_usize, 0..8_usize),
    ) {
        let (a, b) = (state_key(Place::ALL[places.0], &a), state_key(Place::ALL[places.1], &b));
        prop_assert!(a == b || !a.to_bytes(0).starts_with(&b.to_bytes(0)));
    }

    #[test]
    fn distinct_triples_never_share_state(triples in prop::collection::hash_set((tenant(), name(), name()), 1..40)) {
        let world = World::new();
        let once = rules(vec![rate(Place::AgentTool, limit(BUCKET, "1/day"))], vec![], 1);
        for (tenant, agent, tool) in &triples {
            let caller = world.caller_of(identity(tenant), agent, None, tool);
            prop_assert!(world.admit(&caller, &once).is_ok(), "{:?} met somebody else's state", (tenant, agent, tool));
            prop_assert!(world.admit(&caller, &once).is_err());
        }
        prop_assert!(world.states().is_none_or(|states| states == triples.len()));
    }

    #[test]
    fn distinct_api_keys_never_share_state(keys in prop::collection::hash_set((name(), name()), 1..40)) {
        let world = World::new();
        let once = rules(vec![rate(Place::AgentKey, limit(BUCKET, "1/day"))], vec![], 1);
        for (agent, key) in &keys {
            let caller = world.caller_of(TenantIdentity::Untenanted, agent, Some(key), "t");
            prop_assert!(world.admit(&caller, &once).is_ok());
            prop_assert!(world.admit(&caller, &once).is_err());
        }
    }
}

#[test]
fn callers_without_a_tenant_meet_no_tenant_of_any_name() {
    let world = World::new();
    let once = rules(vec![rate(Place::Tenant, limit(BUCKET, "1/day"))], vec![], 1);
    for identity in ["", "u", "default", "untenanted", "\0"]
        .map(TenantIdentity::Named)
        .into_iter()
        .chain([TenantIdentity::Untenanted])
    {
        assert!(world.admit(&world.caller_of(identity, "a", None, "t"), &once).is_ok(), "{identity:?}");
    }
}
