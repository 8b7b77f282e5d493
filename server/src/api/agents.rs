//! Agents of tenants.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sluicegate_control::{Agent, AgentRef, TenantRef};
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
        .routes(routes!(list_agents, create_agent))
        .routes(routes!(get_agent))
        .routes(routes!(suspend_agent))
        .routes(routes!(resume_agent))
}

/// Which agents are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AgentsQuery {
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List the agents of a tenant
///
/// By name.
#[utoipa::path(get, path = "/tenants/{tenant}/agents", tag = "agents",
    params(("tenant" = String, Path, description = "The tenant's slug or id."), AgentsQuery),
    responses((status = 200, description = "One page.", body = Listing<Agent>)))]
async fn list_agents(
    State(api): State<Api>,
    By(actor): By,
    Path(tenant): Path<String>,
    Query(query): Query<AgentsQuery>,
) -> Result<Json<Listing<Agent>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    Ok(Json(api.control.agents().list(&actor, &tenant.as_str().into(), &page).await?.into()))
}

/// An agent to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewAgent {
    /// Its name: unique in the tenant, never changes.
    #[schema(min_length = 1, max_length = 256, example = "u-42")]
    name: String,
}

/// Create an agent
#[utoipa::path(post, path = "/tenants/{tenant}/agents", tag = "agents", request_body = NewAgent,
    params(("tenant" = String, Path, description = "The tenant's slug or id.")),
    responses((status = 201, description = "It was made.", body = Agent)))]
async fn create_agent(
    State(api): State<Api>,
    By(actor): By,
    Path(tenant): Path<String>,
    Query(Nothing {}): Query<Nothing>,
    Payload(new): Payload<NewAgent>,
) -> Result<Created<Agent>, Problem> {
    let agent = api.control.agents().create(&actor, &tenant.as_str().into(), &new.name).await?;
    let path = format!("/tenants/{}/agents/{}", agent.tenant_id, agent.id);
    Ok(Created(agent, path))
}

/// Get an agent
#[utoipa::path(get, path = "/tenants/{tenant}/agents/{agent}", tag = "agents",
    params(
        ("tenant" = String, Path, description = "The tenant's slug or id."),
        ("agent" = String, Path, description = "The agent's name or id."),
    ),
    responses((status = 200, description = "The agent.", body = Agent)))]
async fn get_agent(
    State(api): State<Api>,
    By(actor): By,
    Path((tenant, agent)): Path<(String, String)>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Tagged<Agent>, Problem> {
    Ok(Tagged(api.control.agents().get(&actor, &tenant.as_str().into(), &agent.as_str().into()).await?))
}

/// Suspend an agent
///
/// All its calls are refused from now on. Suspending a suspended agent changes nothing.
#[utoipa::path(post, path = "/tenants/{tenant}/agents/{agent}/suspend", tag = "agents",
    params(
        ("tenant" = String, Path, description = "The tenant's slug or id."),
        ("agent" = String, Path, description = "The agent's name or id."),
    ),
    responses((status = 200, description = "As it is now.", body = Agent)))]
async fn suspend_agent(
    State(api): State<Api>,
    By(actor): By,
    Path((tenant, agent)): Path<(String, String)>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<Tagged<Agent>, Problem> {
    let (agents, tenant, agent) = (api.control.agents(), TenantRef::from(&*tenant), AgentRef::from(&*agent));
    let actor = if_match.check(actor.clone(), &agents.get(&actor, &tenant, &agent).await?)?;
    agents.suspend(&actor, &tenant, &agent).await.map(Tagged).map_err(|error| if_match.failed(error))
}

/// Resume an agent
///
/// Its calls are served again. Resuming an active agent changes nothing.
#[utoipa::path(post, path = "/tenants/{tenant}/agents/{agent}/resume", tag = "agents",
    params(
        ("tenant" = String, Path, description = "The tenant's slug or id."),
        ("agent" = String, Path, description = "The agent's name or id."),
    ),
    responses((status = 200, description = "As it is now.", body = Agent)))]
async fn resume_agent(
    State(api): State<Api>,
    By(actor): By,
    Path((tenant, agent)): Path<(String, String)>,
    Query(Nothing {}): Query<Nothing>,
    if_match: IfMatch,
) -> Result<Tagged<Agent>, Problem> {
    let (agents, tenant, agent) = (api.control.agents(), TenantRef::from(&*tenant), AgentRef::from(&*agent));
    let actor = if_match.check(actor.clone(), &agents.get(&actor, &tenant, &agent).await?)?;
    agents.resume(&actor, &tenant, &agent).await.map(Tagged).map_err(|error| if_match.failed(error))
}
