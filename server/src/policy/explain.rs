//! Which limits hold for an agent and a tool, where each comes from, what it shadows, and how it stands.

use std::sync::Arc;

use serde::Serialize;
use sluicegate_control::{
    Actor, Agent, AgentRef, Control, ControlError, ExplainedLimit, ExplainedSource, Explanation, LimitEntry,
    LimitUsage, Question, Shadowed, TenantRef, Tool, WallClock,
};
use sluicegate_limits::{
    AgentId, Call, KeyId, Limit, Limiter, Place, RateLimit, RuleReport, TenantHandle, ToolId, Wait,
};
use sluicegate_mcp::ToolIndex;

use super::baseline::Baseline;
use super::call_rules::CallRules;
use super::resolve::{ANONYMOUS, Applied, Asked, Limits, Resolver, Source, Who};
use super::{PolicyStore, Snapshot};
use crate::engine::{LimitEngine, Names};
use crate::pages;
use crate::settings::Settings;

/// What is missing where a tool is known to the database, but not to this server.
const NOT_SERVED_HERE: &str = "tool on this server";

/// A limit that holds where the database says nothing else.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BaselineLimit {
    /// Whom it is about: `tenant`, `tool export`.
    pub(crate) about: String,
    /// `rate` or `concurrency`.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// In words.
    pub(crate) from: String,
}

/// Every limit of code and settings, as far as overrides do not replace it.
pub(crate) fn baseline_limits(baseline: &Baseline) -> Vec<BaselineLimit> {
    let line = |about: String, limits: Limits, from: String| BaselineLimit {
        about,
        kind: if matches!(limits, Limits::Rates(_)) { "rate" } else { "concurrency" },
        text: all_texts(&limits),
        from,
    };
    let set =
        |about: &str, limits: Limits, setting| line(about.to_owned(), limits, baseline.set_by(setting).to_string());
    let server = baseline.server.map(|rate| set("server", rate.into(), "limit_server"));
    let mut lines: Vec<_> = server.into_iter().collect();
    lines.extend([
        set("server", baseline.server_concurrency.into(), "max_in_flight"),
        set("tenant", baseline.tenant.into(), "limit_tenant"),
        set("agent", baseline.agent.into(), "limit_agent"),
        set("agent", baseline.agent_concurrency.into(), "agent_concurrency"),
        set("agent, other requests", baseline.requests.into(), "requests_per_agent"),
    ]);
    for (index, (name, declared)) in (0..).zip(baseline.tools()) {
        let (Some(tool), about) = (ToolIndex::at(index), format!("tool {name}")) else { continue };
        let configured = baseline.configured(tool);
        lines.push(match (&configured.rates, declared.rates.is_empty()) {
            (Some((rates, by)), _) => line(about.clone(), rates.into(), by.to_string()),
            (None, false) => line(about.clone(), (&declared.rates).into(), "the tool's code".to_owned()),
            (None, true) => set(&about, baseline.tool.into(), "limit_tool"),
        });
        let cap = match (&configured.concurrency, declared.concurrency) {
            (Some((cap, by)), _) => Some((*cap, by.to_string())),
            (None, declared) => declared.map(|cap| (cap, "the tool's code".to_owned())),
        };
        lines.extend(cap.map(|(cap, from)| line(about, cap.into(), from)));
    }
    lines
}

/// Answers questions about limits, with present usage where there is a limiter.
pub(crate) struct Explainer {
    pub(crate) control: Control,
    pub(crate) policy: Arc<PolicyStore>,
    pub(crate) engine: Option<LimitEngine>,
}

impl Explainer {
    /// An explainer where no server runs: by the database, and by what servers have declared there.
    pub(crate) async fn offline(control: &Control, settings: &Settings) -> anyhow::Result<Self> {
        let actor = Actor::system("explain");
        let tools = pages::all(async |page| control.tools().list(&actor, page).await).await?;
        let declared = tools.into_iter().map(|tool| {
            let declared = serde_json::from_str(tool.definition.declared_limits.as_str()).unwrap_or_default();
            (tool.definition.name, declared)
        });
        let baseline = Arc::new(Baseline::new(settings, declared)?);
        let policy = Arc::new(PolicyStore::load(control.clone(), WallClock::system(), baseline).await?);
        Ok(Self { control: control.clone(), policy, engine: None })
    }

    /// Answers a question, by the policy in force.
    ///
    /// # Errors
    /// `NotFound` for the tenant, the agent or the key, `UnknownTool` for the tool.
    pub(crate) async fn explain(&self, actor: &Actor, question: Question) -> Result<Explanation, ControlError> {
        let tenant = TenantRef::from(question.tenant.as_str());
        let agent = self.control.agents().get(actor, &tenant, &AgentRef::from(question.agent.as_str())).await?;
        if let Some(key) = question.key {
            self.control.keys().get(actor, key).await?;
        }
        self.control.tools().get(actor, &question.tool).await?;
        let snapshot = self.policy.current();
        let Some(tool) = snapshot.baseline.tool(&question.tool) else {
            return Err(ControlError::NotFound { what: NOT_SERVED_HERE, name: question.tool });
        };
        Ok(self.answer(&snapshot, question, &agent, tool).await)
    }

    /// Answers the same for all tools that are served here.
    ///
    /// # Errors
    /// `NotFound` for the tenant, the agent or the key.
    pub(crate) async fn explain_each(
        &self,
        actor: &Actor,
        tenant: &TenantRef,
        agent: &AgentRef,
        key: Option<sluicegate_control::KeyId>,
        tools: &[Tool],
    ) -> Result<Vec<Explanation>, ControlError> {
        let agent = self.control.agents().get(actor, tenant, agent).await?;
        if let Some(key) = key {
            self.control.keys().get(actor, key).await?;
        }
        let snapshot = self.policy.current();
        let mut answers = Vec::with_capacity(tools.len());
        for Tool { definition, .. } in tools {
            let Some(tool) = snapshot.baseline.tool(&definition.name) else { continue };
            let (tenant, agent_id) = (agent.tenant_id.to_string(), agent.id.to_string());
            let question = Question { tenant, agent: agent_id, tool: definition.name.clone(), key };
            answers.push(self.answer(&snapshot, question, &agent, tool).await);
        }
        Ok(answers)
    }

    async fn answer(&self, snapshot: &Snapshot, question: Question, agent: &Agent, tool: ToolIndex) -> Explanation {
        let who = Who { tenant: Some(agent.tenant_id), agent: Some(agent.id), key: question.key };
        let asked = Asked::Tool(tool);
        let applied = Resolver { snapshot, who }.resolve(asked);
        let rules = snapshot.rules(&applied, asked);
        let counted_as = who.counted_as(&agent.name);
        let reports = match &self.engine {
            Some(engine) => Some(usage(engine, &rules, &counted_as.names(&question.tool)).await),
            None => None,
        };
        Explanation {
            question,
            revision: snapshot.revision.get(),
            live: reports.is_some(),
            limits: explain(&applied, reports.as_deref()),
        }
    }
}

impl Explainer {
    /// Requests in work: what is used of the cap that holds for all of them.
    pub(crate) fn in_flight(&self) -> u64 {
        let Some(engine) = &self.engine else { return 0 };
        let (snapshot, who) = (self.policy.current(), Who::default());
        let applied = Resolver { snapshot: &snapshot, who }.resolve(Asked::Request);
        let CallRules { rules, .. } = &*snapshot.rules(&applied, Asked::Request);
        let caps = rules.caps().iter().rev();
        // The reports of caps come after those of rates.
        let counted_as = who.counted_as(ANONYMOUS);
        let (tenant, agent, key, tool) = ids(&engine.limiter, &counted_as.names(""));
        let reports = engine.limiter.inspect(&Call { rules, tenant: &tenant, agent, key, tool });
        let mut reported = caps.zip(reports.into_iter().rev());
        reported.find(|(cap, _)| cap.place == Place::Server).map_or(0, |(_, report)| report.used)
    }
}

/// What is known of every rule: rates in order, then caps.
async fn usage(engine: &LimitEngine, CallRules { rules, .. }: &CallRules, names: &Names<'_>) -> Vec<RuleReport> {
    let (tenant, agent, key, tool) = ids(&engine.limiter, names);
    engine.inspect(&Call { rules, tenant: &tenant, agent, key, tool }, names).await
}

/// The ids of a caller in this process.
fn ids(limiter: &Limiter, names: &Names<'_>) -> (TenantHandle, AgentId, Option<KeyId>, ToolId) {
    let tenant = limiter.tenant(names.tenant);
    let (agent, key) = (tenant.agent(names.agent), (!names.key.is_empty()).then(|| tenant.key(names.agent, names.key)));
    (tenant, agent, key, limiter.tool(names.tool))
}

/// One line for every limit. The rules were made from `applied` in its order, so the reports are too.
fn explain(applied: &[Applied], reports: Option<&[RuleReport]>) -> Vec<ExplainedLimit> {
    let rates = applied.iter().map(|applied| match &applied.limits {
        Limits::Rates(rates) => rates.len(),
        Limits::Cap(_) => 0,
    });
    let (mut next_rate, mut next_cap) = (0, rates.sum::<usize>());
    let mut lines = Vec::new();
    for applied in applied {
        let (limits, next) = match &applied.limits {
            Limits::Rates(rates) => (rates.iter().map(|rate| Limit::Rate(*rate)).collect(), &mut next_rate),
            Limits::Cap(cap) => (vec![Limit::Concurrency(*cap)], &mut next_cap),
        };
        for limit in limits {
            lines.push(line(applied, limit, reports.map(|reports| &reports[*next])));
            *next += 1;
        }
    }
    lines
}

fn line(applied: &Applied, limit: Limit, report: Option<&RuleReport>) -> ExplainedLimit {
    let rate = match limit {
        Limit::Rate(rate) => Some(rate),
        Limit::Concurrency(_) => None,
    };
    ExplainedLimit {
        scope: applied.scope.to_string(),
        kind: if rate.is_some() { "rate" } else { "concurrency" }.to_owned(),
        text: text(limit),
        limit: limit.to_string(),
        algorithm: rate.map(|rate| rate.algorithm().to_string()),
        worst_case: rate.as_ref().map(RateLimit::describe_worst_case),
        mode: applied.mode.to_string(),
        source: source(&applied.source),
        shadows: applied.shadows.iter().map(shadowed).collect(),
        usage: report.map(|report| LimitUsage {
            used: report.used,
            remaining: report.remaining,
            refuses: report.refuses,
            retry_after_ms: report.wait.map(Wait::retry_after_ms),
        }),
    }
}

fn text(limit: Limit) -> String {
    match limit {
        Limit::Rate(rate) => rate.quota().to_string(),
        Limit::Concurrency(cap) => cap.to_string(),
    }
}

fn shadowed((origin, limits): &(Source, Limits)) -> Shadowed {
    Shadowed { text: all_texts(limits), source: source(origin) }
}

fn all_texts(limits: &Limits) -> String {
    match limits {
        Limits::Rates(rates) => rates.iter().map(|rate| rate.quota().to_string()).collect::<Vec<_>>().join(", "),
        Limits::Cap(cap) => cap.to_string(),
    }
}

fn source(source: &Source) -> ExplainedSource {
    match source {
        Source::Declared => ExplainedSource::Declared,
        Source::Config(by) => ExplainedSource::Config { setting: by.setting.clone(), source: by.source.clone() },
        Source::Override(entry) => overridden(entry),
    }
}

fn overridden(entry: &LimitEntry) -> ExplainedSource {
    ExplainedSource::Override {
        id: entry.id.to_string(),
        target: entry.target.to_string(),
        author: entry.updated_by.clone(),
        updated_at: entry.updated_at,
        expires_at: entry.expires_at,
        note: entry.note.clone(),
    }
}
