//! Gentle escalation: an agent that keeps coming back before its wait is over is told to wait longer.
//!
//! Only what is told changes, and it is marked as no exact wait. The limits decide as before, so that nobody is locked out:
//! a call that they allow is served however often the agent has ignored what it was told.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU32};
use std::time::Duration;

use sluicegate_limits::Wait;

/// So many calls in a row may come too early before the next is told a longer wait: those that were sent at once are
/// refused at once, and nobody has ignored anything.
const PATIENCE: u32 = 10;

/// How far waits are lengthened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Escalation {
    /// The longest that is told.
    most: Duration,
}

/// What an agent has made of the waits that it was told for one tool.
#[derive(Debug, Default)]
pub(crate) struct Heeded {
    /// How many calls in a row came before the wait was over that was told last.
    ignored: AtomicU32,
    /// Until when the agent was told to wait, in epoch milliseconds.
    wait_until: AtomicI64,
}

impl Escalation {
    /// `None` when waits are told as they are.
    pub(crate) fn up_to(most: Duration) -> Option<Self> {
        (!most.is_zero()).then_some(Self { most })
    }

    /// The wait to tell an agent that is refused now. `random` is any random number.
    pub(crate) fn wait(self, wait: Wait, heeded: &Heeded, now_ms: i64, random: u64) -> Wait {
        let ignored = if now_ms < heeded.wait_until.load(Relaxed) {
            heeded.ignored.fetch_add(1, Relaxed).saturating_add(1)
        } else {
            heeded.ignored.store(0, Relaxed);
            0
        };
        let told = self.lengthened(wait, ignored.saturating_sub(PATIENCE), random);
        let told_ms = i64::try_from(told.retry_after_ms()).unwrap_or(i64::MAX);
        heeded.wait_until.store(now_ms.saturating_add(told_ms), Relaxed);
        told
    }

    /// Doubled so many times, as far as it may be.
    fn lengthened(self, wait: Wait, doublings: u32, random: u64) -> Wait {
        // Jitter adds up to a quarter.
        let most = u64::try_from((self.most / 5 * 4).as_nanos()).unwrap_or(u64::MAX);
        if doublings == 0 || wait.as_nanos() >= most {
            return wait;
        }
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        Wait::estimated(wait.as_nanos().saturating_mul(factor).min(most)).with_jitter(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_767_225_600_000;
    const SECOND: u64 = 1_000_000_000;
    const EXACT: Wait = Wait::exact(12 * SECOND);

    fn up_to(seconds: u64) -> Escalation {
        Escalation::up_to(Duration::from_secs(seconds)).expect("it is on")
    }

    #[test]
    fn the_wait_doubles_with_each_call_that_ignores_it_up_to_the_cap() {
        let (escalation, heeded) = (up_to(300), Heeded::default());
        for _ in 0..=PATIENCE {
            assert_eq!(escalation.wait(EXACT, &heeded, START, 0), EXACT);
        }
        let told: Vec<_> = (0..7).map(|_| escalation.wait(EXACT, &heeded, START, 0)).collect();
        let seconds: Vec<_> = told.iter().map(|wait| wait.retry_after_seconds()).collect();
        assert_eq!(seconds, [24, 48, 96, 192, 240, 240, 240]);
        assert!(told.iter().all(|wait| !wait.is_exact()));
        for random in [0, u64::MAX / 3, u64::MAX] {
            let wait = escalation.wait(EXACT, &heeded, START, random);
            assert!((240..=300).contains(&wait.retry_after_seconds()), "{wait:?}");
        }
    }

    #[test]
    fn whoever_waits_once_is_told_the_exact_wait_again() {
        let (escalation, heeded) = (up_to(300), Heeded::default());
        let last = (0..20).map(|_| escalation.wait(EXACT, &heeded, START, 7)).last().expect("a wait");
        let over = START + i64::try_from(last.retry_after_ms()).expect("a number");
        assert!(!escalation.wait(EXACT, &heeded, over - 1, 0).is_exact(), "a moment too early");
        let over = over - 1 + 300_000;
        assert_eq!(escalation.wait(EXACT, &heeded, over, 0), EXACT);
        assert_eq!(escalation.wait(EXACT, &heeded, over, 0), EXACT, "and has patience again");
    }

    #[test]
    fn a_wait_above_the_cap_and_one_that_is_never_ignored_stay_as_they_are() {
        let (escalation, heeded) = (up_to(10), Heeded::default());
        for _ in 0..100 {
            assert_eq!(escalation.wait(EXACT, &heeded, START, u64::MAX), EXACT);
        }
        let heeded = Heeded::default();
        for turn in 0..100 {
            assert_eq!(up_to(300).wait(EXACT, &heeded, START + turn * 12_000, u64::MAX), EXACT);
        }
        assert!(Escalation::up_to(Duration::ZERO).is_none());
    }

    #[test]
    fn nothing_overflows() {
        let (escalation, heeded) = (up_to(u64::MAX), Heeded::default());
        for _ in 0..200 {
            let wait = escalation.wait(Wait::exact(u64::MAX / 4), &heeded, i64::MAX - 1, u64::MAX);
            assert!(wait.as_nanos() >= u64::MAX / 4);
        }
    }
}
