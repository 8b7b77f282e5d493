//! `/healthz`, `/readyz` and `/metrics`: what a load balancer, an orchestrator and a monitoring system ask.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::engine::LimitEngine;
use crate::gate::edge;
use crate::gate::streams::Streams;
use crate::policy::PolicyStore;
use crate::settings::Settings;
use crate::telemetry::{Readings, Telemetry};
use crate::token::jwks::Jwks;

/// The text format of Prometheus, version 0.0.4.
const EXPOSITION: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// What has its own rules of who may ask.
pub(crate) const PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// What proxies say of whom they speak for. A request that has one comes from further away than its connection.
const PASSED_ON: [HeaderName; 4] =
    [header::FORWARDED, header::VIA, HeaderName::from_static("x-forwarded-for"), HeaderName::from_static("x-real-ip")];

/// How a server is, as others ask for it.
pub(crate) struct Health {
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) policy: Arc<PolicyStore>,
    pub(crate) engine: LimitEngine,
    /// Where tokens are checked with keys that their issuer publishes.
    pub(crate) issuer: Option<Arc<Jwks>>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) draining: CancellationToken,
    /// A policy that was not confirmed for so long may be an old one.
    pub(crate) patience: Duration,
}

/// How long a policy may go unconfirmed: missing one look at the database may be chance.
pub(crate) fn patience(settings: &Settings) -> Duration {
    settings.reload_interval.0 * 2 + Duration::from_secs(1)
}

/// Who is shown the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsFor {
    /// Whoever can open the port.
    Anybody,
    /// Programs on this machine.
    ThisMachine,
    /// They have a port of their own.
    Nobody,
}

/// The answer of `/readyz`.
#[derive(Debug, Serialize)]
struct Readiness {
    /// `ready`, `degraded` (calls are served, but look at the rest) or `draining`.
    status: &'static str,
    /// Whether the database answers.
    database: &'static str,
    /// Whether the policy in force is known to be the newest.
    policy: &'static str,
    /// Whether limits are enforced as configured.
    engine: &'static str,
    /// Whether the limits of the settings were understood when they were last read.
    settings: &'static str,
}

impl Health {
    fn readiness(&self) -> Readiness {
        let current = self.policy.age() <= self.patience;
        let understood = self.policy.settings_problem().is_none();
        let draining = self.draining.is_cancelled();
        let shared = !self.engine.state().degraded;
        Readiness {
            status: match (draining, current && understood && shared) {
                (true, _) => "draining",
                (false, true) => "ready",
                (false, false) => "degraded",
            },
            database: if current { "ok" } else { "unreachable" },
            policy: if current { "current" } else { "stale" },
            engine: if shared { "ok" } else { "degraded" },
            settings: if understood { "ok" } else { "invalid" },
        }
    }
}

/// The routes.
pub(crate) fn router(health: Arc<Health>, metrics: MetricsFor) -> Router {
    let router = Router::new().route("/healthz", get(async || "ok")).route("/readyz", get(ready));
    let router = match metrics {
        MetricsFor::Anybody => router.route("/metrics", get(show)),
        MetricsFor::ThisMachine => router.route("/metrics", get(show_to_this_machine)),
        MetricsFor::Nobody => router,
    };
    router.with_state(health)
}

async fn ready(State(health): State<Arc<Health>>) -> Response {
    let readiness = health.readiness();
    let status = if readiness.status == "draining" { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, [(header::CACHE_CONTROL, "no-store")], Json(readiness)).into_response()
}

async fn show(State(health): State<Arc<Health>>) -> Response {
    // Ten thousand lines take a while, and calls do not wait for it.
    let rendered = tokio::task::spawn_blocking(move || {
        let Health { telemetry, policy, engine, issuer, streams, draining, .. } = &*health;
        let (issuer, streams, draining) = (issuer.as_deref(), streams.len(), draining.is_cancelled());
        telemetry.render(&Readings { engine, policy, issuer, streams, draining })
    });
    match rendered.await {
        Ok(text) => ([(header::CONTENT_TYPE, EXPOSITION)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn show_to_this_machine(health: State<Arc<Health>>, request: Request) -> Response {
    if is_from_this_machine(&request) {
        return show(health).await;
    }
    let text =
        "Metrics are shown to programs on this machine. Set metrics_bind to serve them on a port of their own.\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

/// Whether a request comes from a program on this machine, and not from elsewhere through a proxy or a browser's page that
/// has rebound its name to this address.
fn is_from_this_machine(request: &Request<Body>) -> bool {
    let headers = request.headers();
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let host = request.uri().authority().map(http::uri::Authority::as_str);
    let host = host.or_else(|| headers.get(header::HOST)?.to_str().ok());
    peer.is_some_and(|ConnectInfo(peer)| peer.ip().to_canonical().is_loopback())
        && host.is_some_and(edge::names_loopback)
        && PASSED_ON.iter().all(|name| !headers.contains_key(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(peer: &str, host: &str, more: Option<(&'static str, &'static str)>) -> Request<Body> {
        let mut request = Request::new(Body::empty());
        let peer: SocketAddr = peer.parse().expect("an address");
        request.extensions_mut().insert(ConnectInfo(peer));
        request.headers_mut().insert(header::HOST, host.parse().expect("a value"));
        if let Some((name, value)) = more {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        request
    }

    #[test]
    fn only_programs_on_this_machine_see_metrics_on_the_port_of_mcp() {
        for (peer, host, more, shown) in [
            ("127.0.0.1:5", "127.0.0.1:8080", None, true),
            ("[::1]:5", "localhost:8080", None, true),
            ("[::ffff:127.0.0.1]:5", "[::1]:8080", None, true),
            ("192.0.2.7:5", "127.0.0.1:8080", None, false),
            ("127.0.0.1:5", "mcp.example", None, false),
            ("127.0.0.1:5", "localhost@evil.example", None, false),
            ("127.0.0.1:5", "localhost", Some(("x-forwarded-for", "192.0.2.7")), false),
            ("127.0.0.1:5", "localhost", Some(("forwarded", "for=192.0.2.7")), false),
            ("127.0.0.1:5", "localhost", Some(("via", "1.1 proxy")), false),
        ] {
            assert_eq!(is_from_this_machine(&request(peer, host, more)), shown, "{peer} {host} {more:?}");
        }
    }
}
