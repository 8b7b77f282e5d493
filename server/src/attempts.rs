//! How many attempts it takes until a call gets through.
//!
//! Callers that count their attempts say it (`sluicegate/attempt` in `_meta`). For all others it is inferred: whoever was
//! refused a tool so many times in a row, and now gets through, has made one attempt more.
//!
//! Streaks of refusals live in a table of fixed size, without locks. Two of them may meet in one place; then the older one
//! is forgotten and its caller seems to get through at once. A figure about millions of calls bears that.

use std::hash::BuildHasher as _;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use foldhash::fast::RandomState;
use sluicegate_control::AgentId;
use sluicegate_mcp::ToolIndex;

/// 64 KiB.
const PLACES: usize = 1 << 13;
/// Whoever does not come back for so long after it may has given up; its next call is another one.
const PATIENCE: Duration = Duration::from_mins(10);
/// Waits beyond this are taken for this, so that times fit into 16 bits.
const LONGEST_WAIT: Duration = Duration::from_hours(14 * 24);
/// What callers say counts as no more than this, so that none of them decides the sum.
const MOST: u32 = 1_000;

/// Counts refusals in a row, by agent and tool.
pub(crate) struct Attempts {
    clock: quanta::Clock,
    start: quanta::Instant,
    hasher: RandomState,
    places: Box<[AtomicU64]>,
}

/// What stands in one place of the table: mostly nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Streak {
    /// Whose it is: the part of the hash that does not choose the place.
    mark: u32,
    /// The minute in which it is forgotten, modulo 2^16.
    until: u16,
    refusals: u16,
}

impl Attempts {
    /// Measured by the clock that limits are measured by.
    pub(crate) fn new(clock: quanta::Clock) -> Self {
        let places = (0..PLACES).map(|_| AtomicU64::new(Streak::NONE.pack())).collect();
        Self { start: clock.now(), clock, hasher: RandomState::default(), places }
    }

    /// The agent was refused the tool and told to wait.
    pub(crate) fn refused(&self, agent: Option<AgentId>, tool: ToolIndex, wait: Duration) {
        let (place, mark) = self.place(agent, tool);
        let now = self.minute(Duration::ZERO);
        let until = self.minute(wait.min(LONGEST_WAIT) + PATIENCE);
        let _ = place.fetch_update(Relaxed, Relaxed, |packed| {
            let refusals = Streak::unpack(packed).refusals_of(mark, now);
            Some(Streak { mark, until, refusals: refusals.saturating_add(1) }.pack())
        });
    }

    /// The agent got through to the tool: with which attempt, if that is known. `told` is what it said itself.
    pub(crate) fn served(&self, agent: Option<AgentId>, tool: ToolIndex, told: Option<u32>) -> Option<u32> {
        let (place, mark) = self.place(agent, tool);
        let told = told.map(|told| told.min(MOST));
        let ends = |packed| Streak::unpack(packed).is_of(mark).then_some(Streak::NONE.pack());
        let Ok(ended) = place.fetch_update(Relaxed, Relaxed, ends) else { return told };
        let refusals = Streak::unpack(ended).refusals_of(mark, self.minute(Duration::ZERO));
        told.or((refusals > 0).then(|| u32::from(refusals) + 1))
    }

    fn place(&self, agent: Option<AgentId>, tool: ToolIndex) -> (&AtomicU64, u32) {
        let hash = self.hasher.hash_one((agent, tool));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low bits choose the place, the high ones are the mark"
        )]
        let (place, mark) = (hash as usize % PLACES, (hash >> 32) as u32);
        (&self.places[place], mark)
    }

    #[expect(clippy::cast_possible_truncation, reason = "minutes are compared modulo 2^16")]
    fn minute(&self, from_now: Duration) -> u16 {
        let since = self.clock.now().saturating_duration_since(self.start);
        ((since + from_now).as_secs() / 60) as u16
    }
}

impl Streak {
    const NONE: Self = Self { mark: 0, until: 0, refusals: 0 };

    fn is_of(self, mark: u32) -> bool {
        self.refusals > 0 && self.mark == mark
    }

    /// How many refusals there were in a row, as far as they are not forgotten.
    fn refusals_of(self, mark: u32, now: u16) -> u16 {
        // Nothing lasts for half of the 45 days after which minutes come again.
        let is_over = now.wrapping_sub(self.until) < u16::MAX / 2;
        if self.is_of(mark) && !is_over { self.refusals } else { 0 }
    }

    const fn pack(self) -> u64 {
        (self.mark as u64) << 32 | (self.until as u64) << 16 | self.refusals as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "each part takes its bits")]
    const fn unpack(packed: u64) -> Self {
        Self { mark: (packed >> 32) as u32, until: (packed >> 16) as u16, refusals: packed as u16 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const WAIT: Duration = Duration::from_secs(12);

    fn agent(last: char) -> Option<AgentId> {
        Some(format!("agt_0000000000000000000000000000000{last}").parse().expect("an id"))
    }

    fn tool(place: usize) -> ToolIndex {
        ToolIndex::at(place).expect("a place")
    }

    fn attempts() -> (Attempts, Arc<quanta::Mock>) {
        let (clock, mock) = quanta::Clock::mock();
        (Attempts::new(clock), mock)
    }

    fn refuse(attempts: &Attempts, times: usize) {
        for _ in 0..times {
            attempts.refused(agent('1'), tool(0), WAIT);
        }
    }

    fn serve(attempts: &Attempts, told: Option<u32>) -> Option<u32> {
        attempts.served(agent('1'), tool(0), told)
    }

    #[test]
    fn a_call_that_gets_through_after_four_refusals_is_the_fifth_attempt() {
        let (attempts, _) = attempts();
        refuse(&attempts, 4);
        assert_eq!(serve(&attempts, None), Some(5));
        assert_eq!(serve(&attempts, None), None, "the streak has ended");
    }

    #[test]
    fn what_the_caller_says_comes_first_and_ends_the_streak_too() {
        let (attempts, _) = attempts();
        refuse(&attempts, 4);
        assert_eq!(serve(&attempts, Some(2)), Some(2));
        assert_eq!(serve(&attempts, Some(1)), Some(1));
        assert_eq!(serve(&attempts, Some(u32::MAX)), Some(1_000));
        assert_eq!(serve(&attempts, None), None);
    }

    #[test]
    fn refusals_of_other_agents_and_of_other_tools_do_not_count() {
        let (attempts, _) = attempts();
        refuse(&attempts, 4);
        assert_eq!(attempts.served(agent('2'), tool(0), None), None);
        assert_eq!(attempts.served(agent('1'), tool(1), None), None);
        assert_eq!(attempts.served(None, tool(0), None), None);
        assert_eq!(serve(&attempts, None), Some(5));
    }

    #[test]
    fn a_streak_is_forgotten_ten_minutes_after_its_wait_and_not_before() {
        let (attempts, clock) = attempts();
        refuse(&attempts, 2);
        clock.increment(Duration::from_mins(9));
        refuse(&attempts, 1);
        clock.increment(Duration::from_mins(9));
        assert_eq!(serve(&attempts, None), Some(4));
        refuse(&attempts, 2);
        clock.increment(Duration::from_mins(12));
        assert_eq!(serve(&attempts, None), None);
        attempts.refused(agent('1'), tool(0), Duration::from_hours(20));
        clock.increment(Duration::from_hours(20));
        assert_eq!(serve(&attempts, None), Some(2), "it came back when it was told to");
    }

    #[test]
    fn an_old_streak_does_not_count_for_a_new_one() {
        let (attempts, clock) = attempts();
        refuse(&attempts, 7);
        clock.increment(Duration::from_mins(30));
        refuse(&attempts, 1);
        assert_eq!(serve(&attempts, None), Some(2));
    }

    #[test]
    fn a_flood_is_counted_as_far_as_the_place_goes() {
        let (attempts, _) = attempts();
        refuse(&attempts, 70_000);
        assert_eq!(serve(&attempts, None), Some(65_536));
    }

    #[test]
    fn minutes_may_wrap_around() {
        let (attempts, clock) = attempts();
        clock.increment(Duration::from_mins(65_530));
        refuse(&attempts, 3);
        clock.increment(Duration::from_mins(8));
        assert_eq!(serve(&attempts, None), Some(4));
    }

    #[test]
    fn no_refusal_is_lost_between_threads() {
        let (attempts, _) = attempts();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| refuse(&attempts, 1_000));
            }
        });
        assert_eq!(serve(&attempts, None), Some(4_001));
    }
}
