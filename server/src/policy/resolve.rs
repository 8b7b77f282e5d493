//! Which limits hold for a call, and where each comes from.
//!
//! All scopes hold at once; inside a scope the most specific source replaces the others, for rates and for concurrency
//! separately:
//!
//! | scope | sources, most specific first |
//! |---|---|
//! | server | override, configuration |
//! | tenant | the tenant's own, its plan's, configuration |
//! | agent | the agent's own, the plan's, configuration |
//! | agent, per API key | the key's own |
//! | tool | tenant + agent + tool, tenant + tool, plan + tool, tool, declared in code, configuration |

use std::sync::Arc;

use sluicegate_control::{AgentId, KeyId, LimitEntry, LimitKind, LimitKindName as Kind, PlanId, Target, TenantId};
use sluicegate_limits::{Concurrency, Mode, Per, Place, RateLimit, Scope};
use sluicegate_mcp::ToolIndex;

use super::Snapshot;

/// The caller as overrides are looked up for it. All `None`: nobody is identified (`auth = "none"`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Who {
    pub(crate) tenant: Option<TenantId>,
    pub(crate) agent: Option<AgentId>,
    pub(crate) key: Option<KeyId>,
}

/// What is asked for, as far as limits differ by it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked {
    Tool(ToolIndex),
    /// A tool call that names no tool the caller has.
    UnknownTool,
    /// Any other request.
    Request,
    /// What nobody waits for an answer to; never refused for its rate.
    Notification,
}

/// One scope's limits of one kind, with their source and what that source replaces.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) scope: Scope,
    pub(crate) place: Place,
    pub(crate) limits: Limits,
    pub(crate) mode: Mode,
    pub(crate) source: Source,
    pub(crate) shadows: Vec<(Source, Limits)>,
}

/// The numbers of one source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Limits {
    Rates(Vec<RateLimit>),
    Cap(Concurrency),
}

impl Limits {
    fn unless_empty(self) -> Option<Self> {
        match self {
            Self::Rates(rates) if rates.is_empty() => None,
            limits => Some(limits),
        }
    }
}

impl From<RateLimit> for Limits {
    fn from(rate: RateLimit) -> Self {
        Self::Rates(vec![rate])
    }
}

impl From<Option<RateLimit>> for Limits {
    fn from(rate: Option<RateLimit>) -> Self {
        Self::Rates(rate.into_iter().collect())
    }
}

impl From<&Vec<RateLimit>> for Limits {
    fn from(rates: &Vec<RateLimit>) -> Self {
        Self::Rates(rates.clone())
    }
}

impl From<Concurrency> for Limits {
    fn from(cap: Concurrency) -> Self {
        Self::Cap(cap)
    }
}

/// Where a limit comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// An entry of the database.
    Override(Arc<LimitEntry>),
    /// The tool's attribute.
    Declared,
    /// A setting, by name.
    Config(&'static str),
}

/// The limits of one call: what overrides say, over what the baseline says.
pub(crate) struct Resolver<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) who: Who,
}

impl Resolver<'_> {
    /// Every limit that holds, in the order server, tenant, agent, tool.
    pub(crate) fn resolve(&self, asked: Asked) -> Vec<Applied> {
        let base = &*self.snapshot.baseline;
        let mut layers = vec![
            Layer::cap(Scope::Server, Place::Server, [Target::Server]).or("max_in_flight", base.server_concurrency),
            Layer::cap(Scope::Tenant, Place::Tenant, self.tenant_targets()),
            Layer::cap(Scope::Agent, Place::Agent, self.agent_targets())
                .or("agent_concurrency", base.agent_concurrency),
            Layer::cap(Scope::Agent, Place::AgentKey, self.key_target()),
        ];
        match asked {
            Asked::Notification => {}
            Asked::Request => {
                let requests = Layer::rate(Scope::Agent, Place::AgentRequests, []);
                layers.push(requests.or("requests_per_agent", base.requests));
            }
            Asked::Tool(_) | Asked::UnknownTool => layers.extend([
                Layer::rate(Scope::Server, Place::Server, [Target::Server]).or("limit_server", base.server),
                Layer::rate(Scope::Tenant, Place::Tenant, self.tenant_targets()).or("limit_tenant", base.tenant),
                Layer::rate(Scope::Agent, Place::Agent, self.agent_targets()).or("limit_agent", base.agent),
                Layer::rate(Scope::Agent, Place::AgentKey, self.key_target()),
            ]),
        }
        if let Asked::Tool(tool) = asked {
            let declared = base.declaration(tool);
            let (place, targets) = (tool_place(declared.per), self.tool_targets(base.tool_name(tool)));
            let rate = Layer::rate(Scope::Tool, place, targets.clone()).or_declared(&declared.rates);
            layers.push(rate.or("limit_tool", base.tool));
            let cap = Layer::cap(Scope::Tool, place, targets);
            layers.push(match declared.concurrency {
                Some(declared) => cap.or_declared(declared),
                None => cap,
            });
        }
        layers.into_iter().filter_map(|layer| layer.apply(self.snapshot)).collect()
    }

    fn plan(&self) -> Option<PlanId> {
        self.who.tenant.and_then(|tenant| self.snapshot.tenant(tenant)).and_then(|tenant| tenant.plan_id)
    }

    fn tenant_targets(&self) -> Vec<Target> {
        let own = self.who.tenant.map(|tenant| Target::Tenant { tenant });
        own.into_iter().chain(self.plan().map(|plan| Target::Plan { plan })).collect()
    }

    fn agent_targets(&self) -> Vec<Target> {
        let own = self.who.tenant.zip(self.who.agent).map(|(tenant, agent)| Target::Agent { tenant, agent });
        own.into_iter().chain(self.plan().map(|plan| Target::PlanAgent { plan })).collect()
    }

    fn key_target(&self) -> Option<Target> {
        let Who { tenant, agent, key } = self.who;
        Some(Target::Key { tenant: tenant?, agent: agent?, key: key? })
    }

    fn tool_targets(&self, name: &str) -> Vec<Target> {
        let tool = || name.to_owned();
        let Who { tenant, agent, .. } = self.who;
        let of_agent = tenant.zip(agent).map(|(tenant, agent)| Target::AgentTool { tenant, agent, tool: tool() });
        let of_tenant = tenant.map(|tenant| Target::TenantTool { tenant, tool: tool() });
        let of_plan = self.plan().map(|plan| Target::PlanTool { plan, tool: tool() });
        [of_agent, of_tenant, of_plan, Some(Target::Tool { tool: tool() })].into_iter().flatten().collect()
    }
}

/// One scope's limits of one kind: the targets of overrides, most specific first, and what holds below them.
struct Layer {
    kind: Kind,
    scope: Scope,
    place: Place,
    targets: Vec<Target>,
    below: Vec<(Source, Limits)>,
}

impl Layer {
    fn rate(scope: Scope, place: Place, targets: impl IntoIterator<Item = Target>) -> Self {
        Self { kind: Kind::Rate, scope, place, targets: targets.into_iter().collect(), below: Vec::new() }
    }

    fn cap(scope: Scope, place: Place, targets: impl IntoIterator<Item = Target>) -> Self {
        Self { kind: Kind::Concurrency, ..Self::rate(scope, place, targets) }
    }

    /// Below that: what the tool declares, if it does.
    fn or_declared(mut self, limits: impl Into<Limits>) -> Self {
        self.below.extend(limits.into().unless_empty().map(|limits| (Source::Declared, limits)));
        self
    }

    /// Below that: a setting, if it is set.
    fn or(mut self, setting: &'static str, limits: impl Into<Limits>) -> Self {
        self.below.extend(limits.into().unless_empty().map(|limits| (Source::Config(setting), limits)));
        self
    }

    /// The most specific source, if there is any, with all that it shadows.
    fn apply(self, snapshot: &Snapshot) -> Option<Applied> {
        let Self { kind, scope, place, targets, below } = self;
        let entries = targets.iter().filter_map(|target| snapshot.entry(target, kind));
        let overrides = entries.map(|entry| (Source::Override(Arc::clone(entry)), numbers(entry)));
        let mut sources = overrides.chain(below);
        let (source, limits) = sources.next()?;
        let shadows = sources.collect();
        let (place, mode) = match &source {
            Source::Override(entry) => (overridden_place(entry, place), entry.mode),
            Source::Declared | Source::Config(_) => (place, Mode::Enforce),
        };
        Some(Applied { scope, place, limits, mode, source, shadows })
    }
}

/// The numbers of an entry. Control has checked that they go together when the entry was set.
fn numbers(entry: &LimitEntry) -> Limits {
    match &entry.kind {
        LimitKind::Concurrency { cap } => Limits::Cap(*cap),
        LimitKind::Rate { quotas, burst, algorithm, .. } => {
            let algorithm = algorithm.unwrap_or(entry.target.default_algorithm());
            Limits::Rates(quotas.iter().filter_map(|quota| RateLimit::new(*quota, *burst, algorithm).ok()).collect())
        }
    }
}

/// An override of a tool may say whose calls it counts; otherwise the tool's declaration stands.
fn overridden_place(entry: &LimitEntry, place: Place) -> Place {
    match (&entry.kind, place) {
        (LimitKind::Rate { per: Some(per), .. }, Place::AgentTool | Place::TenantTool | Place::ServerTool) => {
            tool_place(*per)
        }
        _ => place,
    }
}

const fn tool_place(per: Per) -> Place {
    match per {
        Per::Agent => Place::AgentTool,
        Per::Tenant => Place::TenantTool,
        Per::Server => Place::ServerTool,
    }
}
