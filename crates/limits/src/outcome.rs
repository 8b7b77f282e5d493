//! What admission answers.

use thiserror::Error;

use crate::{Limit, Mode, Permit, RuleRef, RuleSet, Rules, Scope, Wait};

/// A call that was let through.
#[derive(Debug)]
#[must_use = "dropping an admission gives its permit back"]
pub struct Admission {
    /// The slots of the call; hold it for as long as the work and its response last.
    pub permit: Permit,
    /// The enforced rate limit with the least left, as it stands after this call.
    pub nearest: Option<Standing>,
    /// The limits in [`Mode::Observe`] that would have refused this call. As if they had refused it, they did not count it.
    pub would_throttle: RuleSet,
}

/// How a rate limit stands for one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Which rule.
    pub rule: RuleRef,
    /// Its capacity: the burst of a bucket, the count of a window.
    pub limit: u64,
    /// How much of it is in use.
    pub used: u64,
    /// How much of it is left.
    pub remaining: u64,
    /// When the first of what is in use comes back; never later than the `retry_after` of a refusal by the same limit, and
    /// never longer than the window.
    pub reset: Wait,
}

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Too many calls in too short a time.
    RateLimit,
    /// Too many calls at a time.
    Concurrency,
    /// The call costs more than a limit can ever hold: waiting does not help.
    CostAboveCapacity,
}

/// A call that was refused: by which limit, how that limit stands, and how long to wait.
///
/// When several limits refused, the answer is the one with the longest wait, and [`Refusal::refused`] has all of them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("refused by the limit of {limit} for this {scope}")]
pub struct Refusal {
    pub(crate) rule: RuleRef,
    pub(crate) scope: Scope,
    pub(crate) reason: Reason,
    pub(crate) limit: Limit,
    pub(crate) used: u64,
    pub(crate) remaining: u64,
    pub(crate) wait: Option<Wait>,
    pub(crate) refused: RuleSet,
    pub(crate) would_throttle: RuleSet,
}

/// A rule that refuses a call, as an engine outside this process says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedRule {
    /// Which rule.
    pub rule: RuleRef,
    /// How much of it is in use, without the call.
    pub used: u64,
    /// How long until the call would pass; `None` when it never would, since it costs more than the rule allows.
    pub wait: Option<Wait>,
}

impl Refusal {
    /// The refusal of a call by `first` and `others`, which were decided elsewhere. Of equal waits the first is the answer.
    ///
    /// # Panics
    ///
    /// When a rule is not one of `rules`.
    #[must_use]
    pub fn by(rules: &Rules, first: RefusedRule, others: &[RefusedRule], would_throttle: RuleSet) -> Self {
        // No wait at all is the longest of all.
        let length = |refused: &RefusedRule| refused.wait.map_or(u64::MAX, Wait::as_nanos);
        let worst = others.iter().copied().fold(first, |a, b| if length(&b) > length(&a) { b } else { a });
        let refused = others.iter().fold(RuleSet::default().with(first.rule), |all, other| all.with(other.rule));
        let (scope, limit, _) = rules.rule(worst.rule);
        let (reason, allowed) = match (worst.rule, worst.wait) {
            (RuleRef::Cap(index), _) => (Reason::Concurrency, rules.slots(index).into()),
            (RuleRef::Rate(index), Some(_)) => (Reason::RateLimit, rules.rates()[usize::from(index)].limit.capacity()),
            (RuleRef::Rate(index), None) => {
                (Reason::CostAboveCapacity, rules.rates()[usize::from(index)].limit.capacity())
            }
        };
        Self {
            rule: worst.rule,
            scope,
            reason,
            limit,
            used: worst.used,
            remaining: allowed.saturating_sub(worst.used),
            wait: worst.wait,
            refused,
            would_throttle,
        }
    }

    /// Whose limit refused. Only for [`Scope::Tool`] may other tools still work.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The rule that refused.
    #[must_use]
    pub fn rule(&self) -> RuleRef {
        self.rule
    }

    /// The limit of that rule.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// How much of that limit is in use, without this call.
    #[must_use]
    pub fn current_usage(&self) -> u64 {
        self.used
    }

    /// How much of it is left; above 0 only when the call costs more than that.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// How long to wait, or `None` when waiting does not help ([`Reason::CostAboveCapacity`]).
    #[must_use]
    pub fn wait(&self) -> Option<Wait> {
        self.wait
    }

    /// Every enforced rule that refused.
    #[must_use]
    pub fn refused(&self) -> RuleSet {
        self.refused
    }

    /// Every observed rule that would have refused.
    #[must_use]
    pub fn would_throttle(&self) -> RuleSet {
        self.would_throttle
    }
}

/// How one rule stands for one caller; see [`Limiter::inspect`](crate::Limiter::inspect).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleReport {
    /// Which rule.
    pub rule: RuleRef,
    /// The scope of the rule.
    pub scope: Scope,
    /// The numbers of the rule.
    pub limit: Limit,
    /// Whether it refuses or only watches.
    pub mode: Mode,
    /// How much is in use now.
    pub used: u64,
    /// How much is left now.
    pub remaining: u64,
    /// Whether this rule would refuse the call now.
    pub refuses: bool,
    /// How long it would ask to wait, if it would refuse and waiting helps.
    pub wait: Option<Wait>,
}
