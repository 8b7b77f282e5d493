//! The state that lies behind one lock: of one tenant, or of the whole server.

mod regroup;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::{
    cell::{Cell, Check},
    identity::{Names, OVERFLOW},
    keyed::Keyed,
    rules::CompiledRate,
};

/// How many places one step of sweeping looks at.
pub(crate) const SWEEP_STEP: usize = 64;
/// How many places are swept for each key that is added, so that a table in use never needs a sweeper.
const SWEEP_PER_INSERT: usize = 8;

/// Rate limit cells and concurrency slots by key, and the names that the keys are made of.
#[derive(Debug)]
pub(crate) struct Table {
    cells: Keyed<Cell>,
    /// How many slots are taken; only keys of which any are.
    slots: Keyed<u32>,
    pub(crate) names: Names,
    /// The latest time seen. Two callers read the clock before they take the lock, perhaps in the other order.
    latest: u64,
    cap: usize,
    /// How many of the cells are shared by keys beyond the cap.
    overflow_cells: usize,
    /// How many of the cells have an ordinal above 0.
    listed: usize,
    /// Whether a call had to share since the last sweep.
    crowded: bool,
    /// Where the next sweep starts.
    cursor: usize,
}

/// Where the cell of a rate is: a place of the table, until something is added, or one of the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site(u32);

impl Site {
    /// The call is not charged.
    pub(crate) const NOWHERE: Self = Self(u32::MAX);
    /// Nowhere yet: to be added under the rate's key.
    pub(crate) const OWN: Self = Self(u32::MAX - 1);
    /// Nowhere yet: to be added under the rate's overflow key.
    pub(crate) const SHARED: Self = Self(u32::MAX - 2);
    /// Not known before the states of the rate's place are [dealt out anew](Table::regroup).
    pub(crate) const STALE: Self = Self(u32::MAX - 3);

    #[inline(always)]
    fn at(place: usize) -> Self {
        // Tables are capped far below this.
        Self(place as u32)
    }

    #[inline(always)]
    pub(crate) fn place(self) -> Option<usize> {
        (self.0 < Self::STALE.0).then_some(self.0 as usize)
    }
}

impl Table {
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            cells: Keyed::new(),
            slots: Keyed::new(),
            names: Names::default(),
            latest: 0,
            cap,
            overflow_cells: 0,
            listed: 0,
            crowded: false,
            cursor: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// `now`, or the latest time seen here if that is later.
    #[inline]
    pub(crate) fn time(&mut self, now: u64) -> u64 {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Finds the cell that `rate` counts in and asks it about a call. Nothing is added.
    #[inline(always)]
    pub(crate) fn check(&mut self, rate: &CompiledRate, key: u64, now: u64) -> (Site, Check) {
        if let Some((at, cell)) = self.cells.lookup(key)
            && let Some(after) = cell.passes(rate, now)
        {
            return (Site::at(at), Check { wait: 0, after });
        }
        self.check_closely(rate, key, now)
    }

    /// The same for all but calls that pass by the numbers that the cell already has.
    #[inline(never)]
    fn check_closely(&mut self, rate: &CompiledRate, key: u64, now: u64) -> (Site, Check) {
        match self.cells.find(key) {
            Some(at) if self.cells.at_mut(at).fits(rate, now) => (Site::at(at), self.cells.at_mut(at).judge(rate, now)),
            None if !self.has_siblings(key) => self.check_missing(rate, key, now),
            Some(at) if is_overflow(key) => (Site::at(at), self.check_shared(rate, at, now)),
            _ => (Site::STALE, Check { wait: 0, after: 0 }),
        }
    }

    #[cold]
    fn check_missing(&mut self, rate: &CompiledRate, key: u64, now: u64) -> (Site, Check) {
        let is_full = self.cells.len() >= self.cap && owner(key).is_some();
        self.crowded |= is_full;
        if is_full && let Some(at) = self.cells.find(rate.overflow_key(key)) {
            return (Site::at(at), self.check_shared(rate, at, now));
        }
        let check = self.view(rate, key, now).map_or_else(|| Check::of_fresh(rate), |cell| cell.judge(rate, now));
        (if is_full { Site::SHARED } else { Site::OWN }, check)
    }

    /// Asks an overflow cell, which gets the numbers of `rate` should it have others.
    #[cold]
    fn check_shared(&mut self, rate: &CompiledRate, at: usize, now: u64) -> Check {
        let cell = self.cells.at_mut(at);
        if !cell.fits(rate, now) {
            *cell = Cell::succeeding([(&*cell, true)], rate, now);
        }
        cell.judge(rate, now)
    }

    /// The state under `key` with the numbers of `rate`; `None` when it is fresh. A key without its own state is as used as
    /// the overflow that it may have counted in so far.
    pub(crate) fn view(&self, rate: &CompiledRate, key: u64, now: u64) -> Option<Cow<'_, Cell>> {
        let overflow = || {
            owner(key).filter(|_| self.overflow_cells > 0)?;
            self.cells.get(rate.overflow_key(key))
        };
        let cell = self.cells.get(key).or_else(overflow)?;
        if cell.fits(rate, now) {
            return Some(Cow::Borrowed(cell));
        }
        Some(Cow::Owned(Cell::succeeding([(cell, true)], rate, now)))
    }

    /// Charges an admitted call to a cell that exists; see [`Cell::charge`] for the answer.
    #[inline(always)]
    pub(crate) fn charge_at(&mut self, at: usize, rate: &CompiledRate, now: u64) -> u64 {
        self.cells.at_mut(at).charge(rate, now)
    }

    /// Adds a cell and charges an admitted call to it. Places may have moved afterwards.
    #[cold]
    pub(crate) fn charge_new(&mut self, key: u64, rate: &CompiledRate, now: u64) -> u64 {
        let mut cell = self.view(rate, key, now).map_or_else(|| Cell::fresh(rate), Cow::into_owned);
        let reset = cell.charge(rate, now);
        self.put(key, cell);
        self.sweep(SWEEP_PER_INSERT, now);
        reset
    }

    /// After a call that had to share a cell: makes room for the next.
    #[inline]
    pub(crate) fn make_room(&mut self, now: u64) {
        if self.crowded {
            self.crowded = false;
            self.sweep(SWEEP_STEP, now);
        }
    }

    /// Looks at up to `step` places, drops the cells there that are as good as fresh, and says how many those were and
    /// whether the end of the table was reached.
    pub(crate) fn sweep(&mut self, step: usize, now: u64) -> (usize, bool) {
        let mut dropped = 0;
        let mut at = self.cursor;
        let end = self.cells.places().min(at + step);
        while at < end {
            match self.cells.at(at) {
                Some((key, cell)) if self.is_droppable(key, cell, now) => {
                    // Another entry may move in, so this place is looked at again.
                    self.remove(at, key);
                    dropped += 1;
                }
                _ => at += 1,
            }
        }
        let at_end = end == self.cells.places();
        self.cursor = if at_end { 0 } else { end };
        if at_end {
            self.cells.shrink();
        }
        (dropped, at_end)
    }

    /// Forgets a few of the names that were last asked for before `horizon` and that nothing counts under.
    pub(crate) fn forget_names(&mut self, horizon: u64) {
        let slots = &self.slots;
        self.names.forget(SWEEP_STEP, horizon, |id| slots.iter().any(|(key, _)| key >> 32 == u64::from(id)));
    }

    /// Whether nothing is counted here.
    pub(crate) fn is_idle(&self) -> bool {
        self.cells.is_empty() && self.slots.is_empty()
    }

    /// The slots taken under `key`.
    pub(crate) fn taken(&self, key: u64) -> u32 {
        self.slots.get(key).copied().unwrap_or(0)
    }

    /// Every key under which slots are taken, with their number.
    pub(crate) fn all_taken(&self) -> impl Iterator<Item = (u64, u32)> {
        self.slots.iter().map(|(key, taken)| (key, *taken))
    }

    /// Takes a slot.
    pub(crate) fn take(&mut self, key: u64) {
        *self.slots.entry(key) += 1;
    }

    /// Gives a slot back.
    pub(crate) fn give_back(&mut self, key: u64) {
        let Some(at) = self.slots.find(key) else { return };
        let taken = self.slots.at_mut(at);
        *taken -= 1;
        if *taken == 0 {
            self.slots.remove_at(at);
        }
    }
}

/// The agent or API key that a key belongs to; none for those of a whole tenant or server, and for the overflow.
fn owner(key: u64) -> Option<u32> {
    let id = (key >> 32) as u32;
    (id != 0 && id & OVERFLOW == 0).then_some(id)
}

fn is_overflow(key: u64) -> bool {
    key >> 63 == 1
}

#[cfg(test)]
impl Table {
    /// Everything that is counted, to compare.
    pub(crate) fn state(&self) -> String {
        format!("{:?} {:?}", self.cells, self.slots)
    }
}
