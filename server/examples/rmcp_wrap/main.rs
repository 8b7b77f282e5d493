//! A greeter, as anybody writes a server with rmcp.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};
use sluicegate::Server;

/// Whom to greet.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Guest {
    name: String,
}

/// Knows how to greet.
#[derive(Clone)]
pub struct Greeter;

#[tool_router(server_handler)]
impl Greeter {
    #[tool(description = "Greet a guest by name.")]
    async fn greet(&self, Parameters(Guest { name }): Parameters<Guest>) -> String {
        format!("Hello, {name}!")
    }

    #[tool(description = "See a guest off.")]
    async fn see_off(&self, Parameters(Guest { name }): Parameters<Guest>) -> String {
        format!("Good night, {name}.")
    }
}

fn main() -> std::process::ExitCode {
    Server::new("greeter").rmcp(Greeter).run()
}
