//! Unknown and repeated keys, and values of the wrong kind.
use sluicegate::prelude::*;

#[tool(ratelimit = "5/min")]
async fn unknown() {}

#[tool(entirely_different = 1)]
async fn far_from_any() {}

#[tool(cost = 1, cost = 2)]
async fn repeated() {}

#[tool(rate_limit = 100)]
async fn number_for_text() {}

#[tool(concurrency = "4")]
async fn text_for_number() {}

#[tool(validate)]
async fn no_value() {}

#[tool(validate = "yes")]
async fn text_for_flag() {}

#[tool(rate_limit "5/min")]
async fn no_equals_sign() {}

#[tool(scopes = "reports:write")]
async fn text_for_list() {}

fn main() {}
