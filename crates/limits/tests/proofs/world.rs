//! A limiter with a clock that stands still until told.

use std::{sync::Arc, time::Duration};

use quanta::Mock;
use sluicegate_limits::{
    Admission, AgentId, Call, KeyId, Limiter, LimiterOptions, Refusal, RuleReport, Rules, TenantHandle, TenantIdentity,
    ToolId,
};

pub(crate) struct World {
    pub(crate) limiter: Limiter,
    pub(crate) mock: Arc<Mock>,
}

/// One caller of one tool.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) tenant: TenantHandle,
    pub(crate) agent: AgentId,
    pub(crate) key: Option<KeyId>,
    pub(crate) tool: ToolId,
}

impl World {
    /// How many random cases the longer proofs try.
    pub(crate) const CASES: u32 = 400;
    /// Up to this count the time of each call in a window is kept, above it calls are counted in sixtieths.
    pub(crate) const EXACT: u64 = 1_000;

    pub(crate) fn new() -> Self {
        let (clock, mock) = quanta::Clock::mock();
        Self { limiter: Limiter::new(clock, LimiterOptions::default()), mock }
    }

    pub(crate) fn wait(&self, ns: u64) {
        self.mock.increment(Duration::from_nanos(ns));
    }

    pub(crate) fn caller(&self, tenant: &str, agent: &str, tool: &str) -> Caller {
        self.caller_of(TenantIdentity::Named(tenant), agent, None, tool)
    }

    pub(crate) fn caller_of(&self, tenant: TenantIdentity<'_>, agent: &str, key: Option<&str>, tool: &str) -> Caller {
        let tenant = self.limiter.tenant(tenant);
        let key = key.map(|key| tenant.key(agent, key));
        Caller { agent: tenant.agent(agent), key, tenant, tool: self.limiter.tool(tool) }
    }

    pub(crate) fn inspect(&self, caller: &Caller, rules: &Rules) -> Vec<RuleReport> {
        self.limiter.inspect(&caller.call(rules))
    }

    /// Drops what nobody can tell from nothing.
    pub(crate) fn sweep(&self) {
        self.limiter.sweep();
    }

    /// How many states there are, where they can be counted.
    pub(crate) fn states(&self) -> Option<usize> {
        Some(self.limiter.live_keys())
    }

    pub(crate) fn admit(&self, caller: &Caller, rules: &Rules) -> Result<Admission, Refusal> {
        self.limiter.admit(&caller.call(rules))
    }
}

impl Caller {
    pub(crate) fn of(limiter: &Limiter, tenant: &str, agent: &str, tool: &str) -> Self {
        let tenant = limiter.tenant(TenantIdentity::Named(tenant));
        Self { agent: tenant.agent(agent), key: None, tool: limiter.tool(tool), tenant }
    }

    pub(crate) fn call<'a>(&'a self, rules: &'a Rules) -> Call<'a> {
        Call { rules, tenant: &self.tenant, agent: self.agent, key: self.key, tool: self.tool }
    }
}
