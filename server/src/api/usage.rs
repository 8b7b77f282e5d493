//! Usage: what was called, by whom, and what became of it.

mod range;
mod throttling;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sluicegate_control::{
    AgentRef, Counts, LATENCY_BOUNDS_MS, Runaway, RunawayRule, TenantRef, ToolUsage, Totals, UsagePoint, UsageRange,
    UsageScope,
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::listing::Listing;
use super::payload::{Nothing, Query};
use super::problem::Problem;
use super::who::By;

pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(get_usage))
        .routes(routes!(list_usage_by_tool))
        .routes(routes!(get_usage_series))
        .routes(routes!(list_runaways))
        .merge(throttling::router())
}

/// Whose calls are asked about, and of which time.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// Of one tenant, by slug or id; of everybody when absent (a token of one tenant gets its own).
    tenant: Option<String>,
    /// Of one of its agents, by name or id. Needs `tenant`.
    agent: Option<String>,
    /// Of one tool.
    tool: Option<String>,
    /// The last time up to now: `1h` when absent.
    #[param(pattern = "^(15m|1h|6h|24h|7d|30d)$")]
    range: Option<String>,
    /// From when, in epoch milliseconds. Together with `to`, in place of `range`; widened to whole buckets.
    from: Option<i64>,
    /// Until when, in epoch milliseconds.
    to: Option<i64>,
}

impl UsageQuery {
    fn read(&self, api: &Api) -> Result<(UsageScope, UsageRange), Problem> {
        let scope = UsageScope {
            tenant: self.tenant.as_deref().map(TenantRef::from),
            agent: self.agent.as_deref().map(AgentRef::from),
            tool: self.tool.clone(),
        };
        Ok((scope, range::read(self.range.as_deref(), self.from, self.to, api)?))
    }
}

/// Some calls, with what can be computed of their counts.
#[derive(Serialize, ToSchema)]
struct Figures {
    #[serde(flatten)]
    counts: Counts,
    /// The share of calls that limits refused, 0 to 1.
    throttled_share: f64,
    /// The share of served calls that failed, 0 to 1.
    error_share: f64,
    /// The latency in milliseconds that half of the served calls did not exceed, as far as the histogram can tell.
    p50_ms: Option<f64>,
    /// The same for 95 of 100.
    p95_ms: Option<f64>,
    /// The same for 99 of 100.
    p99_ms: Option<f64>,
    /// How many served calls took at most 1, 5, 10, 25, 50, 100, 250, 500, 1000, 5000 and 30000 ms, each without those
    /// before it; the last number is of those that took longer.
    latency: Vec<i64>,
    /// After how many attempts callers were let in: 1, 2, 3, up to 5, up to 8, and more.
    attempts: Vec<i64>,
}

const _: () = assert!(LATENCY_BOUNDS_MS[10] == 30_000, "the bounds are told in the documentation of `latency`");

impl From<Counts> for Figures {
    fn from(counts: Counts) -> Self {
        Self {
            throttled_share: counts.throttled_share(),
            error_share: counts.error_share(),
            p50_ms: counts.latency_quantile_ms(0.5),
            p95_ms: counts.latency_quantile_ms(0.95),
            p99_ms: counts.latency_quantile_ms(0.99),
            latency: counts.latency().to_vec(),
            attempts: counts.attempts().to_vec(),
            counts,
        }
    }
}

/// What a range saw, beside the one before it.
#[derive(Serialize, ToSchema)]
struct UsageTotals {
    /// The range.
    range: UsageRange,
    /// Calls of tools in it.
    current: Figures,
    /// Calls of tools in the range of the same length before it.
    previous: Figures,
    /// Requests in the range that call no known tool, such as `tools/list`. Not part of `current`.
    other_requests: Figures,
}

/// Get usage
#[utoipa::path(get, path = "/usage", tag = "usage", params(UsageQuery),
    responses((status = 200, description = "What the range saw.", body = UsageTotals)))]
async fn get_usage(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<UsageQuery>,
) -> Result<Json<UsageTotals>, Problem> {
    let (scope, range) = query.read(&api)?;
    let Totals { range, current, previous, other_requests } = api.control.usage().totals(&actor, &scope, range).await?;
    let (current, previous, other_requests) = (current.into(), previous.into(), other_requests.into());
    Ok(Json(UsageTotals { range, current, previous, other_requests }))
}

/// List usage by tool
///
/// By name; requests that call no known tool come first, as the tool null. `tool` is not looked at.
#[utoipa::path(get, path = "/usage/by-tool", tag = "usage", params(UsageQuery),
    responses((status = 200, description = "All tools that were called.", body = Listing<ToolUsage>)))]
async fn list_usage_by_tool(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<UsageQuery>,
) -> Result<Json<Listing<ToolUsage>>, Problem> {
    let (scope, range) = query.read(&api)?;
    Ok(Listing::whole(api.control.usage().by_tool(&actor, &scope, range).await?))
}

/// A range in time, bucket by bucket.
#[derive(Serialize, ToSchema)]
struct Series {
    /// The range, and how long its buckets are.
    range: UsageRange,
    /// Every bucket, in order; those in which nothing was called as well.
    points: Vec<UsagePoint>,
}

/// Get usage over time
#[utoipa::path(get, path = "/usage/series", tag = "usage", params(UsageQuery),
    responses((status = 200, description = "Every bucket of the range.", body = Series)))]
async fn get_usage_series(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<UsageQuery>,
) -> Result<Json<Series>, Problem> {
    let (scope, range) = query.read(&api)?;
    let points = api.control.usage().series(&actor, &scope, range).await?;
    Ok(Json(Series { range, points }))
}

/// List runaway agents
///
/// Those that were refused more than 300 times, or did not wait as they were told more than 100 times, in one of the last
/// three minutes; worst first.
#[utoipa::path(get, path = "/runaways", tag = "usage",
    responses((status = 200, description = "All of them.", body = Listing<Runaway>)))]
async fn list_runaways(
    State(api): State<Api>,
    By(actor): By,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Json<Listing<Runaway>>, Problem> {
    Ok(Listing::whole(api.control.usage().runaways(&actor, RunawayRule::default()).await?))
}
