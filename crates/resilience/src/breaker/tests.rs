use std::collections::HashMap;

use proptest::prelude::*;
use tokio::time::advance;

use super::*;

const OPEN_FOR: Duration = Duration::from_secs(30);
const MS: Duration = Duration::from_millis(1);

fn breaker(options: BreakerOptions) -> CircuitBreaker {
    CircuitBreaker::new("test", options).expect("valid")
}

fn open(breaker: &CircuitBreaker) {
    while breaker.state() != BreakerState::Open {
        breaker.admit().expect("not open yet").failed();
    }
}

#[tokio::test(start_paused = true)]
async fn five_failures_in_a_row_open_it_and_four_do_not() {
    let breaker = breaker(BreakerOptions::default());
    for _ in 0..4 {
        breaker.admit().expect("closed").failed();
    }
    breaker.admit().expect("closed").succeeded();
    for _ in 0..4 {
        breaker.admit().expect("closed").failed();
        // A call without a result stands for a 429: it neither adds to the row nor ends it.
        drop(breaker.admit().expect("closed"));
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    breaker.admit().expect("closed").failed();
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn while_open_nobody_is_let_through_and_the_wait_is_told() {
    let breaker = breaker(BreakerOptions::default());
    open(&breaker);
    advance(Duration::from_secs(12)).await;
    assert_eq!(breaker.admit().expect_err("open").retry_after, Duration::from_secs(18));
    advance(Duration::from_secs(18) - MS).await;
    assert_eq!(breaker.check(), Err(CircuitOpen { retry_after: MS }));
    advance(MS).await;
    assert_eq!(breaker.check(), Ok(()));
    assert!(breaker.admit().is_ok());
}

#[tokio::test(start_paused = true)]
async fn exactly_the_configured_probes_are_let_through() {
    for probes in [1, 2] {
        let breaker = breaker(BreakerOptions { probes, ..BreakerOptions::default() });
        open(&breaker);
        advance(OPEN_FOR).await;
        let mut passes: Vec<_> = (0..100).filter_map(|_| breaker.admit().ok()).collect();
        assert_eq!(passes.len(), probes as usize);
        assert_eq!(breaker.check(), Err(CircuitOpen { retry_after: Duration::from_secs(1) }));
        passes.pop().expect("a probe").succeeded();
        assert_eq!(breaker.state(), BreakerState::Closed);
        // What the other probe finds out is about a state that has passed.
        passes.drain(..).for_each(Pass::failed);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_opens_it_for_the_whole_time_again() {
    let breaker = breaker(BreakerOptions::default());
    open(&breaker);
    advance(OPEN_FOR + OPEN_FOR).await;
    breaker.admit().expect("a probe").failed();
    assert_eq!(breaker.admit().expect_err("open").retry_after, OPEN_FOR);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_probe_gives_its_place_back() {
    let breaker = breaker(BreakerOptions::default());
    open(&breaker);
    advance(OPEN_FOR).await;
    drop(breaker.admit().expect("a probe"));
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    let second = breaker.admit().expect("another probe");
    assert!(breaker.admit().is_err());
    second.succeeded();
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_failure_rate_is_judged_over_a_whole_window_of_calls() {
    let rate = FailureRate { failures: 3, of_calls: 6 };
    let breaker = breaker(BreakerOptions { failure_rate: Some(rate), ..BreakerOptions::default() });
    for failed in [true, false, true, false, true] {
        let pass = breaker.admit().expect("closed");
        let end = if failed { Pass::failed } else { Pass::succeeded };
        end(pass);
    }
    assert_eq!(breaker.state(), BreakerState::Closed, "five calls are not six");
    breaker.admit().expect("closed").succeeded();
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn failures_that_left_the_window_are_forgotten() {
    let rate = FailureRate { failures: 2, of_calls: 3 };
    let breaker = breaker(BreakerOptions { failure_rate: Some(rate), ..BreakerOptions::default() });
    for failed in [true, false, false, true, false, false, true] {
        let pass = breaker.admit().expect("closed");
        let end = if failed { Pass::failed } else { Pass::succeeded };
        end(pass);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
    breaker.admit().expect("closed").failed();
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let valid = BreakerOptions::default();
    let rate = |failures, of_calls| BreakerOptions { failure_rate: Some(FailureRate { failures, of_calls }), ..valid };
    for options in [
        BreakerOptions { failures_in_a_row: 0, ..valid },
        BreakerOptions { probes: 0, ..valid },
        BreakerOptions { open_for: Duration::ZERO, ..valid },
        BreakerOptions { open_for: Duration::from_hours(24) + MS, ..valid },
        rate(0, 5),
        rate(6, 5),
    ] {
        assert!(CircuitBreaker::new("test", options).is_err(), "{options:?}");
    }
    for options in [BreakerOptions { open_for: Duration::from_hours(24), ..valid }, rate(1, 1), rate(5, 5)] {
        assert!(CircuitBreaker::new("test", options).is_ok(), "{options:?}");
    }
}

/// One step of one of several concurrent callers. Each step of the breaker is taken under its lock, so every execution
/// of concurrent callers is one of these sequences.
#[derive(Clone, Debug)]
enum Step {
    Arrive,
    /// The call, counted from the oldest that is under way, ends.
    End(usize, Ending),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ending = prop_oneof![3 => Just(Ending::Failed), 1 => Just(Ending::Succeeded), 1 => Just(Ending::Inconclusive)];
    let step = prop_oneof![
        4 => Just(Step::Arrive),
        4 => (0_usize..6, ending).prop_map(|(which, ending)| Step::End(which, ending)),
        1 => prop_oneof![Just(1), Just(999), Just(29_000), Just(30_000), 0_u64..40_000].prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..200)
}

/// The rules as sentences about what has happened since the last transition, in place of a machine.
#[derive(Debug)]
struct Reference {
    options: BreakerOptions,
    since: Vec<Ending>,
    state: BreakerState,
    changed_at: Instant,
    generation: u64,
    /// Every call under way, with the generation in which it arrived.
    under_way: HashMap<usize, u64>,
}

impl Reference {
    fn arrive(&mut self, id: usize, now: Instant) -> bool {
        if self.state == BreakerState::Open && now >= self.changed_at + self.options.open_for {
            self.become_(BreakerState::HalfOpen, now);
        }
        let probes = self.under_way.values().filter(|generation| **generation == self.generation).count();
        let admitted = match self.state {
            BreakerState::Closed => true,
            BreakerState::HalfOpen => probes < self.options.probes as usize,
            BreakerState::Open => false,
        };
        if admitted {
            self.under_way.insert(id, self.generation);
        }
        admitted
    }

    fn end(&mut self, id: usize, ending: Ending, now: Instant) {
        if self.under_way.remove(&id) != Some(self.generation) || ending == Ending::Inconclusive {
            return;
        }
        self.since.push(ending);
        let row = self.options.failures_in_a_row as usize;
        let in_a_row =
            self.since.len() >= row && self.since.iter().rev().take(row).all(|ending| *ending == Ending::Failed);
        let too_many = self.options.failure_rate.is_some_and(|rate| {
            self.since.len() >= rate.of_calls
                && self.since.iter().rev().take(rate.of_calls).filter(|ending| **ending == Ending::Failed).count()
                    >= rate.failures
        });
        match (self.state, ending) {
            (BreakerState::HalfOpen, Ending::Succeeded) => self.become_(BreakerState::Closed, now),
            (BreakerState::HalfOpen, _) => self.become_(BreakerState::Open, now),
            (BreakerState::Closed, _) if in_a_row || too_many => self.become_(BreakerState::Open, now),
            _ => {}
        }
    }

    fn become_(&mut self, state: BreakerState, now: Instant) {
        (self.state, self.changed_at) = (state, now);
        self.generation += 1;
        self.since.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_of_concurrent_calls_goes_as_the_rules_say(
        steps in steps(),
        probes in 1_u32..=2,
        rate in proptest::option::of((1_usize..4, 4_usize..8)),
    ) {
        let failure_rate = rate.map(|(failures, of_calls)| FailureRate { failures, of_calls });
        let options = BreakerOptions { failures_in_a_row: 3, failure_rate, probes, ..BreakerOptions::default() };
        let mut now = Instant::now();
        let mut machine = Machine::new(options);
        let mut reference = Reference {
            options,
            since: Vec::new(),
            state: BreakerState::Closed,
            changed_at: now,
            generation: 0,
            under_way: HashMap::new(),
        };
        let mut under_way: Vec<(usize, u64)> = Vec::new();
        for (id, step) in steps.into_iter().enumerate() {
            match step {
                Step::Wait(ms) => now += Duration::from_millis(ms),
                Step::Arrive => {
                    let refused = machine.refusal(now).is_some();
                    let admitted = machine.admit(now);
                    prop_assert_eq!(refused, admitted.is_err());
                    prop_assert_eq!(admitted.is_ok(), reference.arrive(id, now));
                    under_way.extend(admitted.ok().map(|epoch| (id, epoch)));
                }
                Step::End(which, ending) if which < under_way.len() => {
                    let (id, epoch) = under_way.remove(which);
                    machine.settle(epoch, ending, now);
                    reference.end(id, ending, now);
                }
                Step::End(..) => {}
            }
            prop_assert_eq!(machine.state(), reference.state);
        }
    }
}

/// The lock under real threads: the probes are the only calls that are let through at the end of the open time.
#[test]
fn threads_that_arrive_together_get_exactly_the_probes() {
    for _ in 0..50 {
        let breaker = breaker(BreakerOptions { open_for: MS, probes: 2, ..BreakerOptions::default() });
        open(&breaker);
        std::thread::sleep(MS + MS);
        let start = std::sync::Barrier::new(8);
        let admitted = std::thread::scope(|scope| {
            let ask = || {
                start.wait();
                breaker.admit().ok()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            let passes: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect();
            passes.len()
        });
        assert_eq!(admitted, 2);
    }
}
