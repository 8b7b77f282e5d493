//! The names under which a Sluicegate server and its callers put things into `_meta`.

/// In a request: the number of the attempt, from 1 on.
pub const ATTEMPT: &str = "sluicegate/attempt";

/// In a request: text that is the same in all attempts of one call and different in every other.
pub const IDEMPOTENCY_KEY: &str = "sluicegate/idempotencyKey";

/// In a tool result: why the call was refused. It has not run.
pub const REFUSAL: &str = "sluicegate/refusal";
