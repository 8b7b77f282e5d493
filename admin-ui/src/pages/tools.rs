//! Tools: the catalogue, what became of their calls, and the switch.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use sluicegate_control::{Counts, PageRequest, Period, Tenant, Tool, ToolSwitch, Totals, UsageRange, UsageScope};

use crate::Shared;
use crate::chart::Chart;
use crate::fault::Fault;
use crate::form::Posted;
use crate::page::Page;
use crate::pages::agents::RangeQuery;
use crate::pages::{link, named_tenant, ranges, tenants_to_choose};
use crate::visit::{Visitor, show};

/// A tool with what became of its calls.
struct ToolRow {
    tool: Tool,
    counts: Counts,
    off: bool,
}

impl ToolRow {
    fn declared(&self) -> String {
        declared(&self.tool)
    }
}

/// The limits in a tool's code, in a few words.
fn declared(tool: &Tool) -> String {
    let limits = serde_json::from_str::<serde_json::Value>(tool.definition.declared_limits.as_str());
    let Ok(serde_json::Value::Object(limits)) = limits else { return String::new() };
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    };
    let shown = limits.iter().filter(|(name, value)| {
        // A call that costs one is an ordinary call.
        !(*name == "cost" && **value == 1
            || value.is_null()
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_str().is_some_and(str::is_empty))
    });
    let words = shown.map(|(name, value)| match name.as_str() {
        "rate_limit" => text(value),
        name => format!("{} {}", name.replace('_', " "), text(value)),
    });
    words.collect::<Vec<_>>().join(" · ")
}

#[derive(Template)]
#[template(path = "tools/list.html")]
struct List {
    p: Page,
    period: Period,
    tools: Vec<ToolRow>,
}

impl List {
    fn range_link(&self, period: &Period) -> String {
        link("/admin/tools", &[("range", period.as_str())])
    }
}

async fn switches(panel: &Shared, visitor: &Visitor) -> Result<Vec<ToolSwitch>, Fault> {
    Ok(panel.control.tools().switches(&visitor.actor, None).await?)
}

fn is_off(switches: &[ToolSwitch], tool: &str) -> bool {
    switches.iter().any(|switch| switch.tool == tool && !switch.enabled)
}

/// `GET /admin/tools`
pub(crate) async fn list(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<RangeQuery>,
) -> Result<Response, Fault> {
    let period = ranges::read(&query.range);
    let range = UsageRange::last(period, panel.clock.now_ms());
    let tools = panel.control.tools().list(&visitor.actor, &PageRequest::first(PageRequest::MAX)).await?.items;
    let usage = panel.control.usage().by_tool(&visitor.actor, &UsageScope::default(), range).await?;
    let usage: BTreeMap<_, _> = usage.into_iter().filter_map(|row| Some((row.tool?, row.counts))).collect();
    let switches = switches(&panel, &visitor).await?;
    let tools = tools.into_iter().map(|tool| ToolRow {
        counts: usage.get(&tool.definition.name).copied().unwrap_or_default(),
        off: is_off(&switches, &tool.definition.name),
        tool,
    });
    show(&List { p: visitor.page("tools"), period, tools: tools.collect() })
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct ToolQuery {
    name: String,
    range: String,
}

#[derive(Template)]
#[template(path = "tools/detail.html")]
struct Detail {
    p: Page,
    period: Period,
    tool: Tool,
    declared: String,
    schema: String,
    totals: Totals,
    chart: Chart,
    off: bool,
    tenants: Vec<Tenant>,
    off_for: Vec<Tenant>,
}

impl Detail {
    fn range_link(&self, period: &Period) -> String {
        link("/admin/tool", &[("name", &self.tool.definition.name), ("range", period.as_str())])
    }
}

/// `GET /admin/tool`
pub(crate) async fn detail(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<ToolQuery>,
) -> Result<Response, Fault> {
    let actor = &visitor.actor;
    let tool = panel.control.tools().get(actor, &query.name).await?;
    let name = tool.definition.name.clone();
    let period = ranges::read(&query.range);
    let range = UsageRange::last(period, panel.clock.now_ms());
    let scope = UsageScope { tool: Some(name.clone()), ..UsageScope::default() };
    let totals = panel.control.usage().totals(actor, &scope, range).await?;
    let series = panel.control.usage().series(actor, &scope, range).await?;
    let schema = serde_json::from_str::<serde_json::Value>(tool.definition.input_schema.as_str());
    let schema = schema.and_then(|schema| serde_json::to_string_pretty(&schema)).unwrap_or_default();
    let switches = panel.control.tools().switches_of(actor, &name).await?;
    let off = switches.iter().any(|switch| switch.tenant_id.is_none() && !switch.enabled);
    let mut off_for = Vec::new();
    for tenant in switches.iter().filter(|switch| !switch.enabled).filter_map(|switch| switch.tenant_id) {
        off_for.push(panel.control.tenants().get(actor, &tenant.into()).await?);
    }
    let tenants = tenants_to_choose(&panel, &visitor, None).await?;
    let p = visitor.page("tools");
    let chart = Chart::of_calls(&p, &series, range.grain());
    show(&Detail { declared: declared(&tool), p, period, tool, schema, totals, chart, off, tenants, off_for })
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Switch {
    name: String,
    /// Nothing for everybody.
    tenant: String,
    /// `on` or `off`.
    to: String,
}

/// `POST /admin/tool`
pub(crate) async fn switch(
    State(panel): State<Shared>,
    visitor: Visitor,
    Posted(form): Posted<Switch>,
) -> Result<Response, Fault> {
    let tenant = named_tenant(&form.tenant);
    let p = visitor.page("tools");
    let text = if form.to == "off" {
        panel.control.tools().disable(&visitor.actor, &form.name, tenant.as_ref()).await?;
        p.f1("tools.disabled", &form.name)
    } else {
        panel.control.tools().enable(&visitor.actor, &form.name, tenant.as_ref()).await?;
        p.f1("tools.enabled", &form.name)
    };
    visitor.done(&link("/admin/tool", &[("name", &form.name)]), text).await
}
