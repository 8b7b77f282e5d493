//! What is held while a request is served. Its end meters the call and gives the permit back.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sluicegate_limits::{Permit, RuleSet};
use sluicegate_mcp::Outcome;

use super::authenticate::Principal;
use super::streams::StreamPermit;
use crate::engine::Lease;
use crate::meter::{Meter, Served};
use crate::policy::compile::CallLimits;

/// Shared by the work and by the response body, so that it ends when both have.
pub(crate) struct Ticket {
    pub(crate) principal: Arc<Principal>,
    pub(crate) limits: Arc<CallLimits>,
    pub(crate) request_id: Arc<str>,
    pub(crate) client: Option<IpAddr>,
    pub(crate) started: Instant,
    pub(crate) meter: Arc<Meter>,
    pub(crate) ended: OnceLock<(Outcome, Duration)>,
    pub(crate) would_throttle: RuleSet,
    pub(crate) attempts: Option<u32>,
    // Before the permit, so that whoever gets its slots takes the end of this along.
    #[expect(dead_code, reason = "held, never read: its drop gives the slots among all instances back")]
    pub(crate) lease: Option<Lease>,
    #[expect(dead_code, reason = "held, never read: its drop gives the slots back")]
    pub(crate) permit: Permit,
    /// The place among the open streams, if this is one.
    pub(crate) stream: Option<StreamPermit>,
}

impl sluicegate_mcp::Ticket for Ticket {
    fn ended(&self, outcome: Outcome) {
        let _ = self.ended.set((outcome, self.started.elapsed()));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let (outcome, latency) = match self.ended.get() {
            Some((outcome, latency)) => (Some(*outcome), *latency),
            None => (None, self.started.elapsed()),
        };
        self.meter.served(&Served {
            principal: &self.principal,
            limits: &self.limits,
            outcome,
            latency,
            would_throttle: self.would_throttle,
            request_id: &self.request_id,
            attempts: self.attempts,
            client: self.client,
        });
    }
}
