//! Sessions in the database of the control plane, which keeps a hash of the cookie's secret.

use std::fmt;

use async_trait::async_trait;
use sluicegate_control::{Control, ControlError, JsonText, SessionState, UserId, WallClock};
use time::OffsetDateTime;
use tower_sessions::cookie::SameSite;
use tower_sessions::session::{Id, Record};
use tower_sessions::session_store::{Error, Result};
use tower_sessions::{Expiry, SessionManagerLayer, SessionStore};

use crate::visit::USER;

/// The cookie. Browsers keep one with this prefix only when it is `Secure`, has no domain, and is for every path.
pub(crate) const COOKIE: &str = "__Host-sluicegate";

/// Where a session keeps what the list of sessions shows.
pub(crate) const ADDRESS: &str = "address";
pub(crate) const USER_AGENT: &str = "user_agent";

/// A session ends when nobody uses it for this long, in milliseconds.
const IDLE_MS: i64 = 60 * 60 * 1_000;

/// A session ends after this long in any case, in milliseconds.
const ABSOLUTE_MS: i64 = 12 * 60 * 60 * 1_000;

/// How old the note of the last use may get before it is written again, in milliseconds: not at every page.
const TOUCH_AFTER_MS: i64 = 60 * 1_000;

/// Keeps sessions in the control plane.
#[derive(Clone)]
pub(crate) struct Store {
    control: Control,
    clock: WallClock,
}

impl Store {
    pub(crate) const fn new(control: Control, clock: WallClock) -> Self {
        Self { control, clock }
    }

    /// The layer that reads and writes the cookie. The server decides when a session ends, so the cookie itself lasts as
    /// long as the browser is open.
    pub(crate) fn layer(control: Control, clock: WallClock) -> SessionManagerLayer<Self> {
        SessionManagerLayer::new(Self::new(control, clock))
            .with_name(COOKIE)
            .with_path("/")
            .with_secure(true)
            .with_http_only(true)
            .with_same_site(SameSite::Lax)
            .with_expiry(Expiry::OnSessionEnd)
    }

    fn state(&self, record: &Record) -> Result<SessionState> {
        let text = |key: &str| record.data.get(key).and_then(|value| value.as_str()).map(str::to_owned);
        let user = text(USER).map(|id| id.parse::<UserId>()).transpose();
        let data = serde_json::to_value(&record.data).map_err(|error| Error::Encode(error.to_string()))?;
        let now = self.clock.now_ms();
        Ok(SessionState {
            user: user.map_err(|error| Error::Encode(error.to_string()))?,
            data: JsonText::from(data),
            address: text(ADDRESS),
            user_agent: text(USER_AGENT),
            idle_ends_at: now + IDLE_MS,
            ends_at: now + ABSOLUTE_MS,
        })
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

fn failed(error: ControlError) -> Error {
    Error::Backend(error.inside())
}

#[async_trait]
impl SessionStore for Store {
    async fn create(&self, record: &mut Record) -> Result<()> {
        while !self.control.sessions().create(&record.id.to_string(), &self.state(record)?).await.map_err(failed)? {
            record.id = Id::default();
        }
        Ok(())
    }

    async fn save(&self, record: &Record) -> Result<()> {
        self.control.sessions().save(&record.id.to_string(), &self.state(record)?).await.map_err(failed)
    }

    async fn load(&self, id: &Id) -> Result<Option<Record>> {
        let secret = id.to_string();
        let Some(state) = self.control.sessions().load(&secret).await.map_err(failed)? else { return Ok(None) };
        let idle_ends_at = self.clock.now_ms() + IDLE_MS;
        if idle_ends_at - state.idle_ends_at > TOUCH_AFTER_MS {
            let touched = SessionState { idle_ends_at, ..state.clone() };
            self.control.sessions().save(&secret, &touched).await.map_err(failed)?;
        }
        let data = serde_json::from_str(state.data.as_str()).map_err(|error| Error::Decode(error.to_string()))?;
        let ends = OffsetDateTime::from_unix_timestamp(state.ends_at / 1_000);
        let expiry_date = ends.map_err(|error| Error::Decode(error.to_string()))?;
        Ok(Some(Record { id: *id, data, expiry_date }))
    }

    async fn delete(&self, id: &Id) -> Result<()> {
        self.control.sessions().delete(&id.to_string()).await.map_err(failed)
    }
}
