//! What every response of the panel says to the browser about itself.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, header};

/// Nothing but what this server serves: no inline script or style, no frame around us, no form to elsewhere.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none'; \
     base-uri 'none'";

static FIXED: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=(), payment=()"),
];

/// One year, as long as a proxy in front says that the browser came by TLS.
const HSTS: &str = "max-age=31536000";

/// Adds the headers. Pages are never stored; assets bring their own word on that.
pub(crate) async fn secure(request: Request, next: Next) -> Response {
    let by_tls = request.headers().get("x-forwarded-proto").is_some_and(|proto| proto == "https");
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in &FIXED {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if by_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(HSTS));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
