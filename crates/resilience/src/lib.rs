//! Calls that behave well.

mod backoff;
mod breaker;
mod budget;
#[cfg(feature = "client")]
mod caller;
mod clock;
mod error;
pub mod meta_key;
mod options;
mod pace;
mod quota;
mod random;
mod retry;
mod retry_after;
#[cfg(feature = "tools")]
mod tools;
mod upstream;

pub use crate::backoff::Backoff;
pub use crate::breaker::{BreakerOptions, BreakerState, CircuitBreaker, CircuitOpen, FailureRate, Pass};
pub use crate::budget::{BudgetOptions, RetryBudget};
pub use crate::clock::WallClock;
pub use crate::error::{UpstreamError, UpstreamErrorKind};
pub use crate::options::OptionsError;
pub use crate::pace::WhenFull;
pub use crate::quota::Quota;
pub use crate::random::Random;
pub use crate::retry::{GaveUp, Repeat, Retry, RetryOptions, Verdict};
pub use crate::retry_after::RetryAfter;
pub use crate::upstream::{CallOptions, Failure, Upstream, UpstreamOptions};

#[cfg(feature = "client")]
pub use crate::caller::{
    CallerOptions, McpCaller, ToolCallOptions,
    refusal::{LastAnswer, McpCallError, McpRefusal, RefusalScope},
};
pub use {crate::upstream::http::UpstreamRequest, reqwest, reqwest_middleware};
