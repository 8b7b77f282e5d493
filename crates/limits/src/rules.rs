//! The limits that hold for one sort of call, compiled for the admission path.

mod compiled;

use thiserror::Error;

pub(crate) use self::compiled::{CompiledCap, CompiledRate, Identity, Kind, place_of_slots, slot_key};
use crate::{Concurrency, Limit, LimitError, Mode, Priority, RateLimit, Scope};

/// Whose state a rule counts in.
///
/// A rule's state is identified by its place, the ids that the place names and the rule's ordinal; never by the numbers
/// of the limit, so that changed numbers meet the state that is already there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Place {
    /// One for the whole server.
    Server,
    /// One per tool, shared by all tenants (`per = "server"`).
    ServerTool,
    /// One per tenant.
    Tenant,
    /// One per tenant and tool (`per = "tenant"`).
    TenantTool,
    /// One per tenant and agent.
    Agent,
    /// One per tenant, agent and API key. A call made without a key counts under the agent itself.
    AgentKey,
    /// One per tenant, agent and tool.
    AgentTool,
    /// One per tenant and agent, for all requests that are not tool calls.
    AgentRequests,
}

impl Place {
    /// Every place there is, the widest first.
    ///
    /// ```
    /// use sluicegate_limits::Place;
    ///
    /// assert!(Place::ALL.starts_with(&[Place::Server, Place::ServerTool]));
    /// ```
    pub const ALL: [Self; 8] = [
        Self::Server,
        Self::ServerTool,
        Self::Tenant,
        Self::TenantTool,
        Self::Agent,
        Self::AgentKey,
        Self::AgentTool,
        Self::AgentRequests,
    ];

    /// Whether the state is outside every tenant.
    #[must_use]
    pub const fn is_server_wide(self) -> bool {
        matches!(self, Self::Server | Self::ServerTool)
    }

    /// The scope that the place belongs to.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::Server => Scope::Server,
            Self::Tenant => Scope::Tenant,
            Self::Agent | Self::AgentKey | Self::AgentRequests => Scope::Agent,
            Self::ServerTool | Self::TenantTool | Self::AgentTool => Scope::Tool,
        }
    }

    /// Whether calls of tools with different priorities meet here.
    const fn is_shared_by_tools(self) -> bool {
        matches!(self, Self::Server | Self::Tenant | Self::Agent | Self::AgentKey)
    }
}

/// A rate limit in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateRule {
    /// The scope that a refused caller is told.
    pub scope: Scope,
    /// Whose state counts.
    pub place: Place,
    /// Tells the rates of one place apart, below [`Rules::MAX_ORDINALS`]. When it meets a state that was made for another
    /// length of window, the states of the place are dealt out anew: by the length of the window first, and a rate whose
    /// window is new starts as used as the most used of them.
    pub ordinal: u8,
    /// The numbers.
    pub limit: RateLimit,
    /// Refuse, or only watch.
    pub mode: Mode,
}

/// A concurrency cap in its place; there is at most one in each, and one more in the other [`Mode`].
///
/// An observed cap beside an enforced one looks at the same slots; a call takes one slot, not two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapRule {
    /// The scope that a refused caller is told.
    pub scope: Scope,
    /// Whose slots count.
    pub place: Place,
    /// The number of slots.
    pub cap: Concurrency,
    /// Refuse, or only watch.
    pub mode: Mode,
}

/// A rule of a [`Rules`], by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleRef {
    /// `rules.rates()[i]`.
    Rate(u8),
    /// `rules.caps()[i]`.
    Cap(u8),
}

/// A set of rules of one [`Rules`].
///
/// ```
/// use sluicegate_limits::{RuleRef, RuleSet};
///
/// let set = RuleSet::default().with(RuleRef::Cap(0)).with(RuleRef::Rate(2));
/// assert_eq!(set.iter().collect::<Vec<_>>(), [RuleRef::Rate(2), RuleRef::Cap(0)]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct RuleSet([u64; 2]);

impl RuleSet {
    const CAPS_FROM: u8 = Rules::MAX_RATES as u8;

    /// The rules of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// The set with `rule` in it.
    #[must_use]
    pub const fn with(self, rule: RuleRef) -> Self {
        let bit = match rule {
            RuleRef::Rate(i) => i,
            RuleRef::Cap(i) => Self::CAPS_FROM + i,
        };
        let Self(mut words) = self;
        words[(bit / 64) as usize] |= 1 << (bit % 64);
        Self(words)
    }

    /// Whether no rule is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0[0] | self.0[1] == 0
    }

    /// How many rules are in it.
    #[must_use]
    pub const fn len(self) -> usize {
        (self.0[0].count_ones() + self.0[1].count_ones()) as usize
    }

    /// Whether `rule` is in it.
    #[must_use]
    pub const fn contains(self, rule: RuleRef) -> bool {
        let Self(with) = self.with(rule);
        with[0] == self.0[0] && with[1] == self.0[1]
    }

    /// The rules in it: rates in order, then caps in order.
    pub fn iter(self) -> impl Iterator<Item = RuleRef> {
        let rates = (0..Self::CAPS_FROM).map(RuleRef::Rate);
        let caps = (0..Rules::MAX_CAPS as u8).map(RuleRef::Cap);
        rates.chain(caps).filter(move |rule| self.contains(*rule))
    }
}

/// Rules that cannot hold together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RulesError {
    /// More rates than fit.
    #[error("{0} rate rules for one call: at most {max}", max = Rules::MAX_RATES)]
    TooManyRates(usize),
    /// An ordinal out of range.
    #[error("ordinal {ordinal} of a rate rule at {place:?}: below {max}", max = Rules::MAX_ORDINALS)]
    OrdinalTooLarge {
        /// Where.
        place: Place,
        /// The ordinal.
        ordinal: u8,
    },
    /// Two rates that would count in the same state.
    #[error("two rate rules at {place:?} with ordinal {ordinal}: they would share one state")]
    DuplicateRate {
        /// Where.
        place: Place,
        /// The ordinal.
        ordinal: u8,
    },
    /// Two caps of one mode in one place.
    #[error("two concurrency caps at {0:?}: keep the lower one")]
    DuplicateCap(Place),
    /// A call that costs nothing.
    #[error(transparent)]
    Cost(#[from] LimitError),
}

/// Everything that limits one sort of call: immutable, shared, compiled once per policy snapshot.
///
/// `cost` is what one call takes from every rate. When `reserve` is set (the server has a tool of high priority), the
/// caps that tools share (server, tenant, agent, API key) keep slots back: calls of [`Priority::Low`] may use 80 % of such a
/// cap, [`Priority::Normal`] 95 %, both rounded up, [`Priority::High`] all of it.
///
/// ```
/// use sluicegate_limits::{Algorithm, Mode, Place, Priority, RateLimit, RateRule, Rules, Scope};
///
/// let limit = RateLimit::new("100/min".parse()?, None, Algorithm::TokenBucket)?;
/// let rule = RateRule { scope: Scope::Tool, place: Place::AgentTool, ordinal: 0, limit, mode: Mode::Enforce };
/// let rules = Rules::new(vec![rule], vec![], 1, Priority::Normal, false)?;
/// assert_eq!(rules.rates()[0].limit, limit);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Rules {
    rates: Box<[RateRule]>,
    caps: Box<[CapRule]>,
    cost: u32,
    priority: Priority,
    reserve: bool,
    pub(crate) compiled: compiled::Compiled,
}

impl Rules {
    /// The most rates that one call can have: as many as the tenant's places hold.
    pub const MAX_RATES: usize = 96;
    /// The most rates that one place can have.
    pub const MAX_ORDINALS: u8 = 16;
    /// The ordinals from here on are for rates in [`Mode::Observe`] that stand beside enforced ones in the same place. No
    /// enforced rate ever takes over what was counted there.
    pub const OBSERVED_ORDINALS: u8 = 8;
    /// The most caps that one call can have: one in each place and [`Mode`].
    pub const MAX_CAPS: usize = 16;

    /// Compiles the rules of one sort of call.
    ///
    /// A `cost` above a limit's capacity is not an error here, since an operator may lower a limit at any time: such calls
    /// are refused with [`Reason::CostAboveCapacity`](crate::Reason::CostAboveCapacity).
    ///
    /// # Errors
    ///
    /// When there are too many rules, two of them would share one state, or the cost is 0.
    pub fn new(
        rates: Vec<RateRule>,
        caps: Vec<CapRule>,
        cost: u32,
        priority: Priority,
        reserve: bool,
    ) -> Result<Self, RulesError> {
        if rates.len() > Self::MAX_RATES {
            return Err(RulesError::TooManyRates(rates.len()));
        }
        if cost == 0 {
            return Err(LimitError::CostZero.into());
        }
        for (i, rule) in rates.iter().enumerate() {
            let RateRule { place, ordinal, .. } = *rule;
            if ordinal >= Self::MAX_ORDINALS {
                return Err(RulesError::OrdinalTooLarge { place, ordinal });
            }
            if rates[..i].iter().any(|other| (other.place, other.ordinal) == (place, ordinal)) {
                return Err(RulesError::DuplicateRate { place, ordinal });
            }
        }
        for (i, rule) in caps.iter().enumerate() {
            if caps[..i].iter().any(|other| (other.place, other.mode) == (rule.place, rule.mode)) {
                return Err(RulesError::DuplicateCap(rule.place));
            }
        }
        let compiled = {
            let (rates, caps) = ((0..).zip(rates.iter().copied()), (0..).zip(caps.iter().copied()));
            compiled::Compiled::new(rates, caps, cost, priority, reserve)
        };
        Ok(Self { rates: rates.into(), caps: caps.into(), cost, priority, reserve, compiled })
    }

    /// What a limiter decides of these rules where somebody else decides the rest: those that `rate` and `cap` give numbers
    /// for. A rule keeps its place in the list, and a refusal names the limit that the rule has here.
    ///
    /// ```
    /// use sluicegate_limits::{Algorithm, Mode, Place, Priority, RateLimit, RateRule, Rules, Scope};
    ///
    /// let limit = RateLimit::new("90/min".parse()?, None, Algorithm::SlidingWindow)?;
    /// let rule = RateRule { scope: Scope::Tenant, place: Place::Tenant, ordinal: 0, limit, mode: Mode::Enforce };
    /// let rules = Rules::new(vec![rule], vec![], 1, Priority::Normal, false)?;
    /// let a_third = RateLimit::new("30/min".parse()?, None, Algorithm::SlidingWindow)?;
    /// let part = rules.part(|_| Some(a_third), |_| None);
    /// assert_eq!(part.rates(), rules.rates());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn part(
        &self,
        rate: impl Fn(&RateRule) -> Option<RateLimit>,
        cap: impl Fn(&CapRule) -> Option<Concurrency>,
    ) -> Self {
        let rates = (0..).zip(&self.rates);
        let rates = rates.filter_map(|(index, rule)| Some((index, RateRule { limit: rate(rule)?, ..*rule })));
        let caps = (0..).zip(&self.caps);
        let caps = caps.filter_map(|(index, rule)| Some((index, CapRule { cap: cap(rule)?, ..*rule })));
        let compiled = compiled::Compiled::new(rates, caps, self.cost, self.priority, self.reserve);
        Self { compiled, ..self.clone() }
    }

    /// How many slots of a cap calls of these rules may use: fewer than there are where some are kept back.
    ///
    /// # Panics
    ///
    /// When there is no such cap.
    #[must_use]
    pub fn slots(&self, cap: u8) -> u32 {
        compiled::slots(&self.caps[usize::from(cap)], self.priority, self.reserve)
    }

    /// The rates, in the order given.
    #[must_use]
    pub fn rates(&self) -> &[RateRule] {
        &self.rates
    }

    /// The caps, in the order given.
    #[must_use]
    pub fn caps(&self) -> &[CapRule] {
        &self.caps
    }

    /// The rate over all tenants that they get shares of: the lowest that is enforced. See
    /// [`LimiterOptions::fair_share`](crate::LimiterOptions::fair_share).
    #[must_use]
    pub fn ceiling(&self) -> Option<&RateRule> {
        let ceiling = self.compiled.ceiling.as_ref()?;
        self.rates.get(usize::from(self.compiled.server_rates[ceiling.at].index))
    }

    /// What one call takes from every rate.
    #[must_use]
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// The priority of the calls.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Whether slots are kept back for calls of higher priority.
    #[must_use]
    pub fn reserves(&self) -> bool {
        self.reserve
    }

    /// The scope, the limit and the mode of a rule.
    ///
    /// # Panics
    ///
    /// When the reference came from other rules and points past the end of these.
    #[must_use]
    pub fn rule(&self, rule: RuleRef) -> (Scope, Limit, Mode) {
        match rule {
            RuleRef::Rate(i) => {
                let rule = &self.rates[usize::from(i)];
                (rule.scope, Limit::Rate(rule.limit), rule.mode)
            }
            RuleRef::Cap(i) => {
                let rule = &self.caps[usize::from(i)];
                (rule.scope, Limit::Concurrency(rule.cap), rule.mode)
            }
        }
    }
}

#[cfg(test)]
mod tests;
