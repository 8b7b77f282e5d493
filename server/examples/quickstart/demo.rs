//! Ten simulated agents of three tenants, which call this server over HTTP with keys of their own. One is a runaway: it
//! calls on and on whatever it is told.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::control::{Actor, AgentRef, Control, ControlError, NewKey, PageRequest, TenantRef};
use sluicegate::{BoxError, Ready, Server};

use crate::tools::{greet, unless_taken};

/// The name of the agents' keys.
const KEY: &str = "demo";

/// What an agent does when it is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manners {
    /// It waits as long as it was told.
    Waits,
    /// It calls on as if nothing had been said.
    CallsOn,
}

/// One agent and what it does all day.
#[derive(Clone, Copy)]
struct Habit {
    tenant: &'static str,
    agent: &'static str,
    /// The tools that it calls, in turn.
    tools: &'static [&'static str],
    /// The pause between two calls.
    every: Duration,
    /// How many calls it makes side by side.
    at_a_time: u8,
    manners: Manners,
}

impl Habit {
    const fn new(tenant: &'static str, agent: &'static str, tools: &'static [&'static str], every_ms: u64) -> Self {
        let every = Duration::from_millis(every_ms);
        Self { tenant, agent, tools, every, at_a_time: 1, manners: Manners::Waits }
    }

    const fn at_a_time(self, at_a_time: u8) -> Self {
        Self { at_a_time, ..self }
    }

    const fn calls_on(self) -> Self {
        Self { manners: Manners::CallsOn, ..self }
    }
}

/// Together about fifteen calls a second.
const HABITS: [Habit; 10] = [
    Habit::new("acme", "research-assistant", &["echo", "slow", "echo", "export"], 1_500),
    Habit::new("acme", "report-builder", &["export", "echo"], 3_000),
    Habit::new("acme", "support-bot", &["echo"], 500),
    Habit::new("acme", "crawler", &["export", "export", "echo"], 140).calls_on(),
    Habit::new("globex", "nightly-export", &["export"], 9_000),
    Habit::new("globex", "dashboards", &["echo", "echo", "slow"], 400),
    Habit::new("globex", "thumbnailer", &["slow"], 900).at_a_time(3),
    Habit::new("initech", "triage-bot", &["echo", "export", "slow"], 2_000),
    Habit::new("initech", "invoices", &["export", "slow"], 4_000),
    Habit::new("initech", "translator", &["slow", "echo"], 1_200),
];

/// Makes the server call itself once it serves.
pub(crate) fn add_agents(server: Server) -> Server {
    server.on_ready(async |ready: Ready| {
        let (control, endpoint) = (ready.control.clone(), ready.endpoint.clone());
        greet(ready).await?;
        start(&control, &endpoint).await?;
        let text = "\nTen simulated agents of three tenants call now; one of them, acme's `crawler`, ignores every wait.\n\
                    Find it on the panel's page Throttling. Ctrl-C ends the server and its agents.\n";
        Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
    })
}

async fn start(control: &Control, endpoint: &str) -> Result<(), BoxError> {
    for habit in HABITS {
        let key = new_key(control, habit).await?;
        // A client for each agent: nobody shares a connection with the runaway.
        let http = reqwest::Client::builder().no_proxy().build()?;
        for _ in 0..habit.at_a_time {
            tokio::spawn(live(http.clone(), endpoint.to_owned(), key.clone(), habit));
        }
    }
    Ok(())
}

/// A key for an agent, which is made if it does not exist. Nobody has the keys of earlier runs any more: they are revoked.
async fn new_key(control: &Control, habit: Habit) -> Result<String, ControlError> {
    let actor = Actor::system("demo");
    let (tenant, agent) = (TenantRef::from(habit.tenant), AgentRef::from(habit.agent));
    unless_taken(control.tenants().create(&actor, habit.tenant, habit.tenant).await)?;
    unless_taken(control.agents().create(&actor, &tenant, habit.agent).await)?;
    let keys = control.keys();
    let newest = PageRequest::first(PageRequest::MAX);
    for key in keys.list(&actor, &tenant, Some(&agent), &newest).await?.items {
        if key.name == KEY && key.revoked_at.is_none() {
            keys.revoke(&actor, key.id).await?;
        }
    }
    let minted = keys.create(&actor, &tenant, &agent, NewKey::named(KEY)).await?;
    Ok(minted.key.expose().to_owned())
}

/// Calls until the server is gone.
async fn live(http: reqwest::Client, endpoint: String, key: String, habit: Habit) {
    for (number, tool) in (0_u64..).zip(habit.tools.iter().cycle()) {
        tokio::time::sleep(habit.every).await;
        let body = json!({
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": { "name": tool, "arguments": arguments(tool, number) },
        });
        let request = http.post(&endpoint).bearer_auth(&key).json(&body);
        let Ok(answer) = request.header("accept", "application/json, text/event-stream").send().await else { return };
        let wait = answer.headers().get("retry-after").and_then(|wait| wait.to_str().ok()?.parse().ok());
        // Read to its end, so that the connection serves the next call.
        let _ = answer.bytes().await;
        if let Some(seconds) = wait.filter(|_| habit.manners == Manners::Waits) {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
    }
}

/// What a tool is called with. Now and then somebody forgets what `echo` takes.
fn arguments(tool: &str, number: u64) -> Value {
    match tool {
        "export" => json!({ "dataset": "sales" }),
        "slow" => json!({ "ms": 300 + number % 7 * 150 }),
        _ if number % 31 == 30 => json!({}),
        _ => json!({ "text": "hello" }),
    }
}
