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
use super::baseline::Baseline;

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
    pub(crate) baseline: &'a Baseline,
    pub(crate) who: Who,
}

impl Resolver<'_> {
    /// Every limit that holds, in the order server, tenant, agent, tool.
    pub(crate) fn resolve(&self, asked: Asked) -> Vec<Applied> {
        let base = self.baseline;
        let mut applied = Vec::new();
        let cap = |setting, cap| Some((Source::Config(setting), Limits::Cap(cap)));
        let rate = |setting, rate| Some((Source::Config(setting), Limits::Rates(vec![rate])));

        self.add(
            &mut applied,
            Kind::Concurrency,
            Scope::Server,
            Place::Server,
            &[Some(Target::Server)],
            [cap("max_in_flight", base.server_concurrency)],
        );
        self.add(&mut applied, Kind::Concurrency, Scope::Tenant, Place::Tenant, &self.tenant_targets(), [None]);
        self.add(
            &mut applied,
            Kind::Concurrency,
            Scope::Agent,
            Place::Agent,
            &self.agent_targets(),
            [cap("agent_concurrency", base.agent_concurrency)],
        );
        self.add(&mut applied, Kind::Concurrency, Scope::Agent, Place::AgentKey, &[self.key_target()], [None]);
        match asked {
            Asked::Tool(_) | Asked::UnknownTool => {}
            Asked::Notification => return applied,
            Asked::Request => {
                let requests = rate("requests_per_agent", base.requests);
                self.add(&mut applied, Kind::Rate, Scope::Agent, Place::AgentRequests, &[], [requests]);
                return applied;
            }
        }

        let server = base.server.and_then(|limit| rate("limit_server", limit));
        self.add(&mut applied, Kind::Rate, Scope::Server, Place::Server, &[Some(Target::Server)], [server]);
        let tenant = rate("limit_tenant", base.tenant);
        self.add(&mut applied, Kind::Rate, Scope::Tenant, Place::Tenant, &self.tenant_targets(), [tenant]);
        let agent = rate("limit_agent", base.agent);
        self.add(&mut applied, Kind::Rate, Scope::Agent, Place::Agent, &self.agent_targets(), [agent]);
        self.add(&mut applied, Kind::Rate, Scope::Agent, Place::AgentKey, &[self.key_target()], [None]);

        if let Asked::Tool(tool) = asked {
            let declaration = base.declaration(tool);
            let targets = self.tool_targets(base.tool_name(tool));
            let rates =
                (!declaration.rates.is_empty()).then(|| (Source::Declared, Limits::Rates(declaration.rates.clone())));
            let fallback = rate("limit_tool", base.tool);
            let place = tool_place(declaration.per);
            self.add(&mut applied, Kind::Rate, Scope::Tool, place, &targets, [rates, fallback]);
            let cap = declaration.concurrency.map(|cap| (Source::Declared, Limits::Cap(cap)));
            self.add(&mut applied, Kind::Concurrency, Scope::Tool, place, &targets, [cap]);
        }
        applied
    }

    /// Adds the most specific source of one scope, if there is any, with all that it shadows.
    fn add<const N: usize>(
        &self,
        applied: &mut Vec<Applied>,
        kind: Kind,
        scope: Scope,
        place: Place,
        targets: &[Option<Target>],
        baseline: [Option<(Source, Limits)>; N],
    ) {
        let overrides = targets.iter().flatten().filter_map(|target| self.snapshot.entry(target, kind));
        let overrides = overrides.map(|entry| (Source::Override(Arc::clone(entry)), numbers(entry)));
        let mut sources = overrides.chain(baseline.into_iter().flatten());
        let Some((source, limits)) = sources.next() else { return };
        let place = match &source {
            Source::Override(entry) => overridden_place(entry, place),
            Source::Declared | Source::Config(_) => place,
        };
        let mode = match &source {
            Source::Override(entry) => entry.mode,
            Source::Declared | Source::Config(_) => Mode::Enforce,
        };
        applied.push(Applied { scope, place, limits, mode, source, shadows: sources.collect() });
    }

    fn plan(&self) -> Option<PlanId> {
        self.who.tenant.and_then(|tenant| self.snapshot.tenant(tenant)).and_then(|tenant| tenant.plan_id)
    }

    fn tenant_targets(&self) -> [Option<Target>; 2] {
        [self.who.tenant.map(|tenant| Target::Tenant { tenant }), self.plan().map(|plan| Target::Plan { plan })]
    }

    fn agent_targets(&self) -> [Option<Target>; 2] {
        let own = self.who.tenant.zip(self.who.agent).map(|(tenant, agent)| Target::Agent { tenant, agent });
        [own, self.plan().map(|plan| Target::PlanAgent { plan })]
    }

    fn key_target(&self) -> Option<Target> {
        let Who { tenant: Some(tenant), agent: Some(agent), key: Some(key) } = self.who else {
            return None;
        };
        Some(Target::Key { tenant, agent, key })
    }

    fn tool_targets(&self, name: &str) -> [Option<Target>; 4] {
        let tool = || name.to_owned();
        let who = self.who;
        [
            who.tenant.zip(who.agent).map(|(tenant, agent)| Target::AgentTool { tenant, agent, tool: tool() }),
            who.tenant.map(|tenant| Target::TenantTool { tenant, tool: tool() }),
            self.plan().map(|plan| Target::PlanTool { plan, tool: tool() }),
            Some(Target::Tool { tool: tool() }),
        ]
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
