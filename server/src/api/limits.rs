//! Limits: set, read, and asked about.

mod asking;
mod form;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use sluicegate_control::{ControlError, LimitFilter, LimitId, PlanRef, TenantRef};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::listing::{Listing, page};
use super::payload::{Nothing, Path, Payload, Query};
use super::problem::{Kind, Problem};
use super::versions::{Created, IfMatch, Tagged};
use super::who::By;
use form::{Limit, LimitForm, NewValue};

pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_limits, set_limit))
        .routes(routes!(get_limit, replace_limit, delete_limit))
        .merge(asking::router())
}

/// Which limits are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LimitsQuery {
    /// Only those of this tenant, its agents and its keys, by slug or id.
    tenant: Option<String>,
    /// Only those of this plan, by name or id. Not together with `tenant`.
    plan: Option<String>,
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List limits
///
/// Those that are set in the database, by target; ended temporary ones too, until another is set. What holds in the end,
/// with what the code and the configuration say, is told by `/limits/explain`.
#[utoipa::path(get, path = "/limits", tag = "limits", params(LimitsQuery),
    responses((status = 200, description = "One page.", body = Listing<Limit>)))]
async fn list_limits(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<LimitsQuery>,
) -> Result<Json<Listing<Limit>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    let filter = match (query.tenant, query.plan) {
        (None, None) => LimitFilter::All,
        (Some(tenant), None) => LimitFilter::Tenant(TenantRef::from(&*tenant)),
        (None, Some(plan)) => LimitFilter::Plan(PlanRef::from(&*plan)),
        (Some(_), Some(_)) => {
            return Err(Problem::at(Kind::Malformed, "?plan", "Name a tenant or a plan, not both."));
        }
    };
    let limits = api.control.limits().list(&actor, &filter, &page).await?;
    Ok(Listing::of(limits, |entry| Limit::of(entry, &api.clock)))
}

/// Set a limit
///
/// In place of the one of this kind that the target had, if it had one: a target has at most one lasting limit of each
/// kind, and one temporary one (with `expires_at`) over it. To set a lasting one ends a temporary one at once.
#[utoipa::path(post, path = "/limits", tag = "limits", request_body = LimitForm,
    responses((status = 201, description = "It is set.", body = Limit)))]
async fn set_limit(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
    Payload(form): Payload<LimitForm>,
) -> Result<Created<Limit>, Problem> {
    let entry = api.control.limits().set(&actor, &form.read()?).await.map_err(of_the_body)?;
    let path = format!("/limits/{}", entry.id);
    Ok(Created(Limit::of(entry, &api.clock), path))
}

/// Get a limit
#[utoipa::path(get, path = "/limits/{limit}", tag = "limits",
    params(("limit" = LimitId, Path, description = "The limit's id.")),
    responses((status = 200, description = "The limit.", body = Limit)))]
async fn get_limit(
    State(api): State<Api>,
    By(actor): By,
    Path(limit): Path<LimitId>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Tagged<Limit>, Problem> {
    Ok(Tagged(Limit::of(api.control.limits().get(&actor, limit).await?, &api.clock)))
}

/// Replace a limit
///
/// With another value for the same target and of the same kind. Needs `If-Match`. A temporary one that is replaced by a
/// lasting one is gone; the answer has the id of the one that holds.
#[utoipa::path(put, path = "/limits/{limit}", tag = "limits", request_body = NewValue,
    params(("limit" = LimitId, Path, description = "The limit's id.")),
    responses((status = 200, description = "As it is now.", body = Limit)))]
async fn replace_limit(
    State(api): State<Api>,
    By(actor): By,
    Path(limit): Path<LimitId>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
    Payload(value): Payload<NewValue>,
) -> Result<Tagged<Limit>, Problem> {
    let limits = api.control.limits();
    let present = Limit::of(limits.get(&actor, limit).await?, &api.clock);
    let actor = if_match.require(actor, &present)?;
    let form = value.of_target(present.target);
    if form.rate.is_some() != present.rate.is_some() {
        let (had, other) = if present.rate.is_some() { ("rate", "concurrency") } else { ("concurrency", "rate") };
        let detail = format!("This limit is a {had}; a {other} is another limit, which POST /limits sets.");
        return Err(Problem::invalid(had, detail));
    }
    let entry = limits.set(&actor, &form.read()?).await.map_err(|error| if_match.failed(error))?;
    Ok(Tagged(Limit::of(entry, &api.clock)))
}

/// Delete a limit
///
/// What holds then is what is less specific: the lasting one under a temporary one, the plan, the code, the default. Needs
/// `If-Match`.
#[utoipa::path(delete, path = "/limits/{limit}", tag = "limits",
    params(("limit" = LimitId, Path, description = "The limit's id.")),
    responses((status = 204, description = "It is gone.")))]
async fn delete_limit(
    State(api): State<Api>,
    By(actor): By,
    Path(limit): Path<LimitId>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<StatusCode, Problem> {
    let limits = api.control.limits();
    let present = Limit::of(limits.get(&actor, limit).await?, &api.clock);
    let actor = if_match.require(actor, &present)?;
    limits.delete(&actor, limit).await.map_err(|error| if_match.failed(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// A tool that is misspelt in a body is no missing page.
fn of_the_body(error: ControlError) -> Problem {
    match error {
        ControlError::UnknownTool { .. } => {
            Problem::invalid("target/tool", format!("{error}; `allow_unknown_tool` sets the limit all the same."))
        }
        error => error.into(),
    }
}
