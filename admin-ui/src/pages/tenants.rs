//! Tenants: the list, one of them, and what can be done to it.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use sluicegate_control::{
    ControlError, PageRequest, Period, Plan, PlanRef, RefusalStyle, Status, Tenant, TenantFilter, TenantOrder,
    TenantRef, TenantSettings, ThrottleCell, ToolGlob, ToolGlobError, UsageRange,
};

use crate::Shared;
use crate::fault::Fault;
use crate::form::{Errors, Posted};
use crate::page::Page;
use crate::pages::{link, next_link, page_request};
use crate::visit::{Visitor, show, show_again};

mod tabs;

pub(crate) use tabs::{audit, keys, usage};

#[derive(Deserialize)]
pub(crate) struct ListQuery {
    #[serde(default)]
    search: String,
    #[serde(default)]
    status: String,
    /// `newest`, or nothing for the order of slugs.
    #[serde(default)]
    order: String,
    after: Option<String>,
}

/// A tenant with what its last day was like.
struct TenantRow {
    tenant: Tenant,
    calls: i64,
    throttled: i64,
}

#[derive(Template)]
#[template(path = "tenants/list.html")]
struct List {
    p: Page,
    search: String,
    status: String,
    order: TenantOrder,
    filtered: bool,
    tenants: Vec<TenantRow>,
    next: Option<String>,
}

/// `GET /admin/tenants`
pub(crate) async fn list(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<ListQuery>,
) -> Result<Response, Fault> {
    let status = match query.status.as_str() {
        "active" => Some(Status::Active),
        "suspended" => Some(Status::Suspended),
        _ => None,
    };
    let search = query.search.trim();
    let order = if query.order == NEWEST { TenantOrder::Newest } else { TenantOrder::Slug };
    let filter = TenantFilter { order, status, search: Some(search.to_owned()).filter(|search| !search.is_empty()) };
    let found = panel.control.tenants().list(&visitor.actor, &filter, &page_request(query.after.as_deref())?).await?;
    let ids: Vec<_> = found.items.iter().map(|tenant| tenant.id).collect();
    let day = UsageRange::last(Period::Day, panel.clock.now_ms());
    let usage = panel.control.usage().of_tenants(&visitor.actor, &ids, day).await?;
    let tenants = found.items.into_iter().map(|tenant| {
        let ThrottleCell { calls, refusals } = usage.get(&tenant.id).copied().unwrap_or_default();
        TenantRow { tenant, calls, throttled: refusals }
    });
    show(&List {
        p: visitor.page("tenants"),
        filtered: !search.is_empty() || status.is_some(),
        tenants: tenants.collect(),
        next: next_link(
            "/admin/tenants",
            &[("search", search), ("status", &query.status), ("order", order_word(order))],
            found.next.as_ref(),
        ),
        search: search.to_owned(),
        status: query.status,
        order,
    })
}

/// The word for a list that begins with what was created last.
const NEWEST: &str = "newest";

const fn order_word(order: TenantOrder) -> &'static str {
    match order {
        TenantOrder::Slug => "",
        TenantOrder::Newest => NEWEST,
    }
}

impl List {
    fn is_newest_first(&self) -> bool {
        self.order == TenantOrder::Newest
    }

    /// The same list in another order, from its beginning.
    fn order_link(&self, order: &'static str) -> String {
        link("/admin/tenants", &[("search", &self.search), ("status", &self.status), ("order", order)])
    }
}

#[derive(Template)]
#[template(path = "tenants/new.html")]
struct New {
    p: Page,
    errors: Errors,
    name: String,
    slug: String,
}

/// `GET /admin/tenants/new`
pub(crate) async fn new(visitor: Visitor) -> Result<Response, Fault> {
    let (errors, name, slug) = <_>::default();
    show(&New { p: visitor.page("tenants"), errors, name, slug })
}

#[derive(Deserialize)]
pub(crate) struct NewTenant {
    #[serde(default)]
    name: String,
    #[serde(default)]
    slug: String,
}

/// `POST /admin/tenants`
pub(crate) async fn create(
    State(panel): State<Shared>,
    visitor: Visitor,
    Posted(NewTenant { name, slug }): Posted<NewTenant>,
) -> Result<Response, Fault> {
    match panel.control.tenants().create(&visitor.actor, slug.trim(), name.trim()).await {
        Ok(tenant) => {
            let p = visitor.page("tenants");
            visitor.done(&path(&tenant.slug), p.f1("tenants.created", &tenant.name)).await
        }
        Err(error) => {
            let errors = match error {
                ControlError::Conflict(message) => Errors::at("slug", message),
                other => Errors::from_control(other)?,
            };
            show_again(&New { p: visitor.page("tenants"), errors, name, slug })
        }
    }
}

/// The page of a tenant.
pub(crate) fn path(slug: &str) -> String {
    format!("/admin/tenants/{slug}")
}

#[derive(Template)]
#[template(path = "tenants/settings.html")]
struct SettingsTab {
    p: Page,
    tab: &'static str,
    tenant: Tenant,
    plans: Vec<Plan>,
    errors: Errors,
    name: String,
    refusal_style: String,
    max_body_bytes: String,
    weight: String,
    allowed_tools: String,
}

impl SettingsTab {
    fn is_on(&self, plan: &Plan) -> bool {
        self.tenant.plan_id == Some(plan.id)
    }

    async fn of(panel: &Shared, visitor: &Visitor, slug: &str) -> Result<Self, Fault> {
        let tenant = panel.control.tenants().get(&visitor.actor, &slug.into()).await?;
        let p = visitor.page("tenants");
        let plans = if p.can_edit_server() {
            panel.control.plans().list(&visitor.actor, &PageRequest::first(PageRequest::MAX)).await?.items
        } else {
            Vec::new()
        };
        let settings = &tenant.settings;
        let patterns = settings.allowed_tools.iter().flatten().map(ToolGlob::as_str);
        Ok(Self {
            p,
            tab: "settings",
            plans,
            errors: Errors::default(),
            name: tenant.name.clone(),
            refusal_style: settings.refusal_style.map(style_word).unwrap_or_default().to_owned(),
            max_body_bytes: settings.max_body_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            weight: settings.weight.map(|weight| weight.to_string()).unwrap_or_default(),
            allowed_tools: patterns.collect::<Vec<_>>().join("\n"),
            tenant,
        })
    }
}

const fn style_word(style: RefusalStyle) -> &'static str {
    match style {
        RefusalStyle::Auto => "auto",
        RefusalStyle::Http => "http",
        RefusalStyle::Jsonrpc => "jsonrpc",
        RefusalStyle::ToolResult => "tool_result",
    }
}

/// `GET /admin/tenants/{tenant}/settings`
pub(crate) async fn settings(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
) -> Result<Response, Fault> {
    show(&SettingsTab::of(&panel, &visitor, &slug).await?)
}

#[derive(Deserialize)]
pub(crate) struct Rename {
    #[serde(default)]
    name: String,
}

/// `POST /admin/tenants/{tenant}/rename`
pub(crate) async fn rename(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
    Posted(form): Posted<Rename>,
) -> Result<Response, Fault> {
    match panel.control.tenants().rename(&visitor.actor, &slug.as_str().into(), form.name.trim()).await {
        Ok(_) => saved(&visitor, &slug).await,
        Err(error) => {
            let errors = Errors::from_control(error)?;
            let tab = SettingsTab::of(&panel, &visitor, &slug).await?;
            show_again(&SettingsTab { errors, name: form.name, ..tab })
        }
    }
}

async fn saved(visitor: &Visitor, slug: &str) -> Result<Response, Fault> {
    let text = visitor.page("tenants").t("list.saved");
    visitor.done(&format!("{}/settings", path(slug)), text).await
}

#[derive(Deserialize)]
pub(crate) struct Serving {
    #[serde(default)]
    refusal_style: String,
    #[serde(default)]
    max_body_bytes: String,
    /// Absent from the form of those who may not change it.
    weight: Option<String>,
    #[serde(default)]
    allowed_tools: String,
}

impl Serving {
    /// `before` is what the tenant has.
    fn read(&self, before: &TenantSettings) -> Result<TenantSettings, Errors> {
        let mut errors = Errors::default();
        let refusal_style = match self.refusal_style.as_str() {
            "auto" => Some(RefusalStyle::Auto),
            "http" => Some(RefusalStyle::Http),
            "jsonrpc" => Some(RefusalStyle::Jsonrpc),
            "tool_result" => Some(RefusalStyle::ToolResult),
            _ => None,
        };
        let bytes = self.max_body_bytes.trim().replace([',', '_', ' '], "");
        let max_body_bytes = match bytes.as_str() {
            "" => None,
            text => text.parse().map_err(|_| errors.add("max_body_bytes", format!("{text:?} is not a number"))).ok(),
        };
        let weight = match self.weight.as_deref().map(str::trim) {
            None => before.weight,
            Some("") => None,
            Some(text) => text.parse().map_err(|_| errors.add("weight", format!("{text:?} is not a number"))).ok(),
        };
        let patterns = self.allowed_tools.split_whitespace().map(str::parse).collect::<Result<Vec<_>, _>>();
        let patterns = patterns.unwrap_or_else(|error: ToolGlobError| {
            errors.add("allowed_tools", error.to_string());
            Vec::new()
        });
        let allowed_tools = Some(patterns).filter(|patterns| !patterns.is_empty());
        if errors.is_empty() {
            Ok(TenantSettings { refusal_style, max_body_bytes, allowed_tools, weight })
        } else {
            Err(errors)
        }
    }
}

/// `POST /admin/tenants/{tenant}/settings`
pub(crate) async fn set_settings(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
    Posted(form): Posted<Serving>,
) -> Result<Response, Fault> {
    let before = panel.control.tenants().get(&visitor.actor, &slug.as_str().into()).await?;
    let errors = match form.read(&before.settings) {
        Ok(settings) => {
            match panel.control.tenants().set_settings(&visitor.actor, &slug.as_str().into(), settings).await {
                Ok(_) => return saved(&visitor, &slug).await,
                Err(error) => Errors::from_control(error)?,
            }
        }
        Err(errors) => errors,
    };
    let tab = SettingsTab::of(&panel, &visitor, &slug).await?;
    let Serving { refusal_style, max_body_bytes, weight, allowed_tools } = form;
    let weight = weight.unwrap_or_default();
    show_again(&SettingsTab { errors, refusal_style, max_body_bytes, weight, allowed_tools, ..tab })
}

#[derive(Deserialize)]
pub(crate) struct OnPlan {
    #[serde(default)]
    plan: String,
}

/// `POST /admin/tenants/{tenant}/plan`
pub(crate) async fn set_plan(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
    Posted(form): Posted<OnPlan>,
) -> Result<Response, Fault> {
    let plan = Some(form.plan.as_str()).filter(|plan| !plan.is_empty()).map(PlanRef::from);
    panel.control.tenants().assign_plan(&visitor.actor, &slug.as_str().into(), plan.as_ref()).await?;
    saved(&visitor, &slug).await
}

/// `POST /admin/tenants/{tenant}/suspend`
pub(crate) async fn suspend(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
) -> Result<Response, Fault> {
    let tenant = panel.control.tenants().suspend(&visitor.actor, &slug.as_str().into()).await?;
    let text = visitor.page("tenants").f1("tenants.suspended_done", &tenant.name);
    visitor.done(&path(&slug), text).await
}

/// `POST /admin/tenants/{tenant}/resume`
pub(crate) async fn resume(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
) -> Result<Response, Fault> {
    let tenant = panel.control.tenants().resume(&visitor.actor, &slug.as_str().into()).await?;
    let text = visitor.page("tenants").f1("tenants.resumed_done", &tenant.name);
    visitor.done(&path(&slug), text).await
}

#[derive(Deserialize)]
pub(crate) struct Confirmed {
    #[serde(default)]
    pub(crate) confirm: String,
}

/// `POST /admin/tenants/{tenant}/delete`
pub(crate) async fn delete(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(slug): Path<String>,
    Posted(form): Posted<Confirmed>,
) -> Result<Response, Fault> {
    if form.confirm.trim() != slug {
        let tab = SettingsTab::of(&panel, &visitor, &slug).await?;
        let errors = Errors::at("confirm", tab.p.f1("list.type_name", &slug));
        return show_again(&SettingsTab { errors, ..tab });
    }
    let tenant = TenantRef::Slug(slug.clone());
    panel.control.tenants().delete(&visitor.actor, &tenant).await?;
    visitor.visit.tell("ok", visitor.page("tenants").f1("tenants.deleted", &slug)).await?;
    Ok(Redirect::to("/admin/tenants").into_response())
}
