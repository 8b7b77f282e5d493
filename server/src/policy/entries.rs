//! The operator's limits. Each snapshot has all of them, and a change makes a new one of the old by copying a few nodes and
//! not the table: however many tenants there are, it takes as long.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use rpds::{HashTrieMapSync, RedBlackTreeMapSync};
use sluicegate_control::{LimitEntry, LimitId, LimitKindName, PlanId, Target, TenantId};
use sluicegate_limits::Mode;

/// The operator's limits.
#[derive(Clone, Default)]
pub(super) struct Entries {
    of: HashTrieMapSync<Owner, HashTrieMapSync<Target, Entry>>,
    /// Where each stands.
    targets: HashTrieMapSync<LimitId, Target>,
    /// How many end by themselves at a time, in epoch milliseconds.
    ends: RedBlackTreeMapSync<i64, usize>,
}

/// Up to eight of one target: rate and concurrency, lasting and temporary, enforced and observed.
type Entry = Vec<Arc<LimitEntry>>;

/// With whom a limit goes away.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Server,
    Tenant(TenantId),
    Plan(PlanId),
}

impl From<&Target> for Owner {
    fn from(target: &Target) -> Self {
        let tenant = target.tenant().map(Self::Tenant);
        tenant.or_else(|| target.plan().map(Self::Plan)).unwrap_or(Self::Server)
    }
}

impl Entries {
    /// The entry in force for a target at a time in epoch milliseconds. A temporary entry lies over the lasting one until
    /// it ends.
    pub(super) fn find(
        &self,
        target: &Target,
        kind: LimitKindName,
        mode: Mode,
        at_ms: i64,
    ) -> Option<&Arc<LimitEntry>> {
        let entries = self.of.get(&Owner::from(target))?.get(target)?;
        let of_kind = || entries.iter().filter(|entry| entry.kind.name() == kind && entry.mode == mode);
        let temporary = of_kind().find(|entry| entry.expires_at.is_some() && entry.is_in_force(at_ms));
        temporary.or_else(|| of_kind().find(|entry| entry.expires_at.is_none()))
    }

    /// When the next temporary entry ends after a time, both in epoch milliseconds.
    pub(super) fn next_end(&self, after_ms: i64) -> Option<i64> {
        self.ends.range((Excluded(after_ms), Unbounded)).next().map(|(end, _)| *end)
    }

    /// Puts an entry in the place of the one like it.
    pub(super) fn put(&mut self, entry: LimitEntry) {
        let (owner, target) = (Owner::from(&entry.target), entry.target.clone());
        let mut of_owner = self.of.get(&owner).cloned().unwrap_or_default();
        let mut entries = of_owner.get(&target).cloned().unwrap_or_default();
        let slot = |entry: &LimitEntry| (entry.kind.name(), entry.expires_at.is_some(), entry.mode);
        if let Some(at) = entries.iter().position(|other| slot(other) == slot(&entry)) {
            self.forget(&entries.swap_remove(at));
        }
        self.targets.insert_mut(entry.id, target.clone());
        if let Some(end) = entry.expires_at {
            self.ends.insert_mut(end, self.ends.get(&end).map_or(1, |count| count + 1));
        }
        entries.push(Arc::new(entry));
        of_owner.insert_mut(target, entries);
        self.of.insert_mut(owner, of_owner);
    }

    /// Takes one away.
    pub(super) fn remove(&mut self, limit: LimitId) {
        let Some(target) = self.targets.get(&limit).cloned() else { return };
        let owner = Owner::from(&target);
        let Some(mut of_owner) = self.of.get(&owner).cloned() else { return };
        let mut entries = of_owner.get(&target).cloned().unwrap_or_default();
        if let Some(at) = entries.iter().position(|entry| entry.id == limit) {
            self.forget(&entries.swap_remove(at));
        }
        if entries.is_empty() {
            of_owner.remove_mut(&target);
        } else {
            of_owner.insert_mut(target, entries);
        }
        self.of.insert_mut(owner, of_owner);
    }

    /// Takes away all that go with somebody.
    pub(super) fn remove_all(&mut self, owner: Owner) {
        let Some(of_owner) = self.of.get(&owner).cloned() else { return };
        self.of.remove_mut(&owner);
        of_owner.values().flatten().for_each(|entry| self.forget(entry));
    }

    fn forget(&mut self, entry: &LimitEntry) {
        self.targets.remove_mut(&entry.id);
        let Some(end) = entry.expires_at else { return };
        match self.ends.get(&end) {
            Some(count) if *count > 1 => self.ends.insert_mut(end, count - 1),
            _ => drop(self.ends.remove_mut(&end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_control::{LimitKind, Revision};

    use super::*;

    /// An entry with a number, which also says what it allows.
    fn entry(number: u32, target: &Target, expires_at: Option<i64>) -> LimitEntry {
        LimitEntry {
            id: format!("lim_{number:032x}").parse().expect("an id"),
            target: target.clone(),
            kind: LimitKind::Rate {
                quotas: format!("{number}/min").parse().expect("a quota"),
                burst: None,
                algorithm: None,
                per: None,
            },
            mode: Mode::Enforce,
            expires_at,
            note: String::new(),
            created_by: String::new(),
            updated_by: String::new(),
            updated_at: 0,
            revision: Revision::START,
        }
    }

    fn tenant(number: u32) -> TenantId {
        format!("ten_{number:032x}").parse().expect("an id")
    }

    fn tool_of(number: u32) -> Target {
        Target::TenantTool { tenant: tenant(number), tool: "export".to_owned() }
    }

    fn found(entries: &Entries, target: &Target, at_ms: i64) -> Option<String> {
        entries.find(target, LimitKindName::Rate, Mode::Enforce, at_ms).map(|entry| entry.kind.to_string())
    }

    #[test]
    fn an_entry_takes_the_place_of_the_one_like_it_and_a_temporary_one_lies_over_it() {
        let mut entries = Entries::default();
        entries.put(entry(1, &tool_of(1), None));
        entries.put(entry(2, &tool_of(1), None));
        entries.put(entry(3, &tool_of(1), Some(100)));
        assert_eq!(found(&entries, &tool_of(1), 99).as_deref(), Some("3/min"));
        assert_eq!(found(&entries, &tool_of(1), 100).as_deref(), Some("2/min"));
        assert_eq!(found(&entries, &tool_of(2), 99), None);
        // The one that was replaced is not there to be taken away.
        entries.remove(entry(1, &tool_of(1), None).id);
        entries.remove(entry(3, &tool_of(1), None).id);
        assert_eq!(found(&entries, &tool_of(1), 99).as_deref(), Some("2/min"));
    }

    #[test]
    fn the_next_end_is_known_while_something_ends_then() {
        let mut entries = Entries::default();
        for (number, end) in [(1, 200), (2, 100), (3, 100), (4, 300)] {
            entries.put(entry(number, &tool_of(number), Some(end)));
        }
        assert_eq!([0, 100, 200, 300].map(|after| entries.next_end(after)), [Some(100), Some(200), Some(300), None]);
        entries.remove(entry(2, &tool_of(2), None).id);
        assert_eq!(entries.next_end(0), Some(100));
        // Put off.
        entries.put(entry(3, &tool_of(3), Some(250)));
        assert_eq!(entries.next_end(0), Some(200));
        entries.remove_all(Owner::Tenant(tenant(1)));
        assert_eq!(entries.next_end(0), Some(250));
    }

    #[test]
    fn what_belongs_to_somebody_goes_away_with_it_and_nothing_else_does() {
        let plan = "pln_00000000000000000000000000000001".parse().expect("an id");
        let of_plan = Target::PlanTool { plan, tool: "export".to_owned() };
        let of_all = Target::Tool { tool: "export".to_owned() };
        let mut entries = Entries::default();
        for (number, target) in [(1, &tool_of(1)), (2, &tool_of(2)), (3, &of_plan), (4, &of_all)] {
            entries.put(entry(number, target, None));
        }
        let before = entries.clone();
        entries.remove_all(Owner::Tenant(tenant(1)));
        entries.remove_all(Owner::Plan(plan));
        assert_eq!([&tool_of(1), &of_plan].map(|target| found(&entries, target, 0)), [None, None]);
        assert!([&tool_of(2), &of_all].iter().all(|target| found(&entries, target, 0).is_some()));
        assert!([&tool_of(1), &of_plan].iter().all(|target| found(&before, target, 0).is_some()), "it is another's");
    }
}
