//! The limits of Sluicegate.

mod cell;
mod choice;
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
    choice::{Algorithm, ChoiceError, Mode, Per, Priority, Scope},
    identity::{AgentId, KeyId, ToolId},
    key::{StateKey, TenantIdentity},
    limiter::{Call, Limiter, LimiterOptions, TenantHandle},
    outcome::{Admission, Reason, Refusal, RuleReport, Standing},
    permit::Permit,
    quota::{Quota, QuotaError, QuotaErrorKind, Quotas},
    rate_limit::{Concurrency, Limit, LimitError, RateLimit},
    rules::{CapRule, Place, RateRule, RuleRef, RuleSet, Rules, RulesError},
    wait::Wait,
};
