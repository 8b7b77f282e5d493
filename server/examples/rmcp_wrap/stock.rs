//! A greeter, as anybody writes a server with rmcp.

use rmcp::ServiceExt as _;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::stdio;
use rmcp::{schemars, tool, tool_router};

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Greeter.serve(stdio()).await?.waiting().await?;
    Ok(())
}
