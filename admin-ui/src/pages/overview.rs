//! The overview: what is going on, who is refused most, and whether the server is well.

use std::convert::Infallible;
use std::time::Duration;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use sluicegate_control::{
    Alert, Health, MatrixQuery, PageRequest, Period, Runaway, RunawayRule, ThrottleMatrix, Totals, UsageRange,
    UsageScope,
};

use crate::Shared;
use crate::chart::Chart;
use crate::fault::Fault;
use crate::page::Page;
use crate::pages::agents::RangeQuery;
use crate::pages::{link, ranges};
use crate::visit::{Visitor, show};

/// How often the figures are sent anew.
const EVERY: Duration = Duration::from_secs(3);

/// How long one stream lasts, in looks: five minutes. The browser connects again, and is asked again who it is.
const LOOKS: usize = 100;

/// How many agents and tools stand in the list of the most refused.
const TOP: u16 = 5;

/// The part of the page that is sent anew.
#[derive(Template)]
#[template(path = "overview/figures.html")]
struct Figures {
    p: Page,
    period: Period,
    totals: Totals,
    chart: Chart,
    top: ThrottleMatrix,
    runaways: Vec<Runaway>,
    alerts: Vec<Alert>,
    health: Health,
}

#[derive(Template)]
#[template(path = "overview/page.html")]
struct Overview {
    p: Page,
    period: Period,
    figures: Figures,
    nothing_yet: bool,
}

impl Overview {
    fn range_link(&self, period: &Period) -> String {
        link("/admin", &[("range", period.as_str())])
    }

    fn stream(&self) -> String {
        link("/admin/overview/stream", &[("range", self.period.as_str())])
    }
}

impl Figures {
    async fn of(panel: &Shared, visitor: &Visitor, period: Period) -> Result<Self, Fault> {
        let actor = &visitor.actor;
        let now = panel.clock.now_ms();
        let range = UsageRange::last(period, now);
        let (usage, scope) = (panel.control.usage(), UsageScope::default());
        let totals = usage.totals(actor, &scope, range).await?;
        let series = usage.series(actor, &scope, range).await?;
        let top = usage.throttle_by_tool(actor, &MatrixQuery::of(range), &PageRequest::first(TOP)).await?;
        let runaways = usage.runaways(actor, RunawayRule::default()).await?;
        let alerts = panel.control.alerts().open(actor).await?;
        let mut p = visitor.page("overview");
        p.now = now;
        let chart = Chart::of_calls(&p, &series, range.grain());
        Ok(Self { p, period, totals, chart, top, runaways, alerts, health: panel.live.health() })
    }

    /// How many tools are listed.
    fn top_tools(&self) -> &[sluicegate_control::ToolColumn] {
        &self.top.tools[..self.top.tools.len().min(TOP.into())]
    }

    fn is_well(&self) -> bool {
        !self.health.draining && !self.health.engine.degraded && self.health.policy.error.is_none()
    }
}

/// `GET /admin`
pub(crate) async fn overview(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<RangeQuery>,
) -> Result<Response, Fault> {
    let period = ranges::read(&query.range);
    let figures = Figures::of(&panel, &visitor, period).await?;
    let tenants = panel.control.tenants().list(&visitor.actor, &<_>::default(), &PageRequest::first(1)).await?;
    show(&Overview { p: visitor.page("overview"), period, figures, nothing_yet: tenants.items.is_empty() })
}

/// `GET /admin/overview/stream`
pub(crate) async fn live(State(panel): State<Shared>, visitor: Visitor, Query(query): Query<RangeQuery>) -> Response {
    let period = ranges::read(&query.range);
    let looks = stream::unfold((panel, visitor, LOOKS), move |(panel, visitor, left)| async move {
        tokio::time::sleep(EVERY).await;
        if left == 0 || panel.live.health().draining {
            return None;
        }
        let figures = Figures::of(&panel, &visitor, period).await;
        let html = figures.and_then(|figures| Ok(figures.render()?));
        let message = html.map_err(|error| tracing::warn!(%error, "the overview could not be sent anew")).ok();
        Some((message, (panel, visitor, left - 1)))
    });
    let messages = looks.filter_map(async |html| {
        html.map(|html: String| Ok::<_, Infallible>(Message::default().data(html.trim().replace('\r', ""))))
    });
    Sse::new(messages).keep_alive(KeepAlive::default()).into_response()
}
