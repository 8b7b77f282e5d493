//! What holds, and what a limit would have done.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sluicegate_control::{ExplainedLimit, Explanation, KeyId, Page, Period, Preview, Question};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::form::LimitForm;
use super::of_the_body;
use crate::api::Api;
use crate::api::listing::{Listing, page};
use crate::api::payload::{Nothing, Payload, Query};
use crate::api::problem::Problem;
use crate::api::who::By;

pub(super) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(explain_limits))
        .routes(routes!(list_effective_limits))
        .routes(routes!(preview_limit))
}

/// Whose limits are asked for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ExplainQuery {
    /// The tenant, by slug or id.
    tenant: String,
    /// The agent, by name or id.
    agent: String,
    /// The name of the tool.
    tool: String,
    /// The API key that it calls with.
    key: Option<KeyId>,
}

/// Explain the limits of a call
///
/// Every limit that a call must pass, from the policy that the answering server enforces: where it comes from, what it
/// shadows, and how it stands now.
#[utoipa::path(get, path = "/limits/explain", tag = "limits", params(ExplainQuery),
    responses((status = 200, description = "The limits.", body = Explanation)))]
async fn explain_limits(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<ExplainQuery>,
) -> Result<Json<Explanation>, Problem> {
    let ExplainQuery { tenant, agent, tool, key } = query;
    Ok(Json(api.live.explain(&actor, Question { tenant, agent, tool, key }).await?))
}

/// Of whom the limits in force are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EffectiveQuery {
    /// The tenant, by slug or id.
    tenant: String,
    /// The agent, by name or id.
    agent: String,
    /// The API key that it calls with.
    key: Option<KeyId>,
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many tools at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// The limits that hold for an agent and a tool.
#[derive(Serialize, ToSchema)]
struct Effective {
    /// The tool.
    tool: String,
    /// The limits, each of which a call must pass.
    limits: Vec<ExplainedLimit>,
}

/// List the limits in force for an agent
///
/// Tool by tool, of those that this server serves.
#[utoipa::path(get, path = "/limits/effective", tag = "limits", params(EffectiveQuery),
    responses((status = 200, description = "One page of tools.", body = Listing<Effective>)))]
async fn list_effective_limits(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<EffectiveQuery>,
) -> Result<Json<Listing<Effective>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    let (tenant, agent) = (query.tenant.as_str().into(), query.agent.as_str().into());
    let tools = api.control.tools().list(&actor, &page).await?;
    let explained = api.live.explain_each(&actor, &tenant, &agent, query.key, &tools.items).await?;
    let effective =
        explained.into_iter().map(|Explanation { question, limits, .. }| Effective { tool: question.tool, limits });
    Ok(Json(Page { items: effective.collect(), next: tools.next }.into()))
}

/// A limit that somebody thinks about.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Proposal {
    /// The limit.
    limit: LimitForm,
    /// The time that is looked at: `24h` when absent.
    #[schema(pattern = "^(15m|1h|6h|24h|7d|30d)$")]
    range: Option<String>,
}

/// What the limit would have done.
#[derive(Serialize, ToSchema)]
struct Previewed {
    /// The share of calls that would have been refused, 0 to 1.
    share: f64,
    #[serde(flatten)]
    preview: Preview,
}

/// Preview a limit
///
/// What it would have refused of the recorded calls: an estimate from the counts of each minute. Changes nothing.
#[utoipa::path(post, path = "/limits/preview", tag = "limits", request_body = Proposal,
    responses((status = 200, description = "The estimate.", body = Previewed)))]
async fn preview_limit(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
    Payload(Proposal { limit, range }): Payload<Proposal>,
) -> Result<Json<Previewed>, Problem> {
    let period = range.as_deref().map(str::parse).transpose()?.unwrap_or(Period::Day);
    let preview = api.control.limits().preview(&actor, &limit.read()?, period).await.map_err(of_the_body)?;
    Ok(Json(Previewed { share: preview.share(), preview }))
}
