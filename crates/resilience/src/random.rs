//! Randomness, injected.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Where jitter and idempotency keys come from. Clones share the sequence.
///
/// ```
/// use std::time::Duration;
///
/// use sluicegate_resilience::Random;
///
/// let second = Duration::from_secs(1);
/// assert_eq!(Random::seeded(7).up_to(second), Random::seeded(7).up_to(second));
/// assert!(Random::system().up_to(second) <= second);
/// ```
#[derive(Clone, Debug)]
pub struct Random(Arc<Mutex<StdRng>>);

impl Random {
    /// Seeded by the operating system.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(Mutex::new(rand::make_rng())))
    }

    /// The same sequence every time, for tests.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// A duration between zero and `most`, both included, each nanosecond as likely as the others.
    #[must_use]
    pub fn up_to(&self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.0.lock().random_range(0..=most))
    }

    /// A new idempotency key: a random UUID.
    pub(crate) fn key(&self) -> String {
        uuid::Builder::from_random_bytes(self.0.lock().random()).into_uuid().to_string()
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::system()
    }
}
