//! Plans: named sets of limits that tenants share.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use sluicegate_control::{Plan, PlanRef};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::listing::{Listing, page};
use super::payload::{Nothing, Path, Payload, Query};
use super::problem::Problem;
use super::versions::{Created, IfMatch, Tagged};
use super::who::By;

pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list_plans, create_plan)).routes(routes!(get_plan, update_plan, delete_plan))
}

/// Which plans are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PlansQuery {
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List plans
///
/// By name. A token of one tenant sees none: plans belong to the server.
#[utoipa::path(get, path = "/plans", tag = "plans", params(PlansQuery),
    responses((status = 200, description = "One page.", body = Listing<Plan>)))]
async fn list_plans(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<PlansQuery>,
) -> Result<Json<Listing<Plan>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    Ok(Json(api.control.plans().list(&actor, &page).await?.into()))
}

/// A plan to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewPlan {
    /// Its name; unique, never changes.
    #[schema(pattern = "^[a-z0-9-]{1,63}$", example = "gold")]
    name: String,
    /// A remark for operators.
    #[serde(default)]
    #[schema(max_length = 500)]
    note: String,
}

/// Create a plan
///
/// Without limits: `POST /limits` with one of the targets `plan`, `plan_agent` and `plan_tool` gives it some.
#[utoipa::path(post, path = "/plans", tag = "plans", request_body = NewPlan,
    responses((status = 201, description = "It was made.", body = Plan)))]
async fn create_plan(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
    Payload(new): Payload<NewPlan>,
) -> Result<Created<Plan>, Problem> {
    let plan = api.control.plans().create(&actor, &new.name, &new.note).await?;
    let path = format!("/plans/{}", plan.name);
    Ok(Created(plan, path))
}

/// Get a plan
#[utoipa::path(get, path = "/plans/{plan}", tag = "plans",
    params(("plan" = String, Path, description = "The name or the id.")),
    responses((status = 200, description = "The plan.", body = Plan)))]
async fn get_plan(
    State(api): State<Api>,
    By(actor): By,
    Path(plan): Path<String>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Tagged<Plan>, Problem> {
    Ok(Tagged(api.control.plans().get(&actor, &plan.as_str().into()).await?))
}

/// What is to be different about a plan.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChangedPlan {
    /// Another remark for operators.
    #[schema(max_length = 500)]
    note: String,
}

/// Change a plan
///
/// Needs `If-Match`. Its limits are changed under `/limits`.
#[utoipa::path(patch, path = "/plans/{plan}", tag = "plans", request_body = ChangedPlan,
    params(("plan" = String, Path, description = "The name or the id.")),
    responses((status = 200, description = "As it is now.", body = Plan)))]
async fn update_plan(
    State(api): State<Api>,
    By(actor): By,
    Path(plan): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
    Payload(ChangedPlan { note }): Payload<ChangedPlan>,
) -> Result<Tagged<Plan>, Problem> {
    let (plans, plan) = (api.control.plans(), PlanRef::from(&*plan));
    let actor = if_match.require(actor.clone(), &plans.get(&actor, &plan).await?)?;
    plans.set_note(&actor, &plan, &note).await.map(Tagged).map_err(|error| if_match.failed(error))
}

/// Delete a plan
///
/// With its limits. Refused while tenants are on it. Needs `If-Match`.
#[utoipa::path(delete, path = "/plans/{plan}", tag = "plans",
    params(("plan" = String, Path, description = "The name or the id.")),
    responses((status = 204, description = "It is gone.")))]
async fn delete_plan(
    State(api): State<Api>,
    By(actor): By,
    Path(plan): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<StatusCode, Problem> {
    let (plans, plan) = (api.control.plans(), PlanRef::from(&*plan));
    let actor = if_match.require(actor.clone(), &plans.get(&actor, &plan).await?)?;
    plans.delete(&actor, &plan).await.map_err(|error| if_match.failed(error))?;
    Ok(StatusCode::NO_CONTENT)
}
