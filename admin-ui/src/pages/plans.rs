//! Plans: named sets of limits that tenants share.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use sluicegate_control::{ControlError, LimitFilter, PageRequest, Plan, PlanRef, Tenant, Tool};

use crate::Shared;
use crate::fault::Fault;
use crate::form::{Errors, Posted};
use crate::page::Page;
use crate::pages::agents::After;
use crate::pages::limits::{SetLimit, named};
use crate::pages::tenants::Confirmed;
use crate::pages::{next_link, page_request};
use crate::visit::{Visitor, show, show_again};

#[derive(Template)]
#[template(path = "plans/list.html")]
struct List {
    p: Page,
    plans: Vec<Plan>,
    next: Option<String>,
    errors: Errors,
    name: String,
    note: String,
}

impl List {
    async fn of(panel: &Shared, visitor: &Visitor, after: Option<&str>) -> Result<Self, Fault> {
        let found = panel.control.plans().list(&visitor.actor, &page_request(after)?).await?;
        let next = next_link("/admin/plans", &[], found.next.as_ref());
        let (errors, name, note) = <_>::default();
        Ok(Self { p: visitor.page("plans"), plans: found.items, next, errors, name, note })
    }
}

/// `GET /admin/plans`
pub(crate) async fn list(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<After>,
) -> Result<Response, Fault> {
    show(&List::of(&panel, &visitor, query.after.as_deref()).await?)
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct NewPlan {
    name: String,
    note: String,
}

/// `POST /admin/plans`
pub(crate) async fn create(
    State(panel): State<Shared>,
    visitor: Visitor,
    Posted(form): Posted<NewPlan>,
) -> Result<Response, Fault> {
    match panel.control.plans().create(&visitor.actor, form.name.trim(), form.note.trim()).await {
        Ok(plan) => {
            let text = visitor.page("plans").f1("plans.created", &plan.name);
            visitor.done(&format!("/admin/plans/{}", plan.name), text).await
        }
        Err(error) => {
            let errors = match error {
                ControlError::Conflict(message) => Errors::at("name", message),
                other => Errors::from_control(other)?,
            };
            let list = List::of(&panel, &visitor, None).await?;
            show_again(&List { errors, name: form.name, note: form.note, ..list })
        }
    }
}

#[derive(Template)]
#[template(path = "plans/detail.html")]
struct Detail {
    p: Page,
    plan: Plan,
    limits: Vec<SetLimit>,
    tenants: Vec<Tenant>,
    /// Whether there are more tenants than are listed.
    more_tenants: bool,
    tools: Vec<Tool>,
    errors: Errors,
}

impl Detail {
    async fn of(panel: &Shared, visitor: &Visitor, plan: &str) -> Result<Self, Fault> {
        let plan = panel.control.plans().get(&visitor.actor, &plan.into()).await?;
        let all = PageRequest::first(PageRequest::MAX);
        let filter = LimitFilter::Plan(PlanRef::Id(plan.id));
        let limits = panel.control.limits().list(&visitor.actor, &filter, &all).await?;
        let limits = named(panel, visitor, limits.items).await?;
        let tools = panel.control.tools().list(&visitor.actor, &all).await?.items;
        let on_plan = panel.control.tenants().on_plan(&visitor.actor, plan.id, &PageRequest::default()).await?;
        let (tenants, more_tenants) = (on_plan.items, on_plan.next.is_some());
        let (p, errors) = (visitor.page("plans"), Errors::default());
        Ok(Self { p, plan, limits, tenants, more_tenants, tools, errors })
    }
}

/// `GET /admin/plans/{plan}`
pub(crate) async fn detail(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(plan): Path<String>,
) -> Result<Response, Fault> {
    show(&Detail::of(&panel, &visitor, &plan).await?)
}

/// `POST /admin/plans/{plan}/delete`
pub(crate) async fn delete(
    State(panel): State<Shared>,
    visitor: Visitor,
    Path(plan): Path<String>,
    Posted(form): Posted<Confirmed>,
) -> Result<Response, Fault> {
    let page = Detail::of(&panel, &visitor, &plan).await?;
    let errors = if form.confirm.trim() == page.plan.name {
        match panel.control.plans().delete(&visitor.actor, &page.plan.id.into()).await {
            Ok(()) => {
                visitor.visit.tell("ok", page.p.f1("plans.deleted", &page.plan.name)).await?;
                return Ok(Redirect::to("/admin/plans").into_response());
            }
            Err(error) => Errors::from_control(error)?.renamed("", "confirm"),
        }
    } else {
        Errors::at("confirm", page.p.f1("list.type_name", &page.plan.name))
    };
    show_again(&Detail { errors, ..page })
}
