//! Who decides about the rates of a call: this process by itself, or Redis for all instances together.
//!
//! In process the [limiter](sluicegate_limits::Limiter) decides everything. With Redis it decides what is this instance's
//! alone (how many calls run here), and one script decides all rates of the call at once ([`question`], `decide/`,
//! [`verdict`]). The limiter follows along at this instance's [share](share) of every limit, so that it can take over when
//! Redis cannot be asked ([`shared`], [`supervisor`]).

mod ceiling;
mod leases;
mod link;
mod question;
mod share;
mod shared;
mod supervisor;
mod verdict;

use std::sync::Arc;

use sluicegate_limits::{Admission, Call, Limiter, Refusal, RuleReport};
use tokio_util::sync::CancellationToken;

pub(crate) use leases::Lease;
pub(crate) use link::Redis;
pub(crate) use question::{Keyspace, Names};
pub(crate) use share::Share;
pub(crate) use shared::{Shared, SharedLimits, SharedOptions};
use supervisor::Supervisor;

/// What decides about calls.
#[derive(Clone)]
pub(crate) struct LimitEngine {
    /// Of this process; it alone decides if nothing is shared.
    pub(crate) limiter: Limiter,
    /// What instances share, if they do.
    pub(crate) shared: Option<Arc<Shared>>,
}

/// Why a call was not admitted.
#[derive(Debug)]
pub(crate) enum Denial {
    /// A limit refused it.
    Refused(Refusal),
    /// What is shared cannot be asked, and the call may not be decided without.
    Closed,
}

impl From<Refusal> for Denial {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// How an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EngineState {
    /// `memory` or `redis`.
    pub(crate) kind: &'static str,
    /// Whether limits are not enforced as configured at the moment.
    pub(crate) degraded: bool,
    /// How often that began.
    pub(crate) outages: u64,
}

impl Default for EngineState {
    /// Of an engine that shares nothing.
    fn default() -> Self {
        Self { kind: "memory", degraded: false, outages: 0 }
    }
}

impl LimitEngine {
    /// An engine of this process alone.
    pub(crate) fn in_memory(limiter: Limiter) -> Self {
        Self { limiter, shared: None }
    }

    /// Decides about a call. `limits` gives what is needed of its limits to ask others, made once.
    pub(crate) async fn admit<'a>(
        &self,
        call: &Call<'_>,
        limits: impl FnOnce(&Shared) -> &'a SharedLimits,
    ) -> Result<(Admission, Option<Lease>), Denial> {
        match &self.shared {
            None => Ok((self.limiter.admit(call)?, None)),
            // In a box, so that calls which ask nobody do not carry it along.
            Some(shared) => Box::pin(shared.admit(call, limits(shared))).await,
        }
    }

    /// How every rule of the call stands, without touching it: rates in order, then caps.
    pub(crate) async fn inspect(&self, call: &Call<'_>, names: &Names<'_>) -> Vec<RuleReport> {
        match &self.shared {
            None => self.limiter.inspect(call),
            Some(shared) => shared.inspect(call, names).await,
        }
    }

    pub(crate) fn state(&self) -> EngineState {
        self.shared.as_ref().map_or_else(EngineState::default, |shared| EngineState {
            kind: "redis",
            degraded: shared.is_degraded(),
            outages: shared.outages(),
        })
    }
}

/// The work that keeps shared limits going, beside the calls.
pub(crate) struct Upkeep {
    supervisor: Supervisor,
    shared: Arc<Shared>,
}

impl LimitEngine {
    /// An engine that shares its limits, with its work.
    pub(crate) async fn shared(limiter: Limiter, options: SharedOptions) -> (Self, Upkeep) {
        let shared = Arc::new(Shared::new(options, limiter.clone()));
        let supervisor = Supervisor::start(Arc::clone(&shared)).await;
        (Self { limiter, shared: Some(Arc::clone(&shared)) }, Upkeep { supervisor, shared })
    }
}

impl Upkeep {
    /// Goes on until `shutdown` is cancelled, and gives back then what is held.
    pub(crate) async fn work(self, shutdown: CancellationToken) {
        let Self { supervisor, shared } = self;
        tokio::join!(
            supervisor.work(shutdown.clone()),
            ceiling::work(Arc::clone(&shared), shutdown.clone()),
            leases::work(shared, shutdown)
        );
    }
}
