//! One call of a tool over HTTP, as an agent makes it.

use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderValue, StatusCode, header};
use reqwest::{Client, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

/// Calls one tool with one credential.
pub(super) struct Caller {
    http: Client,
    url: Url,
    authorization: HeaderValue,
    body: String,
}

/// What became of a call.
#[derive(Debug)]
pub(super) enum Outcome {
    Served,
    /// A limit refused it, and said how long to wait.
    Refused(Duration),
    /// Anything else; the text says what.
    Failed(String),
}

impl Caller {
    pub(super) fn new(url: &Url, key: SecretString, tool: &str, arguments: &Value) -> anyhow::Result<Self> {
        let authorization = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()));
        let mut authorization = authorization.context("a key or token with characters that none has")?;
        authorization.set_sensitive(true);
        let call = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments },
        });
        let http = Client::builder().build().context("no HTTP client can be made")?;
        Ok(Self { http, url: url.clone(), authorization, body: call.to_string() })
    }

    /// A call that has to be served, or refused by a limit at most.
    pub(super) async fn try_once(&self) -> anyhow::Result<()> {
        match self.call().await {
            Outcome::Failed(why) => Err(anyhow::Error::msg(why)),
            Outcome::Served | Outcome::Refused(_) => Ok(()),
        }
    }

    pub(super) async fn call(&self) -> Outcome {
        self.answer().await.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
    }

    async fn answer(&self) -> anyhow::Result<Outcome> {
        let request = self.http.post(self.url.clone()).header(header::AUTHORIZATION, &self.authorization);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let request = request.header(header::ACCEPT, "application/json, text/event-stream");
        let response = request.body(self.body.clone()).send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await?;
        let retry_after = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        if let (Some(seconds), true) = (retry_after, status != StatusCode::OK) {
            return Ok(Outcome::Refused(Duration::from_secs(seconds)));
        }
        let answer = message(&body).with_context(|| format!("the answer ({status}) is no JSON-RPC"))?;
        if let Some(seconds) = answer["error"]["data"]["retry_after_seconds"].as_u64() {
            return Ok(Outcome::Refused(Duration::from_secs(seconds)));
        }
        if let Some(seconds) = answer["result"]["_meta"]["sluicegate/refusal"]["retry_after_seconds"].as_u64() {
            return Ok(Outcome::Refused(Duration::from_secs(seconds)));
        }
        if let Some(message) = answer["error"]["message"].as_str() {
            return Ok(Outcome::Failed(message.to_owned()));
        }
        if answer["result"]["isError"] == true {
            let text = answer["result"]["content"][0]["text"].as_str().unwrap_or("the tool failed");
            return Ok(Outcome::Failed(text.to_owned()));
        }
        anyhow::ensure!(answer["result"].is_object(), "the answer has no result");
        Ok(Outcome::Served)
    }
}

/// The message of an answer, which may be a stream whose last event is the result.
fn message(body: &[u8]) -> Option<Value> {
    let whole = serde_json::from_slice(body).ok();
    whole.or_else(|| {
        let text = std::str::from_utf8(body).ok()?;
        let mut events = text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok());
        events.next_back()
    })
}
