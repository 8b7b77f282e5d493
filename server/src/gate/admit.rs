//! Admission: permits first, then rate limits, all or nothing.

use std::sync::Arc;

use http::Method;
use rand::Rng as _;
use sluicegate_control::WallClock;
use sluicegate_limits::{Call, Place, Reason as LimitReason, RuleRef, ToolId};
use sluicegate_mcp::{Attempt, Kind, Registry};

use super::authenticate::Principal;
use super::escalation::Escalation;
use super::streams::StreamPermit;
use super::ticket::Ticket;
use super::{Arrived, Trip};
use crate::engine::{Denial, Lease, LimitEngine, Shared, SharedLimits};
use crate::meter::Meter;
use crate::policy::PolicyStore;
use crate::policy::compile::{CallLimits, CallerPolicy};
use crate::policy::resolve::Asked;
use crate::refusal::fields::{Fields, Nearest};
use crate::refusal::{Reason, Refusal, Throttled};
use crate::telemetry::Telemetry;

/// The request that is answered by a stream of changes (MCP 2026-07-28).
const LISTEN: &str = "subscriptions/listen";

/// Requests by which a caller goes on with work that runs, or ends it.
const ENDS_WORK: [&str; 2] = ["tasks/update", "tasks/cancel"];

/// Decides who gets in, by the policy in force.
pub(crate) struct Admission {
    engine: LimitEngine,
    policy: Arc<PolicyStore>,
    registry: Arc<Registry>,
    /// The limiter's ids of the registry's tools, by index.
    tools: Box<[ToolId]>,
    jitter: bool,
    escalation: Option<Escalation>,
    clock: WallClock,
    telemetry: Arc<Telemetry>,
}

/// A request that got in, with what it holds.
pub(crate) struct Admitted {
    limits: Arc<CallLimits>,
    admission: sluicegate_limits::Admission,
    lease: Option<Lease>,
}

impl Admission {
    pub(crate) fn new(
        engine: LimitEngine,
        policy: Arc<PolicyStore>,
        registry: Arc<Registry>,
        jitter: bool,
        escalation: Option<Escalation>,
        clock: WallClock,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        let tools = registry.iter().map(|(_, tool)| engine.limiter.tool(tool.name())).collect();
        Self { engine, policy, registry, tools, jitter, escalation, clock, telemetry }
    }

    /// What the policy in force means for this caller: remembered until the policy changes.
    pub(crate) fn policy_of(&self, principal: &Principal) -> Arc<CallerPolicy> {
        let snapshot = self.policy.current();
        if let Some(policy) = principal.policy.load_full()
            && policy.is_of(&snapshot)
        {
            return policy;
        }
        let policy = Arc::new(CallerPolicy::of(&snapshot, principal.who, principal.opens()));
        principal.tenant.set_weight(policy.settings.weight.unwrap_or(1));
        principal.policy.store(Some(Arc::clone(&policy)));
        policy
    }

    /// Admits a request of a caller, or says which limit refused it.
    pub(crate) async fn admit(
        &self,
        principal: &Principal,
        policy: &CallerPolicy,
        asked: Asked,
    ) -> Result<Admitted, Refusal> {
        if let Some(who) = policy.suspended {
            return Err(Refusal::Suspended(who));
        }
        let limits = policy.limits(asked, principal.who);
        let tool = match asked {
            Asked::Tool(tool) => self.tools[tool.get() as usize],
            _ => ToolId::NONE,
        };
        let (tenant, agent, key) = (&principal.tenant, principal.agent, principal.key);
        let start = self.telemetry.now();
        let call = Call { rules: &limits.rules, tenant, agent, key, tool };
        let decided = self.engine.admit(&call, |shared| limits.shared(shared, principal)).await;
        self.telemetry.admission_took(start);
        match decided {
            Ok((admission, lease)) => Ok(Admitted { limits: Arc::clone(limits), admission, lease }),
            Err(Denial::Refused(refusal)) => Err(Refusal::Throttled(Box::new(self.throttled(&refusal, limits)))),
            Err(Denial::Closed) => Err(Refusal::Unavailable("Limits cannot be checked at the moment.")),
        }
    }

    /// What a message is charged for. A tool that the caller may not see and one that does not exist are the same.
    pub(crate) fn asked(&self, policy: &CallerPolicy, method: &Method, kind: &Kind<'_>) -> Asked {
        match kind {
            _ if method == Method::GET => Asked::Stream,
            _ if method != Method::POST => Asked::Notification,
            Kind::ToolCall(name) => match self.registry.get(name) {
                Some((tool, _)) if policy.sees(tool) => Asked::Tool(tool),
                _ => Asked::UnknownTool,
            },
            Kind::Request(method) => match &**method {
                LISTEN => Asked::Listen,
                method if ENDS_WORK.contains(&method) => Asked::Notification,
                _ => Asked::Request,
            },
            Kind::Unreadable => Asked::Request,
            Kind::Notification | Kind::Response => Asked::Notification,
        }
    }

    /// The scopes that would open the tool which is called and not seen; `None` for everything else.
    pub(crate) fn lacking_scopes<'a>(
        &self,
        principal: &Principal,
        policy: &'a CallerPolicy,
        kind: &Kind<'_>,
    ) -> Option<&'a [String]> {
        let Kind::ToolCall(name) = kind else { return None };
        let (tool, _) = self.registry.get(name)?;
        policy.lacking_scopes(tool, principal.who, principal.opens())
    }

    fn throttled(&self, refusal: &sluicegate_limits::Refusal, limits: &CallLimits) -> Throttled {
        let wait = refusal.wait().map(|wait| if self.jitter { wait.with_jitter(rand::rng().next_u64()) } else { wait });
        let wait = wait.map(|wait| match self.escalation {
            None => wait,
            Some(escalation) => escalation.wait(wait, &limits.heeded, self.clock.now_ms(), rand::rng().next_u64()),
        });
        let words = limits.words(refusal.rule());
        let nearest = words.name.as_ref().zip(wait).map(|(name, wait)| Nearest {
            name: Arc::clone(name),
            remaining: refusal.remaining(),
            seconds: wait.retry_after_seconds(),
        });
        let reason = match refusal.reason() {
            LimitReason::RateLimit => Reason::RateLimit,
            LimitReason::Concurrency if limits.place(refusal.rule()) == Place::Server => Reason::Overloaded,
            LimitReason::Concurrency => Reason::Concurrency,
            LimitReason::CostAboveCapacity => Reason::Cost,
        };
        Throttled {
            reason,
            scope: refusal.scope(),
            tool: limits.tool.clone(),
            limit: Arc::clone(&words.limit),
            current_usage: refusal.current_usage(),
            remaining: refusal.remaining(),
            wait,
            fields: Fields { policy: limits.policy_field.clone(), nearest },
            would_throttle: refusal.would_throttle(),
        }
    }
}

impl Admitted {
    /// The `RateLimit` fields of a served tool call; other requests carry none.
    pub(crate) fn fields(&self) -> Fields {
        if self.limits.tool.is_none() {
            return Fields::default();
        }
        let nearest = self.admission.nearest.and_then(|standing| {
            let (remaining, seconds) = (standing.remaining, standing.reset.retry_after_seconds());
            let name = self.limits.words(standing.rule).name.as_ref();
            name.map(|name| Nearest { name: Arc::clone(name), remaining, seconds })
        });
        Fields { policy: self.limits.policy_field.clone(), nearest }
    }

    /// Turns the permit into what work and response body hold.
    pub(crate) fn into_ticket(
        self,
        trip: &Trip,
        arrived: &Arrived,
        attempt: &Attempt<'_>,
        meter: &Arc<Meter>,
        stream: Option<StreamPermit>,
    ) -> Arc<Ticket> {
        let would_throttle = self.admission.would_throttle;
        let attempts = meter.admitted(arrived.principal.who, &self.limits, attempt.number);
        Arc::new(Ticket {
            principal: Arc::clone(&arrived.principal),
            limits: self.limits,
            would_throttle,
            attempts,
            request_id: Arc::clone(&trip.request_id),
            client: trip.client,
            started: trip.started,
            meter: Arc::clone(meter),
            ended: std::sync::OnceLock::new(),
            permit: self.admission.permit,
            lease: self.lease,
            stream,
        })
    }
}

impl CallLimits {
    /// What is needed to ask others about such calls of the caller whose limits these are.
    fn shared(&self, shared: &Shared, principal: &Principal) -> &SharedLimits {
        self.shared.get_or_init(|| {
            let counted_as = principal.who.counted_as(principal.caller.agent());
            let names = counted_as.names(self.tool.as_deref().unwrap_or_default());
            Box::new(shared.limits(&names, &self.rules, self.on_outage))
        })
    }

    fn place(&self, rule: RuleRef) -> Place {
        match rule {
            RuleRef::Rate(index) => self.rules.rates()[usize::from(index)].place,
            RuleRef::Cap(index) => self.rules.caps()[usize::from(index)].place,
        }
    }
}
