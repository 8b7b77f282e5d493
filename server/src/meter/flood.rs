//! Which refusals of a caller are worth a line in the log.

use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// How many refusals there are for one line, after the first.
const SAMPLE: u64 = 1_000;
/// A caller that was not refused for so long starts with a line again, in milliseconds.
const CALM_MS: u64 = 60_000;

/// Counts the refusals of one caller.
#[derive(Debug, Default)]
pub(crate) struct Flood {
    refusals: AtomicU64,
    /// When the latest one was, in milliseconds since the process looked first.
    latest_ms: AtomicU64,
}

impl Flood {
    /// Counts a refusal of now. `Some` if it is worth a line: the first, and then every 1 000th, with the count.
    pub(crate) fn refused(&self, now: Instant) -> Option<u64> {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        let now_ms = u64::try_from(now.saturating_duration_since(*START).as_millis()).unwrap_or(u64::MAX);
        if now_ms.saturating_sub(self.latest_ms.swap(now_ms, Relaxed)) > CALM_MS {
            self.refusals.store(0, Relaxed);
        }
        let count = self.refusals.fetch_add(1, Relaxed) + 1;
        (count == 1 || count.is_multiple_of(SAMPLE)).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_refusal_and_every_thousandth_is_worth_a_line_until_the_caller_is_calm() {
        let (flood, start) = (Flood::default(), Instant::now());
        let lines = |now, refusals| (0..refusals).filter_map(|_| flood.refused(now)).collect::<Vec<_>>();
        assert_eq!(lines(start, 2_500), [1, 1_000, 2_000]);
        assert_eq!(lines(start + Duration::from_secs(60), 500), [3_000]);
        assert_eq!(lines(start + Duration::from_secs(121), 2), [1]);
    }
}
