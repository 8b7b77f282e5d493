//! Edited lists: the rates of one place find the states that were made for them.
//!
//! Several rates may lie in one place under ordinals. When quotas are added to such a list, dropped from it or reordered,
//! an ordinal meets a state that was made for another quota, or none. Then, once, all states of the place are dealt out
//! anew: by the length of the window first, and a rate whose window is new starts as used as the most used of all.

use super::{Table, is_overflow, owner};
use crate::{
    Place, Rules,
    cell::Cell,
    rules::{CompiledRate, Identity},
};

const ORDINALS: usize = Rules::MAX_ORDINALS as usize;
const ORDINAL_BITS: u64 = ORDINALS as u64 - 1;

/// The states of one place by ordinal.
type Group<'a> = [Option<&'a Cell>; ORDINALS];

/// The keys of the place that `key` is in, by ordinal.
fn siblings(key: u64) -> impl Iterator<Item = u64> {
    (0..ORDINALS as u64).map(move |ordinal| key & !ORDINAL_BITS | ordinal)
}

/// Whether the key has an ordinal above 0, so that it belongs to a list.
pub(super) fn is_listed(key: u64) -> bool {
    key & ORDINAL_BITS != 0
}

impl Table {
    /// Whether there is a state in the same place under another ordinal. The overflow has no lists: its keys depend on the
    /// numbers of their limits.
    pub(super) fn has_siblings(&self, key: u64) -> bool {
        let may_have = (self.listed > 0 || is_listed(key)) && !is_overflow(key);
        may_have && siblings(key).any(|sibling| sibling != key && self.cells.find(sibling).is_some())
    }

    /// Whether dropping the state under `key` cannot be noticed. While a sibling counts, a state is kept even if it is as
    /// good as fresh: a rate without one starts from its siblings.
    pub(super) fn is_droppable(&self, key: u64, cell: &Cell, now: u64) -> bool {
        let is_alone = self.listed == 0 || is_overflow(key);
        cell.is_fresh(now)
            && (is_alone || siblings(key).filter_map(|key| self.cells.get(key)).all(|sibling| sibling.is_fresh(now)))
    }

    /// Deals the states of `place` out to those of `rates` that lie in it; afterwards each has one that fits. States whose
    /// quota is gone are dropped.
    #[cold]
    pub(crate) fn regroup(&mut self, rates: &[CompiledRate], place: Place, who: &Identity, now: u64) {
        let in_place = |rate: &&CompiledRate| rate.place == place;
        let Some(any_key) = rates.iter().find(in_place).map(|rate| rate.key(who)) else { return };
        let group = self.group(any_key);
        let dealt: Vec<_> =
            rates.iter().filter(in_place).map(|rate| (rate.key(who), successor(&group, rates, rate, now))).collect();
        for key in siblings(any_key).filter(|key| dealt.iter().all(|(dealt, _)| dealt != key)) {
            if let Some(at) = self.cells.find(key) {
                self.remove(at, key);
            }
        }
        for (key, cell) in dealt {
            if let Some(cell) = cell {
                self.put(key, cell);
            }
        }
    }

    /// The state of `rate`, one of `rates`, as a call at `now` would find it, without touching it; `None` when it is fresh.
    pub(crate) fn foresee(
        &self,
        rates: &[CompiledRate],
        rate: &CompiledRate,
        who: &Identity,
        now: u64,
    ) -> Option<Cell> {
        let is_stale = |other: &CompiledRate| {
            let key = other.key(who);
            self.cells.get(key).map_or_else(|| self.has_siblings(key), |cell| !cell.fits(other, now))
        };
        let key = rate.key(who);
        let regroups = !is_overflow(key) && rates.iter().any(|other| other.place == rate.place && is_stale(other));
        let dealt = if regroups { successor(&self.group(key), rates, rate, now) } else { None };
        dealt.or_else(|| self.view(rate, key, now).map(std::borrow::Cow::into_owned))
    }

    fn group(&self, key: u64) -> Group<'_> {
        let mut group = [None; ORDINALS];
        for (cell, key) in group.iter_mut().zip(siblings(key)) {
            *cell = self.cells.get(key);
        }
        group
    }

    /// Puts a state under `key`, whether or not there is one. Places may have moved afterwards.
    pub(super) fn put(&mut self, key: u64, cell: Cell) {
        let before = self.cells.len();
        *self.cells.entry(key) = cell;
        if self.cells.len() == before {
            return;
        }
        self.listed += usize::from(is_listed(key));
        match owner(key) {
            Some(id) => self.names.depend(id),
            None if is_overflow(key) => self.overflow_cells += 1,
            None => {}
        }
    }

    pub(super) fn remove(&mut self, at: usize, key: u64) {
        self.cells.remove_at(at);
        self.listed -= usize::from(is_listed(key));
        match owner(key) {
            Some(id) => self.names.release(id),
            None if is_overflow(key) => self.overflow_cells -= 1,
            None => {}
        }
    }
}

/// The state that `rate` gets of a group that is dealt out to `rates`; `None` when it keeps its own.
fn successor(group: &Group<'_>, rates: &[CompiledRate], rate: &CompiledRate, now: u64) -> Option<Cell> {
    let heir =
        |ordinal: usize| rates.iter().find(|other| other.place == rate.place && usize::from(other.ordinal) == ordinal);
    // What was only observed never decides about what is enforced.
    let reachable = if rate.observe { ORDINALS } else { usize::from(Rules::OBSERVED_ORDINALS) };
    // A state is free if its quota is gone from its ordinal.
    let states = || {
        group.iter().take(reachable).enumerate().filter_map(|(ordinal, cell)| {
            let cell = (*cell)?;
            let is_free = heir(ordinal).is_none_or(|heir| heir.window_tag != cell.window_tag());
            Some((ordinal == usize::from(rate.ordinal), is_free, cell))
        })
    };
    let is_match = |cell: &Cell| cell.window_tag() == rate.window_tag;
    let inherits = |(is_own, is_free, cell): &(bool, bool, &Cell)| (*is_own || *is_free) && is_match(cell);

    let own = group[usize::from(rate.ordinal)];
    let has_others = states().any(|state| !state.0 && inherits(&state));
    if own.is_some_and(|own| own.fits(rate, now)) && !has_others {
        return None;
    }
    let sources: Vec<_> = if states().any(|state| inherits(&state)) {
        states().filter(inherits).collect()
    } else if states().any(|(_, _, cell)| is_match(cell)) {
        states().filter(|(_, _, cell)| is_match(cell)).collect()
    } else {
        states().collect()
    };
    let sources = sources.into_iter().map(|(is_own, is_free, cell)| (cell, is_own || is_free));
    Some(Cell::succeeding(sources, rate, now))
}
