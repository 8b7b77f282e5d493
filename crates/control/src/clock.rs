//! Wall-clock time, injected.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::ControlError;

/// What people read times from: milliseconds since 1970-01-01T00:00:00Z.
///
/// The control plane asks its clock for every `created_at`, `expires_at` and audit
/// time, so a test that holds a [`ManualClock`] never has to sleep.
#[derive(Clone, Debug, Default)]
pub struct WallClock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Manual(ManualClock),
}

impl WallClock {
    /// The clock of the operating system.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// Milliseconds since the Unix epoch.
    #[expect(clippy::disallowed_methods, reason = "this is where the others get it from")]
    pub fn now_ms(&self) -> i64 {
        match &self.0 {
            Source::System => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                whole_ms(since_epoch)
            }
            Source::Manual(clock) => clock.0.load(Ordering::Relaxed),
        }
    }
}

/// A clock that stands still until it is told to move. Clones share the time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows `ms` milliseconds since the Unix epoch.
    pub fn at(ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(ms)))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(whole_ms(by), Ordering::Relaxed);
    }
}

impl From<ManualClock> for WallClock {
    fn from(clock: ManualClock) -> Self {
        Self(Source::Manual(clock))
    }
}

/// The end of the year 9999, in epoch milliseconds: what RFC 3339 can write, and later than anybody means.
const LATEST_END: i64 = 253_402_300_799_000;

/// Refuses a moment at which something is to end that is over already or too far away.
pub(crate) fn check_end(expires_at: Option<i64>, now_ms: i64) -> Result<(), ControlError> {
    match expires_at {
        Some(end) if end <= now_ms => {
            Err(ControlError::invalid("expires_at", &end, &"expires_at must be in the future"))
        }
        Some(end) if end > LATEST_END => {
            Err(ControlError::invalid("expires_at", &end, &"expires_at must be before the year 10000"))
        }
        _ => Ok(()),
    }
}

/// A duration in the unit of the database. Longer than 292 million years saturates.
pub(crate) fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
