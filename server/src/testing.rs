//! The engine of shared limits by itself: what the proofs of `crates/limits` and the tests of the house run against.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_limits::{
    Admission, AgentId, Call, KeyId, Limiter, LimiterOptions, OnOutage, Refusal, RuleReport, Rules, TenantHandle,
    TenantIdentity, ToolId,
};

use crate::engine::{Denial, Keyspace, Lease, Names, Redis, Share, Shared, SharedOptions, Upkeep};

/// Longer than any machine that is busy with tests lets anybody wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// How states are kept.
#[derive(Debug, Clone)]
pub struct Keys {
    /// What keys begin with.
    pub prefix: String,
    /// In how many nanoseconds time is counted.
    pub tick: u64,
}

/// One instance of shared limits, whose time is given.
pub struct Instance {
    shared: Arc<Shared>,
    limiter: Limiter,
    _upkeep: Upkeep,
}

/// Who calls.
#[derive(Debug, Clone)]
pub struct Caller {
    /// `None` where there are no tenants.
    pub tenant: Option<String>,
    /// The agent.
    pub agent: String,
    /// The API key, if one is used.
    pub key: Option<String>,
    /// The tool.
    pub tool: String,
}

/// A call that runs; its slots come back when it is dropped.
#[derive(Debug)]
pub struct Running {
    _lease: Option<Lease>,
    /// What was decided.
    pub admission: Admission,
}

impl Instance {
    /// An instance on a server or a cluster.
    ///
    /// # Panics
    /// When Redis does not answer.
    pub async fn start(url: &str, is_cluster: bool, keys: Keys, clock: quanta::Clock, number: u64) -> Self {
        let redis = Redis::new(url, is_cluster, PATIENCE).expect("an address");
        let keyspace = Keyspace { tick: keys.tick, ..Keyspace::new(keys.prefix, is_cluster) };
        let limiter = Limiter::new(clock.clone(), LimiterOptions::default());
        let options = SharedOptions { redis, keyspace, clock: Some(clock), instance: number };
        let (engine, upkeep) = crate::engine::LimitEngine::shared(limiter.clone(), options).await;
        let shared = engine.shared.expect("it shares");
        assert!(!shared.is_degraded(), "Redis does not answer at {url}");
        shared.set_share(Share::WHOLE);
        Self { shared, limiter, _upkeep: upkeep }
    }

    /// Decides about a call.
    ///
    /// # Errors
    /// The refusal.
    ///
    /// # Panics
    /// When Redis does not decide.
    pub async fn admit(&self, caller: &Caller, rules: &Rules) -> Result<Running, Refusal> {
        let (tenant, agent, key, tool) = self.ids(caller);
        let limits = self.shared.limits(&caller.names(), rules, OnOutage::Closed);
        let call = Call { rules, tenant: &tenant, agent, key, tool };
        match self.shared.admit(&call, &limits).await {
            Ok((admission, lease)) => Ok(Running { admission, _lease: lease }),
            Err(Denial::Refused(refusal)) => Err(refusal),
            Err(Denial::Closed) => panic!("Redis did not decide"),
        }
    }

    /// How every rule of the call stands.
    pub async fn inspect(&self, caller: &Caller, rules: &Rules) -> Vec<RuleReport> {
        let (tenant, agent, key, tool) = self.ids(caller);
        self.shared.inspect(&Call { rules, tenant: &tenant, agent, key, tool }, &caller.names()).await
    }

    fn ids(&self, caller: &Caller) -> (TenantHandle, AgentId, Option<KeyId>, ToolId) {
        let tenant = self.limiter.tenant(caller.identity());
        let (agent, tool) = (tenant.agent(&caller.agent), self.limiter.tool(&caller.tool));
        let key = caller.key.as_ref().map(|key| tenant.key(&caller.agent, key));
        (tenant, agent, key, tool)
    }
}

impl Caller {
    fn identity(&self) -> TenantIdentity<'_> {
        self.tenant.as_deref().map_or(TenantIdentity::Untenanted, TenantIdentity::Named)
    }

    fn names(&self) -> Names<'_> {
        let key = self.key.as_deref().unwrap_or_default();
        Names { tenant: self.identity(), agent: &self.agent, key, tool: &self.tool }
    }
}
