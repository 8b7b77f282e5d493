//! API keys: looked up by the id in them, and proved with the secret in them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;
use sluicegate_control::{ApiKey, KeyId};

use super::principal::{LookedUp, Presented, Principal};
use super::{KNOWN_FOR, Surroundings, UNKNOWN_FOR};
use crate::refusal::Refusal;

const WRONG: &str = "The API key is wrong, expired or revoked.";
pub(super) const MALFORMED: &str = "The API key is malformed: it was mistyped or cut off.";

/// What is remembered of a key id.
#[derive(Clone)]
enum Known {
    Principal(Arc<Principal>),
    Nobody,
}

/// The keys that were seen lately.
pub(super) struct Keys(Cache<KeyId, Known>);

impl Keys {
    /// `room` is for how many keys.
    pub(super) fn new(room: u64) -> Self {
        Self(Cache::builder().max_capacity(room).expire_after(KnownFor).build())
    }

    /// Whose key this is.
    pub(super) async fn authenticate(
        &self,
        text: &str,
        client: Option<IpAddr>,
        around: &Surroundings,
    ) -> Result<Arc<Principal>, Refusal> {
        let presented = ApiKey::parse(text).map_err(|_| Refusal::InvalidToken(MALFORMED))?;
        let mut known = self.find(presented.id(), client, around).await?;
        if matches!(&known, Known::Principal(principal) if principal.is_stale(&around.policy)) {
            self.0.invalidate(&presented.id()).await;
            known = self.find(presented.id(), client, around).await?;
        }
        let Known::Principal(principal) = known else { return Err(Refusal::InvalidToken(WRONG)) };
        let Presented::Key(key) = &principal.credential else { return Err(Refusal::InvalidToken(WRONG)) };
        let now_ms = around.clock.now_ms();
        if !key.verify(&presented) || !principal.holds(now_ms) {
            return Err(Refusal::InvalidToken(WRONG));
        }
        Ok(principal)
    }

    /// Whether the key would be accepted again.
    pub(super) async fn still_accept(&self, id: KeyId, around: &Surroundings) -> bool {
        if let Some(Known::Principal(known)) = self.0.get(&id).await
            && known.is_stale(&around.policy)
        {
            self.0.invalidate(&id).await;
        }
        match self.find(id, None, around).await {
            Ok(Known::Principal(now)) => now.holds(around.clock.now_ms()),
            Ok(Known::Nobody) => false,
            // It cannot be said at the moment.
            Err(_) => true,
        }
    }

    /// Looks a key id up, in memory or in the database; concurrent look-ups of one id are one query.
    async fn find(&self, id: KeyId, client: Option<IpAddr>, around: &Surroundings) -> Result<Known, Refusal> {
        if let Some(known) = self.0.get(&id).await {
            return Ok(known);
        }
        let _turn = around.strangers.turn(client).await;
        let found = self.0.try_get_with(id, async {
            let revision = around.policy.current().revision;
            let credential = around.control.credentials().find(id).await?;
            let looked_up = LookedUp::new(revision, &around.clock, KNOWN_FOR);
            let principal = credential
                .map(|credential| Arc::new(Principal::of_key(credential, &around.limiter, around.reading, looked_up)));
            Ok(principal.map_or(Known::Nobody, Known::Principal))
        });
        found.await.map_err(super::cannot_be_checked)
    }
}

/// Ids that exist are remembered longer than those that do not.
struct KnownFor;

impl Expiry<KeyId, Known> for KnownFor {
    fn expire_after_create(&self, _: &KeyId, known: &Known, _: Instant) -> Option<Duration> {
        Some(match known {
            Known::Principal(_) => KNOWN_FOR,
            Known::Nobody => UNKNOWN_FOR,
        })
    }
}
