//! Tenants.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use sluicegate_control::{JsonText, PlanRef, Status, Tenant, TenantFilter, TenantRef, TenantSettings, TenantUpdate};
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
    OpenApiRouter::new()
        .routes(routes!(list_tenants, create_tenant))
        .routes(routes!(get_tenant, update_tenant, delete_tenant))
        .routes(routes!(suspend_tenant))
        .routes(routes!(resume_tenant))
}

/// Which tenants are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TenantsQuery {
    /// Only those with this status.
    #[param(inline)]
    status: Option<Status>,
    /// Only those whose slug or name contains this text, ignoring the case of ASCII letters.
    search: Option<String>,
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List tenants
///
/// By slug. A token of one tenant sees that one.
#[utoipa::path(get, path = "/tenants", tag = "tenants", params(TenantsQuery),
    responses((status = 200, description = "One page.", body = Listing<Tenant>)))]
async fn list_tenants(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<TenantsQuery>,
) -> Result<Json<Listing<Tenant>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    let filter = TenantFilter { status: query.status, search: query.search, ..TenantFilter::default() };
    Ok(Json(api.control.tenants().list(&actor, &filter, &page).await?.into()))
}

/// A tenant to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewTenant {
    /// Its name in tokens, URLs and logs; unique, never changes.
    #[schema(pattern = "^[a-z0-9-]{1,63}$", example = "acme")]
    slug: String,
    /// Its name for people.
    #[schema(min_length = 1, max_length = 256, example = "Acme Inc.")]
    name: String,
    /// The plan to put it on, by name or id.
    plan: Option<String>,
    /// What is special about how it is served.
    settings: Option<TenantSettings>,
    /// A JSON object for the operator's own use, of at most 1024 bytes.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Create a tenant
#[utoipa::path(post, path = "/tenants", tag = "tenants", request_body = NewTenant,
    responses((status = 201, description = "It was made.", body = Tenant)))]
async fn create_tenant(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
    Payload(new): Payload<NewTenant>,
) -> Result<Created<Tenant>, Problem> {
    let update = TenantUpdate {
        settings: new.settings,
        metadata: new.metadata.map(json),
        plan: new.plan.as_deref().map(|plan| Some(PlanRef::from(plan))),
        ..TenantUpdate::default()
    };
    let tenant = api.control.tenants().create_with(&actor, &new.slug, &new.name, update).await?;
    let path = format!("/tenants/{}", tenant.slug);
    Ok(Created(tenant, path))
}

/// Get a tenant
#[utoipa::path(get, path = "/tenants/{tenant}", tag = "tenants",
    params(("tenant" = String, Path, description = "The slug or the id.")),
    responses((status = 200, description = "The tenant.", body = Tenant)))]
async fn get_tenant(
    State(api): State<Api>,
    By(actor): By,
    Path(tenant): Path<String>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Tagged<Tenant>, Problem> {
    Ok(Tagged(api.control.tenants().get(&actor, &tenant.as_str().into()).await?))
}

/// What is to be different about a tenant. Members that are left out stay as they are.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChangedTenant {
    /// Another name for people.
    #[schema(min_length = 1, max_length = 256)]
    name: Option<String>,
    /// Another plan, by name or id; null for none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    plan: Option<Option<String>>,
    /// Other settings, all of them.
    settings: Option<TenantSettings>,
    /// Other metadata, all of it.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Tells a member that is null from one that is left out.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

fn json(map: Map<String, Value>) -> JsonText {
    Value::Object(map).into()
}

/// Change a tenant
///
/// All of it or nothing. Needs `If-Match`.
#[utoipa::path(patch, path = "/tenants/{tenant}", tag = "tenants", request_body = ChangedTenant,
    params(("tenant" = String, Path, description = "The slug or the id.")),
    responses((status = 200, description = "As it is now.", body = Tenant)))]
async fn update_tenant(
    State(api): State<Api>,
    By(actor): By,
    Path(tenant): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
    Payload(changed): Payload<ChangedTenant>,
) -> Result<Tagged<Tenant>, Problem> {
    let (tenants, tenant) = (api.control.tenants(), TenantRef::from(&*tenant));
    let actor = if_match.require(actor.clone(), &tenants.get(&actor, &tenant).await?)?;
    let update = TenantUpdate {
        name: changed.name,
        settings: changed.settings,
        metadata: changed.metadata.map(json),
        plan: changed.plan.map(|plan| plan.as_deref().map(PlanRef::from)),
    };
    let changed = tenants.update(&actor, &tenant, update).await;
    changed.map(Tagged).map_err(|error| if_match.failed(error))
}

/// Delete a tenant
///
/// With its agents, API keys and limits, for good. Needs `If-Match`.
#[utoipa::path(delete, path = "/tenants/{tenant}", tag = "tenants",
    params(("tenant" = String, Path, description = "The slug or the id.")),
    responses((status = 204, description = "It is gone.")))]
async fn delete_tenant(
    State(api): State<Api>,
    By(actor): By,
    Path(tenant): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<StatusCode, Problem> {
    let (tenants, tenant) = (api.control.tenants(), TenantRef::from(&*tenant));
    let actor = if_match.require(actor.clone(), &tenants.get(&actor, &tenant).await?)?;
    tenants.delete(&actor, &tenant).await.map_err(|error| if_match.failed(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Suspend a tenant
///
/// All its calls are refused from now on. Suspending a suspended tenant changes nothing.
#[utoipa::path(post, path = "/tenants/{tenant}/suspend", tag = "tenants",
    params(("tenant" = String, Path, description = "The slug or the id.")),
    responses((status = 200, description = "As it is now.", body = Tenant)))]
async fn suspend_tenant(
    State(api): State<Api>,
    By(actor): By,
    Path(tenant): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<Tagged<Tenant>, Problem> {
    let (tenants, tenant) = (api.control.tenants(), TenantRef::from(&*tenant));
    let actor = if_match.check(actor.clone(), &tenants.get(&actor, &tenant).await?)?;
    tenants.suspend(&actor, &tenant).await.map(Tagged).map_err(|error| if_match.failed(error))
}

/// Resume a tenant
///
/// Its calls are served again. Resuming an active tenant changes nothing.
#[utoipa::path(post, path = "/tenants/{tenant}/resume", tag = "tenants",
    params(("tenant" = String, Path, description = "The slug or the id.")),
    responses((status = 200, description = "As it is now.", body = Tenant)))]
async fn resume_tenant(
    State(api): State<Api>,
    By(actor): By,
    Path(tenant): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<Tagged<Tenant>, Problem> {
    let (tenants, tenant) = (api.control.tenants(), TenantRef::from(&*tenant));
    let actor = if_match.check(actor.clone(), &tenants.get(&actor, &tenant).await?)?;
    tenants.resume(&actor, &tenant).await.map(Tagged).map_err(|error| if_match.failed(error))
}
