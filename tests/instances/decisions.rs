//! How long decisions take while Redis does not answer, as the servers count them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::json;
use sluicegate_tests::Client;

use crate::fleet::Fleet;

/// How many decisions took at most how long, over all servers.
#[derive(Clone, Default)]
pub(crate) struct Decisions(BTreeMap<Duration, u64>);

/// Stands for no bound.
const ANY: Duration = Duration::MAX;

impl Decisions {
    /// All that the servers have made.
    pub(crate) async fn of(fleet: &Fleet) -> Self {
        let mut all = Self::default();
        for server in fleet.running() {
            for sample in Fleet::metrics(server).await.samples("sluicegate_admission_seconds") {
                let Some(bound) = sample.labels.get("le") else { continue };
                let bound =
                    bound.parse().map_or(
                        ANY,
                        |seconds: f64| {
                            if seconds.is_finite() { Duration::from_secs_f64(seconds) } else { ANY }
                        },
                    );
                *all.0.entry(bound).or_default() += sample.value as u64;
            }
        }
        all
    }

    /// Those that were made since.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let earlier = |bound| before.0.get(bound).copied().unwrap_or_default();
        Self(self.0.iter().map(|(bound, count)| (*bound, count - earlier(bound))).collect())
    }

    pub(crate) fn all(&self) -> u64 {
        self.0.get(&ANY).copied().unwrap_or_default()
    }

    /// How many took longer. Servers have to count up to this time.
    pub(crate) fn slower_than(&self, bound: Duration) -> u64 {
        self.all() - self.0[&bound]
    }
}

impl fmt::Display for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all();
        let slowest = self.0.iter().find(|(_, count)| **count == all).map_or(ANY, |(bound, _)| *bound);
        let slower = |ms| self.slower_than(Duration::from_millis(ms));
        write!(f, "{all} decisions, {} of them over 1 ms, {} over 60 ms", slower(1), slower(60))?;
        if slowest == ANY { write!(f, ", some over 100 ms") } else { write!(f, ", the slowest within {slowest:?}") }
    }
}

/// How often Redis is frozen.
const ROUNDS: usize = 5;
const FROZEN: Duration = Duration::from_millis(60);
const REFUSED: Duration = Duration::from_millis(1);

async fn call(client: &Client, times: usize) {
    for _ in 0..times {
        assert!(client.call("echo", json!({ "text": "x" })).await.is_ok(), "it is far below every limit");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_delays_a_decision_by_redis_timeout_and_one_that_refuses_by_nothing() {
    let boundless = ["LIMIT_TENANT", "LIMIT_AGENT", "LIMIT__ECHO"].map(|name| (name, "1000000/s"));
    let Some(mut fleet) = Fleet::start(1, &boundless).await else { return };
    let client = fleet.client(0, "acme", "u-42").await;
    // What a caller's first call takes is not what is measured.
    call(&client, 50).await;
    let mut in_time = 0;
    for _ in 0..ROUNDS {
        fleet.until_degraded(false).await;
        let before = Decisions::of(&fleet).await;
        fleet.redis.signal("STOP").await;
        call(&client, 100).await;
        let frozen = Decisions::of(&fleet).await.since(&before);
        fleet.redis.signal("CONT").await;
        say!("Redis frozen: {frozen}");
        assert_eq!(frozen.all(), 100);
        in_time += usize::from(frozen.slower_than(FROZEN) == 0);
    }
    // Something else may have had the processors for the ten milliseconds that are left, and not each time.
    assert!(in_time + 1 >= ROUNDS, "in {in_time} of {ROUNDS} rounds no decision took longer than {FROZEN:?}");
    fleet.until_degraded(false).await;
    let before = Decisions::of(&fleet).await;
    fleet.redis.stop().await;
    call(&client, 500).await;
    let refused = Decisions::of(&fleet).await.since(&before);
    say!("Redis gone: {refused}");
    assert!(refused.slower_than(REFUSED) <= 5, "{refused}");
}
