//! Looks for Redis while it is away, and whether it still knows what it knew while it is there.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::link::{Link, LinkError};
use super::shared::Shared;

/// How long after an attempt the next one begins.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How often a Redis that answers is asked whether it is the one that it was.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// What tells a Redis with its states from one without.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Memory {
    /// A value that is kept beside the states and goes when they go.
    epoch: String,
    /// The servers that answer: a replica that takes over may lack what was written last.
    servers: String,
}

/// Connects shared limits, and connects them again whenever they are lost.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    known: Option<Memory>,
}

impl Supervisor {
    /// Makes a first attempt, so that a server that has Redis has it from its first call on.
    pub(crate) async fn start(shared: Arc<Shared>) -> Self {
        let mut supervisor = Self { shared, known: None };
        if let Err(error) = supervisor.look().await {
            tracing::warn!(%error, "Redis cannot be asked yet: limits are enforced by this instance alone, as on_outage says");
        }
        supervisor
    }

    /// Goes on until `shutdown` is cancelled.
    pub(crate) async fn work(mut self, shutdown: CancellationToken) {
        let mut pause = LOOK_AGAIN;
        loop {
            let woken = async {
                tokio::select! {
                    () = self.shared.lost.notified() => {}
                    () = shutdown.cancelled() => {}
                }
            };
            let _ = timeout(pause, woken).await;
            if shutdown.is_cancelled() {
                return;
            }
            pause = match self.look().await {
                Ok(()) => LOOK_AFTER,
                Err(error) => {
                    tracing::debug!(%error, "Redis is away");
                    LOOK_AGAIN
                }
            };
        }
    }

    /// Connects if need be, and looks whether Redis is the one that is known.
    async fn look(&mut self) -> Result<(), LinkError> {
        match self.shared.link() {
            Some(link) => self.remember(&link).await.inspect_err(|error| self.shared.failed(&link, error)),
            None => {
                let link = self.shared.redis.connect().await?;
                self.remember(&link).await?;
                self.shared.found(link);
                Ok(())
            }
        }
    }

    async fn remember(&mut self, link: &Link) -> Result<(), LinkError> {
        // Another one at each attempt: what is lost must not come back as if it had never gone.
        let fresh = format!("{:032x}", rand::rng().random::<u128>());
        let epoch = link.get_or_set(&self.shared.key("epoch"), &fresh).await?;
        let found = Memory { epoch, servers: link.identity().await? };
        if self.known.as_ref().is_some_and(|known| *known != found) {
            self.shared.forgotten();
        }
        self.known = Some(found);
        Ok(())
    }
}
