//! What a tool cannot return.
use sluicegate::prelude::*;

struct Plain;

#[tool]
async fn plain() -> Plain {
    Plain
}

#[tool]
async fn not_serializable() -> Json<Plain> {
    Json(Plain)
}

#[tools]
impl Plain {
    #[tool]
    async fn borrowed(&self) -> &str {
        "text"
    }
}

#[tool]
async fn opaque() -> impl std::fmt::Display {
    1
}

fn main() {}
