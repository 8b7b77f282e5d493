//! Functions that cannot be tools.

use sluicegate::prelude::*;

#[tool]
fn not_async() {}

#[tool]
async fn generic<T>(_value: T) {}

#[tool]
async unsafe fn dangerous() {}

#[tool(rate_limit = "5/min")]
struct NoFunction;

struct Reports;

#[tools]
impl Reports {
    #[tool]
    async fn exclusive(&mut self) {}

    #[tool]
    async fn consuming(self) {}

    #[tool]
    async fn boxed(self: Box<Self>) {}

    #[tool]
    fn not_async(&self) {}

    #[tool]
    async fn twice(&self) {}

    #[tool(name = "twice")]
    async fn once(&self) {}

    #[tool = "5/min"]
    async fn no_parentheses(&self) {}

    #[tool(crate = "sluicegate")]
    async fn facade(&self) {}
}

#[tools]
impl Drop for Reports {
    fn drop(&mut self) {}
}

struct Empty;

#[tools(prefix = "empty")]
impl Empty {
    async fn no_tool(&self) {}
}

struct Alone;

impl Alone {
    #[tool]
    async fn method(&self) {}
}

fn main() {}
