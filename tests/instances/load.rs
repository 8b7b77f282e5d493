//! Two hundred agents of twenty tenants that call as fast as they may, on all servers; and who counts what got through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::json;
use sluicegate::limits::{
    Algorithm, Call, Limiter, LimiterOptions, Mode, Place, Priority, RateLimit, RateRule, Rules, Scope, TenantIdentity,
};
use sluicegate_tests::Client;
use sluicegate_tests::recorder::{self, RECORD_LIMIT, Recorded};

use crate::fleet::Fleet;

pub(crate) const TENANTS: usize = 20;
pub(crate) const AGENTS: usize = 10;
/// Of each tenant, strict.
pub(crate) const TENANT_LIMIT: &str = "16/2s";
/// Of each agent, a bucket.
pub(crate) const AGENT_LIMIT: &str = "5/s";
/// Of all together, strict.
pub(crate) const SERVER_LIMIT: &str = "300/2s";
const WINDOW: u64 = 2_000_000;
/// A call is written down some time after it was decided, so that what was decided a window apart may look closer.
const JITTER: u64 = 400_000;

/// What the servers are started with.
const SETTINGS: &[(&str, &str)] =
    &[("LIMIT_TENANT", TENANT_LIMIT), ("LIMIT_AGENT", AGENT_LIMIT), ("LIMIT_SERVER", SERVER_LIMIT)];

/// The same, with patience for a Redis that shares its processors with the load and with other tests.
pub(crate) const PATIENT: &[(&str, &str)] = &[SETTINGS[0], SETTINGS[1], SETTINGS[2], ("REDIS_TIMEOUT", "5s")];

/// The same, with some: what is too late is to be found out.
pub(crate) const WATCHFUL: &[(&str, &str)] = &[SETTINGS[0], SETTINGS[1], SETTINGS[2], ("REDIS_TIMEOUT", "250ms")];

/// How long a load lasts.
pub(crate) fn length() -> Duration {
    let seconds = std::env::var("SLUICEGATE_TEST_LOAD_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}

/// A call that was made: by whom, when, and whether it got in.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    at: u64,
    tenant: usize,
    agent: usize,
    pub(crate) status: u16,
    pub(crate) took: Duration,
}

/// A load that goes on until it is told to end.
pub(crate) struct Load {
    agents: Vec<tokio::task::JoinHandle<Vec<Offered>>>,
    ends: Arc<AtomicBool>,
}

impl Load {
    pub(crate) async fn start(fleet: &Fleet) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let mut keys = Vec::new();
        for tenant in 0..TENANTS {
            for agent in 0..AGENTS {
                keys.push((tenant, agent, fleet.key(&format!("tenant-{tenant}"), &format!("agent-{agent}")).await));
            }
        }
        // The servers learn of the keys' tenants within a moment.
        tokio::time::sleep(Duration::from_millis(500)).await;
        // Making a client takes longer than the calls of a second.
        let anybody: Vec<_> =
            fleet.endpoints().into_iter().map(|endpoint| Client::new(endpoint, String::new())).collect();
        let agents = keys.into_iter().enumerate().map(|(number, (tenant, agent, key))| {
            let clients: Vec<_> = anybody.iter().map(|client| client.clone().with_key(&key)).collect();
            tokio::spawn(call_on(clients, number, tenant, agent, Arc::clone(&ends)))
        });
        Self { agents: agents.collect(), ends }
    }

    /// Ends it and says what was offered, in order.
    pub(crate) async fn end(self) -> Vec<Offered> {
        self.ends.store(true, Relaxed);
        let mut offered = Vec::new();
        for agent in self.agents {
            offered.extend(agent.await.expect("it ends"));
        }
        offered.sort_by_key(|call| call.at);
        offered
    }
}

/// One agent: calls one server after the other, and waits as long as it is told.
async fn call_on(
    clients: Vec<Client>,
    number: usize,
    tenant: usize,
    agent: usize,
    ends: Arc<AtomicBool>,
) -> Vec<Offered> {
    let mut offered = Vec::new();
    // One after the other, over as long as the server's window: what comes at once would be refused at once, window by window.
    tokio::time::sleep(Duration::from_millis(10) * u32::try_from(number).unwrap_or_default()).await;
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "record", "arguments": {} } });
    for turn in number.. {
        if ends.load(Relaxed) {
            break;
        }
        let client = &clients[turn % clients.len()];
        let (at, started) = (recorder::now(), Instant::now());
        let sent = client.post(body.to_string()).timeout(Duration::from_secs(5)).send().await;
        let Ok(response) = sent else {
            // That server is gone; the next one is asked at once.
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let status = response.status().as_u16();
        let text = response.text().await.unwrap_or_default();
        offered.push(Offered { at, tenant, agent, status, took: started.elapsed() });
        let wait = if status == 200 { 20 } else { wait_of(&text).clamp(20, 500) };
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
    offered
}

fn wait_of(text: &str) -> u64 {
    let answer: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    answer["error"]["data"]["retry_after_ms"].as_u64().unwrap_or(20)
}

/// What one perfect limiter, which everybody asks, would have admitted of the same calls.
pub(crate) fn ideal(offered: &[Offered]) -> usize {
    let strict = |scope, place, quota: &str| rule(scope, place, quota, Algorithm::SlidingWindow);
    let bucket = |scope, place, quota: &str| rule(scope, place, quota, Algorithm::TokenBucket);
    let rates = vec![
        strict(Scope::Server, Place::Server, SERVER_LIMIT),
        strict(Scope::Tenant, Place::Tenant, TENANT_LIMIT),
        bucket(Scope::Agent, Place::Agent, AGENT_LIMIT),
        bucket(Scope::Tool, Place::AgentTool, RECORD_LIMIT),
    ];
    let rules = Rules::new(rates, Vec::new(), 1, Priority::Normal, false).expect("rules");
    let (clock, mock) = quanta::Clock::mock();
    let limiter = Limiter::new(clock, LimiterOptions::default());
    let tool = limiter.tool("record");
    let mut now = offered.first().map_or(0, |call| call.at);
    let admitted = offered.iter().filter(|call| {
        mock.increment(Duration::from_micros(call.at - now));
        now = call.at;
        let tenant = limiter.tenant(TenantIdentity::Named(&call.tenant.to_string()));
        let agent = tenant.agent(&call.agent.to_string());
        limiter.admit(&Call { rules: &rules, tenant: &tenant, agent, key: None, tool }).is_ok()
    });
    admitted.count()
}

fn rule(scope: Scope, place: Place, quota: &str, algorithm: Algorithm) -> RateRule {
    let limit = RateLimit::new(quota.parse().expect("a quota"), None, algorithm).expect("a limit");
    RateRule { scope, place, ordinal: 0, limit, mode: Mode::Enforce }
}

/// The most calls of each scope in any window: of the server, of a tenant, of an agent, of which buckets let through their
/// burst and what flows in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Worst {
    pub(crate) server: usize,
    pub(crate) tenant: usize,
    pub(crate) agent: usize,
}

impl Worst {
    /// Of all calls that the tool has seen.
    pub(crate) fn of(calls: &[Recorded]) -> Self {
        let most = |key: fn(&Recorded) -> (&str, &str)| {
            let mut by_key = std::collections::HashMap::<_, Vec<u64>>::new();
            calls.iter().for_each(|call| by_key.entry(key(call)).or_default().push(call.at));
            by_key.values().map(|times| most_in_a_window(times)).max().unwrap_or(0)
        };
        Self {
            server: most(|_| ("", "")),
            tenant: most(|call| (&call.tenant, "")),
            agent: most(|call| (&call.tenant, &call.agent)),
        }
    }

    /// What holds while Redis decides, with `times` as much where it did not always.
    pub(crate) fn bound(times: usize) -> Self {
        // Burst and what two seconds bring, of the tool's limit, which is below the agent's.
        Self { server: 300 * times, tenant: 16 * times, agent: (3 + 6) * times }
    }

    pub(crate) fn is_within(&self, bound: &Self) -> bool {
        self.server <= bound.server && self.tenant <= bound.tenant && self.agent <= bound.agent
    }
}

/// The most calls in any window, of times in order.
fn most_in_a_window(times: &[u64]) -> usize {
    let mut first = 0;
    let counts = times.iter().enumerate().map(|(at, time)| {
        while times[first] + (WINDOW - JITTER) <= *time {
            first += 1;
        }
        at - first + 1
    });
    counts.max().unwrap_or(0)
}
