//! What the port serves: MCP through the gate, and whatever else there is by a router.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{HeaderValue, Method, Request, Response, header};
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::cors::{AllowHeaders, CorsLayer};

use crate::gate::Gate;
use crate::health;
use crate::refusal;
use crate::refusal::fields::{RATELIMIT, RATELIMIT_POLICY};
use crate::refusal::http::X_REQUEST_ID;
use crate::settings::Settings;

/// Where MCP is served.
pub(crate) const MCP_PATH: &str = "/mcp";

/// Everything that is served over HTTP.
pub(crate) struct Site {
    /// `None` on a port without MCP.
    gate: Option<Arc<Gate>>,
    /// The gate for pages of other origins, where some are allowed.
    for_pages: Option<BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>>,
    other: Router,
}

impl Site {
    /// MCP, and what `other` has.
    pub(crate) fn new(gate: Arc<Gate>, other: Router, settings: &Settings) -> Self {
        let origins: Vec<_> = settings.origins().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
        let for_pages = (!origins.is_empty()).then(|| for_pages(Arc::clone(&gate), origins));
        Self { gate: Some(gate), for_pages, other }
    }

    /// Only what `other` has.
    pub(crate) fn without_mcp(other: Router) -> Self {
        Self { gate: None, for_pages: None, other }
    }

    /// Answers one request. Nearly all of them are for the gate, which needs no routing.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let Some(gate) = self.gate.as_ref().filter(|_| request.uri().path() == MCP_PATH) else {
            return self.answer_beside(request).await;
        };
        match &self.for_pages {
            Some(for_pages) if request.headers().contains_key(header::ORIGIN) => {
                let Ok(response) = for_pages.clone().oneshot(request).await;
                response
            }
            _ => gate.serve(request).await,
        }
    }
}

impl Site {
    /// Everything but MCP. Orchestrators ask for the health of a server by whatever address they know.
    async fn answer_beside(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        if let Some(gate) = &self.gate
            && !health::PATHS.contains(&parts.uri.path())
            && let Err(refusal) = gate.check_door(&parts)
        {
            return refusal::http::in_plain_words(&refusal).map(Body::from);
        }
        let Ok(response) = self.other.clone().oneshot(Request::from_parts(parts, body)).await;
        response
    }
}

/// The gate behind the Fetch standard's CORS protocol: preflights are answered, and pages may read what refusals say.
fn for_pages(
    gate: Arc<Gate>,
    origins: Vec<HeaderValue>,
) -> BoxCloneSyncService<Request<Body>, Response<Body>, Infallible> {
    let cors = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::POST, Method::GET, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([header::RETRY_AFTER, header::WWW_AUTHENTICATE, RATELIMIT, RATELIMIT_POLICY, X_REQUEST_ID]);
    let serve = service_fn(move |request| {
        let gate = Arc::clone(&gate);
        async move { Ok::<_, Infallible>(gate.serve(request).await) }
    });
    BoxCloneSyncService::new(cors.layer(serve))
}
