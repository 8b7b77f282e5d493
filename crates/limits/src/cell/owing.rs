//! What a change of numbers would otherwise forgive.
//!
//! A bucket of 5 a minute that is lowered to 1 a minute can be full with one call at most: four of the five are cut off.
//! They must not decide while the lower limit holds, or the caller would be locked out; but if the limit is widened again,
//! they count for as long as they would have without the change. So what was cut off stays as a debt: the old state, at its
//! old rate, charged for every call that is let through meanwhile.

use std::cmp::Reverse;

use super::{Cell, MAX_RING, State};
use crate::rules::CompiledRate;

/// The most debts that one state carries. Each takes a change that cuts something off, so more need an operator who keeps
/// lowering a limit while all of what was cut off is still in use; then the least used are forgotten.
const MAX_DEBTS: usize = 8;

/// A state and what was cut off when it got its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owing {
    /// What decides now. Never another of these.
    pub(super) current: Cell,
    debts: Vec<Debt>,
    /// The capacity that was cut to. Another one may give way to the debts.
    pub(super) capacity: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Debt {
    cell: Cell,
    /// A bucket's backlog when it was cut off. It was full then by any limit since, so it never has more in use.
    most: u64,
}

impl Debt {
    fn new(cell: Cell, now: u64) -> Self {
        let most = if let Cell::Bucket(bucket) = &cell { bucket.backlog(now) } else { 0 };
        Self { cell, most }
    }

    fn charge(&mut self, now: u64, calls: u64) {
        match &mut self.cell {
            Cell::Bucket(bucket) => bucket.charge_up_to(now, calls, self.most),
            Cell::Boxed(state) => match &mut **state {
                State::Ring(ring) => ring.charge_up_to(now, calls, MAX_RING as usize),
                State::Spans(spans) => _ = spans.charge(now, calls),
                State::Owing(_) => {}
            },
        }
    }

    /// Whether `current`, which is charged for the same calls, has always at least as much in use.
    fn is_covered(&self, current: &Cell, now: u64) -> bool {
        match (&self.cell, current) {
            (Cell::Bucket(debt), Cell::Bucket(current)) => current.outlasts(debt, now),
            _ => false,
        }
    }
}

impl Owing {
    pub(super) fn is_fresh(&self, now: u64) -> bool {
        self.current.is_fresh(now) && self.debts.iter().all(|debt| debt.cell.is_fresh(now))
    }

    /// Charges the current state and what is still owed; says when the first of what is in use comes back, and whether
    /// nothing is owed any more.
    pub(super) fn charge(&mut self, rate: &CompiledRate, now: u64) -> (u64, bool) {
        let current = &self.current;
        self.debts.retain(|debt| !debt.cell.is_fresh(now) && !debt.is_covered(current, now));
        self.debts.iter_mut().for_each(|debt| debt.charge(now, rate.cost));
        (self.current.charge(rate, now), self.debts.is_empty())
    }
}

impl Cell {
    /// State for `rate` that has as much in use as the one of `sources` with the most; see [`Cell::converted`].
    ///
    /// Sources that come with `true` are given up for it: of those, what does not fit is kept as debts.
    pub(crate) fn succeeding<'a>(
        sources: impl IntoIterator<Item = (&'a Cell, bool)>,
        rate: &CompiledRate,
        now: u64,
    ) -> Self {
        let mut all = Vec::new();
        for (cell, is_given_up) in sources {
            let owed = cell.owing().into_iter().flat_map(|owing| &owing.debts);
            all.extend(owed.map(|debt| (debt.clone(), is_given_up)));
            all.push((Debt::new(cell.current().clone(), now), is_given_up));
        }
        all.retain(|(debt, _)| !debt.cell.is_fresh(now));
        let most_used = all.iter().map(|(debt, _)| debt.cell.converted(rate, now)).max_by_key(|cell| {
            let usage = cell.usage(now);
            (usage.used, usage.reset)
        });
        let current = most_used.unwrap_or_else(|| Self::fresh(rate));

        let mut debts: Vec<_> =
            all.into_iter().filter(|(debt, is_given_up)| *is_given_up && current.forgets(&debt.cell, now)).collect();
        debts.sort_by_key(|(debt, _)| Reverse(debt.cell.usage(now).used));
        debts.truncate(MAX_DEBTS);
        if debts.is_empty() {
            return current;
        }
        let debts = debts.into_iter().map(|(debt, _)| debt).collect();
        Self::Boxed(Box::new(State::Owing(Box::new(Owing { current, debts, capacity: rate.capacity }))))
    }

    /// Whether what is in use in `old` is not, or will not be for as long, in this state that follows it.
    fn forgets(&self, old: &Self, now: u64) -> bool {
        let is_shorter = self.window().zip(old.window()).is_some_and(|(new, old)| new < old);
        is_shorter || old.usage(now).used > self.usage(now).used
    }

    /// The length of the window, if this is one.
    fn window(&self) -> Option<u64> {
        match self {
            Self::Bucket(_) => None,
            Self::Boxed(state) => match &**state {
                State::Ring(ring) => Some(ring.window()),
                State::Spans(spans) => Some(spans.window()),
                State::Owing(owing) => owing.current.window(),
            },
        }
    }

    /// The state that decides.
    pub(super) fn current(&self) -> &Self {
        self.owing().map_or(self, |owing| &owing.current)
    }

    fn owing(&self) -> Option<&Owing> {
        match self {
            Self::Bucket(_) => None,
            Self::Boxed(state) => match &**state {
                State::Owing(owing) => Some(owing),
                State::Ring(_) | State::Spans(_) => None,
            },
        }
    }
}
