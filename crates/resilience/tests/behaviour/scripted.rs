//! An upstream over HTTP that answers what it is told, without a socket.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use sluicegate_resilience::{BudgetOptions, Random, RetryOptions, Upstream, UpstreamOptions};
use tokio::time::Instant;

/// Answers by script in the place of the network, and keeps what it was asked.
#[derive(Clone)]
pub(crate) struct Scripted {
    answer: Arc<dyn Fn(usize) -> Answer + Send + Sync>,
    seen: Arc<std::sync::Mutex<Vec<(Request, Instant)>>>,
}

/// One answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    /// How long it takes.
    takes: Duration,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn after(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }
}

impl Scripted {
    /// An upstream whose answer depends on how many requests came before.
    pub(crate) fn new(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), seen: Arc::default() }
    }

    /// These answers, then 200.
    pub(crate) fn answers(answers: impl Into<Vec<Answer>>) -> Self {
        let answers = answers.into();
        Self::new(move |before| answers.get(before).cloned().unwrap_or_else(|| Answer::status(200)))
    }

    pub(crate) fn always(answer: Answer) -> Self {
        Self::new(move |_| answer.clone())
    }

    /// A client with an upstream before this.
    pub(crate) fn client(&self, upstream: &Upstream) -> ClientWithMiddleware {
        ClientBuilder::new(reqwest::Client::new()).with(upstream.clone()).with(self.clone()).build()
    }

    /// How many requests came.
    pub(crate) fn count(&self) -> usize {
        self.seen.lock().expect("no panic").len()
    }

    /// When the requests came, counted from the first.
    pub(crate) fn times(&self) -> Vec<Duration> {
        let seen = self.seen.lock().expect("no panic");
        seen.iter().map(|(_, at)| at.duration_since(seen[0].1)).collect()
    }

    /// A header field of each request.
    pub(crate) fn header(&self, name: &str) -> Vec<Option<String>> {
        let seen = self.seen.lock().expect("no panic");
        seen.iter()
            .map(|(request, _)| request.headers().get(name).map(|value| value.to_str().expect("text").to_owned()))
            .collect()
    }
}

#[async_trait::async_trait]
impl Middleware for Scripted {
    async fn handle(
        &self,
        request: Request,
        _: &mut http::Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let before = {
            let mut seen = self.seen.lock().expect("no panic");
            seen.push((request, Instant::now()));
            seen.len() - 1
        };
        let answer = (self.answer)(before);
        tokio::time::sleep(answer.takes).await;
        let mut response = http::Response::builder().status(answer.status);
        for (name, value) in answer.headers {
            response = response.header(name, value);
        }
        Ok(Response::from(response.body("body").expect("a response")))
    }
}

/// An upstream with default options but for these, a seed, and a budget that does not run out.
pub(crate) fn upstream(options: UpstreamOptions) -> Upstream {
    let budget = BudgetOptions { reserve: 1_000, ..BudgetOptions::default() };
    let retry = RetryOptions { budget, random: Random::seeded(11), ..options.retry };
    Upstream::new("github", UpstreamOptions { retry, ..options }).expect("valid options")
}

/// Never opens.
pub(crate) fn without_breaker() -> UpstreamOptions {
    let mut options = UpstreamOptions::default();
    options.breaker.failures_in_a_row = u32::MAX;
    options
}
