//! What is behind a cell of the heat map: an agent at a tool, and the limit that can be changed right there.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use sluicegate_control::{
    ATTEMPT_BOUNDS, Agent, AgentRef, ControlError, Event, EventFilter, ExplainedLimit, ExplainedSource, Explanation,
    LimitKindName, PageRequest, Period, Question, Target, Tenant, TenantRef, Totals, UsageRange, UsageScope,
};

use crate::Shared;
use crate::chart::Chart;
use crate::fault::Fault;
use crate::page::Page;
use crate::pages::limit_form::LimitForm;
use crate::pages::{agents, link, ranges};
use crate::visit::{Visitor, show};

/// How many refusals are listed.
const EVENTS: u16 = 10;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct CellQuery {
    tenant: String,
    agent: String,
    tool: String,
    range: String,
    /// What the form is about: `agent_tool`, `tenant_tool`, `tool`, `agent` or `tenant`.
    change: String,
}

/// A choice of what to change.
struct Choice {
    name: &'static str,
    text: String,
}

/// One bar of the distribution of attempts.
struct Attempts {
    label: String,
    calls: i64,
}

#[derive(Template)]
#[template(path = "throttling/cell.html")]
struct Cell {
    p: Page,
    tenant: Tenant,
    agent: Agent,
    tool: String,
    period: Period,
    totals: Totals,
    chart: Chart,
    runaway: bool,
    explanation: Option<Explanation>,
    events: Vec<Event>,
    attempts: Vec<Attempts>,
    choices: Vec<Choice>,
    change: &'static str,
    form: LimitForm,
}

impl Cell {
    fn here(&self, range: &str, change: &str) -> String {
        let agent = self.agent.id.to_string();
        let query = [
            ("tenant", &*self.tenant.slug),
            ("agent", &agent),
            ("tool", &self.tool),
            ("range", range),
            ("change", change),
        ];
        link("/admin/throttling/cell", &query)
    }

    fn range_link(&self, period: &Period) -> String {
        self.here(period.as_str(), self.change)
    }

    fn change_link(&self, choice: &Choice) -> String {
        format!("{}#change", self.here(self.period.as_str(), choice.name))
    }

    fn most_attempts(&self) -> i64 {
        self.attempts.iter().map(|attempts| attempts.calls).max().unwrap_or_default()
    }

    /// Where a limit comes from, in words.
    fn source(&self, source: &ExplainedSource) -> String {
        match source {
            ExplainedSource::Declared => self.p.t("source.declared").to_owned(),
            ExplainedSource::Config { setting, .. } => self.p.f1("source.config", setting),
            ExplainedSource::Override { target, author, .. } => {
                let scope = target.split('/').next().unwrap_or_default();
                self.p.f2("source.override", self.p.word("target", scope), author)
            }
        }
    }
}

/// `GET /admin/throttling/cell`
pub(crate) async fn cell(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<CellQuery>,
) -> Result<Response, Fault> {
    let actor = &visitor.actor;
    let tenant = panel.control.tenants().get(actor, &query.tenant.as_str().into()).await?;
    let reference = TenantRef::Id(tenant.id);
    let agent = panel.control.agents().get(actor, &reference, &query.agent.as_str().into()).await?;
    let tool = panel.control.tools().get(actor, &query.tool).await?.definition.name;
    let period = ranges::read(&query.range);
    let range = UsageRange::last(period, panel.clock.now_ms());
    let agent_ref = AgentRef::Id(agent.id);
    let scope =
        UsageScope { tenant: Some(reference.clone()), agent: Some(agent_ref.clone()), tool: Some(tool.clone()) };
    let totals = panel.control.usage().totals(actor, &scope, range).await?;
    let series = panel.control.usage().series(actor, &scope, range).await?;
    let filter = EventFilter {
        tenant: Some(reference),
        agent: Some(agent_ref),
        tool: Some(tool.clone()),
        ..EventFilter::default()
    };
    let events = panel.control.events().list(actor, &filter, &PageRequest::first(EVENTS)).await?.items;
    let question =
        Question { tenant: tenant.id.to_string(), agent: agent.id.to_string(), tool: tool.clone(), key: None };
    let explanation = match panel.live.explain(actor, question).await {
        Ok(mut explanation) => {
            // What refuses now is what somebody came for; then what is nearly used up.
            explanation.limits.sort_by_key(|limit| std::cmp::Reverse(pressure(limit)));
            Some(explanation)
        }
        // The tool is registered by another server than this one.
        Err(ControlError::NotFound { .. } | ControlError::UnknownTool { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let p = visitor.page("throttling");
    let choices = choices(&p, &tenant);
    let change = choices.iter().map(|choice| choice.name).find(|name| *name == query.change);
    let change = change.unwrap_or_else(|| suggested(explanation.as_ref()));
    let otherwise = in_force(explanation.as_ref(), change);
    let target = target(change, &tenant, &agent, &tool);
    let back = p.here.clone();
    let form = LimitForm::of(&panel, &visitor, target, LimitKindName::Rate, &otherwise, &back).await?;
    show(&Cell {
        chart: Chart::of_calls(&p, &series, range.grain()),
        runaway: agents::runaways(&panel, &visitor).await?.contains(&agent.id),
        attempts: attempts(&totals),
        p,
        tenant,
        agent,
        tool,
        period,
        totals,
        explanation,
        events,
        choices,
        change,
        form,
    })
}

/// How near a limit is to refusing: whether it does, and how much of it is used in thousandths.
fn pressure(limit: &ExplainedLimit) -> (bool, u64) {
    let usage = limit.usage.as_ref();
    usage.map_or((false, 0), |usage| {
        let whole = usage.used.saturating_add(usage.remaining).max(1);
        (usage.refuses, usage.used.saturating_mul(1_000) / whole)
    })
}

/// What this reader may change from here, the most specific first.
fn choices(p: &Page, tenant: &Tenant) -> Vec<Choice> {
    let mut choices = vec![
        Choice { name: "agent_tool", text: p.t("throttling.for_agent").to_owned() },
        Choice { name: "tenant_tool", text: p.f1("throttling.for_tenant", &tenant.name) },
        Choice { name: "agent", text: p.t("throttling.for_agent_all").to_owned() },
        Choice { name: "tenant", text: p.f1("throttling.for_tenant_all", &tenant.name) },
    ];
    if p.is_global() {
        choices.insert(2, Choice { name: "tool", text: p.t("throttling.for_everybody").to_owned() });
    }
    choices
}

fn target(change: &str, tenant: &Tenant, agent: &Agent, tool: &str) -> Target {
    let (tenant, agent, tool) = (tenant.id, agent.id, tool.to_owned());
    match change {
        "tenant_tool" => Target::TenantTool { tenant, tool },
        "tool" => Target::Tool { tool },
        "agent" => Target::Agent { tenant, agent },
        "tenant" => Target::Tenant { tenant },
        _ => Target::AgentTool { tenant, agent, tool },
    }
}

fn rates(explanation: Option<&Explanation>) -> impl Iterator<Item = &ExplainedLimit> {
    explanation.into_iter().flat_map(|explanation| &explanation.limits).filter(|limit| limit.kind == "rate")
}

/// What somebody who comes here most likely wants to change: the scope of the limit that refuses now.
fn suggested(explanation: Option<&Explanation>) -> &'static str {
    let refusing = rates(explanation).find(|limit| limit.usage.as_ref().is_some_and(|usage| usage.refuses));
    match refusing.map(|limit| limit.scope.as_str()) {
        Some("agent") => "agent",
        Some("tenant") => "tenant",
        _ => "tenant_tool",
    }
}

/// The text of the limit that holds in the scope of a target, to begin with.
fn in_force(explanation: Option<&Explanation>, change: &str) -> String {
    let scope = match change {
        "agent" => "agent",
        "tenant" => "tenant",
        _ => "tool",
    };
    let texts = rates(explanation).filter(|limit| limit.scope == scope).map(|limit| limit.text.as_str());
    texts.collect::<Vec<_>>().join(", ")
}

fn attempts(totals: &Totals) -> Vec<Attempts> {
    let mut from = 1;
    let mut bars = Vec::new();
    for (at, calls) in totals.current.attempts().into_iter().enumerate() {
        let label = match ATTEMPT_BOUNDS.get(at) {
            Some(to) if *to == from => to.to_string(),
            Some(to) => format!("{from}–{to}"),
            None => format!("{from}+"),
        };
        from = ATTEMPT_BOUNDS.get(at).map_or(from, |to| to + 1);
        bars.push(Attempts { label, calls });
    }
    bars
}
