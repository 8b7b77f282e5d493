//! Somebody who may call.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::Extensions;
use sluicegate_control::{
    Credential, KeyId, KeyScopes, KeyStatus, ParsedKey, Revision, SecretHash, TenantId, ToolGlob, WallClock,
};
use sluicegate_limits::{Limiter, TenantHandle, TenantIdentity};
use sluicegate_mcp::Owner;
use tokio::sync::Semaphore;

use crate::caller::Caller;
use crate::last_used::LastUsed;
use crate::meter::Flood;
use crate::policy::PolicyStore;
use crate::policy::compile::CallerPolicy;
use crate::policy::resolve::{ANONYMOUS, Who};
use crate::token::Subject;

/// Somebody who may call: an agent of a tenant by one of its keys or tokens, or anybody at all when `auth = "none"`.
pub(crate) struct Principal {
    pub(crate) who: Who,
    pub(crate) caller: Caller,
    /// What tools may know of the caller.
    pub(crate) for_tools: Arc<Extensions>,
    /// As sessions and tasks know this caller. By the tenant's id, so that nobody inherits them with a slug.
    pub(crate) owner: Owner,
    pub(crate) tenant: TenantHandle,
    pub(crate) agent: sluicegate_limits::AgentId,
    pub(crate) key: Option<sluicegate_limits::KeyId>,
    pub(super) credential: Presented,
    /// When the last use was noted, so that most calls need no lock for it.
    noted_at: AtomicI64,
    /// Bodies of this caller that may be on their way in at once: they are not admitted yet.
    pub(crate) reading: Semaphore,
    /// How often this caller was refused of late, for the log.
    pub(crate) flood: Flood,
    /// What the policy means for this caller; replaced when the policy has changed.
    pub(crate) policy: ArcSwapOption<CallerPolicy>,
}

/// What the caller has shown.
pub(super) enum Presented {
    Nothing,
    Key(PresentedKey),
    Token(PresentedToken),
}

/// When a credential was looked up, and for how long that holds if nothing changes.
#[derive(Clone, Copy)]
pub(super) struct LookedUp {
    /// As of this revision, or a later one.
    revision: Revision,
    /// Until then, in epoch milliseconds.
    until_ms: i64,
}

impl LookedUp {
    /// `revision` was read before the query: a change that the query missed is newer.
    pub(super) fn new(revision: Revision, clock: &WallClock, known_for: Duration) -> Self {
        let known_for = i64::try_from(known_for.as_millis()).unwrap_or(i64::MAX);
        Self { revision, until_ms: clock.now_ms().saturating_add(known_for) }
    }
}

/// What was found for a key.
pub(super) struct PresentedKey {
    pub(super) id: KeyId,
    secret: SecretHash,
    scopes: KeyScopes,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
    looked_up: LookedUp,
}

/// What a token says, and when its subject was looked up.
pub(super) struct PresentedToken {
    opens: TokenScopes,
    good_until: i64,
    looked_up: LookedUp,
}

/// What a token opens.
#[derive(Debug, Default)]
pub(crate) struct TokenScopes {
    /// The tools of its scopes; `None` where scopes do not say which.
    pub(crate) tools: Option<Box<[ToolGlob]>>,
    /// Its scopes, as far as tools ask for them.
    pub(crate) grants: Box<[Arc<str>]>,
}

/// Which tools a caller's credential opens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Opens<'a> {
    Everything,
    Key(&'a KeyScopes),
    Token(&'a TokenScopes),
}

/// What a credential says of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    Yes,
    No,
    /// It would, with scopes that the tool asks for and the token lacks.
    WithMoreScopes,
}

impl Opens<'_> {
    /// What it says of a tool that asks for these scopes.
    pub(crate) fn tool(self, name: &str, asked: &[String]) -> Opened {
        match self {
            Self::Everything => Opened::Yes,
            Self::Key(scopes) if scopes.allow(name) && scopes.carry(asked) => Opened::Yes,
            Self::Key(_) => Opened::No,
            Self::Token(TokenScopes { tools, grants }) => {
                let carried = asked.iter().all(|scope| grants.iter().any(|grant| **grant == **scope));
                match tools.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.matches(name))) {
                    true if carried => Opened::Yes,
                    true => Opened::WithMoreScopes,
                    false => Opened::No,
                }
            }
        }
    }
}

impl Principal {
    pub(super) fn anonymous(limiter: &Limiter, reading: usize) -> Self {
        let tenant = limiter.tenant(TenantIdentity::Untenanted);
        let caller = Caller::new(None, ANONYMOUS.to_owned(), None, None);
        let agent = tenant.agent(caller.agent());
        Self {
            who: Who::default(),
            for_tools: for_tools(&caller),
            caller,
            owner: Owner { group: "".into(), member: "".into() },
            tenant,
            agent,
            key: None,
            credential: Presented::Nothing,
            noted_at: AtomicI64::new(i64::MAX),
            reading: Semaphore::new(reading),
            flood: Flood::default(),
            policy: ArcSwapOption::empty(),
        }
    }

    pub(super) fn of_key(credential: Credential, limiter: &Limiter, reading: usize, looked_up: LookedUp) -> Self {
        let who =
            Who { tenant: Some(credential.tenant_id), agent: Some(credential.agent_id), key: Some(credential.key_id) };
        let key_id = credential.key_id.to_string();
        let caller = Caller::new(Some(credential.tenant_slug), credential.agent_name, Some(key_id.clone()), None);
        let presented = Presented::Key(PresentedKey {
            id: credential.key_id,
            secret: credential.secret_hash,
            scopes: credential.scopes,
            expires_at: credential.expires_at,
            revoked_at: credential.revoked_at,
            looked_up,
        });
        let principal = Self::identified(credential.tenant_id, who, caller, presented, limiter, reading);
        let key = principal.tenant.key(principal.caller.agent(), &key_id);
        Self { key: Some(key), ..principal }
    }

    pub(super) fn of_token(
        found: sluicegate_control::Subject,
        subject: Subject,
        opens: TokenScopes,
        limiter: &Limiter,
        reading: usize,
        looked_up: LookedUp,
    ) -> Self {
        let who = Who { tenant: Some(found.tenant_id), agent: found.agent_id, key: None };
        let caller = Caller::new(Some(found.tenant_slug), subject.agent, None, subject.client);
        let presented = Presented::Token(PresentedToken { opens, good_until: subject.good_until, looked_up });
        Self::identified(found.tenant_id, who, caller, presented, limiter, reading)
    }

    /// Limiter state is keyed by the tenant's id, so a tenant that is made again under its old slug starts afresh; and by the
    /// agent's name, which belongs to one agent for as long as its tenant lives, and is known before its id is.
    fn identified(
        tenant_id: TenantId,
        who: Who,
        caller: Caller,
        credential: Presented,
        limiter: &Limiter,
        reading: usize,
    ) -> Self {
        let group = tenant_id.to_string();
        let tenant = limiter.tenant(TenantIdentity::Named(&group));
        Self {
            who,
            agent: tenant.agent(caller.agent()),
            key: None,
            owner: Owner { group: group.into(), member: caller.agent().into() },
            for_tools: for_tools(&caller),
            caller,
            tenant,
            credential,
            noted_at: AtomicI64::new(i64::MIN),
            reading: Semaphore::new(reading),
            flood: Flood::default(),
            policy: ArcSwapOption::empty(),
        }
    }

    /// Which tools the caller's credential opens.
    pub(crate) fn opens(&self) -> Opens<'_> {
        match &self.credential {
            Presented::Nothing => Opens::Everything,
            Presented::Key(key) => Opens::Key(&key.scopes),
            Presented::Token(token) => Opens::Token(&token.opens),
        }
    }

    /// Whether nobody identified the caller.
    pub(super) fn is_anonymous(&self) -> bool {
        matches!(self.credential, Presented::Nothing)
    }

    /// Whether the policy in force says that what was looked up no longer holds.
    pub(super) fn is_stale(&self, policy: &PolicyStore) -> bool {
        let Some(tenant) = self.who.tenant else { return false };
        let policy = policy.current();
        match &self.credential {
            Presented::Nothing => false,
            Presented::Key(PresentedKey { id, looked_up: LookedUp { revision, .. }, .. }) => {
                policy.outdates_key(*id, *revision) || policy.outdates(tenant, *revision)
            }
            // An agent that had no row may have one now, and be suspended.
            Presented::Token(token) if self.who.agent.is_none() => policy.revision > token.looked_up.revision,
            Presented::Token(token) => policy.outdates(tenant, token.looked_up.revision),
        }
    }

    /// Whether what was looked up may still be used, if nothing has changed.
    pub(super) fn is_known(&self, now_ms: i64) -> bool {
        match &self.credential {
            Presented::Nothing => true,
            Presented::Key(PresentedKey { looked_up, .. }) | Presented::Token(PresentedToken { looked_up, .. }) => {
                now_ms < looked_up.until_ms
            }
        }
    }

    /// Whether the credential itself still holds: it was not revoked and has not expired.
    pub(super) fn holds(&self, now_ms: i64) -> bool {
        match &self.credential {
            Presented::Nothing => true,
            Presented::Key(key) => KeyStatus::at(now_ms, key.expires_at, key.revoked_at) == KeyStatus::Active,
            Presented::Token(token) => now_ms < token.good_until,
        }
    }

    /// Whether it is time to note that the credential was used.
    pub(super) fn is_to_be_noted(&self, now_ms: i64) -> bool {
        let due = self.noted_at.load(Relaxed).saturating_add(LastUsed::RESOLUTION_MS) < now_ms;
        if due {
            self.noted_at.store(now_ms, Relaxed);
        }
        due
    }
}

impl PresentedKey {
    /// Whether the secret is the key's.
    pub(super) fn verify(&self, presented: &ParsedKey<'_>) -> bool {
        self.secret.verify(presented)
    }
}

fn for_tools(caller: &Caller) -> Arc<Extensions> {
    let mut extensions = Extensions::new();
    extensions.insert(caller.clone());
    Arc::new(extensions)
}
