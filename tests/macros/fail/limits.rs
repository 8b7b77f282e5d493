//! Values of the right kind that make no limit.
use sluicegate::prelude::*;

#[tool(rate_limit = "5/min", burst = 0)]
async fn empty_bucket() {}

#[tool(rate_limit = ["100/min", "5/s"], cost = 6)]
async fn cost_above_the_smallest() {}

#[tool(rate_limit = "5/min", burst = 20, cost = 20)]
async fn cost_within_the_burst() {}

#[tool(rate_limit = "5/min", burst = 5, algorithm = "sliding_window")]
async fn window_with_a_burst() {}

#[tool(algorithm = "tokenbucket", rate_limit = "5/min")]
async fn misspelt_word() {}

#[tool(burst = 5)]
async fn burst_of_nothing() {}

#[tool(concurrency = 0)]
async fn never() {}

#[tool(cost = -1)]
async fn negative() {}

#[tool(timeout = "30sek")]
async fn misspelt_unit() {}

#[tool(timeout = "1/s")]
async fn no_duration() {}

#[tool(per = "agents", priority = "urgent")]
async fn misspelt_words() {}

#[tool(scopes = ["reports write", ""])]
async fn bad_scopes() {}

#[tool(rate_limit = [])]
async fn no_rates() {}

fn main() {}
