//! 5. Tenants never touch each other, and a tenant's agents together stay under its ceiling.

use sluicegate_limits::Place;

use crate::{
    world::World,
    writing::{BUCKET, STRICT, cap, limit, rate, rules},
};

#[test]
fn agents_of_the_same_name_in_two_tenants_never_touch_each_other() {
    let world = World::new();
    let (acme, globex) = (world.caller("acme", "u-42", "export"), world.caller("globex", "u-42", "export"));
    let rules = rules(
        vec![
            rate(Place::Tenant, limit(STRICT, "9/min")),
            rate(Place::Agent, limit(BUCKET, "5/min")),
            rate(Place::AgentTool, limit(BUCKET, "2/min")),
        ],
        vec![cap(Place::Tenant, 2), cap(Place::AgentTool, 2)],
        1,
    );
    let running: Vec<_> = std::iter::from_fn(|| world.admit(&acme, &rules).ok()).collect();
    assert_eq!(running.len(), 2);
    assert!(world.admit(&acme, &rules).is_err());
    let others: Vec<_> = std::iter::from_fn(|| world.admit(&globex, &rules).ok()).collect();
    assert_eq!(others.len(), 2, "globex has all of its own");
}

#[test]
fn a_tool_that_is_used_up_leaves_the_tenants_other_tools_alone() {
    let world = World::new();
    let export = world.caller("acme", "u-42", "export");
    let search = world.caller("acme", "u-42", "search");
    let globex = world.caller("globex", "u-42", "export");
    let rules = rules(vec![rate(Place::AgentTool, limit(BUCKET, "2/min"))], vec![], 1);
    let passed = [(); 3].map(|()| world.admit(&export, &rules).is_ok());
    assert_eq!(passed, [true, true, false]);
    assert!(world.admit(&globex, &rules).is_ok());
    assert!(world.admit(&search, &rules).is_ok());
}

#[test]
fn fifty_agents_of_one_tenant_cannot_exceed_its_ceiling() {
    let world = World::new();
    let rules = rules(
        vec![rate(Place::Tenant, limit(STRICT, "100/min")), rate(Place::Agent, limit(BUCKET, "60/min"))],
        vec![],
        1,
    );
    let agents: Vec<_> = (0..50).map(|i| world.caller("acme", &format!("agent-{i}"), "export")).collect();
    let admitted =
        agents.iter().flat_map(|agent| [agent; 60]).filter(|agent| world.admit(agent, &rules).is_ok()).count();
    assert_eq!(admitted, 100);
    assert!(world.admit(&world.caller("globex", "agent-0", "export"), &rules).is_ok());
}

#[test]
fn a_limit_shared_by_all_callers_of_a_tool_holds_across_tenants() {
    let world = World::new();
    let rules = rules(vec![rate(Place::ServerTool, limit(STRICT, "3/min"))], vec![cap(Place::ServerTool, 9)], 1);
    let callers = ["acme", "globex", "initech"].map(|tenant| world.caller(tenant, "a", "export"));
    let admitted = callers.iter().cycle().take(9).filter(|caller| world.admit(caller, &rules).is_ok()).count();
    assert_eq!(admitted, 3);
    assert!(world.admit(&world.caller("acme", "a", "search"), &rules).is_ok());
}
