//! The tools of the quickstart, and the tenants to try them with.

use std::io::Write as _;
use std::time::Duration;

use sluicegate::control::{Actor, AgentRef, Control, ControlError, NewKey, TenantRef};
use sluicegate::prelude::*;
use sluicegate::{BoxError, Ready};

/// Registers the tools, and greets whoever started the server.
pub(crate) fn register(server: Server) -> Server {
    server.tools(Reports).tool::<echo>().tool::<slow>().on_ready(greet)
}

/// Repeat a text.
#[tool(rate_limit = "600/min")]
async fn echo(
    /// The text to repeat.
    text: String,
) -> String {
    text
}

/// Take some time.
#[tool(concurrency = 2)]
async fn slow(
    /// How long, in milliseconds.
    ms: u64,
) -> String {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    format!("slept {ms} ms")
}

struct Reports;

#[tools]
impl Reports {
    /// Export a dataset as CSV.
    #[tool(rate_limit = "5/min")]
    async fn export(
        &self,
        /// Which dataset.
        dataset: String,
        caller: Caller,
    ) -> String {
        format!("dataset,owner\n{dataset},{}", caller.tenant().unwrap_or("nobody"))
    }
}

/// Makes two tenants that each have an agent `u-42`, and prints how to see their limits.
pub(crate) async fn greet(ready: Ready) -> Result<(), BoxError> {
    let acme = key_for(&ready.control, "acme").await?;
    let globex = key_for(&ready.control, "globex").await?;
    let (endpoint, data) = (&ready.endpoint, ready.data.display());
    let call = |key: &str, tool: &str, arguments: &str| {
        format!(
            "curl -i {endpoint} -H 'Authorization: Bearer {key}' \\\n  \
             -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \\\n  \
             -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{arguments}}}}}'"
        )
    };
    let export = call(&acme, "export", r#"{"dataset":"sales"}"#);
    let text = format!(
        "\n\
         MCP endpoint: {endpoint}\n\
         key of tenant acme:   {acme}\n\
         key of tenant globex: {globex}\n\
         \n\
         # acme may export 5 times a minute; the sixth call is refused with 429:\n\
         for i in 1 2 3 4 5 6; do {export}; echo; done\n\
         \n\
         # acme's other tools still work:\n\
         {}; echo\n\
         \n\
         # and so does the export of globex, whose agent has the same name:\n\
         {}; echo\n\
         \n\
         # raise acme's limit while the server runs, and see what holds then (the first of these compiles the command line):\n\
         cargo run --bin sluicegate -- --data {data} limit set --tenant acme --tool export 50/min\n\
         cargo run --bin sluicegate -- --data {data} limit explain --tenant acme --agent u-42 --tool export\n",
        call(&acme, "echo", r#"{"text":"hello"}"#),
        call(&globex, "export", r#"{"dataset":"sales"}"#),
    );
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// A new key for the agent `u-42` of a tenant; both are made if they do not exist.
async fn key_for(control: &Control, tenant: &str) -> Result<String, ControlError> {
    let (actor, agent) = (Actor::system("quickstart"), "u-42");
    let tenant_ref = TenantRef::from(tenant);
    unless_taken(control.tenants().create(&actor, tenant, tenant).await)?;
    unless_taken(control.agents().create(&actor, &tenant_ref, agent).await)?;
    let minted =
        control.keys().create(&actor, &tenant_ref, &AgentRef::from(agent), NewKey::named("quickstart")).await?;
    Ok(minted.key.expose().to_owned())
}

pub(crate) fn unless_taken<T>(made: Result<T, ControlError>) -> Result<(), ControlError> {
    match made {
        Ok(_) | Err(ControlError::Conflict(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
