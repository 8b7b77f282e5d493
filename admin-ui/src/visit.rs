//! Who is at the door: the session, the preferences, and the page for what goes wrong.

use std::net::SocketAddr;

use askama::Template;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use sluicegate_control::{Actor, AdminUser, Reach, Role, UserId};
use tower_sessions::Session;

use crate::Shared;
use crate::fault::{Fault, FaultNotice};
use crate::language::Language;
use crate::markup::url_part;
use crate::page::{Flash, Page, Theme};

/// Where the session keeps the id of who has signed in.
pub(crate) const USER: &str = "user";

const FLASH: &str = "flash";

/// Who has signed in.
#[derive(Clone, Debug)]
pub(crate) struct Me {
    pub(crate) id: UserId,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) reach: Reach,
    actor: Actor,
}

impl From<AdminUser> for Me {
    fn from(user: AdminUser) -> Self {
        let actor = user.actor();
        Self { id: user.id, name: user.name, role: user.role, reach: actor.reach(), actor }
    }
}

impl Me {
    /// Two letters for the round badge.
    pub(crate) fn initials(&self) -> String {
        self.name.chars().filter(|letter| letter.is_alphanumeric()).take(2).collect()
    }
}

/// One request, by whoever it is.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    page: Page,
    address: Option<String>,
    user_agent: Option<String>,
    request_id: String,
    origin: String,
    session: Session,
}

/// Finds out who asks and how they like it, and gives faults a page.
pub(crate) async fn identify(State(panel): State<Shared>, session: Session, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let visit = match Visit::of(&panel, session, &parts).await {
        Ok(visit) => visit,
        Err(fault) => return fault.into_response(),
    };
    parts.extensions.insert(visit.clone());
    let response = next.run(Request::from_parts(parts, body)).await;
    explain(&visit, response)
}

/// Puts a page into a response that only has a fault.
fn explain(visit: &Visit, response: Response) -> Response {
    let status = response.status();
    let notice = response.extensions().get::<FaultNotice>().cloned();
    let from_framework = status.is_client_error()
        && response.headers().get(header::CONTENT_TYPE).is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    let notice = match notice {
        Some(notice) => notice,
        None if from_framework => FaultNotice::of_status(status),
        None => return response,
    };
    let page = FaultPage { p: visit.page.clone(), notice, status, request_id: &visit.request_id };
    match page.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "the page about a fault failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[derive(Template)]
#[template(path = "fault.html")]
struct FaultPage<'a> {
    p: Page,
    notice: FaultNotice,
    status: StatusCode,
    request_id: &'a str,
}

impl Visit {
    async fn of(panel: &Shared, session: Session, request: &Parts) -> Result<Self, Fault> {
        let headers = &request.headers;
        let me = match session.get::<UserId>(USER).await? {
            Some(id) => panel.control.users().active(id).await?.map(Me::from),
            None => None,
        };
        let flash = match (&me, &request.method) {
            (Some(_), &Method::GET) if wants_a_page(headers) && session.get_value(FLASH).await?.is_some() => {
                session.remove(FLASH).await?
            }
            _ => None,
        };
        let path = request.uri.path_and_query().map_or("/admin", http::uri::PathAndQuery::as_str);
        let page = Page {
            language: cookie(headers, LANGUAGE_COOKIE)
                .and_then(Language::from_tag)
                .unwrap_or_else(|| Language::preferred(headers)),
            theme: cookie(headers, THEME_COOKIE).and_then(Theme::from_name).unwrap_or_default(),
            me,
            flash,
            now: panel.clock.now_ms(),
            here: path.to_owned(),
            section: "",
        };
        let peer = request.extensions.get::<ConnectInfo<SocketAddr>>();
        let scheme = headers.get("x-forwarded-proto").filter(|proto| *proto == "https").map_or("http", |_| "https");
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| request.uri.authority().map(http::uri::Authority::as_str)).unwrap_or("localhost");
        let user_agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        Ok(Self {
            page,
            address: peer.map(|ConnectInfo(peer)| peer.ip().to_string()),
            user_agent: user_agent.map(|agent| agent.chars().take(200).collect()),
            origin: format!("{scheme}://{host}"),
            request_id: uuid::Uuid::now_v7().simple().to_string(),
            session,
        })
    }

    /// The frame of a page in a part of the navigation.
    pub(crate) fn page(&self, section: &'static str) -> Page {
        self.page.clone().in_section(section)
    }

    /// Where MCP is served, by the name that the browser knows this server by.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    pub(crate) fn user_agent(&self) -> Option<&str> {
        self.user_agent.as_deref()
    }

    pub(crate) fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Shows a line on the next page.
    pub(crate) async fn tell(&self, tone: &str, text: impl Into<String>) -> Result<(), Fault> {
        let flash = Flash { tone: tone.to_owned(), text: text.into() };
        Ok(self.session.insert(FLASH, flash).await?)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visit {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        parts.extensions.get::<Self>().cloned().ok_or(Fault::SignedOut)
    }
}

/// One request of somebody who has signed in. Whoever has not is led to the door.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) visit: Visit,
    pub(crate) me: Me,
    pub(crate) actor: Actor,
}

impl Visitor {
    pub(crate) fn page(&self, section: &'static str) -> Page {
        self.visit.page(section)
    }

    /// Shows a line on the next page, and goes there.
    pub(crate) async fn done(&self, path: &str, text: impl Into<String>) -> Result<Response, Fault> {
        self.visit.tell("ok", text).await?;
        Ok(Redirect::to(path).into_response())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let visit = Visit::from_request_parts(parts, state).await.map_err(IntoResponse::into_response)?;
        let Some(me) = visit.page.me.clone() else {
            // A stream or a piece of a page cannot be replaced by the door.
            if !wants_a_page(&parts.headers) {
                return Err(Fault::SignedOut.into_response());
            }
            let back = if parts.method == Method::GET { visit.page.here.as_str() } else { "/admin" };
            return Err(Redirect::to(&format!("/admin/sign-in?next={}", url_part(back))).into_response());
        };
        let actor = me.actor.clone().with_request(visit.address.clone(), Some(visit.request_id.clone()));
        Ok(Self { visit, me, actor })
    }
}

/// The cookies of preferences. They say nothing about a person and open nothing.
pub(crate) const THEME_COOKIE: &str = "sluicegate_theme";
pub(crate) const LANGUAGE_COOKIE: &str = "sluicegate_language";

/// Whether a page is asked for, and not a stream or a piece of one.
fn wants_a_page(headers: &HeaderMap) -> bool {
    let stream = headers.get(header::ACCEPT).is_some_and(|accept| accept == "text/event-stream");
    !stream && !headers.contains_key("hx-request")
}

/// The value of a cookie that was sent.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// A page as a response.
pub(crate) fn show(page: &impl Template) -> Result<Response, Fault> {
    Ok(Html(page.render()?).into_response())
}

/// A page with a form that was not taken.
pub(crate) fn show_again(page: &impl Template) -> Result<Response, Fault> {
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Html(page.render()?)).into_response())
}

/// Paths of this panel only: what came in a query must not lead elsewhere.
pub(crate) fn own_path(path: &str) -> &str {
    let own = path == "/admin" || path.starts_with("/admin/") || path.starts_with("/admin?");
    if own && !path.contains(|c: char| c.is_control() || c == '\\') { path } else { "/admin" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_back_never_leads_elsewhere() {
        assert_eq!(own_path("/admin/limits?tenant=acme"), "/admin/limits?tenant=acme");
        for foreign in ["https://evil.example", "//evil.example", "/administrator", "/admin/\\evil", "/admin/\r\nx", ""]
        {
            assert_eq!(own_path(foreign), "/admin", "{foreign}");
        }
    }
}
