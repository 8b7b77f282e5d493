//! The keys that an issuer publishes: kept in memory, looked at again from time to time, and when a token names one that is
//! not among them, at most once a minute. Those that were read last are used for as long as the issuer does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jsonwebtoken::{Algorithm, DecodingKey};
use reqwest::Url;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::fetch::Fetcher;
use super::keys::{KeySet, Missing};
use crate::settings::SettingsError;

/// How often keys are looked at again, so that one that was withdrawn opens nothing any more.
const LOOK_EVERY: Duration = Duration::from_mins(5);
/// How long there is between two looks because of keys that nobody knows: anybody can invent their names.
const UNKNOWN_EVERY: Duration = Duration::from_mins(1);
/// How soon keys are asked for again that could not be read, at first.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// The keys of an issuer.
pub(crate) struct Jwks {
    fetcher: Fetcher,
    /// `None` until they were read once.
    keys: ArcSwapOption<KeySet>,
    /// Held by whoever asks the issuer.
    asking: Mutex<Asked>,
    /// How often the keys were read, and how often that failed.
    read: AtomicU64,
    failed: AtomicU64,
    clock: quanta::Clock,
}

/// When the issuer was asked, and what it said.
#[derive(Default)]
struct Asked {
    /// When it was last asked because of an unknown key.
    for_unknown: Option<quanta::Instant>,
    /// How often it has answered.
    answers: u64,
    failed: bool,
}

impl Jwks {
    pub(super) fn new(url: Url, clock: quanta::Clock) -> Result<Self, SettingsError> {
        let fetcher = Fetcher::new(url).map_err(|error| SettingsError(format!("jwt_jwks_url: {error}")))?;
        let (read, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { fetcher, keys: ArcSwapOption::empty(), asking: Mutex::default(), read, failed, clock })
    }

    pub(super) async fn find(&self, name: Option<&str>, algorithm: Algorithm) -> Result<Arc<DecodingKey>, Missing> {
        let known = || Some(Arc::clone(self.keys.load().as_ref()?.find(name, algorithm)?));
        if let Some(key) = known() {
            return Ok(key);
        }
        let mut asked = self.asking.lock().await;
        // Somebody else may have asked meanwhile.
        if let Some(key) = known() {
            return Ok(key);
        }
        let now = self.clock.now();
        let lately = asked.for_unknown.is_some_and(|at| now.duration_since(at) < UNKNOWN_EVERY);
        if !lately {
            asked.for_unknown = Some(now);
            self.ask(&mut asked).await;
        }
        known().ok_or(if asked.failed || asked.answers == 0 { Missing::Unknowable } else { Missing::Unknown })
    }

    /// Asks the issuer, and keeps what was there before if that fails.
    async fn ask(&self, asked: &mut Asked) {
        let fetched = self.fetcher.get().await;
        let read =
            fetched.and_then(|document| KeySet::read(&document).ok_or("the answer is no set of keys".to_owned()));
        asked.failed = read.is_err();
        if asked.failed { &self.failed } else { &self.read }.fetch_add(1, Relaxed);
        match read {
            Ok(keys) => {
                tracing::debug!(keys = keys.len(), "the issuer's keys were read");
                if keys.len() == 0 {
                    tracing::warn!(url = %self.fetcher.url(), "the issuer publishes no key that tokens could be checked with");
                }
                asked.answers += 1;
                self.keys.store(Some(Arc::new(keys)));
            }
            Err(error) => {
                let kept = self.keys.load().as_ref().map_or(0, |keys| keys.len());
                tracing::warn!(url = %self.fetcher.url(), error, kept, "the issuer's keys could not be read");
            }
        }
    }

    /// How often the issuer was asked and has answered, and how often it has not.
    pub(crate) fn reads(&self) -> [u64; 2] {
        [&self.read, &self.failed].map(|count| count.load(Relaxed))
    }

    /// Reads the keys once: how many there are that tokens can be checked with.
    ///
    /// # Errors
    /// Why they could not be read.
    pub(crate) async fn try_once(&self) -> Result<usize, String> {
        let document = self.fetcher.get().await?;
        let keys = KeySet::read(&document).ok_or("the answer is no set of keys")?;
        Ok(keys.len())
    }

    /// Keeps the keys fresh until `shutdown` is cancelled.
    pub(crate) async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let mut retry = RETRY_FIRST;
        loop {
            let asking = async {
                let mut asked = self.asking.lock().await;
                self.ask(&mut asked).await;
                asked.failed
            };
            let Some(failed) = shutdown.run_until_cancelled(asking).await else { return };
            let pause = if failed { retry } else { LOOK_EVERY };
            retry = if failed { (retry * 2).min(LOOK_EVERY) } else { RETRY_FIRST };
            if tokio::time::timeout(pause, shutdown.cancelled()).await.is_ok() {
                return;
            }
        }
    }
}
