//! No outcome of admission allocates once the states exist. Alone in its binary: the allocator counts for all threads.

use sluicegate_limits::{
    Algorithm, Call, CapRule, Limiter, LimiterOptions, Mode, Place, Priority, RateLimit, RateRule, Rules, Scope,
    TenantIdentity,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

fn rules(quota: &str, slots: &str) -> Rules {
    let places = [Place::Server, Place::ServerTool, Place::Tenant, Place::TenantTool, Place::Agent, Place::AgentTool];
    let rates = places.into_iter().flat_map(|place| {
        [Algorithm::TokenBucket, Algorithm::SlidingWindow].into_iter().zip(0..).map(move |(algorithm, ordinal)| {
            let limit = RateLimit::new(quota.parse().expect("a quota"), None, algorithm).expect("a limit");
            RateRule { scope: Scope::Tool, place, ordinal, limit, mode: Mode::Enforce }
        })
    });
    let cap = |place| CapRule { scope: Scope::Tool, place, cap: slots.parse().expect("a cap"), mode: Mode::Enforce };
    Rules::new(rates.collect(), places.map(cap).into(), 1, Priority::Normal, true).expect("rules")
}

#[test]
fn neither_admitting_nor_refusing_allocates() {
    let (clock, mock) = quanta::Clock::mock();
    let limiter = Limiter::new(clock, LimiterOptions::default());
    let tenant = limiter.tenant(TenantIdentity::Named("acme"));
    let (agent, tool) = (tenant.agent("u-42"), limiter.tool("export"));
    for quota in ["20/s", "2000/s"] {
        let [free, full] = [rules(quota, "50"), rules(quota, "1")];
        let call = |rules| limiter.admit(&Call { rules, tenant: &tenant, agent, key: None, tool });
        // Fills every state, so that it has grown as far as it will.
        while call(&free).is_ok() {}
        mock.increment(std::time::Duration::from_secs(2));
        drop(call(&free));

        let region = Region::new(ALLOCATOR);
        let admitted = (0..10).filter(|_| call(&free).is_ok()).count();
        let permit = call(&full);
        let refused_for_concurrency = call(&full).is_err();
        drop(permit);
        while call(&free).is_ok() {}
        let refused_for_rate = call(&free).is_err();
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations), (0, 0));
        assert_eq!((admitted, refused_for_concurrency, refused_for_rate), (10, true, true));
        mock.increment(std::time::Duration::from_secs(100_000));
    }
}
