//! The operator's panel of Sluicegate: who is throttled where, and the limit fixed in place.
//!
//! Pages are rendered on the server and work without scripts; the few scripts make them quicker. Everything goes through
//! the use cases of [`sluicegate_control`], which decide what the reader may see and do.
//!
//! # Security
//!
//! Every response has a strict content security policy. The session is a `__Host-` cookie, kept in the database as a
//! hash; forms are only taken from pages of this server. Cookies with this prefix are `Secure`: browsers keep them over
//! HTTPS, and on `localhost` and `127.0.0.1` over plain HTTP as well (Chromium and Firefox; Safari needs HTTPS there).

mod assets;
mod attempts;
mod chart;
mod fault;
mod form;
mod headers;
mod icons;
mod language;
mod markup;
mod page;
mod pages;
mod same_origin;
pub mod session;
mod sessions;
mod visit;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Redirect;
use axum::routing::{get, post};
use sluicegate_control::{Actor, Control, ControlError, LiveView, WallClock};
use tower_http::compression::CompressionLayer;

use crate::attempts::Attempts;
use crate::pages::{
    agents, alerts, audit, events, keys, limits, overview, people, plans, sign_in, system, tenants, throttling, tools,
};

/// What the panel is made of.
#[derive(Clone)]
pub struct Panel {
    /// The control plane.
    pub control: Control,
    /// The running server, for what only it knows.
    pub live: Arc<dyn LiveView>,
    /// What times are measured by.
    pub clock: WallClock,
    /// Settings by name, in the order to show them in, secrets already taken out.
    pub settings: Vec<(String, String)>,
    /// Where the metrics are: a path of this server, or an address of their own.
    pub metrics: String,
}

impl fmt::Debug for Panel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panel").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// What handlers share.
pub(crate) type Shared = Arc<State>;

/// The panel and what it remembers.
pub(crate) struct State {
    pub(crate) control: Control,
    pub(crate) live: Arc<dyn LiveView>,
    pub(crate) clock: WallClock,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) metrics: String,
    pub(crate) attempts: Attempts,
}

/// Everything under `/admin`.
pub fn router(panel: Panel) -> Router {
    let Panel { control, live, clock, settings, metrics } = panel;
    let sessions = sessions::Store::layer(control.clone(), clock.clone());
    let state = Arc::new(State { control, live, clock, settings, metrics, attempts: Attempts::new() });
    let pages = Router::new()
        .merge(door())
        .merge(of_tenants())
        .merge(of_limits())
        .merge(of_the_server())
        .merge(of_people())
        .fallback(async || fault::Fault::NotFound)
        .layer(from_fn(same_origin::require))
        .layer(from_fn_with_state(Arc::clone(&state), visit::identify))
        .layer(sessions)
        .with_state(state);
    Router::new()
        .route("/admin/assets/{hash}/{name}", get(assets::serve))
        .merge(pages)
        .layer(CompressionLayer::new())
        .layer(from_fn(headers::secure))
}

/// The path of the one-time link that makes the first owner, while nobody can sign in yet. Append it to the address of
/// the server, and show it only to whoever may own the server.
///
/// # Errors
/// `Database`.
pub async fn set_up_path(control: &Control) -> Result<Option<String>, ControlError> {
    let token = control.setup().offer(&Actor::system("panel")).await?;
    Ok(token.map(|token| format!("/admin/set-up?token={}", token.expose())))
}

fn door() -> Router<Shared> {
    Router::new()
        .route("/admin/sign-in", get(sign_in::door).post(sign_in::sign_in))
        .route("/admin/sign-out", post(sign_in::sign_out))
        .route("/admin/set-up", get(sign_in::set_up).post(sign_in::create_owner))
        .route("/admin/preferences", post(sign_in::prefer))
}

fn of_the_server() -> Router<Shared> {
    Router::new()
        .route("/admin", get(overview::overview))
        .route("/admin/", get(async || Redirect::permanent("/admin")))
        .route("/admin/overview/stream", get(overview::live))
        .route("/admin/tools", get(tools::list))
        .route("/admin/tool", get(tools::detail).post(tools::switch))
        .route("/admin/events", get(events::list))
        .route("/admin/events/stream", get(events::tail))
        .route("/admin/audit", get(audit::list))
        .route("/admin/audit.json", get(audit::export))
        .route("/admin/audit/verify", post(audit::verify))
        .route("/admin/audit/{seq}", get(audit::detail))
        .route("/admin/alerts", get(alerts::list).post(alerts::create))
        .route("/admin/alerts/{rule}/delete", post(alerts::delete))
        .route("/admin/alerts/{rule}/switch", post(alerts::switch))
        .route("/admin/alerts/{rule}/rotate", post(alerts::rotate))
        .route("/admin/alerts/{rule}/test", post(alerts::test))
        .route("/admin/system", get(system::system))
}

fn of_people() -> Router<Shared> {
    Router::new()
        .route("/admin/account", get(people::account))
        .route("/admin/people", get(people::list).post(people::create))
        .route("/admin/people/tokens", post(people::create_token))
        .route("/admin/people/tokens/{token}/revoke", post(people::revoke_token))
        .route("/admin/people/{user}", get(people::detail))
        .route("/admin/people/{user}/role", post(people::set_role))
        .route("/admin/people/{user}/suspend", post(people::suspend))
        .route("/admin/people/{user}/resume", post(people::resume))
        .route("/admin/people/{user}/password", post(people::set_password))
        .route("/admin/people/{user}/sessions/{session}/revoke", post(people::revoke_session))
        .route("/admin/people/{user}/delete", post(people::delete))
}

fn of_limits() -> Router<Shared> {
    Router::new()
        .route("/admin/throttling", get(throttling::map))
        .route("/admin/throttling.csv", get(throttling::csv))
        .route("/admin/throttling.json", get(throttling::json))
        .route("/admin/throttling/cell", get(throttling::cell))
        .route("/admin/limits", get(limits::grid).post(limits::save))
        .route("/admin/limits/new", get(limits::new))
        .route("/admin/limits/edit", get(limits::edit))
        .route("/admin/limits/preview", post(limits::preview))
        .route("/admin/limits/remove", post(limits::remove))
        .route("/admin/plans", get(plans::list).post(plans::create))
        .route("/admin/plans/{plan}", get(plans::detail))
        .route("/admin/plans/{plan}/delete", post(plans::delete))
}

fn of_tenants() -> Router<Shared> {
    Router::new()
        .route("/admin/tenants", get(tenants::list).post(tenants::create))
        .route("/admin/tenants/new", get(tenants::new))
        .route("/admin/tenants/{tenant}", get(agents::of_tenant))
        .route("/admin/tenants/{tenant}/agents", post(agents::create))
        .route("/admin/tenants/{tenant}/keys", get(tenants::keys))
        .route("/admin/tenants/{tenant}/usage", get(tenants::usage))
        .route("/admin/tenants/{tenant}/audit", get(tenants::audit))
        .route("/admin/tenants/{tenant}/settings", get(tenants::settings).post(tenants::set_settings))
        .route("/admin/tenants/{tenant}/rename", post(tenants::rename))
        .route("/admin/tenants/{tenant}/plan", post(tenants::set_plan))
        .route("/admin/tenants/{tenant}/suspend", post(tenants::suspend))
        .route("/admin/tenants/{tenant}/resume", post(tenants::resume))
        .route("/admin/tenants/{tenant}/delete", post(tenants::delete))
        .route("/admin/agents", get(agents::list))
        .route("/admin/tenants/{tenant}/agents/{agent}", get(agents::detail))
        .route("/admin/tenants/{tenant}/agents/{agent}/keys", post(keys::create))
        .route("/admin/tenants/{tenant}/agents/{agent}/keys/new", get(keys::new))
        .route("/admin/keys/{key}", get(keys::detail))
        .route("/admin/keys/{key}/rotate", post(keys::rotate))
        .route("/admin/keys/{key}/revoke", post(keys::revoke))
        .route("/admin/tenants/{tenant}/agents/{agent}/suspend", post(agents::suspend))
        .route("/admin/tenants/{tenant}/agents/{agent}/resume", post(agents::resume))
}
