//! What is counted of calls.

use serde::Serialize;

/// The upper ends of the latency buckets but the last, in milliseconds.
pub const LATENCY_BOUNDS_MS: [u32; 11] = [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000];

/// The upper ends of the buckets of attempts but the last.
pub const ATTEMPT_BOUNDS: [u32; 5] = [1, 2, 3, 5, 8];

macro_rules! counts {
    ($($(#[$about:meta])+ $visibility:vis $name:ident,)+) => {
        /// What became of some calls. `calls = ok + errors + throttled + denied`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, sqlx::FromRow, utoipa::ToSchema)]
        pub struct Counts {
            $($(#[$about])+ $visibility $name: i64,)+
        }

        impl Counts {
            /// The names of the columns, in the order of [`values`](Self::values).
            pub(crate) const COLUMNS: &'static [&'static str] = &[$(stringify!($name)),+];

            pub(crate) fn values(&self) -> impl Iterator<Item = i64> {
                [$(self.$name),+].into_iter()
            }

            /// Adds the counts of other calls.
            pub fn add(&mut self, other: &Self) {
                $(self.$name = self.$name.saturating_add(other.$name);)+
            }
        }
    };
}

counts! {
    /// All of them, refused ones included.
    pub calls,
    /// Served, and the tool returned a result.
    pub ok,
    /// Served, and the tool failed, panicked, ran past its deadline or was cancelled.
    pub errors,
    /// Refused for another reason than a limit, such as a suspended agent.
    pub denied,
    /// Refused by a limit: the sum over the four scopes, and over the four reasons.
    pub throttled,
    /// Served, though a limit in observe mode would have refused it.
    pub would_throttle,
    /// Refused by a limit before the wait that the refusal before it had advertised was over.
    pub ignored_waits,
    /// Refused by a limit of the server.
    pub by_server,
    /// Refused by a limit of the tenant.
    pub by_tenant,
    /// Refused by a limit of the agent or its key.
    pub by_agent,
    /// Refused by a limit of the tool.
    pub by_tool,
    /// Refused by a rate.
    pub by_rate,
    /// Refused by a concurrency limit.
    pub by_concurrency,
    /// Refused because one call costs more than the limit ever holds.
    pub by_cost,
    /// Refused because the server had all the work it takes.
    pub by_overload,
    /// The time that the served ones took together, in microseconds.
    pub latency_us,
    #[serde(skip)] latency_1,
    #[serde(skip)] latency_2,
    #[serde(skip)] latency_3,
    #[serde(skip)] latency_4,
    #[serde(skip)] latency_5,
    #[serde(skip)] latency_6,
    #[serde(skip)] latency_7,
    #[serde(skip)] latency_8,
    #[serde(skip)] latency_9,
    #[serde(skip)] latency_10,
    #[serde(skip)] latency_11,
    #[serde(skip)] latency_12,
    #[serde(skip)] attempts_1,
    #[serde(skip)] attempts_2,
    #[serde(skip)] attempts_3,
    #[serde(skip)] attempts_4,
    #[serde(skip)] attempts_5,
    #[serde(skip)] attempts_6,
}

/// One more than the bounds: the last bucket has no end.
pub(crate) const LATENCY_BUCKETS: usize = LATENCY_BOUNDS_MS.len() + 1;
pub(crate) const ATTEMPT_BUCKETS: usize = ATTEMPT_BOUNDS.len() + 1;

impl Counts {
    /// How many served calls took at most as long as each of [`LATENCY_BOUNDS_MS`] and longer than the one before it;
    /// the last number is of those that took longer than all.
    pub const fn latency(&self) -> [i64; LATENCY_BUCKETS] {
        [
            self.latency_1,
            self.latency_2,
            self.latency_3,
            self.latency_4,
            self.latency_5,
            self.latency_6,
            self.latency_7,
            self.latency_8,
            self.latency_9,
            self.latency_10,
            self.latency_11,
            self.latency_12,
        ]
    }

    /// Replaces the latency histogram; see [`latency`](Self::latency).
    pub const fn set_latency(&mut self, buckets: [i64; LATENCY_BUCKETS]) {
        [
            self.latency_1,
            self.latency_2,
            self.latency_3,
            self.latency_4,
            self.latency_5,
            self.latency_6,
            self.latency_7,
            self.latency_8,
            self.latency_9,
            self.latency_10,
            self.latency_11,
            self.latency_12,
        ] = buckets;
    }

    /// How many attempts it took to be let in: at most as many as each of [`ATTEMPT_BOUNDS`], the last number is of
    /// those that took more than all.
    pub const fn attempts(&self) -> [i64; ATTEMPT_BUCKETS] {
        [self.attempts_1, self.attempts_2, self.attempts_3, self.attempts_4, self.attempts_5, self.attempts_6]
    }

    /// Replaces the histogram of attempts; see [`attempts`](Self::attempts).
    pub const fn set_attempts(&mut self, buckets: [i64; ATTEMPT_BUCKETS]) {
        [self.attempts_1, self.attempts_2, self.attempts_3, self.attempts_4, self.attempts_5, self.attempts_6] =
            buckets;
    }

    /// Calls that were let in.
    pub const fn served(&self) -> i64 {
        self.ok + self.errors
    }

    /// The share of calls that a limit refused, 0 to 1.
    pub fn throttled_share(&self) -> f64 {
        share(self.throttled, self.calls)
    }

    /// The share of served calls that failed, 0 to 1.
    pub fn error_share(&self) -> f64 {
        share(self.errors, self.served())
    }

    /// The latency in milliseconds that this share (such as 0.95) of the served calls did not exceed, interpolated
    /// within its bucket; `None` without served calls. What took longer than the last bound counts as long as it.
    pub fn latency_quantile_ms(&self, quantile: f64) -> Option<f64> {
        let buckets = self.latency();
        let total: i64 = buckets.iter().sum();
        if total == 0 {
            return None;
        }
        let rank = quantile.clamp(0.0, 1.0) * total as f64;
        let mut below = 0.0;
        let mut from = 0.0;
        for (count, to) in buckets.iter().zip(LATENCY_BOUNDS_MS.map(f64::from)) {
            let count = *count as f64;
            if count > 0.0 && below + count >= rank {
                return Some(from + (to - from) * (rank - below) / count);
            }
            below += count;
            from = to;
        }
        Some(from)
    }
}

fn share(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_inside_the_bucket_of_its_rank() {
        let mut counts = Counts::default();
        assert_eq!(counts.latency_quantile_ms(0.95), None);
        let mut buckets = [0; LATENCY_BUCKETS];
        (buckets[0], buckets[5]) = (90, 10);
        counts.set_latency(buckets);
        assert_eq!(counts.latency_quantile_ms(0.9), Some(1.0));
        assert_eq!(counts.latency_quantile_ms(0.95), Some(75.0));
        buckets = [0; LATENCY_BUCKETS];
        buckets[LATENCY_BUCKETS - 1] = 1;
        counts.set_latency(buckets);
        assert_eq!(counts.latency_quantile_ms(0.5), Some(30_000.0));
    }

    #[test]
    fn every_count_is_added_and_written() {
        let row = Counts { calls: 2, ok: 1, throttled: 1, latency_12: 3, attempts_6: 4, ..Counts::default() };
        let mut sum = row;
        sum.add(&row);
        assert_eq!(sum.values().sum::<i64>(), 2 * row.values().sum::<i64>());
        assert_eq!(sum.values().count(), Counts::COLUMNS.len());
        assert!((sum.throttled_share() - 0.5).abs() < f64::EPSILON);
    }
}
