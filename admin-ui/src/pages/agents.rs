//! Agents: who calls, inside a tenant.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::Deserialize;
use sluicegate_control::{
    Agent, AgentId, AgentRef, ControlError, Counts, KeyRecord, PageRequest, Period, RunawayRule, Tenant, TenantRef,
    ThrottleCell, Tool, ToolUsage, Totals, UsageRange, UsageScope,
};

use crate::Shared;
use crate::chart::Chart;
use crate::fault::Fault;
use crate::form::{Errors, Posted};
use crate::page::Page;
use crate::pages::{link, named_tenant, next_link, page_request, ranges, tenants, tenants_to_choose};
use crate::visit::{Visitor, show, show_again};

/// An agent with what its last day was like.
pub(crate) struct AgentRow {
    agent: Agent,
    called: ThrottleCell,
    runaway: bool,
}

/// One page of the agents of a tenant.
pub(crate) struct AgentRows {
    pub(crate) rows: Vec<AgentRow>,
    pub(crate) next: Option<String>,
}

impl AgentRows {
    pub(crate) async fn of(
        panel: &Shared,
        visitor: &Visitor,
        tenant: &Tenant,
        path: &str,
        after: Option<&str>,
    ) -> Result<Self, Fault> {
        let reference = TenantRef::Id(tenant.id);
        let found = panel.control.agents().list(&visitor.actor, &reference, &page_request(after)?).await?;
        let ids: Vec<_> = found.items.iter().map(|agent| agent.id).collect();
        let day = UsageRange::last(Period::Day, panel.clock.now_ms());
        let usage = panel.control.usage().of_agents(&visitor.actor, &reference, &ids, day).await?;
        let runaways = runaways(panel, visitor).await?;
        let rows = found.items.into_iter().map(|agent| AgentRow {
            called: usage.get(&agent.id).copied().unwrap_or_default(),
            runaway: runaways.contains(&agent.id),
            agent,
        });
        Ok(Self { rows: rows.collect(), next: next_link(path, &[], found.next.as_ref()) })
    }
}

/// The agents that call on and on though they are refused.
pub(crate) async fn runaways(panel: &Shared, visitor: &Visitor) -> Result<BTreeSet<AgentId>, ControlError> {
    let found = panel.control.usage().runaways(&visitor.actor, RunawayRule::default()).await?;
    Ok(found.into_iter().filter_map(|runaway| runaway.caller.agent).collect())
}

#[derive(Deserialize)]
pub(crate) struct ListQuery {
    #[serde(default)]
    tenant: String,
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "agents/list.html")]
struct List {
    p: Page,
    tenants: Vec<Tenant>,
    chosen: Option<(Tenant, AgentRows)>,
    runaways: Vec<sluicegate_control::Runaway>,
}

/// `GET /admin/agents`: of a tenant that is chosen; before, those who run away.
pub(crate) async fn list(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<ListQuery>,
) -> Result<Response, Fault> {
    let tenants = tenants_to_choose(&panel, &visitor, named_tenant(&query.tenant).as_ref()).await?;
    let wanted = match tenants.as_slice() {
        [only] if query.tenant.is_empty() => only.slug.clone(),
        _ => query.tenant,
    };
    let chosen = if wanted.is_empty() {
        None
    } else {
        let tenant = panel.control.tenants().get(&visitor.actor, &wanted.as_str().into()).await?;
        let path = format!("/admin/agents?tenant={}", tenant.slug);
        let rows = AgentRows::of(&panel, &visitor, &tenant, &path, query.after.as_deref()).await?;
        Some((tenant, rows))
    };
    let runaways = panel.control.usage().runaways(&visitor.actor, RunawayRule::default()).await?;
    show(&List { p: visitor.page("agents"), tenants, chosen, runaways })
}

#[derive(Template)]
#[template(path = "tenants/agents.html")]
struct Tab {
    p: Page,
    tab: &'static str,
    tenant: Tenant,
    agents: Vec<AgentRow>,
    next: Option<String>,
    errors: Errors,
    name: String,
}

impl Tab {
    async fn of(panel: &Shared, visitor: &Visitor, slug: &str, after: Option<&str>) -> Result<Self, Fault> {
        let tenant = panel.control.tenants().get(&visitor.actor, &slug.into()).await?;
        let found = AgentRows::of(panel, visitor, &tenant, &tenants::path(&tenant.slug), after).await?;
        let AgentRows { rows: agents, next } = found;
        let (errors, name) = <_>::default();
        Ok(Self { p: visitor.page("tenants"), tab: "agents", tenant, agents, next, errors, name })
    }
}

#[derive(Deserialize)]
pub(crate) struct After {
    pub(crate) after: Option<String>,
}

/// `GET /admin/tenants/{tenant}`
pub(crate) async fn of_tenant(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
    Query(query): Query<After>,
) -> Result<Response, Fault> {
    show(&Tab::of(&panel, &visitor, &slug, query.after.as_deref()).await?)
}

#[derive(Deserialize)]
pub(crate) struct NewAgent {
    #[serde(default)]
    name: String,
}

/// `POST /admin/tenants/{tenant}/agents`
pub(crate) async fn create(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
    Posted(form): Posted<NewAgent>,
) -> Result<Response, Fault> {
    match panel.control.agents().create(&visitor.actor, &slug.as_str().into(), form.name.trim()).await {
        Ok(agent) => {
            let text = visitor.page("agents").f1("agents.created", &agent.name);
            visitor.done(&path(&slug, agent.id), text).await
        }
        Err(error) => {
            let errors = match error {
                ControlError::Conflict(message) => Errors::at("name", message),
                other => Errors::from_control(other)?,
            };
            let tab = Tab::of(&panel, &visitor, &slug, None).await?;
            show_again(&Tab { errors, name: form.name, ..tab })
        }
    }
}

/// The page of an agent.
pub(crate) fn path(tenant: &str, agent: AgentId) -> String {
    format!("/admin/tenants/{tenant}/agents/{agent}")
}

/// A tool with what the agent did with it.
struct ToolRow {
    tool: String,
    counts: Counts,
}

#[derive(Template)]
#[template(path = "agents/detail.html")]
struct Detail {
    p: Page,
    tenant: Tenant,
    agent: Agent,
    runaway: bool,
    period: Period,
    totals: Totals,
    chart: Chart,
    tools: Vec<ToolRow>,
    keys: Vec<KeyRecord>,
    registered: Vec<Tool>,
}

impl Detail {
    fn range_link(&self, period: &Period) -> String {
        link(&path(&self.tenant.slug, self.agent.id), &[("range", period.as_str())])
    }

    fn cell_link(&self, tool: &str) -> String {
        let agent = self.agent.id.to_string();
        let query =
            [("tenant", &*self.tenant.slug), ("agent", &agent), ("tool", tool), ("range", self.period.as_str())];
        link("/admin/throttling/cell", &query)
    }

    /// Tools that there are and that the agent did not call.
    fn uncalled(&self) -> Vec<&str> {
        let names = self.registered.iter().map(|tool| tool.definition.name.as_str());
        names.filter(|name| !self.tools.iter().any(|row| row.tool == *name)).collect()
    }

    fn key_owner(&self, key: &KeyRecord) -> String {
        key.environment.clone()
    }
}

#[derive(Deserialize)]
pub(crate) struct RangeQuery {
    #[serde(default)]
    pub(crate) range: String,
}

/// `GET /admin/tenants/{tenant}/agents/{agent}`
pub(crate) async fn detail(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path((slug, agent)): Path<(String, String)>,
    Query(query): Query<RangeQuery>,
) -> Result<Response, Fault> {
    let actor = &visitor.actor;
    let tenant = panel.control.tenants().get(actor, &slug.as_str().into()).await?;
    let reference = TenantRef::Id(tenant.id);
    let agent = panel.control.agents().get(actor, &reference, &agent.as_str().into()).await?;
    let period = ranges::read(&query.range);
    let range = UsageRange::last(period, panel.clock.now_ms());
    let scope = UsageScope { tenant: Some(reference.clone()), agent: Some(AgentRef::Id(agent.id)), tool: None };
    let usage = panel.control.usage();
    let totals = usage.totals(actor, &scope, range).await?;
    let series = usage.series(actor, &scope, range).await?;
    let tools = usage.by_tool(actor, &scope, range).await?;
    let reference_agent = AgentRef::Id(agent.id);
    let keys = panel.control.keys().list(actor, &reference, Some(&reference_agent), &PageRequest::first(100)).await?;
    let registered = panel.control.tools().list(actor, &PageRequest::first(PageRequest::MAX)).await?.items;
    let tools = tools.into_iter().filter_map(|ToolUsage { tool, counts }| Some(ToolRow { tool: tool?, counts }));
    let mut tools: Vec<_> = tools.collect();
    // What brings people here comes first.
    tools.sort_by_key(|row| std::cmp::Reverse((row.counts.throttled, row.counts.calls)));
    let p = visitor.page("agents");
    show(&Detail {
        chart: Chart::of_calls(&p, &series, range.grain()),
        runaway: runaways(&panel, &visitor).await?.contains(&agent.id),
        tools,
        keys: keys.items,
        p,
        tenant,
        agent,
        period,
        totals,
        registered,
    })
}

/// `POST /admin/tenants/{tenant}/agents/{agent}/suspend`
pub(crate) async fn suspend(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path((slug, agent)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let (tenant, agent) = (TenantRef::from(slug.as_str()), AgentRef::from(agent.as_str()));
    let agent = panel.control.agents().suspend(&visitor.actor, &tenant, &agent).await?;
    let text = visitor.page("agents").f1("agents.suspended_done", &agent.name);
    visitor.done(&path(&slug, agent.id), text).await
}

/// `POST /admin/tenants/{tenant}/agents/{agent}/resume`
pub(crate) async fn resume(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path((slug, agent)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let (tenant, agent) = (TenantRef::from(slug.as_str()), AgentRef::from(agent.as_str()));
    let agent = panel.control.agents().resume(&visitor.actor, &tenant, &agent).await?;
    let text = visitor.page("agents").f1("agents.resumed_done", &agent.name);
    visitor.done(&path(&slug, agent.id), text).await
}
