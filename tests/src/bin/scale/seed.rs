//! A week of a large server, made up: Zipf-distributed, no tenant empty, and the same every time.

use sluicegate_tests::Database;
use sluicegate_tests::bulk::{Bulk, id};
use sluicegate_tests::server::START_MS;

/// How many tools are called.
pub(crate) const TOOLS: u32 = 20;

const TENANTS: u32 = 1_000;
const AGENTS: u32 = 50_000;
const MINUTE_MS: i64 = 60_000;
/// The minutes of seven days.
const MINUTES: u32 = 7 * 24 * 60;
/// The rows of the agent that is called most: it is called in nearly every minute, with nearly every tool.
pub(crate) const MOST_ROWS: f64 = 200_000.0;
/// An agent of rank r has 1 / r^SLOPE of that.
const SLOPE: f64 = 0.75;
/// Keys that the first tenant has beside those of its agents.
const MORE_KEYS: u32 = 10_000;
const AUDIT_ENTRIES: u32 = 100_000;
const EVENTS: u32 = 100_000;
const ALERTS: u32 = 1_000;

/// What was made.
pub(crate) struct Seeded {
    pub(crate) tenants: u32,
    pub(crate) agents: u32,
    pub(crate) minutes: i64,
    /// The agent that is called most, of the first tenant.
    pub(crate) agent: String,
    pub(crate) key: String,
}

/// The tenant of the agent of a rank: the first agents have one each, the others crowd in the first tenants.
fn tenant_of(agent: u32, tenants: u32) -> u32 {
    if agent < tenants {
        return agent;
    }
    // Any fixed sequence that is spread evenly will do.
    let even = f64::from(agent.wrapping_mul(2_654_435_761) % 100_000) / 100_000.0;
    (f64::from(tenants) * even.powi(3)) as u32
}

/// How many rows the agent of a rank has; with a part of the agents, each has so much less that the sum is that part.
fn rows_of(agent: u32, part: u32, most: f64) -> u32 {
    (most / f64::from(part * (agent + 1)).powf(SLOPE)) as u32
}

/// Makes it, unless that was done before; `part` is what everything is divided by, `most` the rows of the agent that is called most.
pub(crate) async fn seed(database: &Database, part: u32, most: f64) -> Result<Seeded, sqlx::Error> {
    let (tenants, agents) = (TENANTS / part, AGENTS / part);
    let mut connection = Bulk::open(database).await?;
    if connection.number("SELECT COUNT(*) FROM agents".to_owned()).await? == 0 {
        make(&mut connection, (tenants, agents, part), most).await?;
    }
    let minutes = connection.number("SELECT COUNT(*) FROM usage_minute".to_owned()).await?;
    Ok(Seeded { tenants, agents, minutes, agent: id("agt", 0), key: id("key", 0) })
}

async fn make(connection: &mut Bulk, (tenants, agents, part): (u32, u32, u32), most: f64) -> Result<(), sqlx::Error> {
    let postgres = connection.is_postgres();
    connection
        .run(if postgres { "SET synchronous_commit = off".into() } else { "PRAGMA synchronous = OFF".into() })
        .await?;
    connection.run("BEGIN".to_owned()).await?;
    policy(connection, tenants, agents).await?;
    history(connection, tenants, part).await?;
    connection.run("COMMIT".to_owned()).await?;
    usage(connection, postgres, (tenants, agents, part), most).await?;
    // As a database that was written over a week is kept by itself.
    connection.run(if postgres { "VACUUM ANALYZE".into() } else { "ANALYZE".into() }).await
}

async fn policy(connection: &mut Bulk, tenants: u32, agents: u32) -> Result<(), sqlx::Error> {
    let tools = (0..TOOLS).map(|tool| {
        format!(
            "'{}', 'does {tool}', '{{\"type\":\"object\"}}', '{{\"rate_limit\":[\"60/min\"]}}', 0, 0",
            tool_name(tool)
        )
    });
    let columns = "tools (name, description, input_schema, declared_limits, first_seen_at, last_seen_at)";
    connection.insert(columns, tools).await?;
    connection.insert_tenants(tenants).await?;
    connection.insert_agents((0..agents).map(|agent| (agent, tenant_of(agent, tenants))), START_MS).await?;
    let keys = (0..agents + MORE_KEYS).map(|key| {
        let agent = if key < agents { key } else { 0 };
        (key, tenant_of(agent, tenants), agent, format!("{key:064x}"))
    });
    connection.insert_keys(keys).await?;
    let two = (0..tenants).flat_map(|tenant| (0..2).map(move |tool| (tenant, tool)));
    connection.insert_limits(two.map(|(tenant, tool)| (tenant * 2 + tool, tenant, tool_name(tool), "50/min"))).await
}

/// Audit log, events and alerts.
async fn history(connection: &mut Bulk, tenants: u32, part: u32) -> Result<(), sqlx::Error> {
    let (entries, events, alerts) = (AUDIT_ENTRIES / part, EVENTS / part, ALERTS / part);
    let first = connection.number("SELECT audit_seq FROM control_state".to_owned()).await?;
    let columns = "audit_log (seq, id, at, actor, action, target, tenant_id, before, after, previous_hash, hash)";
    let rows = (1..=entries).map(|entry| {
        let (seq, tenant) = (first + i64::from(entry), id("ten", entry % tenants));
        let value = |limit| format!("{{\"revision\":{entry},\"quotas\":\"{limit}/min\",\"note\":\"\"}}");
        format!(
            "{seq}, '{}', {}, 'user:olga', 'limit.set', 'limit tenant {tenant}', '{tenant}', '{}', '{}', '', '{entry:064x}'",
            id("aud", entry),
            START_MS - i64::from(entries - entry) * 1_000,
            value(50),
            value(60)
        )
    });
    connection.insert(columns, rows).await?;
    connection.run(format!("UPDATE control_state SET audit_seq = {}", first + i64::from(entries))).await?;
    let columns =
        "events (id, at, kind, tenant_id, agent_id, tool, scope, reason, detail, retry_after_ms, request_id, count)";
    let rows = (0..events).map(|event| {
        let agent = event % 500;
        format!(
            "'{}', {}, 'throttled', '{}', '{}', '{}', 'tool', 'rate_limit_exceeded', '60/min', 1000, '{event:032x}', 1",
            id("evt", event),
            START_MS - i64::from(events - event) * 1_000,
            id("ten", tenant_of(agent, tenants)),
            id("agt", agent),
            tool_name(event % TOOLS)
        )
    });
    connection.insert(columns, rows).await?;
    let rule = id("rul", 0);
    let columns =
        "alert_rules (id, name, kind, threshold, minutes, enabled, created_by, created_at, updated_at, revision)";
    let rule_row = format!("'{rule}', 'runaways', 'runaway', 300, 1, true, 'cli:root', 0, 0, 0");
    connection.insert(columns, std::iter::once(rule_row)).await?;
    let columns = "alerts (id, rule_id, tenant_id, agent_id, subject, message, value, began_at, ended_at)";
    let rows = (0..alerts).map(|alert| {
        let (tenant, agent) = (id("ten", tenant_of(alert, tenants)), id("agt", alert));
        format!(
            "'{}', '{rule}', '{tenant}', '{agent}', 'agent {alert}', 'it ran away', 400, {alert}, {START_MS}",
            id("alr", alert)
        )
    });
    connection.insert(columns, rows).await
}

fn tool_name(tool: u32) -> String {
    format!("seeded_tool_{tool:02}")
}

async fn usage(
    connection: &mut Bulk,
    postgres: bool,
    (tenants, agents, part): (u32, u32, u32),
    most: f64,
) -> Result<(), sqlx::Error> {
    connection
        .run("CREATE TABLE seed_agents (rank BIGINT, agent_id TEXT, tenant_id TEXT, minutes BIGINT)".to_owned())
        .await?;
    let rows = (0..agents).map(|agent| {
        let tenant = id("ten", tenant_of(agent, tenants));
        format!("{agent}, '{}', '{tenant}', {}", id("agt", agent), rows_of(agent, part, most).min(MINUTES * TOOLS))
    });
    connection.insert("seed_agents", rows).await?;
    let numbers = "CREATE TABLE seed_numbers (n BIGINT PRIMARY KEY)";
    connection.run(numbers.to_owned()).await?;
    let numbers = format!(
        "INSERT INTO seed_numbers WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {}) SELECT n FROM n",
        MINUTES * TOOLS
    );
    connection.run(numbers).await?;
    let mut indexes = Vec::new();
    if postgres {
        // The rows of a schema that is dropped afterwards need no log, and indexes are made faster at the end.
        for table in ["usage_", "usage_sum_", "usage_throttled_"]
            .iter()
            .flat_map(|table| ["minute", "hour", "day"].map(|grain| format!("{table}{grain}")))
        {
            connection.run(format!("ALTER TABLE {table} SET UNLOGGED")).await?;
        }
        connection.run("ANALYZE seed_agents; ANALYZE seed_numbers".to_owned()).await?;
        let of_minutes = "FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'usage_minute' \
            AND indexname <> 'usage_minute_pkey'";
        indexes = connection.texts(format!("SELECT indexdef {of_minutes}")).await?;
        for index in connection.texts(format!("SELECT indexname {of_minutes}")).await? {
            connection.run(format!("DROP INDEX {index}")).await?;
        }
    }
    let first = (START_MS - i64::from(MINUTES) * MINUTE_MS) / MINUTE_MS * MINUTE_MS + MINUTE_MS;
    // An agent has each of its minutes once before it has one with a second tool: 7919 has no divisor of the minutes of a
    // week. The tools are those of low number, mostly.
    let minutes = format!(
        "INSERT INTO usage_minute (tenant_id, agent_id, bucket, tool, calls, ok, throttled, by_tool, by_rate, ignored_waits,
             latency_us, latency_3, attempts_1)
         SELECT tenant_id, agent_id, {first} + minute * {MINUTE_MS}, tool, calls, calls - throttled, throttled, throttled,
             throttled, throttled / 2, (calls - throttled) * 6000, calls - throttled, calls - throttled
         FROM (
             SELECT tenant_id, agent_id, minute, 'seeded_tool_' || {tool} AS tool, calls,
                 CASE WHEN rank % 10 = 0 THEN calls / 3 ELSE 0 END AS throttled
             FROM (
                 SELECT a.tenant_id, a.agent_id, a.rank, (n.n * 7919 + a.rank) % {MINUTES} AS minute,
                     ((n.n % {MINUTES} * 7 % 41) * (n.n % {MINUTES} * 11 % 41) / 84 + n.n / {MINUTES}) % {TOOLS} AS tool,
                     1 + (n.n * 31 + a.rank) % 60 AS calls
                 FROM seed_agents a JOIN seed_numbers n ON n.n < a.minutes
             ) numbers
         ) named",
        tool = if postgres { "lpad(CAST(tool AS TEXT), 2, '0')" } else { "printf('%02d', tool)" },
    );
    connection.run(minutes).await?;
    for index in indexes {
        connection.run(index).await?;
    }
    // The coarser tables and the sums are what the server would have made of these rows.
    let counters =
        ["calls", "ok", "throttled", "by_tool", "by_rate", "ignored_waits", "latency_us", "latency_3", "attempts_1"];
    let columns = counters.join(", ");
    let sums = counters.map(|counter| format!("CAST(SUM({counter}) AS BIGINT)")).join(", ");
    let (hour, day) = (60 * MINUTE_MS, 24 * 60 * MINUTE_MS);
    for (from, to, ms) in [("minute", "hour", hour), ("hour", "day", day)] {
        connection
            .run(format!(
                "INSERT INTO usage_{to} (tenant_id, agent_id, bucket, tool, {columns})
                 SELECT tenant_id, agent_id, bucket / {ms} * {ms}, tool, {sums} FROM usage_{from}
                 GROUP BY tenant_id, agent_id, bucket / {ms} * {ms}, tool"
            ))
            .await?;
    }
    for grain in ["minute", "hour", "day"] {
        connection
            .run(format!(
                "INSERT INTO usage_throttled_{grain} (tenant_id, agent_id, bucket, throttled, ignored_waits)
                 SELECT tenant_id, agent_id, bucket, CAST(SUM(throttled) AS BIGINT), CAST(SUM(ignored_waits) AS BIGINT)
                 FROM usage_{grain} WHERE throttled > 0 GROUP BY tenant_id, agent_id, bucket"
            ))
            .await?;
        for (from, whose) in [("usage_", "tenant_id"), ("usage_sum_", "'*'")] {
            connection
                .run(format!(
                    "INSERT INTO usage_sum_{grain} (tenant_id, bucket, tool, {columns})
                     SELECT {whose}, bucket, tool, {sums} FROM {from}{grain} GROUP BY {group}bucket, tool",
                    group = if whose == "tenant_id" { "tenant_id, " } else { "" }
                ))
                .await?;
        }
    }
    connection.run("DROP TABLE seed_agents; DROP TABLE seed_numbers".to_owned()).await
}
