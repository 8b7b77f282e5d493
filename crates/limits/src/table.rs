//! The state that lies behind one lock: of one tenant, or of the whole server.

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

    #[inline(always)]
    fn at(place: usize) -> Self {
        // Tables are capped far below this.
        Self(place as u32)
    }

    #[inline(always)]
    pub(crate) fn place(self) -> Option<usize> {
        (self.0 < Self::SHARED.0).then_some(self.0 as usize)
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

    /// Finds the cell that `rate` counts in and asks it about a call. The cell is given the numbers of `rate` if it has
    /// others; nothing is added.
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
            Some(at) => (Site::at(at), self.cells.at_mut(at).check(rate, now)),
            None => self.check_missing(rate, key, now),
        }
    }

    #[cold]
    fn check_missing(&mut self, rate: &CompiledRate, key: u64, now: u64) -> (Site, Check) {
        let is_full = self.cells.len() >= self.cap && owner(key).is_some();
        self.crowded |= is_full;
        if is_full && let Some(at) = self.cells.find(rate.overflow_key(key)) {
            return (Site::at(at), self.cells.at_mut(at).check(rate, now));
        }
        let check = self.view(rate, key, now).map_or_else(|| Check::of_fresh(rate), |cell| cell.judge(rate, now));
        (if is_full { Site::SHARED } else { Site::OWN }, check)
    }

    /// The state of `rate` as a call at `now` would find it, without touching it; `None` when it is fresh. A key without
    /// its own state is as used as the overflow that it may have counted in so far.
    pub(crate) fn view(&self, rate: &CompiledRate, key: u64, now: u64) -> Option<Cow<'_, Cell>> {
        let overflow = || {
            owner(key).filter(|_| self.overflow_cells > 0)?;
            self.cells.get(rate.overflow_key(key))
        };
        let cell = self.cells.get(key).or_else(overflow)?;
        if cell.fits(rate, now) {
            return Some(Cow::Borrowed(cell));
        }
        let mut cell = cell.clone();
        cell.migrate(rate, now);
        Some(Cow::Owned(cell))
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
        *self.cells.entry(key) = cell;
        match owner(key) {
            Some(id) => self.names.depend(id),
            None if is_overflow(key) => self.overflow_cells += 1,
            None => {}
        }
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
                Some((key, cell)) if cell.is_fresh(now) => {
                    // Another entry may move in, so this place is looked at again.
                    self.cells.remove_at(at);
                    match owner(key) {
                        Some(id) => self.names.release(id),
                        None if is_overflow(key) => self.overflow_cells -= 1,
                        None => {}
                    }
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

#[cfg(test)]
mod tests;
