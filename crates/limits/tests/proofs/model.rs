//! 6. Random calls, reloads and clock steps give the decisions of a reference that is too simple to be wrong.
//!
//! The reference keeps every call's time in a list and counts. Where the design rounds (large windows count per sixtieth,
//! reloads round what is in use up), it rounds the same way, and says so. A reload that cuts something off keeps the state
//! from before beside the new one and charges both.

use std::collections::HashMap;

use proptest::prelude::*;
use sluicegate_limits::{Algorithm, Place, RateLimit, RateRule};

use crate::{
    world::{Caller, World},
    writing::{BUCKET, STRICT, limit, rate, rules},
};

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
enum State {
    /// The time at which the bucket is empty, and the interval it was filled with.
    Bucket { empty_at: u64, interval: u64 },
    /// The times of the calls that were in the window when the last one was made.
    Calls { times: Vec<u64>, window: u64, in_sixtieths: bool },
}

impl State {
    fn fresh(limit: &RateLimit) -> Self {
        let window = limit.quota().window_ns();
        match limit.algorithm() {
            Algorithm::TokenBucket => Self::Bucket { empty_at: 0, interval: window.div_ceil(limit.quota().count()) },
            Algorithm::SlidingWindow => {
                Self::Calls { times: Vec::new(), window, in_sixtieths: limit.quota().count() > World::EXACT }
            }
        }
    }

    /// When a call at `time` no longer counts.
    fn leaves(time: u64, window: u64, in_sixtieths: bool) -> u64 {
        let width = window.div_ceil(60);
        if in_sixtieths { (time / width + 61) * width } else { time + window }
    }

    fn used(&self, now: u64) -> u64 {
        match self {
            Self::Bucket { empty_at, interval } => empty_at.saturating_sub(now).div_ceil(*interval),
            Self::Calls { times, window, in_sixtieths } => {
                times.iter().filter(|time| Self::leaves(**time, *window, *in_sixtieths) > now).count() as u64
            }
        }
    }

    /// What the state becomes when a call with other numbers meets it.
    fn reloaded(&self, limit: &RateLimit, now: u64) -> Self {
        let used = self.used(now).min(limit.capacity());
        let mut new = Self::fresh(limit);
        match (&mut new, self) {
            (Self::Bucket { empty_at, interval }, Self::Bucket { empty_at: old, interval: same })
                if interval == same =>
            {
                *empty_at = (*old).min(now + limit.capacity() * *interval);
            }
            (Self::Bucket { empty_at, interval }, _) => *empty_at = now + used * *interval,
            (Self::Calls { times, .. }, Self::Bucket { .. }) => *times = vec![now; used as usize],
            (
                Self::Calls { times, window, in_sixtieths },
                Self::Calls { times: old, window: before, in_sixtieths: coarse },
            ) => {
                *times = old.clone();
                // What is counted in sixtieths stays so until nothing counts any more.
                *in_sixtieths |= *coarse;
                if *coarse && window != before {
                    // Of calls counted in sixtieths only the latest possible time is known.
                    let width = before.div_ceil(60);
                    times.retain(|time| Self::leaves(*time, *before, true) > now);
                    times.iter_mut().for_each(|time| *time = ((*time / width + 1) * width - 1).min(now));
                }
            }
        }
        // Nothing of it may lie in a window that is shorter.
        if new.used(now) == 0 { Self::fresh(limit) } else { new }
    }

    fn admits(&self, limit: &RateLimit, cost: u64, now: u64) -> bool {
        match self {
            // A bucket counts parts of calls, so not `used`.
            Self::Bucket { empty_at, interval } => {
                empty_at.saturating_sub(now) + cost * interval <= limit.capacity() * interval
            }
            Self::Calls { .. } => self.used(now) + cost <= limit.capacity(),
        }
    }

    fn charge(&mut self, cost: u64, now: u64) {
        match self {
            Self::Bucket { empty_at, interval } => *empty_at = now.max(*empty_at) + cost * *interval,
            Self::Calls { times, window, in_sixtieths } => {
                times.retain(|time| Self::leaves(*time, *window, *in_sixtieths) > now);
                times.extend(vec![now; cost as usize]);
            }
        }
    }
}

/// A state, and what changes of numbers cut off: each with the backlog it had then, which it never exceeds again.
#[derive(Clone, Debug)]
struct Kept {
    state: State,
    owed: Vec<(State, u64)>,
    /// The capacity that was cut to.
    capacity: u64,
}

impl Kept {
    fn reloaded_if_needed(&mut self, limit: &RateLimit, now: u64) {
        if self.owed.iter().all(|(owed, _)| owed.used(now) == 0) {
            self.owed.clear();
            if self.state.fits(limit, now) {
                return;
            }
        } else if self.capacity == limit.capacity() && self.state.fits_owing(limit, now) {
            return;
        }
        let mut all = self.owed.clone();
        all.push((self.state.clone(), self.state.backlog(now)));
        all.retain(|(state, _)| state.used(now) > 0);
        let most_used = all
            .iter()
            .map(|(state, _)| state.reloaded(limit, now))
            .max_by_key(|state| (state.used(now), state.first_back(now)));
        self.state = most_used.unwrap_or_else(|| State::fresh(limit));
        all.retain(|(old, _)| old.used(now) > self.state.used(now) || old.is_longer_than(&self.state));
        self.owed = all;
        self.capacity = limit.capacity();
    }

    fn charge(&mut self, cost: u64, now: u64) {
        let state = &self.state;
        self.owed.retain(|(owed, _)| owed.used(now) > 0 && !owed.is_below(state, now));
        for (owed, most) in &mut self.owed {
            owed.charge(cost, now);
            if let State::Bucket { empty_at, .. } = owed {
                *empty_at = (*empty_at).min(now + *most);
            }
        }
        self.state.charge(cost, now);
    }
}

#[derive(Default)]
struct Reference {
    states: HashMap<(Place, String), Kept>,
}

impl Reference {
    /// All or nothing over every rule.
    fn admit(&mut self, who: &[&str; 3], rates: &[RateRule], cost: u64, now: u64) -> bool {
        let [tenant, agent, tool] = who;
        let key = |place| match place {
            Place::Server => String::new(),
            Place::ServerTool => (*tool).to_owned(),
            Place::Tenant => (*tenant).to_owned(),
            Place::Agent => format!("{tenant} {agent}"),
            _ => format!("{tenant} {agent} {tool}"),
        };
        let mut all_pass = true;
        for rate in rates {
            let fresh = || Kept { state: State::fresh(&rate.limit), owed: Vec::new(), capacity: 0 };
            let kept = self.states.entry((rate.place, key(rate.place))).or_insert_with(fresh);
            kept.reloaded_if_needed(&rate.limit, now);
            all_pass &= kept.state.admits(&rate.limit, cost, now);
        }
        if all_pass {
            for rate in rates {
                self.states.get_mut(&(rate.place, key(rate.place))).expect("asked above").charge(cost, now);
            }
        }
        all_pass
    }
}

impl State {
    fn fits(&self, limit: &RateLimit, now: u64) -> bool {
        match (self, Self::fresh(limit)) {
            (Self::Bucket { empty_at, interval, .. }, Self::Bucket { interval: new, .. }) => {
                *interval == new && empty_at.saturating_sub(now) <= limit.capacity() * new
            }
            (Self::Calls { window, in_sixtieths, .. }, Self::Calls { window: new, in_sixtieths: coarse, .. }) => {
                *window == new && (*in_sixtieths == coarse || *in_sixtieths && self.used(now) > 0)
            }
            _ => false,
        }
    }

    /// As long as something is owed, calls counted in sixtieths stay so even when they count no more.
    fn fits_owing(&self, limit: &RateLimit, now: u64) -> bool {
        match (self, Self::fresh(limit)) {
            (Self::Calls { window, in_sixtieths: true, .. }, Self::Calls { window: new, .. }) => *window == new,
            _ => self.fits(limit, now),
        }
    }

    fn backlog(&self, now: u64) -> u64 {
        match self {
            Self::Bucket { empty_at, .. } => empty_at.saturating_sub(now),
            Self::Calls { .. } => 0,
        }
    }

    /// When the first of what is in use comes back; of a bucket just as well when all of it has.
    fn first_back(&self, now: u64) -> u64 {
        match self {
            Self::Bucket { .. } => self.backlog(now),
            Self::Calls { times, window, in_sixtieths } => {
                let leave = times.iter().map(|time| Self::leaves(*time, *window, *in_sixtieths));
                leave.filter(|leaves| *leaves > now).min().map_or(0, |leaves| leaves - now)
            }
        }
    }

    fn is_longer_than(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Calls { window, .. }, Self::Calls { window: other, .. }) if window > other)
    }

    /// Whether this is a bucket that is and stays no fuller than another that is charged for the same calls.
    fn is_below(&self, other: &Self, now: u64) -> bool {
        match (self, other) {
            (Self::Bucket { interval, .. }, Self::Bucket { interval: other_interval, .. }) => {
                interval <= other_interval
                    && u128::from(self.backlog(now)) * u128::from(*other_interval)
                        <= u128::from(other.backlog(now)) * u128::from(*interval)
            }
            _ => false,
        }
    }
}

fn any_limit() -> impl Strategy<Value = RateLimit> {
    let count = prop_oneof![4 => 1..12_u64, 1 => 900..1_100_u64, 1 => 1_001..3_000_u64];
    let unit = prop::sample::select(vec!["s", "7s", "500ms", "13ms"]);
    (any::<bool>(), count, unit)
        .prop_map(|(strict, count, unit)| limit(if strict { STRICT } else { BUCKET }, &format!("{count}/{unit}")))
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    /// Caller, cost, how often.
    Call(usize, u32, usize),
    /// Which rule gets which limit.
    Reload(usize, RateLimit),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop_oneof![0..SECOND / 20, 0..3 * SECOND, Just(1), Just(SECOND), Just(SECOND / 2)].prop_map(Step::Wait),
        8 => (0..4_usize, prop_oneof![3 => 1..3_u32, 1 => 1..700_u32], 1..8_usize).prop_map(|(who, cost, n)| Step::Call(who, cost, n)),
        2 => (0..5_usize, any_limit()).prop_map(|(rule, limit)| Step::Reload(rule, limit)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(World::CASES))]

    #[test]
    fn every_decision_is_the_references(
        limits in prop::collection::vec(any_limit(), 5),
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let world = World::new();
        let names = [["acme", "a", "x"], ["acme", "a", "y"], ["acme", "b", "x"], ["globex", "a", "x"]];
        let callers: Vec<Caller> = names.iter().map(|[tenant, agent, tool]| world.caller(tenant, agent, tool)).collect();
        let places = [Place::Server, Place::ServerTool, Place::Tenant, Place::Agent, Place::AgentTool];
        let mut rates: Vec<_> = places.into_iter().zip(limits).map(|(place, limit)| rate(place, limit)).collect();
        let mut reference = Reference::default();
        let mut now = 0;
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Wait(ns) => {
                    world.wait(ns);
                    now += ns;
                    // Sweeping must not be noticed.
                    world.sweep();
                }
                Step::Reload(rule, limit) => rates[rule].limit = limit,
                Step::Call(who, cost, calls) => {
                    let most = rates.iter().map(|rate| rate.limit.capacity()).min().unwrap_or(1);
                    let cost = cost.min(most as u32);
                    let rules = rules(rates.clone(), vec![], cost);
                    for _ in 0..calls {
                        let decided = world.admit(&callers[who], &rules).is_ok();
                        prop_assert_eq!(decided, reference.admit(&names[who], &rates, cost.into(), now), "step {}", i);
                    }
                }
            }
        }
    }
}
