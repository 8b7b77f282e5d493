//! A server as users write one, for tests that need processes: the test tools with the command line of `Server::run`.

use std::process::ExitCode;

use sluicegate::Server;
use sluicegate_tests::recorder::Recorder;
use sluicegate_tests::tools::{Ran, TestTools};

fn main() -> ExitCode {
    Server::new("testbed").tools(TestTools(Ran::default())).tools(Recorder).run()
}
