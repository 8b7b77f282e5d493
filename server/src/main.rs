//! The `sluicegate` command: the operator's tool for any server's database, and a demonstration server.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate::Server::new("sluicegate").with_demo(quickstart::register).run()
}

#[path = "../examples/quickstart/tools.rs"]
mod quickstart;
