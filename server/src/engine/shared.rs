//! Limits that several instances enforce together: Redis decides, and this instance for its share while it cannot.
//!
//! What this instance has admitted is noted in its own limiter at its [share](super::share) of every limit. When Redis is
//! away, the limiter goes on from there: calls are decided at once, and all instances together stay within the limit for
//! what they admit by themselves. Since Redis may have admitted as much again before, a window that spans the change may
//! hold twice the limit at most; docs/operations.md says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use sluicegate_limits::{
    Admission, Algorithm, Call, CapRule, Limit, Limiter, Mode, OnOutage, Place, RateLimit, RateRule, Refusal,
    RefusedRule, RuleRef, RuleReport, RuleSet, Rules, Turn, TurnOutcome, Wait,
};
use tokio::sync::Notify;

use super::Denial;
use super::ceiling::Ceiling;
use super::leases::{self, Lease, Leases};
use super::link::{Link, LinkError, Redis};
use super::question::{Keyspace, Names, Purpose, Question, Timing};
use super::share::Share;
use super::verdict::{Look, Verdict, read_look};

/// How limits are shared.
pub(crate) struct SharedOptions {
    pub(crate) redis: Redis,
    pub(crate) keyspace: Keyspace,
    /// The clock that limits are measured by in place of Redis', as tests set it.
    pub(crate) clock: Option<quanta::Clock>,
    /// A number unlike that of any other instance.
    pub(crate) instance: u64,
}

/// What instances share, as one of them sees it.
pub(crate) struct Shared {
    pub(super) redis: Redis,
    pub(super) limiter: Limiter,
    keyspace: Keyspace,
    /// Whose time Redis is told, if not its own.
    told_clock: Option<quanta::Clock>,
    /// `None` while Redis cannot be asked: then nobody waits for it.
    link: ArcSwapOption<Link>,
    /// Wakes whoever looks for Redis.
    pub(super) lost: Notify,
    /// `None` until the instances have been counted.
    share: ArcSwapOption<Share>,
    pub(super) leases: Leases,
    /// What tenants get fair shares of.
    pub(super) ceiling: Ceiling,
    /// Measures how long ago states were lost.
    clock: quanta::Clock,
    /// When Redis was found without what it had known, by `clock`; 0 if it never was.
    forgotten_at: AtomicU64,
    /// How often Redis could not be asked any more.
    outages: AtomicU64,
    /// How many answers were none.
    strange: AtomicU64,
}

/// What is needed to have others decide about one sort of call of one caller; made once.
pub(crate) struct SharedLimits {
    question: Option<Question>,
    on_outage: OnOutage,
    /// Caps alone: what this process decides before others are asked.
    own: Rules,
    /// Rates that the cost of a call never fits in.
    impossible: Vec<RefusedRule>,
    /// Such rates that only observe.
    never_observed: RuleSet,
    /// By the share that they were made for.
    parts: ArcSwapOption<Parts>,
    /// The rates over all tenants, if this call comes under one that tenants get shares of.
    ceiling: Option<Arc<Rules>>,
    rules: Rules,
}

/// This instance's part of the limits of a call.
struct Parts {
    share: Share,
    /// What it enforces without Redis.
    alone: Rules,
    /// Whether some limit is too small to be shared: alone, the call cannot be decided here.
    too_small: bool,
    /// Rates that it enforces beside Redis, as those cannot be asked about there.
    beside: Option<Rules>,
    /// The others, which it notes.
    followed: Rules,
}

impl SharedLimits {
    fn new(keyspace: &Keyspace, names: &Names<'_>, rules: &Rules, on_outage: OnOutage) -> Self {
        let impossible = (0..).zip(rules.rates()).filter(|(_, rule)| u64::from(rules.cost()) > rule.limit.capacity());
        let (observed, enforced): (Vec<_>, Vec<_>) = impossible.partition(|(_, rule)| rule.mode == Mode::Observe);
        let refused = |(index, _): &(u8, &RateRule)| RefusedRule { rule: RuleRef::Rate(*index), used: 0, wait: None };
        Self {
            question: Question::new(keyspace, names, rules),
            on_outage,
            own: rules.part(|_| None, |cap| Some(cap.cap)),
            impossible: enforced.iter().map(refused).collect(),
            never_observed: observed.iter().fold(RuleSet::default(), |all, (index, _)| all.with(RuleRef::Rate(*index))),
            parts: ArcSwapOption::empty(),
            // One that is enforced here is shared out here as well.
            ceiling: if keyspace.is_divided { None } else { Ceiling::of(rules) },
            rules: rules.clone(),
        }
    }

    /// Whether a rule is a rate over all tenants.
    fn is_ceiling(&self, rule: RuleRef) -> bool {
        matches!(rule, RuleRef::Rate(index) if self.rules.rates()[usize::from(index)].place == Place::Server)
    }

    fn parts(&self, share: Share, keyspace: &Keyspace) -> Arc<Parts> {
        if let Some(parts) = self.parts.load_full()
            && parts.share == share
        {
            return parts;
        }
        let parts = Arc::new(Parts::new(&self.rules, share, keyspace));
        self.parts.store(Some(Arc::clone(&parts)));
        parts
    }
}

impl Parts {
    fn new(rules: &Rules, share: Share, keyspace: &Keyspace) -> Self {
        let cost = u64::from(rules.cost());
        let rate = |rule: &RateRule| share.of_limit(&rule.limit);
        // What one process takes on is no part of anything.
        let cap = |rule: &CapRule| match rule.place {
            Place::Server => Some(rule.cap),
            _ => share.of(rule.cap.get().into()).to_string().parse().ok(),
        };
        let is_too_small = |rule: &RateRule| rate(rule).is_none_or(|limit| limit.capacity() < cost);
        let enforced = |mode: Mode| mode == Mode::Enforce;
        let too_small = rules.rates().iter().any(|rule| enforced(rule.mode) && is_too_small(rule))
            || rules.caps().iter().any(|rule| enforced(rule.mode) && cap(rule).is_none());
        let (beside, followed) = split(rules, share, |rule| keyspace.is_local(rule));
        Self { share, alone: rules.part(rate, cap), too_small, beside, followed }
    }
}

/// The shares of the rates that are enforced here, if any, and those of the others.
fn split(rules: &Rules, share: Share, is_enforced_here: impl Fn(&RateRule) -> bool) -> (Option<Rules>, Rules) {
    // Of a limit that is too small to be shared each instance lets one call through rather than none.
    let least = |rule: &RateRule| {
        share.of_limit(&rule.limit).or_else(|| {
            let one = sluicegate_limits::Quota::new(1, rule.limit.quota().window()).ok()?;
            RateLimit::new(one, None, rule.limit.algorithm()).ok()
        })
    };
    let here = |rule: &RateRule| is_enforced_here(rule) && rule.mode == Mode::Enforce;
    let beside = rules.rates().iter().any(here);
    let beside = beside.then(|| rules.part(|rule| if here(rule) { least(rule) } else { None }, |_| None));
    (beside, rules.part(|rule| if here(rule) { None } else { share.of_limit(&rule.limit) }, |_| None))
}

impl Shared {
    /// Redis is not asked before the [supervisor](super::supervisor) has found it.
    pub(super) fn new(options: SharedOptions, limiter: Limiter) -> Self {
        let SharedOptions { redis, keyspace, clock: told_clock, instance } = options;
        Self {
            redis,
            limiter,
            keyspace,
            link: ArcSwapOption::empty(),
            lost: Notify::new(),
            share: ArcSwapOption::empty(),
            leases: Leases::new(instance),
            ceiling: Ceiling::default(),
            clock: told_clock.clone().unwrap_or_default(),
            told_clock,
            forgotten_at: AtomicU64::new(0),
            outages: AtomicU64::new(0),
            strange: AtomicU64::new(0),
        }
    }

    /// What is needed to ask about calls of these rules.
    pub(crate) fn limits(&self, names: &Names<'_>, rules: &Rules, on_outage: OnOutage) -> SharedLimits {
        SharedLimits::new(&self.keyspace, names, rules, on_outage)
    }

    /// Decides about a call.
    pub(crate) async fn admit(
        &self,
        call: &Call<'_>,
        limits: &SharedLimits,
    ) -> Result<(Admission, Option<Lease>), Denial> {
        if let [first, others @ ..] = &*limits.impossible {
            return Err(Refusal::by(&limits.rules, *first, others, limits.never_observed).into());
        }
        let Some(link) = self.link() else { return self.admit_alone(call, limits) };
        let own = self.limiter.admit(&Call { rules: &limits.own, ..*call })?;
        let parts = limits.parts(self.share.load().as_deref().copied().unwrap_or(Share::WHOLE), &self.keyspace);
        let careful = self.careful_parts(&limits.rules, parts.share);
        let (beside, followed) = careful
            .as_ref()
            .map_or((parts.beside.as_ref(), &parts.followed), |(beside, followed)| (beside.as_ref(), followed));
        let beside = beside.map(|rules| Call { rules, ..*call });
        if let Some(beside) = &beside {
            self.limiter.peek(beside)?;
        }
        let turn = match &limits.ceiling {
            Some(ceiling) if careful.is_none() => {
                self.ceiling.note(ceiling);
                self.limiter.ask_turn(call)?
            }
            _ => Turn::FREE,
        };
        let Some(question) = &limits.question else {
            return Ok((self.admitted(own, beside, followed, call, None, limits.never_observed)?, None));
        };
        let lease = self.leases.open(&question.leases);
        let id = lease.as_ref().map_or(&b""[..], Lease::id);
        let ended = self.leases.take_ended(&question.leases);
        let answer = link.ask(question, Purpose::Admit(id), &ended, self.timing()).await;
        let verdict = answer.and_then(|answer| {
            let verdict = Verdict::read(answer, &limits.rules, self.keyspace.tick);
            verdict.map_err(|error| LinkError::Strange(error.to_string()))
        });
        match verdict {
            Ok(Verdict::Admitted { nearest, would_throttle }) => {
                if let Some(lease) = &lease {
                    lease.was_given();
                }
                self.limiter.end_turn(call, turn, TurnOutcome::Admitted);
                let observed = would_throttle.union(limits.never_observed);
                Ok((self.admitted(own, beside, followed, call, nearest, observed)?, lease))
            }
            Ok(Verdict::Refused { mut by, would_throttle }) => {
                lease.into_iter().for_each(Lease::was_refused);
                let outcome = match by.iter().all(|refused| limits.is_ceiling(refused.rule)) {
                    true => TurnOutcome::RefusedByCeiling,
                    false => TurnOutcome::RefusedByOthers,
                };
                self.limiter.end_turn(call, turn, outcome);
                for refused in by.iter_mut().filter(|refused| matches!(refused.rule, RuleRef::Cap(_))) {
                    refused.wait = Some(self.limiter.concurrency_wait(call.tool));
                }
                let observed = would_throttle.union(own.would_throttle).union(limits.never_observed);
                Err(Refusal::by(&limits.rules, by[0], &by[1..], observed).into())
            }
            Err(error) => {
                self.failed(&link, &error);
                // Its slots are wanted again at once.
                drop(own);
                self.admit_alone(call, limits)
            }
        }
    }

    /// A call that Redis has admitted, or that it need not be asked about.
    fn admitted(
        &self,
        own: Admission,
        beside: Option<Call<'_>>,
        followed: &Rules,
        call: &Call<'_>,
        nearest: Option<sluicegate_limits::Standing>,
        observed: RuleSet,
    ) -> Result<Admission, Refusal> {
        let here = beside.map(|beside| self.limiter.admit(&beside)).transpose()?;
        self.limiter.note(&Call { rules: followed, ..*call });
        let nearest = nearest.or_else(|| here?.nearest);
        Ok(Admission { permit: own.permit, nearest, would_throttle: own.would_throttle.union(observed) })
    }

    /// Decides about a call without Redis.
    fn admit_alone(&self, call: &Call<'_>, limits: &SharedLimits) -> Result<(Admission, Option<Lease>), Denial> {
        match (limits.on_outage, self.share.load().as_deref()) {
            (OnOutage::Open, _) => Ok((self.limiter.admit(&Call { rules: &limits.own, ..*call })?, None)),
            (OnOutage::LocalShare, Some(share)) => {
                let parts = limits.parts(*share, &self.keyspace);
                if parts.too_small {
                    return Err(Denial::Closed);
                }
                Ok((self.limiter.admit(&Call { rules: &parts.alone, ..*call })?, None))
            }
            (OnOutage::Closed, _) | (OnOutage::LocalShare, None) => Err(Denial::Closed),
        }
    }

    /// After Redis has lost what it knew: strict windows are enforced here as well, for their length, so that what was
    /// admitted before counts.
    fn careful_parts(&self, rules: &Rules, share: Share) -> Option<(Option<Rules>, Rules)> {
        let forgotten_at = self.forgotten_at.load(Relaxed);
        if forgotten_at == 0 {
            return None;
        }
        let since = self.clock.delta_as_nanos(forgotten_at, self.clock.raw());
        let is_in_doubt = |rule: &RateRule| {
            rule.limit.algorithm() == Algorithm::SlidingWindow && rule.limit.quota().window_ns() > since
        };
        let any = rules.rates().iter().any(is_in_doubt);
        any.then(|| split(rules, share, |rule| is_in_doubt(rule) || self.keyspace.is_local(rule)))
    }

    /// How every rule of the call stands: rates in order, then caps.
    pub(crate) async fn inspect(&self, call: &Call<'_>, names: &Names<'_>) -> Vec<RuleReport> {
        let looks = match self.link() {
            Some(link) => {
                let looks = self.look(&link, call.rules, names).await;
                looks.inspect_err(|error| self.failed(&link, error)).ok()
            }
            None => None,
        };
        let share = self.share.load().as_deref().copied().unwrap_or(Share::WHOLE);
        let rules = match &looks {
            Some(_) => call.rules.part(
                |rule| if self.keyspace.is_local(rule) { share.of_limit(&rule.limit) } else { None },
                |cap| Some(cap.cap),
            ),
            None => Parts::new(call.rules, share, &self.keyspace).alone,
        };
        let here = self.limiter.inspect(&Call { rules: &rules, ..*call });
        let rates = (0..call.rules.rates().len()).filter_map(|at| u8::try_from(at).ok()).map(RuleRef::Rate);
        let caps = (0..call.rules.caps().len()).filter_map(|at| u8::try_from(at).ok()).map(RuleRef::Cap);
        let report = |rule| {
            let look = looks.iter().flatten().find(|look| look.rule == rule);
            let here = here.iter().find(|report| report.rule == rule).copied();
            look.map(|look| report(call.rules, *look)).or(here).unwrap_or_else(|| nothing_left(call.rules, rule))
        };
        rates.chain(caps).map(report).collect()
    }

    pub(super) async fn look(&self, link: &Link, rules: &Rules, names: &Names<'_>) -> Result<Vec<Look>, LinkError> {
        let Some(question) = Question::new(&self.keyspace, names, rules) else { return Ok(Vec::new()) };
        let ended = self.leases.take_ended(&question.leases);
        let answer = link.ask(&question, Purpose::Look, &ended, self.timing()).await?;
        let looks = read_look(answer, rules, &question.caps, self.keyspace.tick);
        looks.map_err(|error| LinkError::Strange(error.to_string()))
    }

    /// The connection, unless Redis cannot be asked.
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.link.load_full()
    }

    pub(super) fn timing(&self) -> Timing {
        let tick = self.keyspace.tick;
        let now = self.told_clock.as_ref().map(|clock| clock.delta_as_nanos(0, clock.raw()) / tick);
        let lease = u64::try_from(leases::LASTS.as_nanos()).unwrap_or(u64::MAX) / tick;
        Timing { now, lease }
    }

    /// Takes note of a question without an answer.
    pub(super) fn failed(&self, link: &Arc<Link>, error: &LinkError) {
        if !error.is_an_outage() {
            let before = self.strange.fetch_add(1, Relaxed);
            // Not a line for every call.
            if before.is_power_of_two() || before == 0 {
                tracing::error!(%error, times = before + 1, "Redis did not decide about a call; it was decided here");
            }
            return;
        }
        let current = self.link.compare_and_swap(link, None);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            self.outages.fetch_add(1, Relaxed);
            tracing::warn!(%error, "Redis cannot be asked: limits are enforced by this instance alone, as on_outage says");
            self.lost.notify_one();
        }
    }

    /// The same for several.
    pub(super) fn look_at<T>(&self, link: &Arc<Link>, answers: impl IntoIterator<Item = Result<T, LinkError>>) {
        answers.into_iter().filter_map(Result::err).for_each(|error| self.failed(link, &error));
    }

    /// Redis can be asked from now on.
    pub(super) fn found(&self, link: Link) {
        self.link.store(Some(Arc::new(link)));
        tracing::info!("limits are shared with all instances through Redis");
    }

    /// Redis no longer knows what was admitted before.
    pub(super) fn forgotten(&self) {
        tracing::warn!(
            "Redis has lost its counters: strict windows are enforced by each instance for its share as well, for one window"
        );
        self.forgotten_at.store(self.clock.raw().max(1), Relaxed);
    }

    /// The name of a key that holds no state of limits.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.keyspace.prefix)
    }

    /// Tells how many instances there are, and which of them this is.
    pub(crate) fn set_share(&self, share: Share) {
        if self.share.load().as_deref() != Some(&share) {
            self.share.store(Some(Arc::new(share)));
        }
    }

    pub(crate) fn is_degraded(&self) -> bool {
        self.link.load().is_none()
    }

    /// How often Redis could not be asked any more.
    pub(crate) fn outages(&self) -> u64 {
        self.outages.load(Relaxed)
    }
}

fn report(rules: &Rules, look: Look) -> RuleReport {
    let (scope, limit, mode) = rules.rule(look.rule);
    let (allowed, refuses, wait) = match (look.rule, limit) {
        (RuleRef::Cap(index), _) => {
            let allowed = u64::from(rules.slots(index));
            (allowed, look.used >= allowed, None)
        }
        (RuleRef::Rate(_), Limit::Rate(rate)) => {
            (rate.capacity(), look.wait > 0, (look.wait > 0).then_some(Wait::exact(look.wait)))
        }
        (RuleRef::Rate(_), Limit::Concurrency(_)) => (0, false, None),
    };
    let Look { rule, used, .. } = look;
    RuleReport { rule, scope, limit, mode, used, remaining: allowed.saturating_sub(used), refuses, wait }
}

/// Of a limit that this instance has no share of, or that the cost of a call never fits in.
fn nothing_left(rules: &Rules, rule: RuleRef) -> RuleReport {
    let (scope, limit, mode) = rules.rule(rule);
    RuleReport { rule, scope, limit, mode, used: 0, remaining: 0, refuses: true, wait: None }
}
