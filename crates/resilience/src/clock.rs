//! Wall-clock time, injected. Everything else is measured by tokio's clock, which tests pause.

use std::time::SystemTime;

use tokio::time::Instant;

/// What dates in `Retry-After` are compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    started: Option<(SystemTime, Instant)>,
}

impl WallClock {
    /// The clock of the operating system.
    #[must_use]
    pub const fn system() -> Self {
        Self { started: None }
    }

    /// A clock that shows `time` now and goes on with tokio's, for tests with paused time.
    #[must_use]
    pub fn starting_at(time: SystemTime) -> Self {
        Self { started: Some((time, Instant::now())) }
    }

    /// The time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is where the others get it from")]
    pub fn now(&self) -> SystemTime {
        self.started.map_or_else(SystemTime::now, |(time, at)| time + at.elapsed())
    }
}
