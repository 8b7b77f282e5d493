//! Events: what was refused lately, one by one, and what changed its state.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{self, KeepAlive};
use futures::Stream;
use http::HeaderMap;
use serde::Deserialize;
use sluicegate_control::{Actor, AgentRef, Event, EventFilter, EventId, EventKind, PageRequest, TenantRef};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::listing::{Listing, page};
use super::payload::Query;
use super::problem::{Kind, Problem};
use super::who::{By, With};

pub(crate) fn router() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list_events)).routes(routes!(stream_events))
}

/// Which events are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// Only those about this tenant, by slug or id.
    tenant: Option<String>,
    /// Only those about this agent of it, by name or id. Needs `tenant`.
    agent: Option<String>,
    /// Only those about this tool.
    tool: Option<String>,
    /// Only those of this sort.
    #[param(inline)]
    kind: Option<EventKind>,
    /// Only those with this reason: `rate_limit_exceeded`.
    reason: Option<String>,
    /// Only those of this request.
    request_id: Option<String>,
    /// Where to go on: the `next` of the page before.
    cursor: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u16>,
}

/// List events
///
/// Newest first. They are samples: when one agent floods, one event stands for `count` refusals. Usage counts all of them.
#[utoipa::path(get, path = "/events", tag = "events", params(EventsQuery),
    responses((status = 200, description = "One page.", body = Listing<Event>)))]
async fn list_events(
    State(api): State<Api>,
    By(actor): By,
    Query(query): Query<EventsQuery>,
) -> Result<Json<Listing<Event>>, Problem> {
    let page = page(query.cursor.as_deref(), query.limit)?;
    let filter = EventFilter {
        tenant: query.tenant.as_deref().map(TenantRef::from),
        agent: query.agent.as_deref().map(AgentRef::from),
        tool: query.tool,
        kind: query.kind,
        reason: query.reason,
        request_id: query.request_id,
    };
    Ok(Json(api.control.events().list(&actor, &filter, &page).await?.into()))
}

/// Which events are streamed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StreamQuery {
    /// Only those about this tenant, by slug or id.
    tenant: Option<String>,
    /// Only those about this agent of it, by name or id. Needs `tenant`.
    agent: Option<String>,
    /// Only those about this tool.
    tool: Option<String>,
    /// Only those of this sort.
    #[param(inline)]
    kind: Option<EventKind>,
}

/// How often the database is asked what is new.
const EVERY: Duration = Duration::from_secs(1);

/// Stream events
///
/// As server-sent events: `id` is the event's id, `event` its kind, `data` the event as JSON. Begins with what happens next,
/// or after the event of `Last-Event-ID`. Ends when the token or the session does, or the server.
#[utoipa::path(get, path = "/events/stream", tag = "events",
    params(StreamQuery, ("Last-Event-ID" = Option<EventId>, Header, description = "The last event that was seen.")),
    responses((status = 200, description = "Events, as they happen.", body = String, content_type = "text/event-stream")))]
async fn stream_events(
    State(api): State<Api>,
    By(actor): By,
    with: With,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Problem> {
    let filter = EventFilter {
        tenant: query.tenant.as_deref().map(TenantRef::from),
        agent: query.agent.as_deref().map(AgentRef::from),
        tool: query.tool,
        kind: query.kind,
        ..EventFilter::default()
    };
    // Says as well whether the tenant and the agent exist.
    let newest = api.control.events().list(&actor, &filter, &PageRequest::first(1)).await?.items.pop();
    let after = match headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default().parse::<EventId>()) {
        Some(Ok(id)) => Some(id),
        Some(Err(error)) => return Err(Problem::at(Kind::Malformed, "Last-Event-ID", format!("{error}."))),
        None => newest.map(|event| event.id),
    };
    let tail = Tail { api, actor, with, filter, after, waiting: VecDeque::new() };
    Ok(Sse::new(futures::stream::unfold(tail, Tail::next)).keep_alive(KeepAlive::default()))
}

/// A stream that somebody reads.
struct Tail {
    api: Api,
    actor: Actor,
    /// What the reader has shown to be let in, and must still be good for.
    with: With,
    filter: EventFilter,
    after: Option<EventId>,
    waiting: VecDeque<Event>,
}

impl Tail {
    async fn next(mut self) -> Option<(Result<sse::Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                self.after = Some(event.id);
                let told = sse::Event::default().id(event.id.to_string()).event(event.kind.as_str());
                return Some((Ok(told.json_data(&event).ok()?), self));
            }
            tokio::select! {
                () = self.api.draining.cancelled() => return None,
                () = tokio::time::sleep(EVERY) => {}
            }
            // A reader comes back with the id of the last event, so an end costs nothing.
            if !self.with.still_holds(&self.api).await.ok()? {
                return None;
            }
            let events = self.api.control.events();
            let found = events.after(&self.actor, &self.filter, self.after, PageRequest::MAX).await.ok()?;
            self.waiting = found.into();
        }
    }
}
