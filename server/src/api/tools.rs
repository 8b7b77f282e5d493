//! Tools, and whether they are served.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sluicegate_control::{TenantRef, Tool, ToolSwitch};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::listing::{Listing, page};
use super::payload::{Nothing, Path, Query};
use super::problem::Problem;
use super::versions::Tagged;
use super::who::By;

pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_tools))
        .routes(routes!(get_tool))
        .routes(routes!(enable_tool))
        .routes(routes!(disable_tool))
        .routes(routes!(list_tool_switches))
}

/// Which tools are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ToolsQuery {
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List tools
///
/// By name: those that a server serves, or once served. Everybody sees them.
#[utoipa::path(get, path = "/tools", tag = "tools", params(ToolsQuery),
    responses((status = 200, description = "One page.", body = Listing<Tool>)))]
async fn list_tools(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<ToolsQuery>,
) -> Result<Json<Listing<Tool>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    Ok(Json(api.control.tools().list(&actor, &page).await?.into()))
}

/// Get a tool
#[utoipa::path(get, path = "/tools/{tool}", tag = "tools",
    params(("tool" = String, Path, description = "The name.")),
    responses((status = 200, description = "The tool.", body = Tool)))]
async fn get_tool(
    State(api): State<Api>,
    By(actor): By,
    Path(tool): Path<String>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Json<Tool>, Problem> {
    Ok(Json(api.control.tools().get(&actor, &tool).await?))
}

/// For whom.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ForWhom {
    /// The tenant, by slug or id; everybody when absent.
    tenant: Option<String>,
}

impl ForWhom {
    fn tenant(&self) -> Option<TenantRef> {
        self.tenant.as_deref().map(TenantRef::from)
    }
}

/// Enable a tool
///
/// For everybody, or for one tenant. One that is off for everybody stays off for a tenant for which it is on.
#[utoipa::path(post, path = "/tools/{tool}/enable", tag = "tools",
    params(("tool" = String, Path, description = "The name."), ForWhom),
    responses((status = 200, description = "As it is now.", body = ToolSwitch)))]
async fn enable_tool(
    State(api): State<Api>,
    By(actor): By,
    Path(tool): Path<String>,
    Query(whom): Query<ForWhom>,
) -> Result<Tagged<ToolSwitch>, Problem> {
    Ok(Tagged(api.control.tools().enable(&actor, &tool, whom.tenant().as_ref()).await?))
}

/// Disable a tool
///
/// For everybody, or for one tenant: it is not listed, and a call of it is answered like one of an unknown tool.
#[utoipa::path(post, path = "/tools/{tool}/disable", tag = "tools",
    params(("tool" = String, Path, description = "The name."), ForWhom),
    responses((status = 200, description = "As it is now.", body = ToolSwitch)))]
async fn disable_tool(
    State(api): State<Api>,
    By(actor): By,
    Path(tool): Path<String>,
    Query(whom): Query<ForWhom>,
) -> Result<Tagged<ToolSwitch>, Problem> {
    Ok(Tagged(api.control.tools().disable(&actor, &tool, whom.tenant().as_ref()).await?))
}

/// List the switches of tools
///
/// Those for everybody, or those for one tenant. A tool without a switch is served.
#[utoipa::path(get, path = "/tool-switches", tag = "tools", params(ForWhom),
    responses((status = 200, description = "All of them.", body = Listing<ToolSwitch>)))]
async fn list_tool_switches(
    State(api): State<Api>,
    By(actor): By,
    Query(whom): Query<ForWhom>,
) -> Result<Json<Listing<ToolSwitch>>, Problem> {
    Ok(Listing::whole(api.control.tools().switches(&actor, whom.tenant().as_ref()).await?))
}
