//! The limiter: everything that is counted, and who is known.

mod admit;
mod beside;
mod inspect;
mod sweep;
#[cfg(test)]
mod tests;
mod turn;

use std::{
    fmt,
    hash::BuildHasher,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use crate::{
    AgentId, KeyId, Place, Rules, Scope, TenantIdentity, ToolId,
    fair::{Portion, Shares},
    lock::Lock,
    rules::{Identity, place_of_slots},
    table::Table,
    tools::Tools,
};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

pub use self::turn::{Turn, TurnOutcome};

/// How much a limiter keeps. The defaults suit most servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimiterOptions {
    /// The most keys per tenant that have a rate limit state of their own. Beyond it, agents and API keys that are new
    /// share an overflow state per tool and limit, so that invented names cannot eat the memory; one that later gets its
    /// own starts from the overflow's state. Default 49 152: a table
    /// grows in one go, and one of this size does so in well under a millisecond.
    pub max_live_keys_per_tenant: u32,
    /// The most names of agents and API keys known per tenant. Beyond it, new names get
    /// [`AgentId::OVERFLOW`] and [`KeyId::OVERFLOW`]. Default 16 384.
    pub max_names_per_tenant: u32,
    /// After how long a name that nobody asked for, and under which nothing counts any more, may be forgotten. Whoever
    /// keeps an [`AgentId`] or [`KeyId`] must ask for it again more often than that. Default 1 hour.
    pub forget_names_after: Duration,
    /// The most tools known. Default 4 096.
    pub max_tools: u32,
    /// Whether tenants get weighted max-min shares of a server-wide rate of [`Place::Server`] that more is asked of than it
    /// has, instead of whoever comes first. Of several such rates it is the lowest. Default no.
    pub fair_share: bool,
}

impl Default for LimiterOptions {
    fn default() -> Self {
        Self {
            max_live_keys_per_tenant: 49_152,
            max_names_per_tenant: 16_384,
            forget_names_after: Duration::from_secs(60 * 60),
            max_tools: 4_096,
            fair_share: false,
        }
    }
}

/// One call that asks to be admitted: the rules that hold for it and who it is from.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The limits of this sort of call.
    pub rules: &'a Rules,
    /// The tenant, from [`Limiter::tenant`] of the limiter that is asked.
    pub tenant: &'a TenantHandle,
    /// The agent, from [`TenantHandle::agent`].
    pub agent: AgentId,
    /// The API key, from [`TenantHandle::key`], if the agent used one.
    pub key: Option<KeyId>,
    /// The tool, from [`Limiter::tool`]; [`ToolId::NONE`] for requests that are not tool calls.
    pub tool: ToolId,
}

impl Call<'_> {
    fn identity(&self) -> Identity {
        Identity { agent: self.agent.0, key: self.key.map_or(self.agent.0, |key| key.0), tool: self.tool.0 }
    }
}

/// Admits or refuses calls: counts rates and slots for every tenant, agent and tool.
///
/// Clones share their state. See the [crate documentation](crate) for a walk through it.
///
/// ```
/// use sluicegate_limits::{Limiter, LimiterOptions, TenantIdentity};
///
/// let limiter = Limiter::new(quanta::Clock::new(), LimiterOptions::default());
/// let acme = limiter.tenant(TenantIdentity::Named("acme"));
/// let globex = limiter.tenant(TenantIdentity::Named("globex"));
/// assert_ne!(acme, globex);
/// assert_eq!(acme.agent("u-42"), acme.agent("u-42"));
/// ```
#[derive(Clone)]
pub struct Limiter {
    core: Arc<Core>,
    tenants: Arc<Lock<Tenants>>,
}

/// What all tenants share.
pub(crate) struct Core {
    clock: quanta::Clock,
    /// The raw clock reading that counts as 0.
    start: u64,
    options: LimiterOptions,
    /// Slots of the server-wide cap.
    server_slots: AtomicU32,
    /// Server-wide rates.
    server: Lock<Table>,
    /// Who gets how much of them. Taken while `server` is held.
    pub(crate) shares: Lock<Shares>,
    pub(crate) tools: Tools,
}

pub(crate) struct Tenant {
    pub(crate) core: Arc<Core>,
    /// `None` for callers without a tenant.
    name: Option<Box<str>>,
    pub(crate) table: Lock<Table>,
    /// Its part in shares of the server's rates. Taken while those are held.
    pub(crate) portion: Lock<Portion>,
}

#[derive(Default)]
struct Tenants {
    tenants: HashTable<Arc<Tenant>>,
    hasher: RandomState,
    /// Where the next sweep starts.
    cursor: usize,
}

/// A tenant that a [`Limiter`] knows. Cheap to clone; keep it with the caller's identity instead of asking by name.
///
/// A tenant without handles and without anything counted is forgotten by [`Limiter::sweep`].
#[derive(Clone)]
pub struct TenantHandle(Arc<Tenant>);

impl Limiter {
    /// A limiter that reads this clock. Tests inject [`quanta::Clock::mock`].
    #[must_use]
    pub fn new(clock: quanta::Clock, options: LimiterOptions) -> Self {
        let core = Core {
            start: clock.raw(),
            clock,
            options,
            server_slots: AtomicU32::new(0),
            server: Lock::new(Table::new(usize::MAX)),
            shares: Lock::default(),
            tools: Tools::new(options.max_tools),
        };
        Self { core: Arc::new(core), tenants: Arc::default() }
    }

    /// The handle of a tenant, which becomes known if it was not.
    #[must_use]
    pub fn tenant(&self, identity: TenantIdentity<'_>) -> TenantHandle {
        let name = match identity {
            TenantIdentity::Named(name) => Some(name),
            TenantIdentity::Untenanted => None,
        };
        let mut guard = self.tenants.lock();
        let Tenants { tenants, hasher, .. } = &mut *guard;
        let tenant = tenants
            .entry(
                hasher.hash_one(name),
                |tenant| tenant.name.as_deref() == name,
                |tenant| hasher.hash_one(tenant.name.as_deref()),
            )
            .or_insert_with(|| {
                let cap = self.core.options.max_live_keys_per_tenant as usize;
                let table = Lock::new(Table::new(cap));
                Arc::new(Tenant {
                    core: Arc::clone(&self.core),
                    name: name.map(Into::into),
                    table,
                    portion: Lock::default(),
                })
            });
        TenantHandle(Arc::clone(tenant.get()))
    }

    /// The id of a tool, the same for all tenants.
    ///
    /// Ask once for every tool when the server starts: unlike names of agents, names of tools are never forgotten.
    #[must_use]
    pub fn tool(&self, name: &str) -> ToolId {
        self.core.tools.id(name)
    }

    /// How many rate limit states are kept, over all tenants. Takes every tenant's lock in turn: meant for metrics.
    #[must_use]
    pub fn live_keys(&self) -> usize {
        let tenants = self.tenants.lock();
        let counted: usize = tenants.tenants.iter().map(|tenant| tenant.table.lock().len()).sum();
        counted + self.core.server.lock().len()
    }

    /// How many concurrency slots are taken in caps of each scope, over all callers. A call holds one in each place that
    /// has a cap for it. Takes every tenant's lock in turn: meant for metrics.
    #[must_use]
    pub fn slots_taken(&self) -> [(Scope, u64); 4] {
        let mut taken = [Scope::Server, Scope::Tenant, Scope::Agent, Scope::Tool].map(|scope| (scope, 0));
        let mut add = |scope, slots: u32| {
            let place = taken.iter_mut().find(|(other, _)| *other == scope);
            place.into_iter().for_each(|(_, sum)| *sum += u64::from(slots));
        };
        add(Scope::Server, self.core.taken(Place::Server, ToolId::NONE.0));
        self.core.tools.slots_taken().for_each(|slots| add(Scope::Tool, slots));
        for tenant in &self.tenants.lock().tenants {
            for (key, slots) in tenant.table.lock().all_taken() {
                place_of_slots(key).into_iter().for_each(|place| add(place.scope(), slots));
            }
        }
        taken
    }
}

impl TenantHandle {
    /// The id of an agent. Beyond [`LimiterOptions::max_names_per_tenant`] names it is [`AgentId::OVERFLOW`].
    #[must_use]
    pub fn agent(&self, name: &str) -> AgentId {
        self.intern(|table, now, cap| {
            let id = table.names.agent(name, now, cap);
            (id, id == AgentId::OVERFLOW)
        })
    }

    /// The id of an API key of an agent. Beyond [`LimiterOptions::max_names_per_tenant`] names it is [`KeyId::OVERFLOW`].
    ///
    /// `key` is any text that tells the agent's keys apart, for example the key's public id; never its secret.
    #[must_use]
    pub fn key(&self, agent: &str, key: &str) -> KeyId {
        self.intern(|table, now, cap| {
            let agent = table.names.agent(agent, now, cap);
            let id = table.names.key(agent, key, now, cap);
            (id, id == KeyId::OVERFLOW)
        })
    }

    /// Sets how much the tenant's share of the server counts for against those of others; 1 until it is set, and 1 at least.
    /// See [`LimiterOptions::fair_share`].
    pub fn set_weight(&self, weight: u32) {
        self.0.portion.lock().set_weight(weight.max(1));
    }

    /// The name, or that there is none.
    #[must_use]
    pub fn identity(&self) -> TenantIdentity<'_> {
        self.0.name.as_deref().map_or(TenantIdentity::Untenanted, TenantIdentity::Named)
    }

    /// Interns; at the cap it first makes room where it can.
    fn intern<T>(&self, id: impl Fn(&mut Table, u64, u32) -> (T, bool)) -> T {
        let core = &self.0.core;
        let now = core.now();
        let mut table = self.0.table.lock();
        let (first, overflowed) = id(&mut table, now, core.options.max_names_per_tenant);
        if !overflowed {
            return first;
        }
        table.forget_names(core.names_horizon(now));
        id(&mut table, now, core.options.max_names_per_tenant).0
    }
}

impl Core {
    /// Nanoseconds since the limiter was made.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.delta_as_nanos(self.start, self.clock.raw())
    }

    /// Names last asked for before this time may be forgotten.
    fn names_horizon(&self, now: u64) -> u64 {
        let after = u64::try_from(self.options.forget_names_after.as_nanos()).unwrap_or(u64::MAX);
        now.saturating_sub(after)
    }

    /// The counter of a server-wide place.
    pub(crate) fn slots(&self, place: Place, tool: u32) -> &AtomicU32 {
        match place {
            Place::ServerTool => &self.tools.get(ToolId(tool)).slots,
            _ => &self.server_slots,
        }
    }
}

impl PartialEq for TenantHandle {
    /// Whether both stand for the same tenant of the same limiter.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TenantHandle {}

impl fmt::Debug for TenantHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TenantHandle").field(&self.identity()).finish()
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("options", &self.core.options).finish_non_exhaustive()
    }
}
