//! What the benches have in common.

use std::{
    num::NonZeroU32,
    thread,
    time::{Duration, Instant},
};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use sluicegate_limits::{Algorithm, Mode, Place, Priority, RateLimit, RateRule, Rules, Scope};

/// Rules of one call, all enforced, at cost 1.
fn rules<const N: usize>(rates: [(Scope, Place, Algorithm, &str); N]) -> Rules {
    let rate = |(scope, place, algorithm, quota): (_, _, _, &str)| {
        let limit = RateLimit::new(quota.parse().unwrap(), None, algorithm).unwrap();
        RateRule { scope, place, ordinal: 0, limit, mode: Mode::Enforce }
    };
    Rules::new(rates.into_iter().map(rate).collect(), vec![], 1, Priority::Normal, false).unwrap()
}

/// A tenant window of this quota, and an agent bucket and a tool bucket that never refuse at the speed of a bench.
pub(crate) fn three_limits(tenant: &str) -> Rules {
    rules([
        (Scope::Tenant, Place::Tenant, Algorithm::SlidingWindow, tenant),
        (Scope::Agent, Place::Agent, Algorithm::TokenBucket, "900000000/s"),
        (Scope::Tool, Place::AgentTool, Algorithm::TokenBucket, "900000000/s"),
    ])
}

/// A tool bucket for each agent.
pub(crate) fn bucket_rules() -> Rules {
    rules([(Scope::Tool, Place::AgentTool, Algorithm::TokenBucket, "100/min")])
}

/// Three governor limiters with keys as cheap as they come: integers.
pub(crate) struct Governors {
    tenant: DefaultKeyedRateLimiter<u32>,
    agent: DefaultKeyedRateLimiter<(u32, u32)>,
    tool: DefaultKeyedRateLimiter<(u32, u32, u32)>,
}

impl Governors {
    pub(crate) fn new() -> Self {
        let quota = Quota::per_second(NonZeroU32::new(900_000_000).unwrap());
        Self { tenant: RateLimiter::keyed(quota), agent: RateLimiter::keyed(quota), tool: RateLimiter::keyed(quota) }
    }

    /// The same decision as [`three_limits`], not all or nothing.
    pub(crate) fn check(&self, agent: u32) -> bool {
        self.tenant.check_key(&1).is_ok()
            & self.agent.check_key(&(1, agent)).is_ok()
            & self.tool.check_key(&(1, agent, 3)).is_ok()
    }
}

/// How long `threads` take to make `calls` calls each.
pub(crate) fn race(threads: u32, calls: u32, call: impl Fn(u32) + Sync) -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            let call = &call;
            scope.spawn(move || (0..calls).for_each(|_| call(thread)));
        }
    });
    start.elapsed()
}
