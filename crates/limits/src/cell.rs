//! The state of one rate limit for one key, and what a call does to it.
//!
//! Checking never writes; charging follows only when every limit of the call has passed. A change of a limit's numbers
//! reaches its state with the first call that meets them: another then [succeeds](Cell::succeeding) it, which is neither a
//! check nor a charge and happens whether or not that call is admitted. Waiting for an admission would let a lowered
//! bucket pay off its old debt at the old rate first, and so lock the caller out.

mod bucket;
mod owing;
mod ring;
mod spans;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    bucket::{Bucket, Stamp, window_tag},
    owing::Owing,
    ring::Ring,
    spans::Spans,
};
use crate::rules::{CompiledRate, Kind};

/// The largest window that is kept as one timestamp per call; see [`Ring`] and [`Spans`].
pub(crate) const MAX_RING: u64 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Bucket(Bucket),
    /// Boxed: most keys are buckets, and a cell should be two words.
    Boxed(Box<State>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Ring(Ring),
    /// Boxed too: it is far larger than a ring that is not full.
    Spans(Box<Spans>),
    /// A bucket or a window, and what was cut off of it.
    Owing(Box<Owing>),
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
        Self::Bucket(Bucket::new(Stamp::new(1, 0)))
    }
}

impl Cell {
    /// State that nobody has used.
    pub(crate) fn fresh(rate: &CompiledRate) -> Self {
        match rate.kind {
            Kind::Bucket { stamp, .. } => Self::Bucket(Bucket::new(stamp)),
            Kind::Ring { window } => Self::Boxed(Box::new(State::Ring(Ring::new(window)))),
            Kind::Spans { window } => Self::Boxed(Box::new(State::Spans(Box::new(Spans::new(window))))),
        }
    }

    /// Whether the state already has the shape and the numbers of `rate`, and holds no more than it allows.
    #[inline(always)]
    pub(crate) fn fits(&self, rate: &CompiledRate, now: u64) -> bool {
        match (self, rate.kind) {
            (Self::Bucket(bucket), Kind::Bucket { stamp, depth, .. }) => bucket.fits(stamp, depth, now),
            (Self::Bucket(_), _) => false,
            (Self::Boxed(state), _) => state.fits(rate, now),
        }
    }

    /// What is in use after the call, if it passes by the numbers that the state already has: nearly always.
    #[inline(always)]
    pub(crate) fn passes(&self, rate: &CompiledRate, now: u64) -> Option<u64> {
        match (self, rate.kind) {
            (Self::Bucket(bucket), Kind::Bucket { stamp, depth, charge, .. }) if bucket.stamp() == stamp => {
                let after = bucket.backlog(now) + charge;
                (after <= depth).then_some(after)
            }
            (Self::Boxed(state), _) => state.passes(rate, now),
            (Self::Bucket(_), _) => None,
        }
    }

    /// This state, which is not [`Owing`], in the shape and with the numbers of `rate`.
    ///
    /// What is in use under the old numbers is in use under the new ones, up to their capacity. Where the exact times are
    /// unknown the entries count as made as late as they can have been.
    #[cold]
    pub(crate) fn converted(&self, rate: &CompiledRate, now: u64) -> Self {
        let same_calls = |used: u64| {
            let mut cell = Self::fresh(rate);
            cell.add(now, used.min(rate.capacity));
            cell
        };
        let converted = match (self, rate.kind) {
            (Self::Bucket(bucket), Kind::Bucket { stamp, depth, .. }) => {
                Self::Bucket(bucket.converted(stamp, depth, now))
            }
            (Self::Boxed(state), Kind::Ring { window } | Kind::Spans { window }) => {
                let state = match &**state {
                    State::Ring(ring) if rate.capacity <= MAX_RING => State::Ring(ring.with_window(window)),
                    State::Ring(ring) => State::Spans(Box::new(Spans::from_entries(window, ring.entries()))),
                    State::Spans(spans) => State::Spans(Box::new(Spans::from_entries(window, spans.entries(now)))),
                    State::Owing(owing) => return owing.current.converted(rate, now),
                };
                Self::Boxed(Box::new(state))
            }
            _ => same_calls(self.usage(now).used),
        };
        // Nothing of it may lie in a window that is shorter.
        if converted.is_fresh(now) { Self::fresh(rate) } else { converted }
    }

    fn add(&mut self, now: u64, calls: u64) {
        match self {
            Self::Bucket(bucket) => bucket.charge(now, bucket.interval() * calls),
            Self::Boxed(state) => match &mut **state {
                State::Ring(ring) => _ = ring.charge(now, calls),
                State::Spans(spans) => _ = spans.charge(now, calls),
                State::Owing(owing) => owing.current.add(now, calls),
            },
        }
    }

    /// What this limit says about a call at `now`. The state must [fit](Self::fits).
    #[inline(always)]
    pub(crate) fn judge(&self, rate: &CompiledRate, now: u64) -> Check {
        match (self, rate.kind) {
            (Self::Bucket(bucket), Kind::Bucket { depth, charge, .. }) => bucket.check(now, depth, charge),
            (Self::Boxed(state), _) => state.judge(rate, now),
            (Self::Bucket(_), _) => unreachable!("a cell gets the numbers of a rate before it is asked"),
        }
    }

    /// Takes the cost of an admitted call. A window says when the first of what is in use comes back; a bucket's answer
    /// follows from [`Check::after`].
    #[inline(always)]
    pub(crate) fn charge(&mut self, rate: &CompiledRate, now: u64) -> u64 {
        match (&mut *self, rate.kind) {
            (Self::Bucket(bucket), Kind::Bucket { charge, .. }) => {
                bucket.charge(now, charge);
                0
            }
            (Self::Boxed(state), _) => match &mut **state {
                State::Ring(ring) => ring.charge(now, rate.cost),
                State::Spans(spans) => spans.charge(now, rate.cost),
                State::Owing(_) => self.charge_owing(rate, now),
            },
            (Self::Bucket(_), _) => unreachable!("a cell gets the numbers of a rate before it is charged"),
        }
    }

    #[cold]
    fn charge_owing(&mut self, rate: &CompiledRate, now: u64) -> u64 {
        let Self::Boxed(state) = self else { return 0 };
        let State::Owing(owing) = &mut **state else { return 0 };
        let (reset, is_settled) = owing.charge(rate, now);
        if is_settled {
            *self = std::mem::take(&mut owing.current);
        }
        reset
    }

    /// How much is in use at `now`.
    #[inline(always)]
    pub(crate) fn usage(&self, now: u64) -> Usage {
        match self {
            Self::Bucket(bucket) => bucket.usage(now),
            Self::Boxed(state) => state.usage(now),
        }
    }

    /// Whether no call can tell this state from none, under the numbers it was last used with.
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        match self {
            Self::Bucket(bucket) => bucket.is_fresh(now),
            Self::Boxed(state) => match &**state {
                State::Ring(ring) => ring.is_fresh(now),
                State::Spans(spans) => spans.is_fresh(now),
                State::Owing(owing) => owing.is_fresh(now),
            },
        }
    }

    /// What tells the length of the window that this state was made for; see [`window_tag`].
    pub(crate) fn window_tag(&self) -> u16 {
        match self {
            Self::Bucket(bucket) => bucket.stamp().window_tag(),
            Self::Boxed(state) => match &**state {
                State::Ring(ring) => window_tag(ring.window()),
                State::Spans(spans) => window_tag(spans.window()),
                State::Owing(owing) => owing.current.window_tag(),
            },
        }
    }
}

impl State {
    fn fits(&self, rate: &CompiledRate, now: u64) -> bool {
        match (self, rate.kind) {
            (Self::Ring(ring), Kind::Ring { window }) => ring.window() == window,
            (Self::Spans(spans), Kind::Spans { window }) => spans.window() == window,
            // Counts in spans until it is fresh, whatever the count: raising that again must forget no call.
            (Self::Spans(spans), Kind::Ring { window }) => spans.window() == window && !spans.is_fresh(now),
            (Self::Owing(owing), kind) if owing.capacity == rate.capacity => match (&owing.current, kind) {
                // Here until the debts are too: looking for another shape would make them count again.
                (Cell::Boxed(state), Kind::Ring { window }) => match &**state {
                    Self::Spans(spans) => spans.window() == window && !owing.is_fresh(now),
                    state => state.fits(rate, now),
                },
                (current, _) => current.fits(rate, now),
            },
            _ => false,
        }
    }

    #[inline(always)]
    fn passes(&self, rate: &CompiledRate, now: u64) -> Option<u64> {
        let used = match (self, rate.kind) {
            (Self::Ring(ring), Kind::Ring { window }) if ring.window() == window => ring.used(now),
            (Self::Spans(spans), Kind::Spans { window }) if spans.window() == window => spans.used(now),
            _ => return None,
        };
        (used + rate.cost <= rate.capacity).then_some(used + rate.cost)
    }

    fn judge(&self, rate: &CompiledRate, now: u64) -> Check {
        match self {
            Self::Owing(owing) => owing.current.judge(rate, now),
            _ if !rate.is_possible() => Check { wait: 1, after: rate.cost },
            Self::Ring(ring) => ring.check(now, rate.capacity, rate.cost),
            Self::Spans(spans) => spans.check(now, rate.capacity, rate.cost),
        }
    }

    fn usage(&self, now: u64) -> Usage {
        match self {
            Self::Ring(ring) => Usage { used: ring.used(now), reset: ring.reset(now) },
            Self::Spans(spans) => Usage { used: spans.used(now), reset: spans.reset(now) },
            Self::Owing(owing) => owing.current.usage(now),
        }
    }
}
