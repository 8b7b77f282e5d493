//! What a limit would have refused, minute by minute: the arithmetic of a preview.
//!
//! Minutes are all that is known of recorded calls, so within one they count as evenly
//! spread. A window of a minute or more is followed exactly at that grain; a shorter one
//! by what it lets through in a minute.

use std::collections::VecDeque;

use sluicegate_limits::{Algorithm, Quota};

use crate::limits::entry::LimitKind;

const MINUTE_MS: f64 = 60_000.0;

/// The calls of one minute that share a count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Minute {
    /// When it begins, in epoch milliseconds.
    pub(super) at: i64,
    pub(super) calls: f64,
    /// How many of them were in work at a time, on average.
    pub(super) in_work: f64,
}

/// A limit with the state that it would have had.
pub(super) enum Rehearsal {
    Rates(Vec<Counted>),
    Concurrency(f64),
}

/// One quota.
pub(super) enum Counted {
    Bucket {
        size: f64,
        refill: f64,
        level: f64,
        /// When the level was that, in epoch milliseconds.
        at: i64,
    },
    Window {
        count: f64,
        length_ms: i64,
        /// What was let through in the minutes that are still inside the window.
        let_in: VecDeque<(i64, f64)>,
    },
    /// A window shorter than a minute.
    Steady { per_minute: f64 },
}

impl Rehearsal {
    pub(super) fn of(kind: &LimitKind, default: Algorithm) -> Self {
        match kind {
            LimitKind::Concurrency { cap } => Self::Concurrency(f64::from(cap.get())),
            LimitKind::Rate { quotas, burst, algorithm, .. } => {
                let algorithm = algorithm.unwrap_or(default);
                Self::Rates(quotas.iter().map(|quota| Counted::of(*quota, *burst, algorithm)).collect())
            }
        }
    }

    /// How many of the calls would have been refused. Minutes must come in their order; those without calls may be left
    /// out.
    pub(super) fn refused(&mut self, minute: Minute) -> f64 {
        let Minute { at, calls, in_work } = minute;
        match self {
            Self::Concurrency(cap) if in_work > *cap => calls * (1.0 - *cap / in_work),
            Self::Concurrency(_) => 0.0,
            Self::Rates(quotas) => {
                let room = quotas.iter_mut().map(|quota| quota.room(at)).fold(f64::INFINITY, f64::min);
                let let_in = calls.min(room.max(0.0));
                quotas.iter_mut().for_each(|quota| quota.charge(at, let_in));
                calls - let_in
            }
        }
    }
}

impl Counted {
    fn of(quota: Quota, burst: Option<u32>, algorithm: Algorithm) -> Self {
        let count = quota.count() as f64;
        let window_ms = quota.window().as_secs_f64() * 1_000.0;
        let per_minute = count * MINUTE_MS / window_ms;
        match algorithm {
            Algorithm::TokenBucket => {
                let size = burst.map_or(count, f64::from);
                Self::Bucket { size, refill: per_minute, level: size, at: i64::MIN }
            }
            Algorithm::SlidingWindow if window_ms >= MINUTE_MS => {
                Self::Window { count, length_ms: window_ms as i64, let_in: VecDeque::new() }
            }
            Algorithm::SlidingWindow => Self::Steady { per_minute },
        }
    }

    /// How many calls it lets through in this minute.
    fn room(&mut self, now: i64) -> f64 {
        match self {
            Self::Steady { per_minute } => *per_minute,
            Self::Bucket { size, refill, level, at } => {
                // Full at first, and filled up to the beginning of this minute; what flows in during it can be used too.
                let idle = if *at == i64::MIN { f64::INFINITY } else { (now - *at) as f64 / MINUTE_MS };
                *level = size.min(*level + *refill * idle);
                *at = now;
                *level + *refill
            }
            Self::Window { count, length_ms, let_in } => {
                while let_in.front().is_some_and(|(at, _)| *at + *length_ms <= now) {
                    let_in.pop_front();
                }
                *count - let_in.iter().map(|(_, calls)| calls).sum::<f64>()
            }
        }
    }

    fn charge(&mut self, now: i64, calls: f64) {
        match self {
            Self::Steady { .. } => {}
            // Below nothing: taken from what flows in before the next minute.
            Self::Bucket { level, .. } => *level -= calls,
            Self::Window { let_in, .. } => let_in.push_back((now, calls)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    fn rehearse(rate: &str, algorithm: Algorithm, burst: Option<u32>, minutes: &[(i64, f64)]) -> Vec<f64> {
        let quotas = rate.parse().expect("quotas");
        let kind = LimitKind::Rate { quotas, burst, algorithm: Some(algorithm), per: None };
        let mut rehearsal = Rehearsal::of(&kind, algorithm);
        let minute = |(at, calls): &(i64, f64)| Minute { at: at * MINUTE, calls: *calls, in_work: 0.0 };
        minutes.iter().map(|each| rehearsal.refused(minute(each))).collect()
    }

    #[test]
    fn a_bucket_lets_its_burst_and_its_refill_through() {
        let minutes = [(0, 250.0), (1, 250.0), (2, 50.0), (10, 250.0)];
        let refused = rehearse("100/min", Algorithm::TokenBucket, None, &minutes);
        assert_eq!(refused, [50.0, 150.0, 0.0, 50.0]);
        let refused = rehearse("100/min", Algorithm::TokenBucket, Some(10), &minutes);
        assert_eq!(refused, [140.0, 150.0, 0.0, 140.0]);
    }

    #[test]
    fn a_window_never_lets_more_than_its_count_through() {
        let minutes = [(0, 150.0), (1, 150.0), (59, 10.0), (60, 150.0)];
        assert_eq!(rehearse("100/min", Algorithm::SlidingWindow, None, &minutes), [50.0, 50.0, 0.0, 50.0]);
        assert_eq!(rehearse("200/h", Algorithm::SlidingWindow, None, &minutes), [0.0, 100.0, 10.0, 0.0]);
        assert_eq!(rehearse("1/s", Algorithm::SlidingWindow, None, &minutes), [90.0, 90.0, 0.0, 90.0]);
    }

    #[test]
    fn of_several_quotas_the_tightest_counts() {
        let minutes = [(0, 60.0), (1, 60.0)];
        let refused = rehearse("50/min, 70/h", Algorithm::SlidingWindow, None, &minutes);
        assert_eq!(refused, [10.0, 40.0]);
    }

    #[test]
    fn a_concurrency_limit_refuses_what_was_too_much_at_a_time() {
        let kind = LimitKind::Concurrency { cap: "2".parse().expect("a cap") };
        let mut rehearsal = Rehearsal::of(&kind, Algorithm::TokenBucket);
        assert_eq!(rehearsal.refused(Minute { at: 0, calls: 100.0, in_work: 8.0 }), 75.0);
        assert_eq!(rehearsal.refused(Minute { at: MINUTE, calls: 100.0, in_work: 1.0 }), 0.0);
    }
}
