//! Sluicegate with everything on: API key, tenant, agent and tool limits, concurrency, deadline, RateLimit fields.

use std::error::Error;
use std::io::Write as _;

use sluicegate::EngineKind;
use sluicegate::control::{KeyScopes, NewLimit, Target};
use sluicegate::prelude::*;
use sluicegate_tests::{Database, server};

/// Repeat a text.
#[tool(rate_limit = "1000000000/min", concurrency = 1000)]
async fn echo(text: String) -> String {
    text
}

/// Repeat a text, hardly ever.
#[tool(rate_limit = "1/day")]
async fn limited(text: String) -> String {
    text
}

/// Serves until the process is ended; prints the address and two keys. Limits are shared through `redis`, if one is given.
pub(crate) async fn serve(redis: Option<&str>) -> Result<(), Box<dyn Error>> {
    let database = Database::sqlite().await;
    let mut settings = server::settings(&database);
    settings.limit_tenant = "1000000000/min".to_owned();
    settings.limit_agent = "1000000000/min".to_owned();
    settings.agent_concurrency = 1000;
    if let Some(url) = redis {
        settings.engine = EngineKind::Redis;
        settings.redis_url = url.to_owned();
        settings.redis_prefix = format!("sluicegate-bench-{}", std::process::id());
    }
    let running = Server::new("bench").tool::<echo>().tool::<limited>().start(&settings).await?;
    let (served, _) = server::mint(running.control(), "acme", "u-42", KeyScopes::all()).await?;
    let (refused, _) = server::mint(running.control(), "globex", "u-42", KeyScopes::all()).await?;
    // An override as in production, so that the policy is not empty.
    let rate = NewLimit::rate(Target::Tool { tool: "echo".to_owned() }, "999999999/min");
    running.control().limits().set(&server::actor(), &rate).await?;
    writeln!(std::io::stdout(), "{}\n{served}\n{refused}", running.address())?;
    running.until_signal().await?;
    Ok(())
}
