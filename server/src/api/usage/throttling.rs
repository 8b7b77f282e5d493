//! `throttle_by_tool`: who was refused what, as a matrix of agents and tools, and over time.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sluicegate_control::{AgentRef, MatrixQuery, TenantRef, ThrottleMatrix, UsagePoint, UsageRange, UsageScope};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::range;
use crate::api::Api;
use crate::api::listing::page;
use crate::api::payload::Query;
use crate::api::problem::{Kind, Problem};
use crate::api::who::By;

pub(super) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get_throttle_by_tool)).routes(routes!(get_throttle_series))
}

/// Which matrix is asked for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ThrottleQuery {
    /// Only agents of this tenant, by slug or id.
    tenant: Option<String>,
    /// Only this tool.
    tool: Option<String>,
    /// How many tools have a column at most: those with the most refusals.
    #[param(minimum = 1, maximum = 200, default = 20)]
    columns: Option<u16>,
    /// The last time up to now: `1h` when absent.
    #[param(pattern = "^(15m|1h|6h|24h|7d|30d)$")]
    range: Option<String>,
    /// From when, in epoch milliseconds. Together with `to`, in place of `range`; widened to whole buckets.
    from: Option<i64>,
    /// Until when, in epoch milliseconds.
    to: Option<i64>,
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many agents at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// Get throttling by tool and agent
///
/// Refusals by limits: a row for each agent that was refused anything, most refused first, and a column for each tool.
#[utoipa::path(get, path = "/throttle_by_tool", tag = "usage", params(ThrottleQuery),
    responses((status = 200, description = "One page of agents.", body = ThrottleMatrix)))]
async fn get_throttle_by_tool(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<ThrottleQuery>,
) -> Result<Json<ThrottleMatrix>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    let columns = query.columns.unwrap_or(20);
    if !(1..=200).contains(&columns) {
        let detail = format!("columns must be 1 to 200, not {columns}.");
        return Err(Problem::at(Kind::Malformed, "?columns", detail));
    }
    let matrix = MatrixQuery {
        tenant: query.tenant.as_deref().map(TenantRef::from),
        tool: query.tool,
        columns: usize::from(columns),
        ..MatrixQuery::of(range::read(query.range.as_deref(), query.from, query.to, &api)?)
    };
    Ok(Json(api.control.usage().throttle_by_tool(&actor, &matrix, &page).await?))
}

/// Which cell of the matrix is asked for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CellQuery {
    /// Of one tenant, by slug or id.
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

/// Refusals over time.
#[derive(Serialize, ToSchema)]
struct ThrottleSeries {
    /// The range, and how long its buckets are.
    range: UsageRange,
    /// Every bucket, in order.
    points: Vec<ThrottlePoint>,
}

/// One bucket.
#[derive(Serialize, ToSchema)]
struct ThrottlePoint {
    /// When it begins, in epoch milliseconds.
    at: i64,
    /// All calls, the refused ones included.
    calls: i64,
    /// Calls that a limit refused.
    refusals: i64,
    /// Calls that a limit in observe mode would have refused.
    would_refuse: i64,
}

impl From<UsagePoint> for ThrottlePoint {
    fn from(UsagePoint { at, counts }: UsagePoint) -> Self {
        Self { at, calls: counts.calls, refusals: counts.throttled, would_refuse: counts.would_throttle }
    }
}

/// Get throttling over time
#[utoipa::path(get, path = "/throttle_by_tool/series", tag = "usage", params(CellQuery),
    responses((status = 200, description = "Every bucket of the range.", body = ThrottleSeries)))]
async fn get_throttle_series(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<CellQuery>,
) -> Result<Json<ThrottleSeries>, Problem> {
    let range = range::read(query.range.as_deref(), query.from, query.to, &api)?;
    let scope = UsageScope {
        tenant: query.tenant.as_deref().map(TenantRef::from),
        agent: query.agent.as_deref().map(AgentRef::from),
        tool: query.tool,
    };
    let points = api.control.usage().series(&actor, &scope, range).await?;
    Ok(Json(ThrottleSeries { range, points: points.into_iter().map(ThrottlePoint::from).collect() }))
}
