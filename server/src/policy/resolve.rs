//! Which limits hold for a call, and where each comes from.
//!
//! All scopes hold at once; inside a scope the most specific source replaces the others, for rates and for concurrency
//! separately. An override in observe mode replaces nothing: it stands beside the source in whose place it would be.
//!
//! | scope | sources, most specific first |
//! |---|---|
//! | server | override, configuration |
//! | tenant | the tenant's own, its plan's, configuration |
//! | agent | the agent's own, the plan's, configuration |
//! | agent, per API key | the key's own |
//! | tool | tenant + agent + tool, tenant + tool, plan + tool, tool, configuration of the tool, declared in code, configuration |

use std::sync::Arc;

use sluicegate_control::{AgentId, KeyId, LimitEntry, LimitKind, LimitKindName as Kind, PlanId, Target, TenantId};
use sluicegate_limits::{Concurrency, Mode, Per, Place, RateLimit, Scope, TenantIdentity};
use sluicegate_mcp::ToolIndex;

use super::Snapshot;
use crate::engine::Names;
use crate::settings::tool_limits::ConfiguredBy;

/// The caller as overrides are looked up for it. All `None`: nobody is identified (`auth = "none"`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Who {
    pub(crate) tenant: Option<TenantId>,
    pub(crate) agent: Option<AgentId>,
    pub(crate) key: Option<KeyId>,
}

/// The names under which a caller's limits count: of the tenant and the key their ids, so that nobody inherits with a name
/// what was used under it. An agent's name belongs to one agent for as long as its tenant lives, and is known before its id
/// is: a token may name somebody new.
pub(crate) struct CountedAs<'a> {
    tenant: Option<String>,
    agent: &'a str,
    key: Option<String>,
}

impl Who {
    /// The names of this caller, whose agent is called `agent`.
    pub(crate) fn counted_as(self, agent: &str) -> CountedAs<'_> {
        CountedAs {
            tenant: self.tenant.map(|tenant| tenant.to_string()),
            agent,
            key: self.key.map(|key| key.to_string()),
        }
    }
}

impl CountedAs<'_> {
    pub(crate) fn names<'a>(&'a self, tool: &'a str) -> Names<'a> {
        let tenant = self.tenant.as_deref().map_or(TenantIdentity::Untenanted, TenantIdentity::Named);
        Names { tenant, agent: self.agent, key: self.key.as_deref().unwrap_or_default(), tool }
    }
}

/// The agent of a server with `auth = "none"`.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// What is asked for, as far as limits differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Asked {
    Tool(ToolIndex),
    /// A tool call that names no tool the caller has.
    UnknownTool,
    /// Any other request.
    Request,
    /// What nobody waits for an answer to, or what goes on with work that runs; never refused for its rate.
    Notification,
    /// A request that is answered by a stream. Open streams have caps of their own: see `gate/streams.rs`.
    Listen,
    /// A stream that nobody has to ask for with a request; never refused for its rate.
    Stream,
}

/// One scope's limits of one kind, with their source and what that source replaces.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) scope: Scope,
    pub(crate) place: Place,
    pub(crate) limits: Limits,
    pub(crate) mode: Mode,
    pub(crate) source: Source,
    /// Of a limit in observe mode: what it would replace.
    pub(crate) shadows: Vec<(Source, Limits)>,
}

/// The numbers of one source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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

impl From<&Concurrency> for Limits {
    fn from(cap: &Concurrency) -> Self {
        Self::Cap(*cap)
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
    /// A setting.
    Config(ConfiguredBy),
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
        if let Asked::Stream = asked {
            return Vec::new();
        }
        let caps = || {
            [
                Layer::cap(Scope::Server, Place::Server, [Target::Server])
                    .or(base.set_by("max_in_flight"), base.server_concurrency),
                Layer::cap(Scope::Tenant, Place::Tenant, self.tenant_targets()),
                Layer::cap(Scope::Agent, Place::Agent, self.agent_targets())
                    .or(base.set_by("agent_concurrency"), base.agent_concurrency),
                Layer::cap(Scope::Agent, Place::AgentKey, self.key_target()),
            ]
        };
        let mut layers = if let Asked::Listen = asked { Vec::new() } else { Vec::from(caps()) };
        match asked {
            Asked::Notification | Asked::Stream => {}
            Asked::Request | Asked::Listen => {
                let requests = Layer::rate(Scope::Agent, Place::AgentRequests, []);
                layers.push(requests.or(base.set_by("requests_per_agent"), base.requests));
            }
            Asked::Tool(_) | Asked::UnknownTool => layers.extend([
                Layer::rate(Scope::Server, Place::Server, [Target::Server])
                    .or(base.set_by("limit_server"), base.server),
                Layer::rate(Scope::Tenant, Place::Tenant, self.tenant_targets())
                    .or(base.set_by("limit_tenant"), base.tenant),
                Layer::rate(Scope::Agent, Place::Agent, self.agent_targets())
                    .or(base.set_by("limit_agent"), base.agent),
                Layer::rate(Scope::Agent, Place::AgentKey, self.key_target()),
            ]),
        }
        if let Asked::Tool(tool) = asked {
            let (declared, configured) = (base.declaration(tool), base.configured(tool));
            let (place, targets) = (tool_place(declared.per), self.tool_targets(base.tool_name(tool)));
            let rate = Layer::rate(Scope::Tool, place, targets.clone()).or_configured(&configured.rates);
            layers.push(rate.or_declared(&declared.rates).or(base.set_by("limit_tool"), base.tool));
            let cap = Layer::cap(Scope::Tool, place, targets).or_configured(&configured.concurrency);
            layers.push(match declared.concurrency {
                Some(declared) => cap.or_declared(declared),
                None => cap,
            });
        }
        layers.into_iter().flat_map(|layer| layer.apply(self.snapshot)).collect()
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

    /// Below that: what the settings say of this tool, if they do.
    fn or_configured<L>(self, configured: &Option<(L, ConfiguredBy)>) -> Self
    where
        for<'a> &'a L: Into<Limits>,
    {
        match configured {
            Some((limits, by)) => self.or(by.clone(), limits),
            None => self,
        }
    }

    /// Below that: what the tool declares, if it does.
    fn or_declared(mut self, limits: impl Into<Limits>) -> Self {
        self.below.extend(limits.into().unless_empty().map(|limits| (Source::Declared, limits)));
        self
    }

    /// Below that: a setting, if it is set.
    fn or(mut self, by: ConfiguredBy, limits: impl Into<Limits>) -> Self {
        self.below.extend(limits.into().unless_empty().map(|limits| (Source::Config(by), limits)));
        self
    }

    /// The most specific source that is enforced, if there is any, with all that it shadows; and beside it the most
    /// specific one that is observed, if it would take that one's place.
    fn apply(self, snapshot: &Snapshot) -> impl Iterator<Item = Applied> {
        let Self { kind, scope, place, targets, below } = self;
        let entry = |target: &Target, mode| snapshot.entry(target, kind, mode);
        let is_enforced = |target: &Target| entry(target, Mode::Enforce).is_some();
        let covers = targets.iter().position(is_enforced).map_or(targets.len(), |enforced| enforced + 1);
        let observed = targets[..covers].iter().find_map(|target| entry(target, Mode::Observe)).map(overrides);

        let enforced = targets.iter().filter_map(|target| entry(target, Mode::Enforce)).map(overrides);
        let mut enforced = enforced.chain(below).collect::<Vec<_>>().into_iter();
        let in_force = enforced.next();
        let covered = in_force.iter().cloned().collect();
        let applied = |mode, (source, limits): (Source, Limits), shadows| {
            let place = match &source {
                Source::Override(entry) => overridden_place(entry, place),
                Source::Declared | Source::Config(_) => place,
            };
            Applied { scope, place, limits, mode, source, shadows }
        };
        let in_force = in_force.map(|source| applied(Mode::Enforce, source, enforced.collect()));
        in_force.into_iter().chain(observed.map(|source| applied(Mode::Observe, source, covered)))
    }
}

fn overrides(entry: &Arc<LimitEntry>) -> (Source, Limits) {
    (Source::Override(Arc::clone(entry)), numbers(entry))
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
