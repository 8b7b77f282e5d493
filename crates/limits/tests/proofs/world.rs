//! A limiter with a clock that stands still until told, and short ways to write rules.

use std::{sync::Arc, time::Duration};

use quanta::Mock;
use sluicegate_limits::{
    Admission, AgentId, Algorithm, Call, CapRule, Limiter, LimiterOptions, Mode, Place, Priority, RateLimit, RateRule,
    Refusal, Rules, Scope, TenantHandle, TenantIdentity, ToolId,
};

pub(crate) const STRICT: Algorithm = Algorithm::SlidingWindow;
pub(crate) const BUCKET: Algorithm = Algorithm::TokenBucket;

pub(crate) struct World {
    pub(crate) limiter: Limiter,
    pub(crate) mock: Arc<Mock>,
}

/// One caller of one tool.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) tenant: TenantHandle,
    pub(crate) agent: AgentId,
    pub(crate) tool: ToolId,
}

impl World {
    pub(crate) fn new() -> Self {
        let (clock, mock) = quanta::Clock::mock();
        Self { limiter: Limiter::new(clock, LimiterOptions::default()), mock }
    }

    pub(crate) fn wait(&self, ns: u64) {
        self.mock.increment(Duration::from_nanos(ns));
    }

    pub(crate) fn caller(&self, tenant: &str, agent: &str, tool: &str) -> Caller {
        let tenant = self.limiter.tenant(TenantIdentity::Named(tenant));
        Caller { agent: tenant.agent(agent), tenant, tool: self.limiter.tool(tool) }
    }

    pub(crate) fn admit(&self, caller: &Caller, rules: &Rules) -> Result<Admission, Refusal> {
        self.limiter.admit(&caller.call(rules))
    }
}

impl Caller {
    pub(crate) fn call<'a>(&'a self, rules: &'a Rules) -> Call<'a> {
        Call { rules, tenant: &self.tenant, agent: self.agent, key: None, tool: self.tool }
    }
}

pub(crate) fn limit(algorithm: Algorithm, quota: &str) -> RateLimit {
    RateLimit::new(quota.parse().expect("a quota"), None, algorithm).expect("a limit")
}

pub(crate) fn rate(place: Place, limit: RateLimit) -> RateRule {
    RateRule { scope: Scope::Tool, place, ordinal: 0, limit, mode: Mode::Enforce }
}

pub(crate) fn cap(place: Place, slots: u32) -> CapRule {
    let cap = slots.to_string().parse().expect("a cap");
    CapRule { scope: Scope::Tool, place, cap, mode: Mode::Enforce }
}

pub(crate) fn rules(rates: Vec<RateRule>, caps: Vec<CapRule>, cost: u32) -> Rules {
    Rules::new(rates, caps, cost, Priority::Normal, false).expect("rules")
}
