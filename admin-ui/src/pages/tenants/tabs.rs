//! What belongs to a tenant, on tabs of its page: keys, usage, audit.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use sluicegate_control::{
    AgentId, AuditEntry, KeyRecord, PageRequest, Period, Tenant, TenantRef, ToolUsage, Totals, UsageRange, UsageScope,
};

use crate::Shared;
use crate::chart::Chart;
use crate::fault::Fault;
use crate::page::Page;
use crate::pages::agents::{After, RangeQuery};
use crate::pages::{link, next_link, page_request, ranges};
use crate::visit::{Visitor, show};

#[derive(Template)]
#[template(path = "tenants/keys.html")]
struct KeysTab {
    p: Page,
    tab: &'static str,
    tenant: Tenant,
    keys: Vec<KeyRecord>,
    names: BTreeMap<AgentId, String>,
    next: Option<String>,
}

impl KeysTab {
    fn key_owner(&self, key: &KeyRecord) -> String {
        self.names.get(&key.agent_id).cloned().unwrap_or_else(|| key.agent_id.to_string())
    }
}

/// `GET /admin/tenants/{tenant}/keys`
pub(crate) async fn keys(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
    Query(query): Query<After>,
) -> Result<Response, Fault> {
    let tenant = panel.control.tenants().get(&visitor.actor, &slug.as_str().into()).await?;
    let reference = TenantRef::Id(tenant.id);
    let request = page_request(query.after.as_deref())?;
    let keys = panel.control.keys().list(&visitor.actor, &reference, None, &request).await?;
    let owners: Vec<_> = keys.items.iter().map(|key| key.agent_id).collect();
    let names = panel.control.agents().names(&visitor.actor, &reference, &owners).await?;
    let next = next_link(&format!("/admin/tenants/{}/keys", tenant.slug), &[], keys.next.as_ref());
    show(&KeysTab { p: visitor.page("tenants"), tab: "keys", tenant, keys: keys.items, names, next })
}

#[derive(Template)]
#[template(path = "tenants/usage.html")]
struct UsageTab {
    p: Page,
    tab: &'static str,
    tenant: Tenant,
    period: Period,
    totals: Totals,
    chart: Chart,
    tools: Vec<ToolUsage>,
}

impl UsageTab {
    fn range_link(&self, period: &Period) -> String {
        link(&format!("/admin/tenants/{}/usage", self.tenant.slug), &[("range", period.as_str())])
    }
}

/// `GET /admin/tenants/{tenant}/usage`
pub(crate) async fn usage(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
    Query(query): Query<RangeQuery>,
) -> Result<Response, Fault> {
    let tenant = panel.control.tenants().get(&visitor.actor, &slug.as_str().into()).await?;
    let scope = UsageScope { tenant: Some(TenantRef::Id(tenant.id)), agent: None, tool: None };
    let period = ranges::read(&query.range);
    let range = UsageRange::last(period, panel.clock.now_ms());
    let usage = panel.control.usage();
    let totals = usage.totals(&visitor.actor, &scope, range).await?;
    let series = usage.series(&visitor.actor, &scope, range).await?;
    let mut tools = usage.by_tool(&visitor.actor, &scope, range).await?;
    tools.retain(|row| row.tool.is_some());
    let p = visitor.page("tenants");
    let chart = Chart::of_calls(&p, &series, range.grain());
    show(&UsageTab { p, tab: "usage", tenant, period, totals, chart, tools })
}

#[derive(Template)]
#[template(path = "tenants/audit.html")]
struct AuditTab {
    p: Page,
    tab: &'static str,
    tenant: Tenant,
    entries: Vec<AuditEntry>,
    next: Option<String>,
}

/// `GET /admin/tenants/{tenant}/audit`
pub(crate) async fn audit(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
    Query(query): Query<After>,
) -> Result<Response, Fault> {
    let tenant = panel.control.tenants().get(&visitor.actor, &slug.as_str().into()).await?;
    let reference = TenantRef::Id(tenant.id);
    let request: PageRequest = page_request(query.after.as_deref())?;
    let entries = panel.control.audit().list(&visitor.actor, Some(&reference), &request).await?;
    let next = next_link(&format!("/admin/tenants/{}/audit", tenant.slug), &[], entries.next.as_ref());
    show(&AuditTab { p: visitor.page("tenants"), tab: "audit", tenant, entries: entries.items, next })
}
