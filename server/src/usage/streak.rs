//! Refusals in a row of one agent and tool, and with which attempt its calls get through.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU32};

/// Whoever does not come back for so long after it may has given up; its next call is another one.
const PATIENCE_MS: i64 = 10 * 60_000;
/// What callers say counts as no more than this, so that none of them decides the sum.
const MOST: u32 = 1_000;

/// Counts refusals in a row. Callers that count their attempts say it (`sluicegate/attempt` in `_meta`); for all others it
/// is inferred: whoever was refused so many times, and now gets through, has made one attempt more.
#[derive(Default)]
pub(super) struct Streak {
    refusals: AtomicU32,
    /// Until when the agent was told to wait, in epoch milliseconds.
    wait_until: AtomicI64,
}

impl Streak {
    /// A call was refused. Says whether it came before the wait was over that was told last.
    pub(super) fn refused(&self, wait_ms: Option<i64>, now_ms: i64) -> bool {
        if self.is_forgotten(now_ms) {
            self.refusals.store(0, Relaxed);
        }
        self.refusals.fetch_add(1, Relaxed);
        let ignored = now_ms < self.wait_until.load(Relaxed);
        if let Some(wait_ms) = wait_ms {
            self.wait_until.store(now_ms.saturating_add(wait_ms), Relaxed);
        }
        ignored
    }

    /// A call got through: with which attempt, if that is known. `told` is what the caller says.
    pub(super) fn ended(&self, told: Option<u32>, now_ms: impl FnOnce() -> i64) -> Option<u32> {
        let told = told.map(|told| told.min(MOST));
        // Most calls were not refused before: they write nothing that others read.
        if self.refusals.load(Relaxed) == 0 {
            return told;
        }
        let refusals = self.refusals.swap(0, Relaxed);
        let counts = refusals > 0 && !self.is_forgotten(now_ms());
        told.or(counts.then(|| refusals.saturating_add(1)))
    }

    fn is_forgotten(&self, now_ms: i64) -> bool {
        now_ms >= self.wait_until.load(Relaxed).saturating_add(PATIENCE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_767_225_600_000;
    const WAIT: i64 = 12_000;

    fn refuse(streak: &Streak, times: u32, now_ms: i64) {
        for _ in 0..times {
            streak.refused(Some(WAIT), now_ms);
        }
    }

    fn end(streak: &Streak, told: Option<u32>) -> Option<u32> {
        streak.ended(told, || START)
    }

    #[test]
    fn a_call_that_gets_through_after_four_refusals_is_the_fifth_attempt() {
        let streak = Streak::default();
        assert_eq!(end(&streak, None), None);
        refuse(&streak, 4, START);
        assert_eq!(end(&streak, None), Some(5));
        assert_eq!(end(&streak, None), None, "the streak has ended");
    }

    #[test]
    fn what_the_caller_says_comes_first_and_ends_the_streak_too() {
        let streak = Streak::default();
        refuse(&streak, 4, START);
        assert_eq!(end(&streak, Some(2)), Some(2));
        assert_eq!(end(&streak, Some(1)), Some(1));
        assert_eq!(end(&streak, Some(u32::MAX)), Some(1_000));
        assert_eq!(end(&streak, None), None);
    }

    #[test]
    fn a_streak_is_forgotten_ten_minutes_after_its_wait_and_not_before() {
        let streak = Streak::default();
        refuse(&streak, 2, START);
        let over = START + WAIT + PATIENCE_MS;
        refuse(&streak, 1, over - 1);
        assert_eq!(streak.ended(None, || over - 1 + WAIT + PATIENCE_MS - 1), Some(4));
        refuse(&streak, 2, START);
        assert_eq!(streak.ended(None, || over), None);
        refuse(&streak, 7, START);
        refuse(&streak, 1, over);
        assert_eq!(streak.ended(None, || over), Some(2), "an old streak does not count for a new one");
    }

    #[test]
    fn whoever_comes_back_too_early_has_ignored_its_wait() {
        let streak = Streak::default();
        assert!(!streak.refused(Some(WAIT), START));
        assert!(streak.refused(None, START + WAIT - 1));
        assert!(!streak.refused(Some(WAIT), START + WAIT));
    }

    #[test]
    fn no_refusal_is_lost_between_threads() {
        let streak = Streak::default();
        refuse(&streak, 1, START);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| refuse(&streak, 1_000, START));
            }
        });
        assert_eq!(end(&streak, None), Some(4_002));
    }
}
