//! A mistake in the body is reported there, and only there.
use sluicegate::prelude::*;

#[tool]
async fn wrong(n: u8) -> String {
    n
}

fn main() {}
