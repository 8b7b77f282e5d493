//! The state of one rate limit for one key, and what a call does to it.
//!
//! Checking never writes; charging follows only when every limit of the call has passed. A change of a limit's numbers
//! reaches its state with the first call that meets them: the state is then [migrated](Cell::migrate), which is neither a
//! check nor a charge and happens whether or not that call is admitted. Waiting for an admission would let a lowered
//! bucket pay off its old debt at the old rate first, and so lock the caller out.

mod bucket;
mod ring;
mod spans;
#[cfg(test)]
mod tests;

pub(crate) use self::{bucket::Bucket, ring::Ring, spans::Spans};
use crate::rules::{CompiledRate, Kind};

/// The largest window that is kept as one timestamp per call; see [`Ring`] and [`Spans`].
pub(crate) const MAX_RING: u64 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Bucket(Bucket),
    /// Boxed: most keys are buckets, and a cell should be two words.
    Window(Box<Window>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Window {
    Ring(Ring),
    /// Boxed too: it is far larger than a ring that is not full.
    Spans(Box<Spans>),
}

/// What a limit says about one call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Check {
    /// Nanoseconds until the call would pass, 0 when it passes now. Means nothing when the cost does not fit at all.
    pub(crate) wait: u64,
    /// What is in use after this call if it passes: a bucket's backlog in nanoseconds, a window's calls.
    pub(crate) after: u64,
}

impl Check {
    /// What a limit that nobody has used says.
    pub(crate) fn of_fresh(rate: &CompiledRate) -> Self {
        let after = match rate.kind {
            Kind::Bucket { charge, .. } => charge,
            Kind::Ring { .. } | Kind::Spans { .. } => rate.cost,
        };
        Self { wait: u64::from(!rate.is_possible()), after }
    }

    /// How many calls are left after this one if it passes; of a bucket at most one too few.
    #[inline(always)]
    pub(crate) fn left(self, rate: &CompiledRate) -> u64 {
        match rate.kind {
            Kind::Bucket { depth, per_ns, .. } => ((u128::from(depth - self.after) * u128::from(per_ns)) >> 64) as u64,
            Kind::Ring { .. } | Kind::Spans { .. } => rate.capacity - self.after,
        }
    }
}

/// How much of a limit is in use, and when the first of it comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) used: u64,
    pub(crate) reset: u64,
}

impl Usage {
    /// Of a bucket that takes `backlog` nanoseconds to drain.
    #[inline(always)]
    pub(crate) fn of_backlog(backlog: u64, interval: u64) -> Self {
        let used = backlog.div_ceil(interval);
        Self { used, reset: backlog - used.saturating_sub(1) * interval }
    }
}

impl Default for Cell {
    fn default() -> Self {
        Self::Bucket(Bucket::new(1))
    }
}

impl Cell {
    /// State that nobody has used.
    pub(crate) fn fresh(rate: &CompiledRate) -> Self {
        match rate.kind {
            Kind::Bucket { interval, .. } => Self::Bucket(Bucket::new(interval)),
            Kind::Ring { window } => Self::Window(Box::new(Window::Ring(Ring::new(window)))),
            Kind::Spans { window } => Self::Window(Box::new(Window::Spans(Box::new(Spans::new(window))))),
        }
    }

    /// Whether the state already has the shape and the numbers of `rate`, and holds no more than it allows.
    #[inline(always)]
    pub(crate) fn fits(&self, rate: &CompiledRate, now: u64) -> bool {
        match (self, rate.kind) {
            (Self::Bucket(bucket), Kind::Bucket { interval, depth, .. }) => bucket.fits(interval, depth, now),
            (Self::Bucket(_), _) => false,
            (Self::Window(state), kind) => match (&**state, kind) {
                (Window::Ring(ring), Kind::Ring { window }) => ring.window() == window,
                (Window::Spans(spans), Kind::Spans { window }) => spans.window() == window,
                // Counts in spans until it is fresh, whatever the count: raising that again must forget no call.
                (Window::Spans(spans), Kind::Ring { window }) => spans.window() == window && !spans.is_fresh(now),
                _ => false,
            },
        }
    }

    /// What is in use after the call, if it passes by the numbers that the state already has: nearly always.
    #[inline(always)]
    pub(crate) fn passes(&self, rate: &CompiledRate, now: u64) -> Option<u64> {
        match (self, rate.kind) {
            (Self::Bucket(bucket), Kind::Bucket { interval, depth, charge, .. }) if bucket.interval() == interval => {
                let after = bucket.backlog(now) + charge;
                (after <= depth).then_some(after)
            }
            (Self::Window(state), _) => state.passes(rate, now),
            (Self::Bucket(_), _) => None,
        }
    }

    /// Asks about a call, after giving the state the numbers of `rate` if it has others.
    #[inline(always)]
    pub(crate) fn check(&mut self, rate: &CompiledRate, now: u64) -> Check {
        if !self.fits(rate, now) {
            self.migrate(rate, now);
        }
        self.judge(rate, now)
    }

    /// Gives the state the shape and the numbers of `rate` without forgiving what is in use and without locking out.
    ///
    /// What is in use under the old numbers is in use under the new ones, up to their capacity. Where the exact times are
    /// unknown the entries count as made as late as they can have been.
    #[cold]
    pub(crate) fn migrate(&mut self, rate: &CompiledRate, now: u64) {
        if self.is_fresh(now) {
            *self = Self::fresh(rate);
            return;
        }
        match (&mut *self, rate.kind) {
            (Self::Bucket(bucket), Kind::Bucket { interval, depth, .. }) => bucket.convert(interval, depth, now),
            (Self::Bucket(bucket), _) => {
                let used = bucket.used(now).min(rate.capacity);
                *self = Self::fresh(rate);
                self.add(now, used);
            }
            (Self::Window(state), Kind::Bucket { .. }) => {
                let used = state.usage(now).used.min(rate.capacity);
                *self = Self::fresh(rate);
                self.add(now, used);
            }
            (Self::Window(state), Kind::Ring { window } | Kind::Spans { window }) => match &mut **state {
                Window::Ring(ring) if rate.capacity <= MAX_RING => ring.set_window(window),
                Window::Ring(ring) => **state = Window::Spans(Box::new(Spans::from_entries(window, ring.entries()))),
                Window::Spans(spans) => **spans = Spans::from_entries(window, spans.entries(now)),
            },
        }
    }

    fn add(&mut self, now: u64, calls: u64) {
        match self {
            Self::Bucket(bucket) => bucket.charge(now, bucket.interval() * calls),
            Self::Window(state) => _ = state.charge(now, calls),
        }
    }

    /// What this limit says about a call at `now`. The state must [fit](Self::fits).
    #[inline(always)]
    pub(crate) fn judge(&self, rate: &CompiledRate, now: u64) -> Check {
        match (self, rate.kind) {
            (Self::Bucket(bucket), Kind::Bucket { depth, charge, .. }) => bucket.check(now, depth, charge),
            (Self::Window(state), _) => state.check(now, rate.capacity, rate.cost),
            (Self::Bucket(_), _) => unreachable!("a cell is migrated before it is asked"),
        }
    }

    /// Takes the cost of an admitted call. A window says when the first of what is in use comes back; a bucket's answer
    /// follows from [`Check::after`].
    #[inline(always)]
    pub(crate) fn charge(&mut self, rate: &CompiledRate, now: u64) -> u64 {
        match (self, rate.kind) {
            (Self::Bucket(bucket), Kind::Bucket { charge, .. }) => {
                bucket.charge(now, charge);
                0
            }
            (Self::Window(state), _) => state.charge(now, rate.cost),
            (Self::Bucket(_), _) => unreachable!("a cell is migrated before it is charged"),
        }
    }

    /// How much is in use at `now`.
    #[inline(always)]
    pub(crate) fn usage(&self, now: u64) -> Usage {
        match self {
            Self::Bucket(bucket) => bucket.usage(now),
            Self::Window(state) => state.usage(now),
        }
    }

    /// Whether no call can tell this state from none, under the numbers it was last used with.
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        match self {
            Self::Bucket(bucket) => bucket.is_fresh(now),
            Self::Window(state) => match &**state {
                Window::Ring(ring) => ring.is_fresh(now),
                Window::Spans(spans) => spans.is_fresh(now),
            },
        }
    }
}

impl Window {
    #[inline(always)]
    fn passes(&self, rate: &CompiledRate, now: u64) -> Option<u64> {
        let used = match (self, rate.kind) {
            (Self::Ring(ring), Kind::Ring { window }) if ring.window() == window => ring.used(now),
            (Self::Spans(spans), Kind::Spans { window }) if spans.window() == window => spans.used(now),
            _ => return None,
        };
        (used + rate.cost <= rate.capacity).then_some(used + rate.cost)
    }

    fn check(&self, now: u64, count: u64, cost: u64) -> Check {
        match self {
            _ if cost > count => Check { wait: 1, after: cost },
            Self::Ring(ring) => ring.check(now, count, cost),
            Self::Spans(spans) => spans.check(now, count, cost),
        }
    }

    #[inline(always)]
    fn charge(&mut self, now: u64, calls: u64) -> u64 {
        match self {
            Self::Ring(ring) => ring.charge(now, calls),
            Self::Spans(spans) => spans.charge(now, calls),
        }
    }

    fn usage(&self, now: u64) -> Usage {
        match self {
            Self::Ring(ring) => Usage { used: ring.used(now), reset: ring.reset(now) },
            Self::Spans(spans) => Usage { used: spans.used(now), reset: spans.reset(now) },
        }
    }
}
