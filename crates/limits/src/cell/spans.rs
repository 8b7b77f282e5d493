//! The strict sliding window for large counts: calls per sixtieth of the window.

use super::Check;

const SPANS: u64 = 60;
/// The window covers 60 whole spans or parts of 61; all of them count, so that never more than the limit pass.
const KEPT: u64 = SPANS + 1;

/// Calls counted in spans of a sixtieth of the window, the newest 61 of them. Spans are numbered from time 0. At worst a
/// sixtieth fewer calls than the limit are admitted, never one more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spans {
    window: u64,
    width: u64,
    /// The number of the newest span.
    newest: u64,
    /// When it ends.
    newest_end: u64,
    /// Where its count is.
    newest_at: usize,
    /// The sum of `counts`.
    total: u64,
    /// When the oldest calls leave the window, seen from the newest span.
    oldest_leaves: u64,
    /// The count of span `n` at `n % 61`.
    counts: [u64; KEPT as usize],
}

impl Spans {
    pub(crate) fn new(window: u64) -> Self {
        let width = window.div_ceil(SPANS);
        Self {
            window,
            width,
            newest: 0,
            newest_end: width,
            newest_at: 0,
            total: 0,
            oldest_leaves: 0,
            counts: [0; KEPT as usize],
        }
    }

    /// Of entries `(time, calls)`, oldest first.
    pub(crate) fn from_entries(window: u64, entries: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut spans = Self::new(window);
        for (time, calls) in entries {
            spans.charge(time, calls);
        }
        spans
    }

    /// The counts that are still in the window as entries, oldest first, each as late as its calls can have been.
    pub(crate) fn entries(&self, now: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let spans = self.clone();
        spans.live(now).filter_map(move |n| {
            let calls = spans.count(n);
            (calls > 0).then(|| (((n + 1) * spans.width - 1).min(now), calls))
        })
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    fn count(&self, n: u64) -> u64 {
        self.counts[(n % KEPT) as usize]
    }

    /// The numbers of the first kept span and of the first one past those kept.
    fn kept(&self) -> (u64, u64) {
        (self.newest.saturating_sub(SPANS), self.newest + 1)
    }

    /// Whether the newest span is the one at `now`, so that every count is in the window: nearly always.
    #[inline(always)]
    fn is_current(&self, now: u64) -> bool {
        now < self.newest_end
    }

    /// The numbers of the kept spans that the window at `now` still touches.
    fn live(&self, now: u64) -> std::ops::Range<u64> {
        let (first, end) = self.kept();
        if self.is_current(now) {
            return first..end;
        }
        first.max((now / self.width).saturating_sub(SPANS)).min(end)..end
    }

    /// How many calls are in the window.
    #[inline(always)]
    pub(crate) fn used(&self, now: u64) -> u64 {
        if self.is_current(now) {
            return self.total;
        }
        let (first, _) = self.kept();
        let left: u64 = (first..self.live(now).start).map(|n| self.count(n)).sum();
        self.total - left
    }

    /// When the calls of span `n` have left the window.
    fn leaves(&self, n: u64) -> u64 {
        (n + KEPT) * self.width
    }

    /// `cost` is at most `count`.
    #[inline(always)]
    pub(crate) fn check(&self, now: u64, count: u64, cost: u64) -> Check {
        let after = self.used(now) + cost;
        let excess = after.saturating_sub(count);
        Check { wait: if excess == 0 { 0 } else { self.wait(now, excess) }, after }
    }

    /// How long until so many of the oldest calls have left.
    #[cold]
    fn wait(&self, now: u64, mut excess: u64) -> u64 {
        let last = self.live(now).find(|n| {
            excess = excess.saturating_sub(self.count(*n));
            excess == 0
        });
        self.leaves(last.unwrap_or(self.newest)) - now
    }

    /// Counts a call and says when the oldest leaves.
    #[inline(always)]
    pub(crate) fn charge(&mut self, now: u64, cost: u64) -> u64 {
        if !self.is_current(now) || self.total == 0 {
            self.advance(now);
        }
        self.counts[self.newest_at] += cost;
        self.total += cost;
        self.oldest_leaves - now
    }

    #[cold]
    fn advance(&mut self, now: u64) {
        let newest = (now / self.width).max(self.newest);
        let (first, _) = self.kept();
        let end = newest.saturating_sub(SPANS).min(self.newest + 1);
        for n in first..end {
            self.total -= std::mem::take(&mut self.counts[(n % KEPT) as usize]);
        }
        self.newest = newest;
        self.newest_at = (newest % KEPT) as usize;
        self.newest_end = (newest + 1) * self.width;
        let oldest = self.live(now).find(|n| self.count(*n) > 0);
        self.oldest_leaves = self.leaves(oldest.unwrap_or(newest));
    }

    /// When the oldest calls leave the window, 0 when there are none.
    pub(crate) fn reset(&self, now: u64) -> u64 {
        self.live(now).find(|n| self.count(*n) > 0).map_or(0, |n| self.leaves(n) - now)
    }

    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        self.used(now) == 0
    }
}
