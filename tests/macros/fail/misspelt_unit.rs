use sluicegate::prelude::*;

#[tool(rate_limit = "100/mn")]
async fn export() {}

fn main() {}
