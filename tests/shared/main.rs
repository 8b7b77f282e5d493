//! Shared limits: what is proven of the limits of one process holds for those of several as well, decided by Redis.
//!
//! The proofs are those of `crates/limits`, word for word; only their world is another one. Redis is told the time.

mod clock;
#[path = "../../crates/limits/tests/proofs/identities.rs"]
mod identities;
#[path = "../../crates/limits/tests/proofs/lists.rs"]
mod lists;
#[path = "../../crates/limits/tests/proofs/lowering.rs"]
mod lowering;
#[path = "../../crates/limits/tests/proofs/model.rs"]
mod model;
#[path = "../../crates/limits/tests/proofs/races.rs"]
mod races;
#[path = "../../crates/limits/tests/proofs/tenants.rs"]
mod tenants;
#[path = "../../crates/limits/tests/proofs/waiting.rs"]
mod waiting;
#[path = "../../crates/limits/tests/proofs/windows.rs"]
mod windows;
mod world;
#[path = "../../crates/limits/tests/proofs/writing.rs"]
mod writing;
