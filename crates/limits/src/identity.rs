//! Names become small integers once, when a caller is identified; calls carry only the integers.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::keyed;

/// The top bit marks the identity of those who have none of their own; see [`AgentId::OVERFLOW`].
pub(crate) const OVERFLOW: u32 = 1 << 31;
/// The parent of names that stand alone.
const ROOT: u32 = 0;

/// An agent of one tenant. Meaningful only together with the [`TenantHandle`](crate::TenantHandle) that gave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(pub(crate) u32);

impl AgentId {
    /// What agents beyond the tenant's cap of names share: one identity, and so one state per limit.
    pub const OVERFLOW: Self = Self(OVERFLOW);
}

/// An API key of one agent. Meaningful only together with the [`TenantHandle`](crate::TenantHandle) that gave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(crate) u32);

impl KeyId {
    /// What API keys beyond the tenant's cap of names share.
    pub const OVERFLOW: Self = Self(OVERFLOW);
}

/// A tool of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolId(pub(crate) u32);

impl ToolId {
    /// For requests that are not calls of a tool.
    pub const NONE: Self = Self(0);
    /// What tools beyond [`LimiterOptions::max_tools`](crate::LimiterOptions::max_tools) share.
    pub const OVERFLOW: Self = Self(1);
}

/// The names of one tenant's agents and API keys.
///
/// A name keeps its id until it has not been asked for in a while **and** nothing counts under the id any more; ids are
/// never given out twice.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Found by text and parent.
    index: HashTable<u32>,
    /// Found by id.
    names: HashTable<Name>,
    hasher: RandomState,
    last_id: u32,
    /// Where the next step of forgetting starts.
    cursor: usize,
}

#[derive(Debug)]
struct Name {
    id: u32,
    /// The agent of an API key, [`ROOT`] for an agent.
    parent: u32,
    text: Box<str>,
    /// How many states and names depend on this name.
    dependants: u32,
    /// When it was last asked for.
    seen: u64,
}

impl Names {
    /// The id of an agent.
    pub(crate) fn agent(&mut self, text: &str, now: u64, cap: u32) -> AgentId {
        AgentId(self.intern(ROOT, text, now, cap))
    }

    /// The id of an API key of `agent`.
    pub(crate) fn key(&mut self, agent: AgentId, text: &str, now: u64, cap: u32) -> KeyId {
        if agent == AgentId::OVERFLOW {
            return KeyId::OVERFLOW;
        }
        KeyId(self.intern(agent.0, text, now, cap))
    }

    fn intern(&mut self, parent: u32, text: &str, now: u64, cap: u32) -> u32 {
        let Self { index, names, hasher, .. } = self;
        let hash = hasher.hash_one((parent, text));
        let found =
            index.find(hash, |id| by_id(names, *id).is_some_and(|name| name.parent == parent && *name.text == *text));
        if let Some(&id) = found {
            if let Some(name) = by_id_mut(names, id) {
                name.seen = now;
            }
            return id;
        }
        if names.len() >= cap as usize || self.last_id == OVERFLOW - 1 {
            return OVERFLOW;
        }
        self.last_id += 1;
        let id = self.last_id;
        let name = Name { id, parent, text: text.into(), dependants: 0, seen: now };
        names.insert_unique(keyed::hash(u64::from(id)), name, |name| keyed::hash(u64::from(name.id)));
        index.insert_unique(hash, id, |id| {
            by_id(names, *id).map_or(0, |name| hasher.hash_one((name.parent, &*name.text)))
        });
        self.depend(parent);
        id
    }

    /// Something counts under this id from now on.
    pub(crate) fn depend(&mut self, id: u32) {
        if let Some(name) = by_id_mut(&mut self.names, id) {
            name.dependants += 1;
        }
    }

    /// Something no longer counts under this id.
    pub(crate) fn release(&mut self, id: u32) {
        if let Some(name) = by_id_mut(&mut self.names, id) {
            name.dependants = name.dependants.saturating_sub(1);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.names.len()
    }

    /// Looks at up to `step` places and forgets the names there that were last asked for before `horizon` and that
    /// nothing depends on. `in_use` has the last word.
    pub(crate) fn forget(&mut self, step: usize, horizon: u64, in_use: impl Fn(u32) -> bool) {
        for _ in 0..step.min(self.names.num_buckets()) {
            self.cursor = (self.cursor + 1) % self.names.num_buckets();
            let idle = self
                .names
                .get_bucket(self.cursor)
                .is_some_and(|name| name.dependants == 0 && name.seen < horizon && !in_use(name.id));
            if !idle {
                continue;
            }
            let Ok(entry) = self.names.get_bucket_entry(self.cursor) else { continue };
            let (name, _) = entry.remove();
            let hash = self.hasher.hash_one((name.parent, &*name.text));
            if let Ok(entry) = self.index.find_entry(hash, |id| *id == name.id) {
                entry.remove();
            }
            self.release(name.parent);
        }
    }
}

fn by_id(names: &HashTable<Name>, id: u32) -> Option<&Name> {
    names.find(keyed::hash(u64::from(id)), |name| name.id == id)
}

fn by_id_mut(names: &mut HashTable<Name>, id: u32) -> Option<&mut Name> {
    names.find_mut(keyed::hash(u64::from(id)), |name| name.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_id_and_the_same_text_elsewhere_has_another() {
        let mut names = Names::default();
        let a = names.agent("a", 0, 100);
        let b = names.agent("b", 0, 100);
        let key = names.key(a, "k", 0, 100);
        assert_eq!(names.agent("a", 1, 100), a);
        assert_eq!(names.key(a, "k", 1, 100), key);
        assert_ne!(a, b);
        assert_ne!(names.key(b, "k", 0, 100), key);
        assert_ne!(names.key(a, "a", 0, 100).0, a.0);
    }

    #[test]
    fn beyond_the_cap_new_names_share_the_overflow_and_old_ones_keep_theirs() {
        let mut names = Names::default();
        let a = names.agent("a", 0, 1);
        assert_eq!(names.agent("b", 0, 1), AgentId::OVERFLOW);
        assert_eq!(names.key(a, "k", 0, 1), KeyId::OVERFLOW);
        assert_eq!(names.key(AgentId::OVERFLOW, "k", 0, 9), KeyId::OVERFLOW);
        assert_eq!(names.agent("a", 0, 1), a);
    }

    #[test]
    fn only_names_that_are_old_and_unused_are_forgotten() {
        let mut names = Names::default();
        let idle = names.agent("idle", 0, 100);
        let counted = names.agent("counted", 0, 100);
        let recent = names.agent("recent", 50, 100);
        let held = names.agent("held", 0, 100);
        let parent = names.agent("parent", 0, 100);
        names.key(parent, "recent key", 50, 100);
        names.depend(counted.0);
        names.forget(usize::MAX, 10, |id| id == held.0);
        assert_eq!(names.len(), 5);
        assert_eq!(names.agent("counted", 60, 100), counted);
        assert_eq!(names.agent("recent", 60, 100), recent);
        assert_eq!(names.agent("held", 60, 100), held);
        assert_eq!(names.agent("parent", 60, 100), parent);
        assert_ne!(names.agent("idle", 60, 100), idle, "an id is never given out twice");
    }

    #[test]
    fn forgetting_in_small_steps_reaches_every_name() {
        let mut names = Names::default();
        for i in 0..1_000 {
            names.agent(&i.to_string(), 0, 10_000);
        }
        for _ in 0..100 {
            names.forget(64, 1, |_| false);
        }
        assert_eq!(names.len(), 0);
    }
}
