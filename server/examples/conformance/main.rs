//! What the official conformance suite demands of a server, behind the gate: see scripts/check-conformance.
//!
//! The suite sends no credentials, so callers are anonymous (`SLUICEGATE_AUTH=none`), and legacy peers get sessions
//! (`SLUICEGATE_SESSIONS=memory`). Tools are written with our own means, in the order in which one learns them:
//! [`tools`], [`asking`]; what belongs to an rmcp handler is in [`handler`].

use std::process::ExitCode;

use sluicegate::Server;

mod asking;
mod handler;
mod listeners;
mod tasks;
mod tools;

fn main() -> ExitCode {
    let listeners = listeners::Listeners::default();
    let folder = std::env::temp_dir().join(format!("sluicegate-conformance-{}", std::process::id()));
    Server::new("conformance")
        .default_data(folder)
        .tools(tools::Tools)
        .tools(asking::Asking)
        .tools(listeners.clone())
        .add_tool(tools::json_schema_2020_12())
        .rmcp(handler::Handler::new(listeners))
        .run()
}
