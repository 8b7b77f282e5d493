//! The admin API: the use cases of the control plane over HTTP, for programs.
//!
//! One file for each sort of thing, with its routes, their documentation and their handlers. Handlers say who asks and what
//! for; whether they may is decided by the use cases. What holds for all routes is in the modules that are named after it.
#![expect(unused_qualifications, reason = "what utoipa's macro makes of the types of parameters")]

use std::any::Any;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::{HeaderValue, header};
use serde_json::Value;
use sluicegate_control::{Control, LiveView, WallClock};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_swagger_ui::{Config, SwaggerUi};

mod about;
mod agents;
mod alerts;
mod audit;
mod document;
mod events;
mod keys;
mod limits;
mod listing;
mod payload;
mod people;
mod plans;
mod problem;
mod replay;
mod tenants;
mod tokens;
mod tools;
mod transfer;
mod usage;
mod versions;
mod who;

use problem::{Kind, Problem};
use replay::Replays;

/// What handlers share.
#[derive(Clone)]
pub(crate) struct Api {
    control: Control,
    /// The running server, for what only it knows.
    live: Arc<dyn LiveView>,
    clock: WallClock,
    replays: Replays,
    /// Whether sessions of the panel let somebody in.
    sessions: bool,
    /// Ends streams.
    draining: CancellationToken,
}

impl Api {
    pub(crate) fn new(
        control: Control,
        live: Arc<dyn LiveView>,
        clock: WallClock,
        sessions: bool,
        draining: CancellationToken,
    ) -> Self {
        Self { control, live, clock, replays: Replays::new(), sessions, draining }
    }
}

/// The routes for whoever has an admin token or a session of the panel.
fn guarded() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .merge(tenants::router())
        .merge(agents::router())
        .merge(keys::router())
        .merge(limits::router())
        .merge(plans::router())
        .merge(tools::router())
        .merge(usage::router())
        .merge(events::router())
        .merge(alerts::router())
        .merge(audit::router())
        .merge(transfer::router())
        .merge(people::router())
        .merge(tokens::router())
        .merge(about::router())
}

fn open() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(document::base()).merge(about::open_router())
}

/// The OpenAPI document.
pub(crate) fn document() -> Value {
    document::complete(&open().merge(guarded()).into_openapi())
}

/// The document as it is served.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

/// Everything under `/api`.
pub(crate) fn router(api: Api) -> Router {
    let (guarded, _) = guarded().split_for_parts();
    let (open, _) = open().split_for_parts();
    let guarded = guarded
        .route_layer(from_fn_with_state(api.clone(), replay::replay))
        .route_layer(from_fn_with_state(api.clone(), who::authenticate));
    let v1 = open.merge(guarded).fallback(nothing).with_state(api);
    let api = Router::new()
        .nest("/api/v1", v1)
        .route("/api", any(nothing))
        .route("/api/{*rest}", any(nothing))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(problem::render))
        .layer(from_fn(|request, next| secure(request, next, "default-src 'none'; frame-ancestors 'none'")));
    let config = Config::from("/api/v1/openapi.json").validator_url("none");
    let docs = Router::from(SwaggerUi::new("/api/docs").config(config));
    // The page sets the styles of its elements by script.
    const OF_DOCS: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    api.merge(docs.layer(from_fn(|request, next| secure(request, next, OF_DOCS))))
}

async fn nothing() -> Problem {
    Problem::new(Kind::NotFound, "There is nothing under this path: see /api/v1/openapi.json for what there is.")
}

fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a handler of the admin API panicked");
    Problem::new(Kind::Internal, "The server failed; its log has the cause under the id of this request.")
        .into_response()
}

/// What keeps answers out of caches and off other pages.
async fn secure(request: Request, next: Next, policy: &'static str) -> Response {
    let mut response = next.run(request).await;
    let fields = [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
