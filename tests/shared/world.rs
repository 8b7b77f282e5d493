//! The world of the proofs with limits in Redis.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use quanta::Mock;
use sluicegate::limits::{Refusal, RuleReport, Rules, TenantIdentity};
pub(crate) use sluicegate::testing::Caller;
use sluicegate::testing::{Instance, Keys, Running};
use sluicegate_tests::redis;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
static WORLDS: AtomicU64 = AtomicU64::new(0);

pub(crate) struct World {
    instance: Instance,
    mock: Arc<Mock>,
    prefix: String,
}

impl World {
    /// How many random cases the longer proofs try: each call is a round trip here.
    pub(crate) const CASES: u32 = 60;
    /// Up to this count the time of each call in a window is kept, above it calls are counted in sixtieths.
    pub(crate) const EXACT: u64 = 100;

    pub(crate) fn new() -> Self {
        Self::counting_in(1)
    }

    /// A world whose time is counted in so many nanoseconds.
    pub(crate) fn counting_in(tick: u64) -> Self {
        let (clock, mock) = quanta::Clock::mock();
        let number = WORLDS.fetch_add(1, Relaxed);
        let prefix = format!("sluicegate-test-{}-{number}", std::process::id());
        let keys = Keys { prefix: prefix.clone(), tick };
        let instance = RUNTIME.block_on(Instance::start(&redis::url(), false, keys, clock, number));
        Self { instance, mock, prefix }
    }

    pub(crate) fn wait(&self, ns: u64) {
        self.mock.increment(Duration::from_nanos(ns));
    }

    /// Somebody sets the clock back.
    pub(crate) fn set_back(&self, ns: u64) {
        self.mock.decrement(Duration::from_nanos(ns));
    }

    pub(crate) fn caller(&self, tenant: &str, agent: &str, tool: &str) -> Caller {
        self.caller_of(TenantIdentity::Named(tenant), agent, None, tool)
    }

    pub(crate) fn caller_of(&self, tenant: TenantIdentity<'_>, agent: &str, key: Option<&str>, tool: &str) -> Caller {
        let tenant = match tenant {
            TenantIdentity::Named(name) => Some(name.to_owned()),
            TenantIdentity::Untenanted => None,
        };
        Caller { tenant, agent: agent.to_owned(), key: key.map(str::to_owned), tool: tool.to_owned() }
    }

    pub(crate) fn admit(&self, caller: &Caller, rules: &Rules) -> Result<Running, Refusal> {
        RUNTIME.block_on(self.instance.admit(caller, rules))
    }

    pub(crate) fn inspect(&self, caller: &Caller, rules: &Rules) -> Vec<RuleReport> {
        RUNTIME.block_on(self.instance.inspect(caller, rules))
    }

    /// Redis sweeps as it goes.
    pub(crate) fn sweep(&self) {}

    /// They are not counted here.
    pub(crate) fn states(&self) -> Option<usize> {
        None
    }
}

impl Drop for World {
    fn drop(&mut self) {
        RUNTIME.block_on(redis::forget(&redis::url(), &self.prefix));
    }
}
