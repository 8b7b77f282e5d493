//! Tokens of an identity provider: verified once, then known by their hash for a minute at most.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;
use sha2::{Digest as _, Sha256};

use super::principal::{LookedUp, Principal, TokenScopes};
use super::{KNOWN_FOR, Surroundings};
use crate::refusal::Refusal;
use crate::token::{Bad, Subject, Verifier};

/// How long an agent is known by name alone before it is looked up again. Its first sighting is written meanwhile.
const NEW_FOR: Duration = Duration::from_secs(2);

/// The hash of a token's text.
type TokenHash = [u8; 32];

/// The tokens that were seen lately.
pub(super) struct Tokens {
    verifier: Arc<Verifier>,
    /// The scopes that tools ask for. Others are forgotten.
    asked: Box<[Arc<str>]>,
    known: Cache<TokenHash, (Arc<Principal>, Duration)>,
}

impl Tokens {
    /// `asked` are the scopes that tools ask for, `room` is for how many tokens.
    pub(super) fn new(verifier: Arc<Verifier>, asked: Box<[Arc<str>]>, room: u64) -> Self {
        let known = Cache::builder().max_capacity(room).expire_after(KnownFor).build();
        Self { verifier, asked, known }
    }

    /// Whom a token speaks for.
    pub(super) async fn authenticate(
        &self,
        text: &str,
        client: Option<IpAddr>,
        around: &Surroundings,
    ) -> Result<Arc<Principal>, Refusal> {
        let hash: TokenHash = Sha256::digest(text.as_bytes()).into();
        let mut principal = self.find(hash, text, client, around).await?;
        if principal.is_stale(&around.policy) {
            self.known.invalidate(&hash).await;
            principal = self.find(hash, text, client, around).await?;
        }
        let now_ms = around.clock.now_ms();
        if !principal.holds(now_ms) {
            return Err(Bad::Token("The token has expired.").into());
        }
        Ok(principal)
    }

    async fn find(
        &self,
        hash: TokenHash,
        text: &str,
        client: Option<IpAddr>,
        around: &Surroundings,
    ) -> Result<Arc<Principal>, Refusal> {
        if let Some((known, _)) = self.known.get(&hash).await {
            return Ok(known);
        }
        let _turn = around.strangers.turn(client).await;
        // What is not good is not remembered: it is refused faster than it would be found, and would push out what is.
        let subject = self.verifier.verify(text).await?;
        let found = self.known.try_get_with(hash, async {
            let revision = around.policy.current().revision;
            let found = around.control.credentials().subject(&subject.tenant, &subject.agent).await;
            let Some(found) = found.map_err(Some)? else { return Err(None) };
            let is_new = found.agent_id.is_none() && !around.sightings.is_full(found.tenant_id);
            let known_for = if is_new { NEW_FOR } else { KNOWN_FOR };
            let looked_up = LookedUp::new(revision, &around.clock, known_for);
            let opens = self.opened(&subject);
            let principal = Principal::of_token(found, subject, opens, &around.limiter, around.reading, looked_up);
            Ok((Arc::new(principal), known_for))
        });
        match found.await {
            Ok((principal, _)) => Ok(principal),
            Err(error) => Err(match &*error {
                Some(error) => super::cannot_be_checked(error),
                None => Bad::NoTenant("The token's tenant is not known here.").into(),
            }),
        }
    }

    fn opened(&self, subject: &Subject) -> TokenScopes {
        let carried = |scope: &str| subject.scopes.iter().any(|carried| carried == scope);
        let tools = self.verifier.rules().scope_tools.as_ref().map(|entries| {
            let opened = entries.iter().filter(|entry| carried(&entry.scope));
            opened.flat_map(|entry| entry.tools.iter().cloned()).collect()
        });
        TokenScopes { tools, grants: self.asked.iter().filter(|scope| carried(scope)).cloned().collect() }
    }
}

/// A token is never known for longer than this, even if nothing changes.
struct KnownFor;

impl Expiry<TokenHash, (Arc<Principal>, Duration)> for KnownFor {
    fn expire_after_create(
        &self,
        _: &TokenHash,
        (_, known_for): &(Arc<Principal>, Duration),
        _: Instant,
    ) -> Option<Duration> {
        Some(*known_for)
    }
}
