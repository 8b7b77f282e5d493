//! Throttling by tool: a heat map of who was refused what, and what is behind each of its cells.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde::Deserialize;
use sluicegate_control::{
    ControlError, MatrixQuery, MatrixRow, PageRequest, Period, Tenant, ThrottleCell, ThrottleMatrix, ToolColumn,
    UsageRange,
};

use crate::Shared;
use crate::fault::Fault;
use crate::page::Page;
use crate::pages::{link, named_tenant, next_link, ranges, tenants_to_choose};
use crate::visit::{Visitor, show};

mod cell;

pub(crate) use cell::cell;

/// How many agents one page has.
const ROWS: u16 = 40;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct MapQuery {
    range: String,
    tenant: String,
    tool: String,
    /// `count` or `share`.
    show: String,
    after: Option<String>,
}

impl MapQuery {
    fn matrix(&self, now_ms: i64) -> MatrixQuery {
        let named = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let range = UsageRange::last(ranges::read(&self.range), now_ms);
        MatrixQuery { tenant: named_tenant(&self.tenant), tool: named(&self.tool), ..MatrixQuery::of(range) }
    }

    fn page(&self, limit: u16) -> Result<PageRequest, ControlError> {
        let after = self.after.as_deref().filter(|after| !after.is_empty()).map(str::parse).transpose()?;
        Ok(PageRequest { after, limit })
    }

    /// This page with one thing changed. What has no value is left out.
    fn with(&self, name: &str, value: &str) -> String {
        let now = [("range", &*self.range), ("tenant", &self.tenant), ("tool", &self.tool), ("show", &self.show)];
        let query: Vec<_> = now.iter().map(|(key, old)| (*key, if *key == name { value } else { *old })).collect();
        link("/admin/throttling", &query)
    }
}

#[derive(Template)]
#[template(path = "throttling/map.html")]
struct Map {
    p: Page,
    query: MapQuery,
    period: Period,
    tenants: Vec<Tenant>,
    matrix: ThrottleMatrix,
    next: Option<String>,
    /// The most refusals in one cell, for the colours.
    hottest: i64,
}

impl Map {
    fn range_link(&self, period: &Period) -> String {
        self.query.with("range", period.as_str())
    }

    fn show_link(&self, show: &str) -> String {
        self.query.with("show", show)
    }

    fn by_share(&self) -> bool {
        self.query.show == "share"
    }

    fn export_link(&self, kind: &str) -> String {
        let query = [("range", &*self.query.range), ("tenant", &*self.query.tenant), ("tool", &*self.query.tool)];
        link(&format!("/admin/throttling.{kind}"), &query)
    }

    fn cell_link(&self, row: &MatrixRow, column: &ToolColumn) -> Option<String> {
        let tenant = row.caller.tenant_slug.as_deref()?;
        let agent = row.caller.agent.filter(|_| row.caller.agent_name.is_some())?.to_string();
        let tool = column.tool.as_deref()?;
        let query = [("tenant", tenant), ("agent", &agent), ("tool", tool), ("range", self.period.as_str())];
        Some(link("/admin/throttling/cell", &query))
    }

    /// How hot a cell is, 0 to 8: for counts by their cube roots, so that one flood does not wash out the rest.
    fn level(&self, cell: &ThrottleCell) -> i64 {
        if cell.refusals <= 0 {
            return 0;
        }
        if self.by_share() {
            return (cell.refusals * 8 / cell.calls.max(1)).clamp(1, 8);
        }
        let share = cell.refusals as f64 / self.hottest.max(1) as f64;
        ((share.cbrt() * 8.0).ceil() as i64).clamp(1, 8)
    }

    /// What the coldest and the hottest colour stand for.
    fn scale(&self) -> (String, String) {
        if self.by_share() { ("0%".to_owned(), "100%".to_owned()) } else { ("1".to_owned(), self.p.num(self.hottest)) }
    }

    fn tool_name<'t>(&self, column: &'t ToolColumn) -> &'t str {
        column.tool.as_deref().unwrap_or(self.p.t("throttling.no_tool"))
    }

    fn pairs<'m>(&'m self, row: &'m MatrixRow) -> impl Iterator<Item = (&'m ToolColumn, &'m Option<ThrottleCell>)> {
        self.matrix.tools.iter().zip(&row.cells)
    }
}

/// `GET /admin/throttling`
pub(crate) async fn map(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<MapQuery>,
) -> Result<Response, Fault> {
    let now = panel.clock.now_ms();
    let asked = query.matrix(now);
    let matrix = panel.control.usage().throttle_by_tool(&visitor.actor, &asked, &query.page(ROWS)?).await?;
    let tenants = tenants_to_choose(&panel, &visitor, named_tenant(&query.tenant).as_ref()).await?;
    let cells = matrix.rows.iter().flat_map(|row| row.cells.iter().flatten());
    show(&Map {
        p: visitor.page("throttling"),
        period: ranges::read(&query.range),
        hottest: cells.map(|cell| cell.refusals).max().unwrap_or_default(),
        next: next_link(&query.with("", ""), &[], matrix.next.as_ref()),
        tenants,
        matrix,
        query,
    })
}

/// `GET /admin/throttling.csv`: a line for each agent and tool, of the first 200 agents.
pub(crate) async fn csv(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<MapQuery>,
) -> Result<Response, Fault> {
    let asked = MatrixQuery { columns: usize::MAX, ..query.matrix(panel.clock.now_ms()) };
    let page = query.page(PageRequest::MAX)?;
    let matrix = panel.control.usage().throttle_by_tool(&visitor.actor, &asked, &page).await?;
    let mut text = String::from("tenant,agent,tool,refusals,calls\r\n");
    for row in &matrix.rows {
        let tenant = row.caller.tenant_slug.as_deref().unwrap_or_default();
        let agent = row.caller.agent_name.as_deref().unwrap_or_default();
        for (column, cell) in matrix.tools.iter().zip(&row.cells) {
            let Some(cell) = cell else { continue };
            let tool = column.tool.as_deref().unwrap_or_default();
            let fields = [csv_field(tenant), csv_field(agent), csv_field(tool)].join(",");
            text.push_str(&format!("{fields},{},{}\r\n", cell.refusals, cell.calls));
        }
    }
    Ok(download("text/csv; charset=utf-8", "throttle_by_tool.csv", text))
}

/// `GET /admin/throttling.json`
pub(crate) async fn json(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<MapQuery>,
) -> Result<Response, Fault> {
    let page = query.page(PageRequest::MAX)?;
    let asked = query.matrix(panel.clock.now_ms());
    let matrix = panel.control.usage().throttle_by_tool(&visitor.actor, &asked, &page).await?;
    let text = serde_json::to_string_pretty(&matrix).map_err(|error| Fault::BadForm(error.to_string()))?;
    Ok(download("application/json", "throttle_by_tool.json", text))
}

/// A file to keep.
pub(crate) fn download(kind: &'static str, name: &'static str, text: String) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    let disposition = HeaderValue::try_from(disposition).unwrap_or(HeaderValue::from_static("attachment"));
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind)), (header::CONTENT_DISPOSITION, disposition)], text)
        .into_response()
}

/// A field of RFC 4180. A leading sign that a spreadsheet would take for a formula is made harmless.
fn csv_field(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@', '\t']) { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_a_table_cannot_become_two_or_a_formula() {
        assert_eq!(csv_field("u-42"), "u-42");
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv_field("=HYPERLINK(1)"), "'=HYPERLINK(1)");
    }
}
