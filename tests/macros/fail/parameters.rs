//! Parameters that are neither an argument nor made from the call.
use sluicegate::prelude::*;

struct Plain;

#[derive(schemars::JsonSchema)]
struct OnlySchema(u8);

#[tool]
async fn neither(_fine: String, _plain: Plain) {}

#[tool]
async fn half(_half: OnlySchema) {}

#[tool]
async fn params(_all: Params<Plain>) {}

#[tool]
async fn pattern((_a, _b): (u8, u8)) {}

#[tool]
async fn borrowed(_text: &str) {}

#[tool]
async fn unnamed(_text: impl Into<String>) {}

fn main() {}
