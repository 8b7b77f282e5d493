//! Upstreams over HTTP: a middleware for reqwest.

use std::sync::Arc;

use ::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, header};
use reqwest::{Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, RequestBuilder};
use tokio::time::Instant;

use super::{CallOptions, Failure, Upstream};
use crate::error::{UpstreamError, UpstreamErrorKind};
use crate::retry::{Repeat, told_wait};

/// By this key an upstream recognises a request that it has already served (draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

impl Upstream {
    /// A client whose requests go through this upstream.
    ///
    /// For more middleware build the stack yourself: an `Upstream` is a [`Middleware`]. What is put before it sees a call
    /// once, what is put behind it sees every attempt.
    #[must_use]
    pub fn client(&self, client: reqwest::Client) -> ClientWithMiddleware {
        ClientBuilder::new(client).with(self.clone()).build()
    }

    /// One attempt over HTTP.
    async fn exchange(
        &self,
        request: Option<Request>,
        mut extensions: Extensions,
        next: Next<'_>,
    ) -> Result<Response, Failure> {
        // A body that cannot be copied is sent once, and `repeat` says so.
        let request = request.ok_or_else(|| Failure::Rejected("the body is gone".into()))?;
        let whole = extensions.get::<WholeAnswer>().is_some();
        let mut response = next.run(request, &mut extensions).await.map_err(failure)?;
        let status = response.status().as_u16();
        let retry_after = || self.told(response.headers());
        match status {
            429 => return Err(Failure::Throttled { retry_after: retry_after() }),
            500..=599 => return Err(Failure::Failed { status, retry_after: retry_after() }),
            _ if !whole => return Ok(response),
            _ => {}
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failure(error.into()))? {
            if body.len() + chunk.len() > self.inner.max_answer {
                return Err(Failure::Rejected(
                    format!("the answer is longer than {} bytes", self.inner.max_answer).into(),
                ));
            }
            body.extend_from_slice(&chunk);
        }
        let mut read =
            ::http::Response::builder().status(status).version(response.version()).url(response.url().clone());
        if let Some(headers) = read.headers_mut() {
            *headers = std::mem::take(response.headers_mut());
        }
        read.body(body).map(Response::from).map_err(|error| Failure::Rejected(error.into()))
    }

    fn told(&self, headers: &HeaderMap) -> Option<std::time::Duration> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        told_wait(text(header::RETRY_AFTER), text(header::DATE), || self.inner.wall_clock.now())
    }
}

/// Answers with 429 and 5xx, and requests without an answer, are failures; every other answer is given to the caller.
#[async_trait::async_trait]
impl Middleware for Upstream {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        if extensions.get::<WithKey>().is_some() {
            let key = HeaderValue::from_maybe_shared(self.inner.retry.random().key())
                .map_err(reqwest_middleware::Error::middleware)?;
            request.headers_mut().entry(IDEMPOTENCY_KEY).or_insert(key);
        }
        let deadline = extensions.get::<Deadline>().map(|deadline| deadline.0);
        let repeat = repeat(&request);
        let mut request = Some(request);
        let attempt = |_| {
            let copy = request.as_ref().and_then(Request::try_clone).or_else(|| request.take());
            self.exchange(copy, extensions.clone(), next.clone())
        };
        self.run(CallOptions { deadline, repeat }, attempt).await.map_err(reqwest_middleware::Error::middleware)
    }
}

/// Methods whose second run has no effect beyond the first (RFC 9110, section 9.2.2) are repeated, and what has a key.
/// A body that is a stream can be sent only once.
fn repeat(request: &Request) -> Repeat {
    let idempotent = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE];
    if request.body().is_some_and(|body| body.as_bytes().is_none()) {
        Repeat::Never
    } else if idempotent.contains(request.method()) {
        Repeat::Always
    } else if request.headers().contains_key(IDEMPOTENCY_KEY) {
        Repeat::ByKey
    } else {
        Repeat::UnlessItMayHaveRun
    }
}

/// The address is left out: its query may hold a key.
fn failure(error: reqwest_middleware::Error) -> Failure {
    match error {
        reqwest_middleware::Error::Reqwest(error) => {
            let error = error.without_url();
            if error.is_connect() {
                Failure::NotSent(error.into())
            } else if error.is_timeout() {
                Failure::TimedOut
            } else if error.is_builder() || error.is_redirect() {
                Failure::Rejected(error.into())
            } else {
                Failure::Lost(error.into())
            }
        }
        reqwest_middleware::Error::Middleware(error) => Failure::Rejected(error.into()),
    }
}

#[derive(Clone, Copy)]
struct Deadline(Instant);

#[derive(Clone, Copy)]
struct WithKey;

#[derive(Clone, Copy)]
struct WholeAnswer;

/// What a request of a client with an [`Upstream`] in it can say beside everything that reqwest offers.
///
/// ```no_run
/// use sluicegate_resilience::{Quota, Upstream, UpstreamError, UpstreamOptions, UpstreamRequest};
/// use tokio::time::Instant;
///
/// # async fn example(deadline: Option<Instant>) -> Result<(), Box<dyn std::error::Error>> {
/// let quotas = vec![Quota::per_second(10)?, Quota::per_hour(5_000)?];
/// let upstream = Upstream::new("payments", UpstreamOptions { quotas, ..UpstreamOptions::default() })?;
/// let payments = upstream.client(reqwest::Client::new());
///
/// let answer = payments
///     .post("https://payments.example/charges")
///     .body("amount=12")
///     .with_idempotency_key()
///     .with_deadline(deadline)
///     .call()
///     .await?;
/// println!("{}", answer.status());
/// # Ok(()) }
/// ```
pub trait UpstreamRequest: Sized {
    /// The call has to end then; `ctx.deadline()` of a tool's `CallContext` fits. The upstream's `call_timeout` holds too.
    #[must_use]
    fn with_deadline(self, deadline: impl Into<Option<Instant>>) -> Self;

    /// Adds a fresh `Idempotency-Key`, the same in all attempts, unless the request has one: then a POST or PATCH may be
    /// repeated even if it may have run. Only for upstreams that honour the field.
    #[must_use]
    fn with_idempotency_key(self) -> Self;

    /// Makes the call and reads the whole answer, so that an answer that breaks off is an attempt that failed.
    ///
    /// `send()` of the builder gives the answer as soon as it begins, for streams. Its errors hold an [`UpstreamError`].
    ///
    /// # Errors
    /// When the answer is 429 or 5xx in the end, or when there is none. Every other status is an answer.
    fn call(self) -> impl Future<Output = Result<Response, UpstreamError>> + Send;
}

impl UpstreamRequest for RequestBuilder {
    fn with_deadline(self, deadline: impl Into<Option<Instant>>) -> Self {
        match deadline.into() {
            Some(deadline) => self.with_extension(Deadline(deadline)),
            None => self,
        }
    }

    fn with_idempotency_key(self) -> Self {
        self.with_extension(WithKey)
    }

    async fn call(self) -> Result<Response, UpstreamError> {
        self.with_extension(WholeAnswer).send().await.map_err(|error| match error {
            reqwest_middleware::Error::Middleware(error) => {
                error.downcast().unwrap_or_else(|error| outside(error.into()))
            }
            reqwest_middleware::Error::Reqwest(error) => outside(error.without_url().into()),
        })
    }
}

/// A failure before the request came to an upstream: it could not be built, or other middleware stopped it.
fn outside(source: Box<dyn std::error::Error + Send + Sync>) -> UpstreamError {
    UpstreamError {
        upstream: Arc::from("upstream"),
        kind: UpstreamErrorKind::Rejected,
        attempts: 0,
        may_have_run: false,
        source: Some(source),
    }
}
