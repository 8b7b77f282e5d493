//! Short ways to write rules, and to count what they let through.

use sluicegate_limits::{Algorithm, CapRule, Mode, Place, Priority, RateLimit, RateRule, Rules, Scope};

pub(crate) const STRICT: Algorithm = Algorithm::SlidingWindow;
pub(crate) const BUCKET: Algorithm = Algorithm::TokenBucket;

pub(crate) fn limit(algorithm: Algorithm, quota: &str) -> RateLimit {
    RateLimit::new(quota.parse().expect("a quota"), None, algorithm).expect("a limit")
}

pub(crate) fn rate(place: Place, limit: RateLimit) -> RateRule {
    RateRule { scope: Scope::Tool, place, ordinal: 0, limit, mode: Mode::Enforce }
}

pub(crate) fn cap(place: Place, slots: u32) -> CapRule {
    let cap = slots.to_string().parse().expect("a cap");
    CapRule { scope: Scope::Tool, place, cap, mode: Mode::Enforce }
}

pub(crate) fn rules(rates: Vec<RateRule>, caps: Vec<CapRule>, cost: u32) -> Rules {
    Rules::new(rates, caps, cost, Priority::Normal, false).expect("rules")
}

/// How many of the admissions (time, cost) lie in the window that ends at `now`.
pub(crate) fn trailing(admitted: &[(u64, u64)], now: u64, window: u64) -> u64 {
    admitted.iter().filter(|(at, _)| *at <= now && at + window > now).map(|(_, cost)| cost).sum()
}

/// What a bucket as wide as the widest of some limits lets through by itself: never more than burst + rate x time.
#[derive(Debug)]
pub(crate) struct Envelope {
    empty_at: u64,
    interval: u64,
    capacity: u64,
}

impl Envelope {
    pub(crate) fn of(limits: &[RateLimit]) -> Self {
        let interval = |limit: &RateLimit| limit.quota().window_ns() / limit.quota().count();
        Self {
            empty_at: 0,
            interval: limits.iter().map(interval).min().expect("a limit"),
            capacity: limits.iter().map(RateLimit::capacity).max().expect("a limit"),
        }
    }

    /// Counts an admission and says whether it is within the bounds.
    pub(crate) fn admits(&mut self, now: u64, cost: u64) -> bool {
        self.empty_at = self.empty_at.max(now) + cost * self.interval;
        self.empty_at - now <= self.capacity * self.interval
    }
}
