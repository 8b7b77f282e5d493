//! `Idempotency-Key`: a request that is sent again, because its answer was lost, is answered again and not done again
//! (draft-ietf-httpapi-idempotency-key-header).
//!
//! Answers are kept in memory, by the server that gave them, for 24 hours and as far as there is room. A request that was
//! refused has done nothing, so its key stays free. An answer with a secret is never kept: whoever asks for it again is
//! told that it was shown.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use sha2::{Digest as _, Sha256};

use super::Api;
use super::payload;
use super::problem::{Kind, Problem};
use super::who::With;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer was given before.
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

const KEPT_FOR: Duration = Duration::from_hours(24);
/// The bytes of all answers that are kept.
const ROOM: u64 = 16 * 1024 * 1024;
/// A larger answer is not kept.
const LARGEST: usize = 256 * 1024;
/// What an answer takes beside its body.
const OVERHEAD: usize = 512;

type Fingerprint = [u8; 32];

/// The answers that are kept.
#[derive(Clone)]
pub(crate) struct Replays(Cache<Fingerprint, Arc<Kept>>);

/// A request, and what became of it.
struct Kept {
    request: Fingerprint,
    outcome: Outcome,
}

enum Outcome {
    InWork,
    Answered { status: StatusCode, headers: HeaderMap, body: Bytes },
    SecretShown,
}

/// Marks an answer that holds a secret.
#[derive(Clone)]
pub(crate) struct HoldsSecret;

/// An answer that holds a secret.
pub(crate) struct Secretly<T>(pub(crate) T);

impl<T: IntoResponse> IntoResponse for Secretly<T> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        response.extensions_mut().insert(HoldsSecret);
        response
    }
}

impl Replays {
    pub(crate) fn new() -> Self {
        let weigh = |_: &Fingerprint, kept: &Arc<Kept>| {
            let body = match &kept.outcome {
                Outcome::Answered { body, .. } => body.len(),
                Outcome::InWork | Outcome::SecretShown => 0,
            };
            u32::try_from(OVERHEAD + body).unwrap_or(u32::MAX)
        };
        let cache = Cache::builder().max_capacity(ROOM).weigher(weigh).time_to_live(KEPT_FOR);
        // Any other policy may decline to keep what is new.
        Self(cache.eviction_policy(EvictionPolicy::lru()).build())
    }
}

/// Frees a key whose request has not come to an end.
struct Claim<'a> {
    replays: &'a Replays,
    key: Fingerprint,
    kept: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.replays.0.invalidate(&self.key);
        }
    }
}

/// Answers what was answered before, and keeps what is answered now.
pub(crate) async fn replay(State(api): State<Api>, request: Request, next: Next) -> Result<Response, Problem> {
    let sent = request.headers().get(&IDEMPOTENCY_KEY).filter(|_| request.method() == Method::POST);
    let Some(sent) = sent else { return Ok(next.run(request).await) };
    let good = (1..=255).contains(&sent.len()) && sent.as_bytes().iter().all(|byte| (0x20..0x7f).contains(byte));
    if !good {
        let detail = "An idempotency key has 1 to 255 printable ASCII characters.";
        return Err(Problem::at(Kind::Malformed, "Idempotency-Key", detail));
    }
    let owner = request.extensions().get::<With>().map(With::owner).unwrap_or_default();
    let key = fingerprint([owner.as_bytes(), sent.as_bytes()]);
    let (parts, body) = request.into_parts();
    let body = payload::read(Request::new(body)).await?;
    let target = parts.uri.path_and_query().map(http::uri::PathAndQuery::as_str).unwrap_or_default();
    let asked = fingerprint([target.as_bytes(), &body]);

    let claim = || Arc::new(Kept { request: asked, outcome: Outcome::InWork });
    let entry = api.replays.0.entry(key).or_insert_with(claim);
    if !entry.is_fresh() {
        return again(entry.value(), &asked);
    }
    let mut claim = Claim { replays: &api.replays, key, kept: false };
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    if !response.status().is_success() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes);
    let body = body.map_err(|_| Problem::new(Kind::Internal, "The answer could not be put together."))?;
    let outcome = if parts.extensions.get::<HoldsSecret>().is_some() {
        Some(Outcome::SecretShown)
    } else {
        let (status, headers, body) = (parts.status, parts.headers.clone(), body.clone());
        (body.len() <= LARGEST).then_some(Outcome::Answered { status, headers, body })
    };
    if let Some(outcome) = outcome {
        api.replays.0.insert(key, Arc::new(Kept { request: asked, outcome }));
        claim.kept = true;
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

/// What somebody gets who sends a key again.
fn again(kept: &Kept, asked: &Fingerprint) -> Result<Response, Problem> {
    if kept.request != *asked {
        let detail = "This idempotency key was sent with another path or body: every request needs one of its own.";
        return Err(Problem::at(Kind::KeyReused, "Idempotency-Key", detail));
    }
    match &kept.outcome {
        Outcome::InWork => Err(Problem::new(Kind::InWork, "The first request with this key is not answered yet.")),
        Outcome::SecretShown => {
            let detail = "This request was done, and its answer had a secret that was shown once and is not kept: \
                          if it was lost, revoke what was made and make another.";
            Err(Problem::new(Kind::SecretShown, detail))
        }
        Outcome::Answered { status, headers, body } => {
            let mut response = Response::new(Body::from(body.clone()));
            *response.status_mut() = *status;
            *response.headers_mut() = headers.clone();
            response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
            Ok(response)
        }
    }
}

/// A hash of several texts that cannot run into each other.
fn fingerprint<const N: usize>(texts: [&[u8]; N]) -> Fingerprint {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}
