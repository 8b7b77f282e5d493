//! What must be proven of the limits, each on injected time; one module for each proof.

mod fair_share;
mod identities;
mod lists;
mod lowering;
mod model;
mod permits;
mod races;
mod tenants;
mod waiting;
mod windows;
mod world;
mod writing;
