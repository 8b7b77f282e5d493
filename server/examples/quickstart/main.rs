//! Two tenants, three tools, a limit on each: `cargo run --example quickstart`, then copy the lines that it prints.
//!
//! With `-- --demo` ten simulated agents call as well, so that the panel has something to show.
//!
//! The database is in a fresh folder, or in the one that `--data DIR` names; `SLUICEGATE_BIND` chooses the address.

use std::process::ExitCode;

use sluicegate::Server;

mod demo;
mod tools;

fn main() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("sluicegate-quickstart-{}", std::process::id()));
    tools::register(Server::new("quickstart").default_data(folder)).with_demo(demo::add_agents).run()
}
