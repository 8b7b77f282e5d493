//! Writing what was counted.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::actor::{Actor, Role};
use crate::db::{Arg, Transaction, args, places};
use crate::error::ControlError;
use crate::ids::{AgentId, TenantId};
use crate::usage::counts::Counts;
use crate::usage::range::Grain;
use crate::usage::{EVERYBODY, Usage};

/// What one process has counted since its last batch.
#[derive(Clone, Debug, Default)]
pub struct UsageBatch {
    /// The process, unlike any other: a batch that it sends twice is written once.
    pub writer: String,
    /// 1 for its first batch, then one more each time. A batch that may not have arrived is
    /// sent again with its number and unchanged.
    pub seq: i64,
    /// What is to be added.
    pub rows: Vec<UsageRow>,
    /// When agents were last seen calling, in epoch milliseconds.
    pub seen: Vec<(TenantId, AgentId, i64)>,
}

/// What is to be added for one agent, tool and moment.
#[derive(Clone, Debug)]
pub struct UsageRow {
    /// The tenant; none for callers that nobody identified.
    pub tenant: Option<TenantId>,
    /// The agent; none for callers that nobody identified and those beyond the cap.
    pub agent: Option<AgentId>,
    /// The tool; none for requests that call no known tool.
    pub tool: Option<String>,
    /// When, in epoch milliseconds.
    pub at: i64,
    /// What to add.
    pub counts: Counts,
}

/// How long usage is kept, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Of minutes.
    pub minutes_ms: i64,
    /// Of hours.
    pub hours_ms: i64,
    /// Of days.
    pub days_ms: i64,
}

const CLAIM: &str = "INSERT INTO usage_writers (id, seq, at) VALUES ($1, $2, $3)
     ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, at = excluded.at
     WHERE usage_writers.seq < excluded.seq";

const SEE: &str = "UPDATE agents SET last_seen_at = $3
     WHERE tenant_id = $1 AND id = $2 AND COALESCE(last_seen_at, 0) < $3";

const FORGET: [&str; 9] = [
    "DELETE FROM usage_minute WHERE bucket < $1",
    "DELETE FROM usage_hour WHERE bucket < $1",
    "DELETE FROM usage_day WHERE bucket < $1",
    "DELETE FROM usage_sum_minute WHERE bucket < $1",
    "DELETE FROM usage_sum_hour WHERE bucket < $1",
    "DELETE FROM usage_sum_day WHERE bucket < $1",
    "DELETE FROM usage_throttled_minute WHERE bucket < $1",
    "DELETE FROM usage_throttled_hour WHERE bucket < $1",
    "DELETE FROM usage_throttled_day WHERE bucket < $1",
];

const FORGET_WRITERS: &str = "DELETE FROM usage_writers WHERE at < $1";

/// How long it is remembered which batches a process has sent. It sends one again within seconds.
const REMEMBER_WRITERS_MS: i64 = 24 * 60 * 60 * 1_000;

/// How many rows one statement adds. A batch is cut into these, largest first, so that there are few statements.
const SIZES: [usize; 4] = [128, 32, 8, 1];

/// For each grain and size: into the rows of agents.
static ADD: LazyLock<[[String; 4]; 3]> =
    LazyLock::new(|| upserts("usage", &["tenant_id", "agent_id", "bucket", "tool"], Counts::COLUMNS));

/// For each grain and size: into the sums.
static ADD_SUMS: LazyLock<[[String; 4]; 3]> =
    LazyLock::new(|| upserts("usage_sum", &["tenant_id", "bucket", "tool"], Counts::COLUMNS));

/// For each grain and size: into how often agents were throttled.
static ADD_THROTTLED: LazyLock<[[String; 4]; 3]> =
    LazyLock::new(|| upserts("usage_throttled", &["tenant_id", "agent_id", "bucket"], &["throttled", "ignored_waits"]));

fn upserts(table: &str, key: &[&str], counters: &[&str]) -> [[String; 4]; 3] {
    Grain::ALL.map(|grain| SIZES.map(|rows| upsert(&format!("{table}_{}", grain.word()), key, counters, rows)))
}

fn upsert(table: &str, key: &[&str], counters: &[&str], rows: usize) -> String {
    let columns = [key, counters].concat();
    let row = |number: usize| format!("({})", places(number * columns.len() + 1, columns.len()));
    let rows: Vec<_> = (0..rows).map(row).collect();
    let adds: Vec<_> = counters.iter().map(|name| format!("{name} = {table}.{name} + excluded.{name}")).collect();
    format!(
        "INSERT INTO {table} ({}) VALUES {} ON CONFLICT ({}) DO UPDATE SET {}",
        columns.join(", "),
        rows.join(", "),
        key.join(", "),
        adds.join(", ")
    )
}

/// Tenant, agent (none in the sums), bucket and tool (none in how often agents were throttled), in the order in which
/// rows are locked.
type RowKey = (String, Option<String>, i64, Option<String>);

impl Usage<'_> {
    /// Adds what a process has counted, all of it or nothing; `false` when this batch of it
    /// had been added before.
    ///
    /// This is bookkeeping and no change of the policy: no revision, no audit entry.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn record(self, actor: &Actor, batch: &UsageBatch) -> Result<bool, ControlError> {
        actor.require_global(Role::Operator)?;
        let mut tx = self.control.db().write().await?;
        let claimed = tx.execute(CLAIM, args![&batch.writer, batch.seq, self.control.now_ms()]).await?;
        if claimed == 0 {
            return Ok(false);
        }
        for grain in Grain::ALL {
            let [mut rows, mut sums, mut throttled] = [const { BTreeMap::<RowKey, Counts>::new() }; 3];
            for row in &batch.rows {
                let tenant = row.tenant.map(String::from).unwrap_or_default();
                let agent = row.agent.map(String::from).unwrap_or_default();
                let bucket = grain.bucket_of(row.at);
                let tool = Some(row.tool.clone().unwrap_or_default());
                sums.entry((EVERYBODY.to_owned(), None, bucket, tool.clone())).or_default().add(&row.counts);
                sums.entry((tenant.clone(), None, bucket, tool.clone())).or_default().add(&row.counts);
                if row.counts.throttled > 0 {
                    let key = (tenant.clone(), Some(agent.clone()), bucket, None);
                    throttled.entry(key).or_default().add(&row.counts);
                }
                rows.entry((tenant, Some(agent), bucket, tool)).or_default().add(&row.counts);
            }
            let all = |counts: &Counts| counts.values().collect();
            add(&mut tx, &ADD[grain.index()], rows, all).await?;
            add(&mut tx, &ADD_SUMS[grain.index()], sums, all).await?;
            let of_throttled = |counts: &Counts| vec![counts.throttled, counts.ignored_waits];
            add(&mut tx, &ADD_THROTTLED[grain.index()], throttled, of_throttled).await?;
        }
        let mut seen = batch.seen.clone();
        seen.sort_unstable();
        for (tenant, agent, at) in seen {
            tx.execute(SEE, args![tenant, agent, at]).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Deletes what is older than it is to be kept, and returns how many rows that were.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant, `Database`.
    pub async fn forget(self, actor: &Actor, keep: Retention) -> Result<u64, ControlError> {
        actor.require_global(Role::Operator)?;
        let now = self.control.now_ms();
        let mut deleted = 0;
        let keep = [keep.minutes_ms, keep.hours_ms, keep.days_ms];
        for (statement, keep) in FORGET.into_iter().zip(keep.into_iter().cycle()) {
            // One transaction each, so that nobody waits long for any.
            let mut tx = self.control.db().write().await?;
            deleted += tx.execute(statement, args![now.saturating_sub(keep)]).await?;
            tx.commit().await?;
        }
        let mut tx = self.control.db().write().await?;
        tx.execute(FORGET_WRITERS, args![now - REMEMBER_WRITERS_MS]).await?;
        tx.commit().await?;
        Ok(deleted)
    }
}

async fn add(
    tx: &mut Transaction,
    statements: &'static [String; 4],
    rows: BTreeMap<RowKey, Counts>,
    counters: impl Fn(&Counts) -> Vec<i64>,
) -> Result<(), ControlError> {
    let rows: Vec<_> = rows.into_iter().collect();
    // Each connection to SQLite keeps what it has made of a statement, a megabyte of the largest; and asking it costs no way.
    let largest = usize::from(matches!(tx, Transaction::Sqlite(_)));
    let sizes = || SIZES.iter().zip(statements).skip(largest);
    let mut rest = rows.as_slice();
    while !rest.is_empty() {
        // The last size is 1, so one always fits.
        let (size, statement) = sizes().find(|(size, _)| **size <= rest.len()).unwrap_or((&1, &statements[3]));
        let (batch, after) = rest.split_at(*size);
        let mut values: Vec<Arg<'_>> = Vec::with_capacity(size * (Counts::COLUMNS.len() + 4));
        for ((tenant, agent, bucket, tool), counts) in batch {
            values.push(tenant.into());
            values.extend(agent.as_deref().map(Arg::from));
            values.push((*bucket).into());
            values.extend(tool.as_deref().map(Arg::from));
            values.extend(counters(counts).into_iter().map(Arg::from));
        }
        tx.execute(statement, &values).await?;
        rest = after;
    }
    Ok(())
}
