//! A service that limits its callers and fails in every way that networks know.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

/// What a request meets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Weather {
    /// It is served.
    Fine,
    /// 429, come back in a second.
    Throttled,
    /// 503.
    Down,
    /// No answer, ever.
    Hanging,
    /// The connection closes without an answer.
    Reset,
    /// It is served, but the answer breaks off.
    Cut,
}

/// The service. Its weather goes round: the first request meets the first, and so on.
#[derive(Debug)]
pub(crate) struct GitHub {
    /// More requests in a second are refused.
    limit: usize,
    weather: Vec<Weather>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    requests: Vec<Instant>,
    issues: Vec<String>,
    /// What was opened by which idempotency key.
    by_key: HashMap<String, usize>,
}

impl GitHub {
    pub(crate) fn new(limit: usize, weather: impl Into<Vec<Weather>>) -> Self {
        Self { limit, weather: weather.into(), seen: Mutex::default() }
    }

    /// Serves until the runtime ends.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let github = Arc::clone(&self);
            tokio::spawn(async move {
                let service = service_fn(|request| github.answer(request));
                // Broken connections are what this is for.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        match self.arrive() {
            Weather::Fine => self.serve_request(request).await,
            Weather::Throttled => response(429, Body::empty()),
            Weather::Down => response(503, Body::empty()),
            Weather::Hanging => std::future::pending().await,
            Weather::Reset => Err(io::ErrorKind::ConnectionReset.into()),
            Weather::Cut => {
                self.serve_request(request).await?;
                let chunks = [Ok(Bytes::from_static(b"{\"iss")), Err(io::Error::from(io::ErrorKind::ConnectionReset))];
                response(200, Body::from_stream(futures::stream::iter(chunks)))
            }
        }
    }

    /// Counts a request and says what it meets.
    fn arrive(&self) -> Weather {
        let (mut seen, now) = (self.seen(), Instant::now());
        let place = seen.requests.len();
        seen.requests.push(now);
        let of_late = seen.requests.iter().rev().take_while(|at| now - **at < Duration::from_secs(1)).count();
        if of_late > self.limit { Weather::Throttled } else { self.weather[place % self.weather.len()] }
    }

    async fn serve_request(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
        let method = request.method().clone();
        let title = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        let mut seen = self.seen();
        if method == Method::GET {
            return response(200, json!({ "issues": seen.issues }).to_string().into());
        }
        let done = key.as_ref().and_then(|key| seen.by_key.get(key)).copied();
        let number = done.unwrap_or_else(|| {
            seen.issues.push(String::from_utf8_lossy(&title).into_owned());
            seen.issues.len()
        });
        seen.by_key.extend(key.map(|key| (key, number)));
        response(201, json!({ "number": number }).to_string().into())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn response(status: u16, body: Body) -> io::Result<Response<Body>> {
    let mut response = Response::builder().status(status);
    if status == 429 {
        response = response.header("retry-after", 1);
    }
    response.body(body).map_err(io::Error::other)
}

#[cfg(test)]
impl GitHub {
    pub(crate) fn requests(&self) -> usize {
        self.seen().requests.len()
    }

    /// The most requests in any stretch of a second.
    pub(crate) fn busiest_second(&self) -> usize {
        let requests = &self.seen().requests;
        let in_a_second = |(place, start): (usize, &Instant)| {
            requests[place..].iter().take_while(|at| at.duration_since(*start) < Duration::from_secs(1)).count()
        };
        requests.iter().enumerate().map(in_a_second).max().unwrap_or_default()
    }

    pub(crate) fn issues(&self) -> Vec<String> {
        self.seen().issues.clone()
    }
}
