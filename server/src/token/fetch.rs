//! One small document over HTTPS: bounded in size and time, no redirects, no proxy.

use std::time::Duration;

use http::{StatusCode, header};
use reqwest::{Client, Url, redirect};

/// How long an answer may take, from the first connection to the last byte.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer.
const MOST_BYTES: usize = 512 << 10;

/// Fetches one document.
pub(super) struct Fetcher {
    client: Client,
    url: Url,
}

impl Fetcher {
    /// # Errors
    /// When the operating system trusts no certificates.
    pub(super) fn new(url: Url) -> Result<Self, String> {
        let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().timeout(PATIENCE);
        let client = client.build().map_err(|error| format!("no HTTP client can be made: {}", with_causes(&error)))?;
        Ok(Self { client, url })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// # Errors
    /// What went wrong, in words for the log.
    pub(super) async fn get(&self) -> Result<Vec<u8>, String> {
        let request = self.client.get(self.url.clone()).header(header::ACCEPT, "application/json");
        let mut response = request.send().await.map_err(|error| with_causes(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("the answer is {}", response.status()));
        }
        let mut document = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| with_causes(&error))? {
            document.extend_from_slice(&piece);
            if document.len() > MOST_BYTES {
                return Err(format!("the answer is longer than {MOST_BYTES} bytes"));
            }
        }
        Ok(document)
    }
}

fn with_causes(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
