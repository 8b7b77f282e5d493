//! What the control plane promises, on both databases.
//!
//! Every test of a store runs on SQLite, in a file of its own, and on Postgres, in a
//! database of its own, when `SLUICEGATE_TEST_POSTGRES` has the address of a server on
//! which databases may be created (`postgres://postgres@127.0.0.1:5432/postgres`).

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod admins;
mod agents;
mod alerts;
mod audit;
mod events;
mod harness;
mod instances;
mod keys;
mod limits;
mod migrations;
mod permissions;
mod plans;
mod policy;
mod portability;
mod previews;
mod query_plans;
mod tenants;
mod tools;
mod transfer;
mod usage;
mod watch;
