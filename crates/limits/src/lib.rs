//! The limits of Sluicegate: how they are written, how they count, and how a call is admitted by all of them or none.
//!
//! The crate is pure: it knows no runtime and does no I/O, and its clock is given to it. The server compiles its policy
//! into [`Rules`], asks a [`Limiter`] about every call, and renders the answer.
//!
//! # Writing limits
//!
//! A [`Quota`] is a count per window, a [`RateLimit`] adds the [`Algorithm`] and the burst, a [`Concurrency`] is a number
//! of calls at a time. Configuration, database, API and attributes all use these parsers, and their errors say which part
//! is wrong and what to write instead.
//!
//! ```
//! use sluicegate_limits::{Algorithm, Quota, RateLimit};
//!
//! let quota: Quota = "100/min".parse()?;
//! let limit = RateLimit::new(quota, Some(20), Algorithm::TokenBucket)?;
//! assert_eq!(limit.describe_worst_case(), "up to 120 in any 60s");
//!
//! let error = "100/mn".parse::<Quota>().unwrap_err();
//! assert_eq!(error.to_string(), "unknown unit `mn` in `100/mn`: use ms, s, min, h or d (did you mean `min`?)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Admitting a call
//!
//! Names become ids once, when a caller is identified; a [`Call`] carries only ids, so no text is hashed on its way. All
//! rules of the call are asked first. If any refuses, nothing is charged and the [`Refusal`] says which limit it was, how
//! it stands and how long to wait; otherwise all are charged and the [`Admission`] holds the [`Permit`] of the work.
//!
//! ```
//! use sluicegate_limits::{
//!     Algorithm, Call, CapRule, Limiter, LimiterOptions, Mode, Place, Priority, RateLimit, RateRule, Rules, Scope,
//!     TenantIdentity,
//! };
//!
//! let tool_limit = RateLimit::new("2/min".parse()?, None, Algorithm::TokenBucket)?;
//! let rules = Rules::new(
//!     vec![RateRule { scope: Scope::Tool, place: Place::AgentTool, ordinal: 0, limit: tool_limit, mode: Mode::Enforce }],
//!     vec![CapRule { scope: Scope::Tenant, place: Place::Tenant, cap: "8".parse()?, mode: Mode::Enforce }],
//!     1,
//!     Priority::Normal,
//!     false,
//! )?;
//!
//! let (clock, mock) = quanta::Clock::mock();
//! let limiter = Limiter::new(clock, LimiterOptions::default());
//! let acme = limiter.tenant(TenantIdentity::Named("acme"));
//! let call = Call {
//!     rules: &rules,
//!     tenant: &acme,
//!     agent: acme.agent("u-42"),
//!     key: None,
//!     tool: limiter.tool("export"),
//! };
//!
//! let admission = limiter.admit(&call)?;
//! assert_eq!(admission.nearest.map(|nearest| nearest.remaining), Some(1));
//! drop(limiter.admit(&call)?);
//!
//! let refusal = limiter.admit(&call).unwrap_err();
//! assert_eq!(refusal.scope(), Scope::Tool);
//! assert_eq!(refusal.limit().to_string(), "2 requests / 60s");
//! let wait = refusal.wait().expect("waiting helps");
//! assert_eq!(wait.retry_after_seconds(), 30);
//!
//! mock.increment(wait.as_duration());
//! assert!(limiter.admit(&call).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds
//!
//! * A [sliding window](Algorithm::SlidingWindow) never lets more than its count through in any trailing window. Up to
//!   1 000 calls it is exact; above that it counts in sixtieths of the window and admits at worst a sixtieth fewer.
//! * A [token bucket](Algorithm::TokenBucket) lets at most its burst and its quota through in any window.
//! * Who waits exactly as long as told, alone, is admitted.
//! * State belongs to its [`Place`] and ids, never to numbers. Changed numbers meet the state that is there with the first
//!   call after the change: nobody's bucket is refilled, nobody is locked out. What is in use stays in use, also where the
//!   algorithm changes; a bucket that is lowered is full at most.
//! * Lowering a limit for a while forgives nothing. What a lower limit cuts off, be it by rate, burst, window or algorithm,
//!   decides nothing while it holds, but is kept and charged beside it; when the limit is widened again, the larger of the
//!   two counts. Whatever the sequence of limits, no more pass than the widest of them would have let through by itself.
//! * Several rates may lie in one place, told apart by [ordinals](RateRule::ordinal). When such a list is edited, a rate
//!   keeps the state that was made for its window, under whatever ordinal, and a rate whose window is new starts as used as
//!   the most used of the place. A quota that is dropped is forgotten.
//! * All rates are asked, also when one has refused: the wait is the longest of all, and waiting it out is enough.
//! * Tenants share nothing but the server's own limits. Callers without a tenant are
//!   [apart from every tenant](TenantIdentity::Untenanted).
//! * A server-wide rate may be handed out in [fair shares](LimiterOptions::fair_share) when more is asked of it than it has.
//! * Memory is bounded by [`LimiterOptions`]: idle state is dropped once it cannot be told from none, in steps of 64 keys;
//!   invented names end up sharing one state per limit.
//!
//! # Not here
//!
//! Limits over several instances live with the server, behind the same answers; [`StateKey`] gives them keys.

mod cell;
mod choice;
mod fair;
mod identity;
mod key;
mod keyed;
mod limiter;
mod lock;
mod outcome;
mod permit;
mod quota;
mod rate_limit;
mod rules;
mod table;
mod tools;
mod wait;

pub use self::{
    choice::{Algorithm, ChoiceError, Mode, OnOutage, Per, Priority, Scope},
    identity::{AgentId, KeyId, ToolId},
    key::{StateKey, TenantIdentity},
    limiter::{Call, Limiter, LimiterOptions, TenantHandle, Turn, TurnOutcome},
    outcome::{Admission, Reason, Refusal, RefusedRule, RuleReport, Standing},
    permit::Permit,
    quota::{Quota, QuotaError, QuotaErrorKind, Quotas},
    rate_limit::{Concurrency, Limit, LimitError, RateLimit},
    rules::{CapRule, Place, RateRule, RuleRef, RuleSet, Rules, RulesError},
    wait::Wait,
};
