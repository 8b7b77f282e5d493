//! One call of a webhook: signed as the Standard Webhooks specification says, at a public address, within a time.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{Client, Url, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;
use sluicegate_control::{WallClock, WebhookMessage};
use tokio::time::Instant;

use super::addresses::{NotPublic, PublicOnly, is_public};

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Sends messages.
pub(super) struct Sender {
    /// Why there is none, where no https client can be made.
    client: Result<Client, String>,
    timeout: Duration,
    private_too: bool,
    clock: WallClock,
}

/// What an attempt came to.
pub(super) struct Attempt {
    /// The status of the answer, if there was one.
    pub(super) status: Option<u16>,
    /// Why the receiver has not taken the message; nothing when it has.
    pub(super) failure: Option<String>,
    /// How long it took.
    pub(super) took: Duration,
}

/// Why no answer came, in words for the operator.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    NotPublic(#[from] NotPublic),
    #[error("{0}")]
    Other(String),
}

impl Sender {
    pub(super) fn new(timeout: Duration, private_too: bool, clock: WallClock) -> Self {
        // A proxy would resolve names itself and a redirect lead elsewhere; connections are not kept, so that every
        // attempt looks at the address it goes to.
        let client = Client::builder()
            .user_agent(concat!("sluicegate/", env!("CARGO_PKG_VERSION")))
            .timeout(timeout)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(0)
            .referer(false);
        let client = if private_too { client } else { client.dns_resolver(Arc::new(PublicOnly)) };
        let client = client.build().map_err(|error| format!("no https client can be made: {}", root(&error)));
        if let Err(error) = &client {
            tracing::warn!(error, "webhooks cannot be called; are the system's CA certificates installed?");
        }
        Self { client, timeout, private_too, clock }
    }

    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Makes one attempt. The body of the answer is not read: nobody needs it, and it is not for whoever chose the URL.
    pub(super) async fn send(&self, message: &WebhookMessage) -> Attempt {
        let began = Instant::now();
        let answered = self.post(message).await;
        let took = began.elapsed();
        match answered {
            Ok(status) if status.is_success() => Attempt { status: Some(status.as_u16()), failure: None, took },
            Ok(status) => {
                let not_followed = if status.is_redirection() { "; redirects are not followed" } else { "" };
                let failure = format!("the webhook answered {status}{not_followed}");
                Attempt { status: Some(status.as_u16()), failure: Some(failure), took }
            }
            Err(failure) => Attempt { status: None, failure: Some(failure.to_string()), took },
        }
    }

    async fn post(&self, message: &WebhookMessage) -> Result<StatusCode, Failure> {
        let client = self.client.as_ref().map_err(|error| Failure::Other(error.clone()))?;
        let url =
            Url::parse(&message.url).map_err(|error| Failure::Other(format!("the URL cannot be read: {error}")))?;
        if !self.private_too {
            // What is an address already is not resolved.
            let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
            match host.parse::<IpAddr>() {
                Ok(address) if !is_public(address) => return Err(NotPublic { address }.into()),
                _ => {}
            }
        }
        let seconds = self.clock.now_ms().div_euclid(1_000);
        let headers = headers(message, seconds).map_err(|error| Failure::Other(error.to_owned()))?;
        let sent = client.post(url).headers(headers).body(message.body.clone()).send().await;
        sent.map(|answer| answer.status()).map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &reqwest::Error) -> Failure {
        if let Some(NotPublic { address }) = causes(error).find_map(|cause| cause.downcast_ref()) {
            return NotPublic { address: *address }.into();
        }
        if error.is_timeout() {
            return Failure::Other(format!("no answer came within {}", humantime::format_duration(self.timeout)));
        }
        let what = if error.is_connect() { "no connection could be made" } else { "no answer came" };
        Failure::Other(format!("{what}: {}", root(error)))
    }
}

/// The innermost cause. The outer ones name the URL.
fn root(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map_or_else(String::new, ToString::to_string)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

fn headers(message: &WebhookMessage, seconds: i64) -> Result<HeaderMap, &'static str> {
    let id = message.id.to_string();
    let signature = sign(&message.secret, &id, seconds, &message.body)?;
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| "a header field cannot be written");
    Ok(HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (WEBHOOK_ID, value(&id)?),
        (WEBHOOK_TIMESTAMP, HeaderValue::from(seconds)),
        (WEBHOOK_SIGNATURE, value(&signature)?),
    ]))
}

/// The value of `webhook-signature`: HMAC-SHA256 over id, time and body, with the bytes that the secret has in base64
/// (Standard Webhooks, "Verifying webhook authenticity").
fn sign(secret: &SecretString, id: &str, seconds: i64, body: &str) -> Result<String, &'static str> {
    const UNUSABLE: &str = "the secret of the webhook is not `whsec_` and base64: give the rule another one";
    let key = secret.expose_secret().strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    let mut mac = key.and_then(|key| Hmac::<Sha256>::new_from_slice(&key).ok()).ok_or(UNUSABLE)?;
    for part in [id, ".", &seconds.to_string(), ".", body] {
        mac.update(part.as_bytes());
    }
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_one_of_the_specifications_example() {
        // From the test vectors of the specification's reference libraries.
        let secret = SecretString::from("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signed = sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, Ok("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".to_owned()));
    }

    #[test]
    fn a_secret_that_cannot_sign_is_told() {
        for unusable in ["MfKQ9r8G", "whsec_not base64"] {
            assert!(sign(&SecretString::from(unusable), "msg_1", 1, "{}").expect_err("unusable").contains("whsec_"));
        }
    }
}
