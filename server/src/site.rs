//! What the port serves: MCP through the gate, and whatever else there is by a router.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::cors::{AllowHeaders, CorsLayer};

use crate::accept::Via;
use crate::gate::Gate;
use crate::gate::respond::HeldBody;
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
    /// What pages of other origins may do, where some are allowed.
    for_pages: Option<CorsLayer>,
    other: Router,
}

/// The body of an answer.
pub(crate) enum SiteBody {
    Mcp(HeldBody),
    Other(Body),
}

impl Site {
    /// MCP, and what `other` has.
    pub(crate) fn new(gate: Arc<Gate>, other: Router, settings: &Settings) -> Self {
        let origins: Vec<_> = settings.origins().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
        let for_pages = (!origins.is_empty()).then(|| for_pages(origins));
        Self { gate: Some(gate), for_pages, other }
    }

    /// Only what `other` has.
    pub(crate) fn without_mcp(other: Router) -> Self {
        Self { gate: None, for_pages: None, other }
    }

    /// Answers one request. Nearly all of them are for the gate, which needs no routing.
    pub(crate) async fn answer(&self, request: Request<Incoming>, via: &Via) -> Response<SiteBody> {
        let Some(gate) = self.gate.as_ref().filter(|_| request.uri().path() == MCP_PATH) else {
            return self.answer_beside(request, via).await.map(SiteBody::Other);
        };
        match &self.for_pages {
            Some(cors) if request.headers().contains_key(header::ORIGIN) => {
                let serve = service_fn(|request| async move { Ok::<_, Infallible>(gate.serve(request, via).await) });
                let Ok(response) = Box::pin(cors.layer(serve).oneshot(request)).await;
                response.map(SiteBody::Mcp)
            }
            _ => gate.serve(request, via).await.map(SiteBody::Mcp),
        }
    }

    /// Everything but MCP. Orchestrators ask for the health of a server by whatever address they know.
    ///
    /// In a box, so that the way of calls is not as wide as all others.
    fn answer_beside(&self, request: Request<Incoming>, via: &Via) -> BoxFuture<'static, Response<Body>> {
        let (parts, body) = request.into_parts();
        if let Some(gate) = &self.gate
            && !health::PATHS.contains(&parts.uri.path())
            && let Err(refusal) = gate.check_door(&parts, via)
        {
            let refused = refusal::http::in_plain_words(&refusal).map(Body::from);
            return Box::pin(std::future::ready(refused));
        }
        let mut request = Request::from_parts(parts, Body::new(body));
        request.extensions_mut().insert(ConnectInfo(via.peer));
        let answered = self.other.clone().oneshot(request);
        Box::pin(async move {
            let Ok(response) = answered.await;
            response
        })
    }
}

/// The Fetch standard's CORS protocol: preflights are answered, and pages may read what refusals say.
fn for_pages(origins: Vec<HeaderValue>) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::POST, Method::GET, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([header::RETRY_AFTER, header::WWW_AUTHENTICATE, RATELIMIT, RATELIMIT_POLICY, X_REQUEST_ID])
}

impl http_body::Body for SiteBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut *self {
            Self::Mcp(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Other(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Mcp(body) => body.is_end_stream(),
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Mcp(body) => body.size_hint(),
            Self::Other(body) => body.size_hint(),
        }
    }
}
