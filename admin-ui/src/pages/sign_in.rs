//! The door: the first owner, signing in and out, and how the panel looks.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::{HeaderValue, StatusCode, header};
use secrecy::SecretString;
use serde::Deserialize;
use sluicegate_control::AdminUser;

use crate::Shared;
use crate::fault::Fault;
use crate::form::{Errors, Posted};
use crate::language::Language;
use crate::page::{Page, Theme};
use crate::pages::link;
use crate::sessions::{ADDRESS, USER_AGENT};
use crate::visit::{LANGUAGE_COOKIE, THEME_COOKIE, USER, Visit, own_path, show, show_again};

#[derive(Deserialize)]
pub(crate) struct DoorQuery {
    #[serde(default)]
    next: String,
    /// Whether somebody has just signed in here, so that the cookie should have come.
    #[serde(default)]
    signed_in: bool,
    #[serde(default)]
    signed_out: bool,
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct Door {
    p: Page,
    next: String,
    name: String,
    error: Option<String>,
    first_run: bool,
    cookie_lost: bool,
    signed_out: bool,
}

/// `GET /admin/sign-in`
pub(crate) async fn door(
    State(panel): State<Shared>,
    visit: Visit,
    Query(query): Query<DoorQuery>,
) -> Result<Response, Fault> {
    let p = visit.page("");
    let next = own_path(&query.next).to_owned();
    if p.me.is_some() {
        return Ok(Redirect::to(&next).into_response());
    }
    show(&Door {
        p,
        next,
        name: String::new(),
        error: None,
        first_run: panel.control.setup().is_open().await?,
        cookie_lost: query.signed_in,
        signed_out: query.signed_out,
    })
}

#[derive(Deserialize)]
pub(crate) struct Credentials {
    #[serde(default)]
    name: String,
    #[serde(default)]
    password: SecretString,
    #[serde(default)]
    next: String,
}

/// `POST /admin/sign-in`
pub(crate) async fn sign_in(
    State(panel): State<Shared>,
    visit: Visit,
    Posted(form): Posted<Credentials>,
) -> Result<Response, Fault> {
    let name = form.name.trim();
    let next = own_path(&form.next);
    let refuse = |status, error| {
        let (p, name, next) = (visit.page(""), name.to_owned(), next.to_owned());
        let door = Door { p, next, name, error: Some(error), first_run: false, cookie_lost: false, signed_out: false };
        Ok((status, Html(door.render()?)).into_response())
    };
    if let Err(seconds) = panel.attempts.take(name, visit.address()) {
        tracing::warn!(address = visit.address(), "too many attempts to sign in");
        let mut response: Response =
            refuse(StatusCode::TOO_MANY_REQUESTS, visit.page("").f1("sign.too_many", seconds))?;
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        return Ok(response);
    }
    let address = visit.address().map(str::to_owned);
    let request_id = Some(visit.request_id().to_owned());
    match panel.control.users().sign_in(name, &form.password, address, request_id).await? {
        Some(user) => {
            begin(&visit, &user).await?;
            // The door shows by itself whether the cookie came back; whoever is in goes on.
            Ok(Redirect::to(&link("/admin/sign-in", &[("signed_in", "true"), ("next", next)])).into_response())
        }
        None => refuse(StatusCode::UNPROCESSABLE_ENTITY, visit.page("").t("sign.wrong").to_owned()),
    }
}

/// Begins a session under a new id, so that one which somebody has put there opens nothing.
async fn begin(visit: &Visit, user: &AdminUser) -> Result<(), Fault> {
    let session = visit.session();
    session.clear().await;
    session.cycle_id().await?;
    session.insert(USER, user.id).await?;
    session.insert(ADDRESS, visit.address()).await?;
    session.insert(USER_AGENT, visit.user_agent()).await?;
    Ok(())
}

/// `POST /admin/sign-out`
pub(crate) async fn sign_out(visit: Visit) -> Result<Response, Fault> {
    visit.session().flush().await?;
    Ok(Redirect::to("/admin/sign-in?signed_out=true").into_response())
}

#[derive(Deserialize)]
pub(crate) struct SetUpQuery {
    #[serde(default)]
    token: String,
}

#[derive(Template)]
#[template(path = "set_up.html")]
struct SetUp {
    p: Page,
    errors: Errors,
    token: String,
    name: String,
}

/// `GET /admin/set-up`
pub(crate) async fn set_up(
    State(panel): State<Shared>,
    visit: Visit,
    Query(query): Query<SetUpQuery>,
) -> Result<Response, Fault> {
    if !panel.control.setup().accepts(&query.token).await? {
        return void(&visit);
    }
    let (errors, name) = <_>::default();
    show(&SetUp { p: visit.page(""), errors, token: query.token, name })
}

/// The answer to a link that is used up, too old, or made up.
fn void(visit: &Visit) -> Result<Response, Fault> {
    let page = Void { p: visit.page("") };
    Ok((StatusCode::GONE, Html(page.render()?)).into_response())
}

#[derive(Template)]
#[template(path = "set_up_void.html")]
struct Void {
    p: Page,
}

#[derive(Deserialize)]
pub(crate) struct FirstOwner {
    #[serde(default)]
    token: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    password: SecretString,
}

/// `POST /admin/set-up`
pub(crate) async fn create_owner(
    State(panel): State<Shared>,
    visit: Visit,
    Posted(form): Posted<FirstOwner>,
) -> Result<Response, Fault> {
    let address = visit.address().map(str::to_owned);
    let request_id = Some(visit.request_id().to_owned());
    let name = form.name.trim();
    match panel.control.setup().redeem(&form.token, name, &form.password, address, request_id).await {
        Ok(Some(owner)) => {
            begin(&visit, &owner).await?;
            Ok(Redirect::to("/admin/sign-in?signed_in=true").into_response())
        }
        Ok(None) => void(&visit),
        Err(error) => {
            let errors = Errors::from_control(error)?;
            show_again(&SetUp { p: visit.page(""), errors, token: form.token, name: form.name })
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct Preferences {
    theme: Option<String>,
    language: Option<String>,
    #[serde(default)]
    back: String,
}

/// `POST /admin/preferences`
pub(crate) async fn prefer(Posted(form): Posted<Preferences>) -> Response {
    let mut response = Redirect::to(own_path(&form.back)).into_response();
    let theme = form.theme.as_deref().and_then(Theme::from_name).map(|theme| (THEME_COOKIE, theme.name()));
    let language = form.language.as_deref().and_then(Language::from_tag).map(|tag| (LANGUAGE_COOKIE, tag.tag()));
    for (name, value) in theme.into_iter().chain(language) {
        let cookie = format!("{name}={value}; Path=/admin; Max-Age=31536000; HttpOnly; SameSite=Lax");
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }
    response
}
