//! What one of several instances may let through by itself, so that all together stay within a limit.

use sluicegate_limits::{Algorithm, Quota, RateLimit};

/// One of `instances` equal parts. Where a limit cannot be divided, those of low rank get one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    instances: u64,
    rank: u64,
}

impl Share {
    /// All of it.
    pub(crate) const WHOLE: Self = Self { instances: 1, rank: 0 };

    /// The share of `own` among the instances that are alive; one that is not listed yet comes on top.
    pub(crate) fn among(own: &str, alive: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut ids: Vec<_> = alive.into_iter().map(|id| id.as_ref().to_owned()).collect();
        if !ids.iter().any(|id| id == own) {
            ids.push(own.to_owned());
        }
        // All instances sort alike, so that no two have the same rank.
        ids.sort_unstable();
        let rank = ids.iter().position(|id| id == own).unwrap_or_default();
        Self { instances: ids.len() as u64, rank: rank as u64 }
    }

    /// This part of `count`; 0 where there are more instances than calls.
    pub(crate) const fn of(self, count: u64) -> u64 {
        count / self.instances + (self.rank < count % self.instances) as u64
    }

    /// This part of a limit; `None` where nothing is left of it.
    pub(crate) fn of_limit(self, limit: &RateLimit) -> Option<RateLimit> {
        let quota = Quota::new(self.of(limit.quota().count()), limit.quota().window()).ok()?;
        // Of a bucket whose burst is its count the burst is shared with it.
        let burst = match (limit.burst(), limit.algorithm()) {
            (Some(burst), Algorithm::TokenBucket) => Some(u32::try_from(self.of(u64::from(burst))).unwrap_or(burst)),
            _ => None,
        };
        RateLimit::new(quota, burst, limit.algorithm()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_instances_are_the_whole_limit() {
        let ids = ["b", "a", "d", "c", "e"];
        for instances in 1..=ids.len() {
            for count in [1, 2, 3, 7, 100, 1_000_000_007] {
                let shares = ids[..instances].iter().map(|id| Share::among(id, &ids[..instances]).of(count));
                assert_eq!(shares.sum::<u64>(), count, "{count} among {instances}");
            }
        }
    }

    #[test]
    fn an_instance_that_is_not_listed_yet_counts_as_well() {
        assert_eq!(Share::among("c", ["a", "b"]), Share { instances: 3, rank: 2 });
        assert_eq!(Share::among("a", [""; 0]), Share::WHOLE);
    }

    #[test]
    fn burst_and_quota_are_shared_and_what_is_too_small_is_nobodys() {
        let limit = |quota: &str, burst| RateLimit::new(quota.parse().expect("a quota"), burst, Algorithm::TokenBucket);
        let third = Share { instances: 3, rank: 2 };
        let share = third.of_limit(&limit("10/min", Some(9)).expect("a limit")).expect("a share");
        assert_eq!((share.quota().count(), share.capacity()), (3, 3));
        assert_eq!(third.of_limit(&limit("2/min", None).expect("a limit")), None);
        assert_eq!(third.of_limit(&limit("30/min", Some(2)).expect("a limit")), None);
    }
}
