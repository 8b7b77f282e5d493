//! The policy in force: an immutable snapshot of what the operator decided, over what code and configuration declare.
//!
//! [`reload`] builds a [`Snapshot`] and swaps it in; [`resolve`] finds the limits of one caller and tool in it;
//! [`compile`] and [`call_rules`] turn them into what the call path uses; [`explain`] into what people read.

use std::collections::HashMap;
use std::sync::Arc;

use rpds::{HashTrieMapSync, HashTrieSetSync};
use sluicegate_control::{
    AgentId, KeyId, LimitEntry, LimitKindName, PolicyDelta, Revision, Target, TenantId, TenantPolicy, Tombstone,
};
use sluicegate_limits::Mode;

pub(crate) mod baseline;
pub(crate) mod call_rules;
pub(crate) mod compile;
mod entries;
pub(crate) mod explain;
pub(crate) mod reload;
pub(crate) mod resolve;
pub(crate) mod settings;

use baseline::Baseline;
use entries::{Entries, Owner};
pub(crate) use reload::PolicyStore;

/// For how long a changed key is remembered as changed; longer than any credential is cached.
const CHANGES_KEPT_MS: i64 = 5 * 60 * 1_000;

/// The policy as of one revision. What it holds is shared with the snapshots before and after it: to make the next one takes
/// as long for ten tenants as for a hundred thousand.
#[derive(Clone)]
pub(crate) struct Snapshot {
    /// What holds where the operator has decided nothing.
    pub(crate) baseline: Arc<Baseline>,
    /// The database's revision.
    pub(crate) revision: Revision,
    /// Counts the snapshots of this process.
    pub(crate) generation: u64,
    /// When it was made, in epoch milliseconds. Temporary entries that end later are in force in it; a new snapshot is
    /// made when one ends.
    pub(crate) made_at: i64,
    tenants: HashTrieMapSync<TenantId, Arc<TenantPolicy>>,
    suspended_agents: HashTrieSetSync<AgentId>,
    /// Tools that are switched off, for a tenant or for everybody.
    disabled_tools: HashTrieMapSync<Option<TenantId>, HashTrieSetSync<String>>,
    limits: Entries,
    /// Keys that changed lately: with the revision of the change, and its time.
    changed_keys: HashMap<KeyId, (Revision, i64)>,
    /// What callers of this snapshot share.
    made: call_rules::Made,
}

impl Snapshot {
    fn empty(baseline: Arc<Baseline>) -> Self {
        Self {
            baseline,
            revision: Revision::START,
            generation: 0,
            made_at: 0,
            tenants: HashTrieMapSync::default(),
            suspended_agents: HashTrieSetSync::default(),
            disabled_tools: HashTrieMapSync::default(),
            limits: Entries::default(),
            changed_keys: HashMap::new(),
            made: call_rules::Made::default(),
        }
    }

    pub(crate) fn tenant(&self, id: TenantId) -> Option<&Arc<TenantPolicy>> {
        self.tenants.get(&id)
    }

    pub(crate) fn is_suspended(&self, agent: AgentId) -> bool {
        self.suspended_agents.contains(&agent)
    }

    /// Whether a tool is switched off for everybody, or for this tenant.
    pub(crate) fn is_disabled(&self, tool: &str, tenant: Option<TenantId>) -> bool {
        let off = |whom| self.disabled_tools.get(&whom).is_some_and(|tools| tools.contains(tool));
        off(None) || (tenant.is_some() && off(tenant))
    }

    /// Whether a key has changed since a revision.
    pub(crate) fn outdates_key(&self, key: KeyId, looked_up: Revision) -> bool {
        self.changed_keys.get(&key).is_some_and(|(changed, _)| *changed > looked_up)
    }

    /// Whether a tenant that was there at a revision is gone.
    pub(crate) fn outdates(&self, tenant: TenantId, looked_up: Revision) -> bool {
        self.revision > looked_up && !self.tenants.contains_key(&tenant)
    }

    /// The entry in force for a target. A temporary entry lies over the lasting one until it ends.
    pub(crate) fn entry(&self, target: &Target, kind: LimitKindName, mode: Mode) -> Option<&Arc<LimitEntry>> {
        self.limits.find(target, kind, mode, self.made_at)
    }

    /// When the next temporary entry ends, in epoch milliseconds.
    fn next_expiry(&self) -> Option<i64> {
        self.limits.next_end(self.made_at)
    }

    /// The snapshot that follows this one after `delta`, at a time in epoch milliseconds.
    fn after(&self, delta: PolicyDelta, now_ms: i64) -> Self {
        let mut next = if delta.complete { Self::empty(Arc::clone(&self.baseline)) } else { self.clone() };
        next.revision = delta.revision;
        next.generation = self.generation + 1;
        next.made_at = now_ms;
        next.changed_keys.retain(|_, (_, at)| *at + CHANGES_KEPT_MS > now_ms);
        next.changed_keys.extend(delta.credentials_changed.into_iter().map(|key| (key, (delta.revision, now_ms))));
        delta.deleted.iter().for_each(|tombstone| next.bury(*tombstone));
        for tenant in delta.tenants {
            next.tenants.insert_mut(tenant.id, Arc::new(tenant));
        }
        for agent in delta.agents {
            if agent.status.is_active() {
                next.suspended_agents.remove_mut(&agent.id);
            } else {
                next.suspended_agents.insert_mut(agent.id);
            }
        }
        for switch in delta.tool_switches {
            let mut tools = next.disabled_tools.get(&switch.tenant_id).cloned().unwrap_or_default();
            if switch.enabled {
                tools.remove_mut(&switch.tool);
            } else {
                tools.insert_mut(switch.tool);
            }
            next.disabled_tools.insert_mut(switch.tenant_id, tools);
        }
        delta.limits.into_iter().for_each(|entry| next.limits.put(entry));
        next
    }

    /// The same policy over another baseline.
    fn on(&self, baseline: Arc<Baseline>, now_ms: i64) -> Self {
        Self { baseline, generation: self.generation + 1, made_at: now_ms, ..self.clone() }
    }

    fn bury(&mut self, tombstone: Tombstone) {
        match tombstone {
            Tombstone::Tenant(tenant) => {
                self.tenants.remove_mut(&tenant);
                self.disabled_tools.remove_mut(&Some(tenant));
                self.limits.remove_all(Owner::Tenant(tenant));
            }
            Tombstone::Plan(plan) => self.limits.remove_all(Owner::Plan(plan)),
            Tombstone::Limit(limit) => self.limits.remove(limit),
        }
    }
}
