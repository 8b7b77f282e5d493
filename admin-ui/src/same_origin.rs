//! Requests that change something must come from a page of this server.
//!
//! Browsers say where a request comes from in `Sec-Fetch-Site` (Fetch Metadata), which a page cannot forge. What is
//! `same-origin` is ours; `none` is a person who typed the address. A browser without the header names the `Origin`,
//! which must be the host it asks. Whoever sends neither is refused: no form of ours arrives like that.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, Uri, header};

use crate::fault::Fault;

/// Refuses unsafe requests of other origins with 403.
pub(crate) async fn require(request: Request, next: Next) -> Response {
    let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if safe || comes_from_here(request.headers(), request.uri()) {
        return next.run(request).await;
    }
    tracing::warn!(path = request.uri().path(), "a form of another origin was refused");
    Fault::ForeignForm.into_response()
}

/// Whether the browser that sent a request says that a page of this server has made it.
#[must_use]
pub fn comes_from_here(headers: &HeaderMap, uri: &Uri) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return false };
    let Some(origin) = origin.parse::<Uri>().ok().filter(|origin| origin.scheme().is_some()) else { return false };
    let host = text(header::HOST).or_else(|| uri.authority().map(http::uri::Authority::as_str));
    let (Some(origin), Some(host)) = (origin.authority().map(http::uri::Authority::as_str), host) else { return false };
    origin.eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(pairs: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().expect("a value"));
        }
        comes_from_here(&headers, &Uri::from_static("/admin/sign-in"))
    }

    #[test]
    fn what_the_browser_says_about_the_origin_decides() {
        assert!(verdict(&[("sec-fetch-site", "same-origin")]));
        assert!(verdict(&[("sec-fetch-site", "none")]));
        for site in ["same-site", "cross-site", "", "same-origin, cross-site"] {
            assert!(!verdict(&[("sec-fetch-site", site), ("origin", "http://a"), ("host", "a")]), "{site}");
        }
    }

    #[test]
    fn without_fetch_metadata_the_origin_must_be_the_host() {
        assert!(verdict(&[("origin", "http://panel.example:8080"), ("host", "panel.example:8080")]));
        for origin in ["http://evil.example", "null", "panel.example:8080", "http://panel.example:8081", ""] {
            assert!(!verdict(&[("origin", origin), ("host", "panel.example:8080")]), "{origin}");
        }
        assert!(!verdict(&[("host", "panel.example:8080")]), "neither header");
        assert!(!verdict(&[]), "nothing at all");
    }
}
