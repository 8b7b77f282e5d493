//! Events: the latest refusals and changes of state, and a tail of them.

use std::convert::Infallible;
use std::time::Duration;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use sluicegate_control::{AgentRef, Event, EventFilter, EventId, EventKind, PageRequest, Tenant, Tool};

use crate::Shared;
use crate::fault::Fault;
use crate::page::Page;
use crate::pages::{link, named_tenant, next_link, page_request, tenants_to_choose};
use crate::visit::{Visitor, show};

/// How often the tail looks for something new.
const EVERY: Duration = Duration::from_secs(1);

/// How long one stream lasts. The browser connects again, and is asked again who it is.
const LASTS: Duration = Duration::from_secs(5 * 60);

/// How many events come with one look.
const AT_ONCE: u16 = 50;

#[derive(Clone, Deserialize, Default)]
#[serde(default)]
pub(crate) struct ListQuery {
    tenant: String,
    agent: String,
    tool: String,
    kind: String,
    after: Option<String>,
}

impl ListQuery {
    fn filter(&self) -> EventFilter {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        EventFilter {
            tenant: named_tenant(&self.tenant),
            agent: text(&self.agent).filter(|_| !self.tenant.is_empty()).map(|agent| AgentRef::from(agent.as_str())),
            tool: text(&self.tool),
            kind: self.kind.parse::<EventKind>().ok(),
            ..EventFilter::default()
        }
    }

    fn pairs(&self) -> [(&'static str, &str); 4] {
        [("tenant", &self.tenant), ("agent", &self.agent), ("tool", &self.tool), ("kind", &self.kind)]
    }
}

#[derive(Template)]
#[template(path = "events/list.html")]
struct List {
    p: Page,
    query: ListQuery,
    tenants: Vec<Tenant>,
    tools: Vec<Tool>,
    events: Vec<Event>,
    next: Option<String>,
    stream: String,
}

impl List {
    fn kinds(&self) -> [EventKind; 3] {
        EventKind::ALL
    }

    fn is_kind(&self, kind: &EventKind) -> bool {
        self.query.kind == kind.as_str()
    }
}

/// The rows of events, as the page has them and as the tail sends them.
#[derive(Template)]
#[template(path = "events/rows.html")]
struct Rows<'a> {
    p: &'a Page,
    events: &'a [Event],
}

/// `GET /admin/events`
pub(crate) async fn list(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<ListQuery>,
) -> Result<Response, Fault> {
    let page = page_request(query.after.as_deref())?;
    let found = panel.control.events().list(&visitor.actor, &query.filter(), &page).await?;
    let all = PageRequest::first(PageRequest::MAX);
    let tenants = tenants_to_choose(&panel, &visitor, named_tenant(&query.tenant).as_ref()).await?;
    let tools = panel.control.tools().list(&visitor.actor, &all).await?.items;
    let newest = found.items.first().map(|event| event.id.to_string()).unwrap_or_default();
    let first_page = query.after.as_deref().is_none_or(str::is_empty);
    let stream = if first_page {
        link(&link("/admin/events/stream", &query.pairs()), &[("after", &newest)])
    } else {
        String::new()
    };
    let next = next_link("/admin/events", &query.pairs(), found.next.as_ref());
    show(&List { p: visitor.page("events"), query, tenants, tools, events: found.items, next, stream })
}

/// What the tail remembers between two looks.
struct Tail {
    panel: Shared,
    visitor: Visitor,
    filter: EventFilter,
    after: Option<EventId>,
    until: i64,
}

/// `GET /admin/events/stream`: rows as they come.
pub(crate) async fn tail(
    State(panel): State<Shared>,
    visitor: Visitor,
    Query(query): Query<ListQuery>,
) -> Result<Response, Fault> {
    // Says whether the tenant exists, which a stream that has begun cannot.
    panel.control.events().list(&visitor.actor, &query.filter(), &PageRequest::first(1)).await?;
    let after = query.after.as_deref().and_then(|after| after.parse().ok());
    let until = panel.clock.now_ms() + i64::try_from(LASTS.as_millis()).unwrap_or(i64::MAX);
    let tail = Tail { filter: query.filter(), panel, visitor, after, until };
    Ok(Sse::new(messages(tail)).keep_alive(KeepAlive::default()).into_response())
}

fn messages(tail: Tail) -> impl Stream<Item = Result<Message, Infallible>> {
    let looks = stream::unfold(tail, async |mut tail| {
        tokio::time::sleep(EVERY).await;
        let over = tail.panel.clock.now_ms() >= tail.until || tail.panel.live.health().draining;
        if over {
            return None;
        }
        let message = tail.look().await;
        Some((message, tail))
    });
    looks.filter_map(async |message| message.map(Ok))
}

impl Tail {
    /// What is new, newest first, as rows of the table.
    async fn look(&mut self) -> Option<Message> {
        let events = self.panel.control.events();
        let found = events.after(&self.visitor.actor, &self.filter, self.after, AT_ONCE).await;
        let mut found = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = error.inside(), "the tail of events could not be read");
                return None;
            }
        };
        self.after = Some(found.last()?.id);
        found.reverse();
        let mut page = self.visitor.page("events");
        page.now = self.panel.clock.now_ms();
        let rows = Rows { p: &page, events: &found }.render().ok()?;
        // A message of the stream is lines; the browser joins them again.
        Some(Message::default().data(rows.trim().replace('\r', "")))
    }
}
