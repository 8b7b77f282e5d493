//! Limits: what holds for whom, tool by tool, and every limit that somebody has set.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use serde::Deserialize;
use sluicegate_control::{
    Agent, AgentId, ControlError, ExplainedLimit, ExplainedSource, Explanation, LimitEntry, LimitFilter, LimitKindName,
    Mode, PageRequest, Target, Tenant, TenantId, TenantRef, Tool,
};

use crate::Shared;
use crate::fault::Fault;
use crate::form::{Errors, Posted};
use crate::page::Page;
use crate::pages::limit_form::{Fields, LimitForm, errors_of, newest, read_target};
use crate::pages::{link, named_tenant, next_link, page_request, tenants_to_choose};
use crate::visit::{Visitor, own_path, show, show_again};

/// The words for how a rate is counted.
pub(crate) const ALGORITHMS: &[&str] = &["token_bucket", "sliding_window"];

/// The words for who shares one count.
pub(crate) const PER: &[&str] = &["agent", "tenant", "server"];

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct GridQuery {
    tenant: String,
    agent: String,
    after: Option<String>,
}

/// A tool with what holds for it, by scope.
struct GridRow {
    tool: String,
    cells: Vec<GridCell>,
}

/// What holds in one scope.
struct GridCell {
    limits: Vec<ExplainedLimit>,
    /// Over how many rows it goes; none where the cell above says the same.
    rows: usize,
}

impl GridCell {
    fn is_like(&self, other: &Self) -> bool {
        let same = |(one, two): (&ExplainedLimit, &ExplainedLimit)| {
            (&one.kind, &one.text, &one.mode, &one.source) == (&two.kind, &two.text, &two.mode, &two.source)
        };
        self.limits.len() == other.limits.len() && self.limits.iter().zip(&other.limits).all(same)
    }
}

/// Says once what is the same for every tool.
fn join_cells(rows: &mut [GridRow]) {
    for scope in 1..SCOPES.len() {
        let Some((first, rest)) = rows.split_first_mut() else { return };
        if rest.iter().all(|row| row.cells[scope].is_like(&first.cells[scope])) {
            first.cells[scope].rows = rest.len() + 1;
            rest.iter_mut().for_each(|row| row.cells[scope].rows = 0);
        }
    }
}

/// The columns of the grid.
const SCOPES: [&str; 4] = ["tool", "agent", "tenant", "server"];

/// A limit that is set, with names for the ids in its target.
pub(crate) struct SetLimit {
    pub(crate) entry: LimitEntry,
    pub(crate) whom: String,
}

impl SetLimit {
    pub(crate) fn edit_link(&self) -> String {
        let target = self.entry.target.to_string();
        link("/admin/limits/edit", &[("target", &target), ("kind", self.entry.kind.name().as_str())])
    }

    pub(crate) fn has_ended(&self, p: &Page) -> bool {
        !self.entry.is_in_force(p.now)
    }

    pub(crate) fn observes(&self) -> bool {
        self.entry.mode.to_string() == "observe"
    }
}

#[derive(Template)]
#[template(path = "limits/grid.html")]
struct Grid {
    p: Page,
    tenants: Vec<Tenant>,
    tenant: Option<Tenant>,
    agents: Vec<Agent>,
    agent: Option<Agent>,
    rows: Vec<GridRow>,
    limits: Vec<SetLimit>,
    tools: Vec<Tool>,
    next: Option<String>,
}

impl Grid {
    fn scopes(&self) -> [&'static str; 4] {
        SCOPES
    }

    fn is_chosen(&self, agent: &Agent) -> bool {
        self.agent.as_ref().is_some_and(|chosen| chosen.id == agent.id)
    }

    fn is_tenant(&self, tenant: &Tenant) -> bool {
        self.tenant.as_ref().is_some_and(|chosen| chosen.id == tenant.id)
    }

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

    fn is_set(&self, source: &ExplainedSource) -> bool {
        matches!(source, ExplainedSource::Override { .. })
    }

    /// Where the limit of a cell is changed: in its own target, or in the most natural one for the scope.
    fn edit_link(&self, row: &GridRow, limit: &ExplainedLimit) -> String {
        let (Some(tenant), Some(agent)) = (&self.tenant, &self.agent) else { return String::new() };
        let target = match (&limit.source, limit.scope.as_str()) {
            (ExplainedSource::Override { target, .. }, _) => target.clone(),
            (_, "tool") => Target::TenantTool { tenant: tenant.id, tool: row.tool.clone() }.to_string(),
            (_, "agent") => Target::Agent { tenant: tenant.id, agent: agent.id }.to_string(),
            (_, "tenant") => Target::Tenant { tenant: tenant.id }.to_string(),
            _ => Target::Server.to_string(),
        };
        link("/admin/limits/edit", &[("target", &target), ("kind", &limit.kind), ("back", &self.p.here)])
    }

    fn may_edit(&self, limit: &ExplainedLimit) -> bool {
        let of_everybody = match &limit.source {
            ExplainedSource::Override { target, .. } => {
                ["server", "tool/", "plan"].iter().any(|scope| target.starts_with(scope))
            }
            _ => limit.scope == "server",
        };
        if of_everybody { self.p.can_edit_server() } else { self.p.can_edit() }
    }
}

/// `GET /admin/limits`
pub(crate) async fn grid(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<GridQuery>,
) -> Result<Response, Fault> {
    let actor = &visitor.actor;
    let first = PageRequest::first(PageRequest::MAX);
    let tenants = tenants_to_choose(&panel, &visitor, named_tenant(&query.tenant).as_ref()).await?;
    let wanted = match tenants.as_slice() {
        [only] if query.tenant.is_empty() => Some(only.slug.as_str()),
        _ => Some(query.tenant.as_str()).filter(|tenant| !tenant.is_empty()),
    };
    let tenant = match wanted {
        Some(slug) => Some(panel.control.tenants().get(actor, &slug.into()).await?),
        None => None,
    };
    let tools = panel.control.tools().list(actor, &first).await?.items;
    let mut agents = Vec::new();
    let mut agent = None;
    if let Some(tenant) = &tenant {
        let reference = TenantRef::Id(tenant.id);
        agents = panel.control.agents().list(actor, &reference, &first).await?.items;
        agent = match query.agent.as_str() {
            "" => agents.first().cloned(),
            name => Some(panel.control.agents().get(actor, &reference, &name.into()).await?),
        };
    }
    let mut rows = Vec::new();
    if let Some(Agent { id, tenant_id, .. }) = agent {
        let explained = panel.live.explain_each(actor, &tenant_id.into(), &id.into(), None, &tools).await?;
        rows.extend(explained.into_iter().map(row));
        join_cells(&mut rows);
    }
    let filter = tenant.as_ref().map_or(LimitFilter::All, |tenant| LimitFilter::Tenant(TenantRef::Id(tenant.id)));
    let found = panel.control.limits().list(actor, &filter, &page_request(query.after.as_deref())?).await?;
    let slug = tenant.as_ref().map(|tenant| tenant.slug.clone()).unwrap_or_default();
    let next = next_link("/admin/limits", &[("tenant", &slug), ("agent", &query.agent)], found.next.as_ref());
    let limits = named(&panel, &visitor, found.items).await?;
    show(&Grid { p: visitor.page("limits"), tenants, tenant, agents, agent, rows, limits, tools, next })
}

/// What holds for a tool.
fn row(explanation: Explanation) -> GridRow {
    let mut cells: Vec<_> = SCOPES.iter().map(|_| GridCell { limits: Vec::new(), rows: 1 }).collect();
    for limit in explanation.limits {
        if let Some(at) = SCOPES.iter().position(|scope| *scope == limit.scope) {
            cells[at].limits.push(limit);
        }
    }
    GridRow { tool: explanation.question.tool, cells }
}

/// Finds names for the ids in targets.
pub(crate) async fn named(
    panel: &Shared,
    visitor: &Visitor,
    entries: Vec<LimitEntry>,
) -> Result<Vec<SetLimit>, ControlError> {
    let mut names = Names::default();
    let mut limits = Vec::with_capacity(entries.len());
    for entry in entries {
        let whom = names.of(panel, visitor, &entry.target).await?;
        limits.push(SetLimit { entry, whom });
    }
    Ok(limits)
}

/// What was looked up already.
#[derive(Default)]
pub(crate) struct Names {
    tenants: BTreeMap<TenantId, String>,
    agents: BTreeMap<AgentId, String>,
}

impl Names {
    /// A target in words: whom it is about.
    pub(crate) async fn of(
        &mut self,
        panel: &Shared,
        visitor: &Visitor,
        target: &Target,
    ) -> Result<String, ControlError> {
        let mut words = Vec::new();
        if let Some(tenant) = target.tenant() {
            let slug = match self.tenants.entry(tenant) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let found = panel.control.tenants().get(&visitor.actor, &tenant.into()).await?;
                    unknown.insert(found.slug)
                }
            };
            words.push(slug.clone());
            if let Some(agent) = target.agent() {
                let name = match self.agents.entry(agent) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => {
                        let found = panel.control.agents().get(&visitor.actor, &tenant.into(), &agent.into()).await?;
                        unknown.insert(found.name)
                    }
                };
                words.push(name.clone());
            }
        }
        if let Some(key) = target.key() {
            words.push(panel.control.keys().get(&visitor.actor, key).await?.name);
        }
        if let Some(plan) = target.plan() {
            words.push(panel.control.plans().get(&visitor.actor, &plan.into()).await?.name);
        }
        words.extend(target.tool().map(str::to_owned));
        Ok(words.join(" / "))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct NewQuery {
    scope: String,
    tenant: String,
    agent: String,
    plan: String,
    tool: String,
    kind: String,
    back: String,
}

/// `GET /admin/limits/new`: puts a target together and goes to its form.
pub(crate) async fn new(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<NewQuery>,
) -> Result<Response, Fault> {
    let actor = &visitor.actor;
    let tool = query.tool.clone();
    let plan = async || panel.control.plans().get(actor, &query.plan.as_str().into()).await.map(|plan| plan.id);
    let tenant = async || panel.control.tenants().get(actor, &query.tenant.as_str().into()).await.map(|it| it.id);
    let agent = async |tenant: TenantId| {
        panel.control.agents().get(actor, &tenant.into(), &query.agent.as_str().into()).await.map(|agent| agent.id)
    };
    let target = match query.scope.as_str() {
        "server" => Target::Server,
        "tool" => Target::Tool { tool },
        "tenant" => Target::Tenant { tenant: tenant().await? },
        "tenant_tool" => Target::TenantTool { tenant: tenant().await?, tool },
        "agent" => {
            let tenant = tenant().await?;
            Target::Agent { tenant, agent: agent(tenant).await? }
        }
        "agent_tool" => {
            let tenant = tenant().await?;
            Target::AgentTool { tenant, agent: agent(tenant).await?, tool }
        }
        "plan" => Target::Plan { plan: plan().await? },
        "plan_agent" => Target::PlanAgent { plan: plan().await? },
        "plan_tool" => Target::PlanTool { plan: plan().await?, tool },
        _ => return Err(Fault::NotFound),
    };
    let target = target.to_string();
    let query = [("target", &*target), ("kind", &*query.kind), ("back", own_path(&query.back))];
    Ok(Redirect::to(&link("/admin/limits/edit", &query)).into_response())
}

#[derive(Template)]
#[template(path = "limits/edit.html")]
struct Edit {
    p: Page,
    whom: String,
    form: LimitForm,
}

impl Edit {
    async fn of(panel: &Shared, visitor: &Visitor, form: LimitForm) -> Result<Self, Fault> {
        let whom = Names::default().of(panel, visitor, &form.target).await?;
        Ok(Self { p: visitor.page("limits"), whom, form })
    }

    fn other_kind_link(&self) -> String {
        let other = if self.form.is_rate() { "concurrency" } else { "rate" };
        let fields = &self.form.fields;
        link("/admin/limits/edit", &[("target", &fields.target), ("kind", other), ("back", &fields.back)])
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct EditQuery {
    target: String,
    kind: String,
    back: String,
}

/// `GET /admin/limits/edit`
pub(crate) async fn edit(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<EditQuery>,
) -> Result<Response, Fault> {
    let target = read_target(&query.target).ok_or(Fault::NotFound)?;
    let kind = Fields { kind: query.kind, ..Fields::default() }.kind_name();
    let back = if query.back.is_empty() { "/admin/limits" } else { own_path(&query.back) };
    let form = LimitForm::of(&panel, &visitor, target, kind, "", back).await?;
    show(&Edit::of(&panel, &visitor, form).await?)
}

/// `POST /admin/limits`
pub(crate) async fn save(
    State(panel): State<Shared>,
    visitor: Visitor,
    Posted(mut fields): Posted<Fields>,
) -> Result<Response, Fault> {
    let back = own_path(&fields.back).to_owned();
    let (errors, stale) = match fields.read(panel.clock.now_ms()) {
        Err(errors) => (errors, false),
        Ok(new) => {
            let entries = panel.control.limits().of(&visitor.actor, &new.target, fields.kind_name()).await?;
            match panel.control.limits().replace(&visitor.actor, &new, fields.seen(&entries)).await {
                Ok(entry) => {
                    let text = visitor.page("limits").f1("limits.saved", &entry.kind);
                    return visitor.done(&back, text).await;
                }
                Err(error) => {
                    // Whoever saves again has seen what is there now.
                    fields.seen = newest(&entries);
                    (errors_of(error)?, true)
                }
            }
        }
    };
    let form = LimitForm::again(&panel, &visitor, fields, errors).await?;
    let page = Edit::of(&panel, &visitor, form).await?;
    if stale && page.form.errors.has("") {
        return Ok((StatusCode::PRECONDITION_FAILED, show(&page)?).into_response());
    }
    show_again(&page)
}

/// `POST /admin/limits/preview`
pub(crate) async fn preview(
    State(panel): State<Shared>,
    visitor: Visitor,
    Posted(fields): Posted<Fields>,
) -> Result<Response, Fault> {
    let form = LimitForm::again(&panel, &visitor, fields, Errors::default()).await?;
    let form = form.with_preview(&panel, &visitor).await?;
    show(&Edit::of(&panel, &visitor, form).await?)
}

/// `POST /admin/limits/remove`
pub(crate) async fn remove(
    State(panel): State<Shared>,
    visitor: Visitor,
    Posted(fields): Posted<Fields>,
) -> Result<Response, Fault> {
    let target = read_target(&fields.target).ok_or(Fault::NotFound)?;
    let kind: LimitKindName = fields.kind_name();
    let mode = if fields.mode == "observe" { Mode::Observe } else { Mode::Enforce };
    panel.control.limits().unset_mode(&visitor.actor, &target, kind, mode).await?;
    visitor.done(own_path(&fields.back), visitor.page("limits").t("limits.removed")).await
}
