//! Sluicegate with everything on: API key, tenant, agent and tool limits, concurrency, deadline, RateLimit fields.

use std::error::Error;
use std::time::Duration;

use sluicegate::control::{KeyScopes, NewLimit, Target};
use sluicegate::prelude::*;
use sluicegate::{EngineKind, Settings};
use sluicegate_tests::bulk::{self, Bulk, id};
use sluicegate_tests::{Database, TestServer, server};

use crate::process::say;

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

/// So many tenants have a key that calls, at most: fewer than the server remembers, so that what is measured is calls and
/// not the database.
const MOST_CALLERS: u32 = 10_000;

/// Serves until the process is ended; tells two keys, of which the second is for what is refused. Limits are shared through
/// `redis`, if one is given.
pub(crate) async fn serve(redis: Option<&str>) -> Result<(), Box<dyn Error>> {
    let database = Database::sqlite().await;
    let mut settings = boundless(&database);
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
    say(running.address(), &[served, refused])?;
    running.until_signal().await?;
    Ok(())
}

/// The same for so many tenants, each with an agent, a key and an override; tells the keys of up to [`MOST_CALLERS`].
/// An operator changes one of the overrides every `change_every`, if that is said.
pub(crate) async fn serve_many(tenants: u32, change_every: Option<Duration>) -> Result<(), Box<dyn Error>> {
    let database = Database::sqlite().await;
    // The tables come from a server that has started once.
    TestServer::start(&database).await.stop().await;
    let mut keys = bulk::keys(tenants);
    seed(&database, tenants, &keys).await?;
    keys.truncate(MOST_CALLERS as usize);
    let running = Server::new("bench").tool::<echo>().tool::<limited>().start(&boundless(&database)).await?;
    say(running.address(), &keys)?;
    if let Some(every) = change_every {
        let control = running.control().clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            for change in 0_u32.. {
                ticks.tick().await;
                let tenant = id("ten", change % tenants).parse().expect("an id");
                let target = Target::TenantTool { tenant, tool: "echo".to_owned() };
                let rate = NewLimit::rate(target, &format!("{}/min", 900_000_000 + change % 1_000));
                control.limits().set(&server::actor(), &rate).await.expect("the limit is set");
            }
        });
    }
    running.until_signal().await?;
    Ok(())
}

/// Limits are there and never refuse.
fn boundless(database: &Database) -> Settings {
    let mut settings = server::settings(database);
    settings.limit_tenant = "1000000000/min".to_owned();
    settings.limit_agent = "1000000000/min".to_owned();
    settings.agent_concurrency = 1000;
    settings.max_body_bytes = 4 << 20;
    settings
}

async fn seed(database: &Database, tenants: u32, keys: &[String]) -> Result<(), Box<dyn Error>> {
    let mut rows = Bulk::open(database).await?;
    rows.run("PRAGMA synchronous = OFF; BEGIN".to_owned()).await?;
    rows.insert_tenants(tenants).await?;
    rows.insert_agents((0..tenants).map(|number| (number, number)), 0).await?;
    let hashed = (0..).zip(keys).map(|(number, key)| (number, number, number, bulk::hash_of(key)));
    rows.insert_keys(hashed).await?;
    let limits = (0..tenants).map(|number| (number, number, "echo".to_owned(), "900000000/min"));
    rows.insert_limits(limits).await?;
    rows.run("COMMIT".to_owned()).await?;
    Ok(())
}
