//! Who calls: from the credentials in the headers to a principal, without the database for those who are known.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, header};
use moka::Expiry;
use moka::future::Cache;
use sluicegate_control::{
    ApiKey, Control, Credential, KeyId, KeyScopes, KeyStatus, ParsedKey, Revision, SecretHash, WallClock,
};
use sluicegate_limits::{AgentId, Limiter, TenantHandle, TenantIdentity};
use sluicegate_mcp::Owner;
use tokio::sync::Semaphore;

use crate::caller::Caller;
use crate::last_used::LastUsed;
use crate::meter::Flood;
use crate::policy::PolicyStore;
use crate::policy::compile::CallerPolicy;
use crate::policy::resolve::{ANONYMOUS, Who};
use crate::refusal::Refusal;
use crate::settings::AuthMode;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// How long a credential may be used without asking the database again. Changes end it sooner: see [`Principal::is_stale`].
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// How long a key id that does not exist is remembered.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);
/// How many callers are remembered. A flood of more, each of whom calls once, may not eat the memory of the others.
const MOST_PRINCIPALS: u64 = 32_768;

const WRONG: &str = "The API key is wrong, expired or revoked.";
const MALFORMED: &str = "The API key is malformed: it was mistyped or cut off.";
const MISSING: &str = "Credentials are missing: send `Authorization: Bearer <API key>` or `X-API-Key`.";

/// Somebody who may call: an agent of a tenant by one of its keys, or anybody at all when `auth = "none"`.
pub(crate) struct Principal {
    pub(crate) who: Who,
    pub(crate) caller: Caller,
    /// What tools may know of the caller.
    pub(crate) for_tools: Arc<Extensions>,
    /// As sessions and tasks know this caller. By ids, so that nobody inherits them with a name.
    pub(crate) owner: Owner,
    pub(crate) tenant: TenantHandle,
    pub(crate) agent: AgentId,
    pub(crate) key: Option<sluicegate_limits::KeyId>,
    credential: Option<Presented>,
    /// Bodies of this caller that may be on their way in at once: they are not admitted yet.
    pub(crate) reading: Semaphore,
    /// How often this caller was refused of late, for the log.
    pub(crate) flood: Flood,
    /// What the policy means for this caller; replaced when the policy has changed.
    pub(crate) policy: ArcSwapOption<CallerPolicy>,
}

/// What was found for the presented key.
struct Presented {
    id: KeyId,
    secret: SecretHash,
    scopes: KeyScopes,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
    looked_up: Revision,
    /// When the last use was noted, so that most calls need no lock for it.
    noted_at: AtomicI64,
}

impl Principal {
    fn anonymous(limiter: &Limiter, reading: usize) -> Self {
        let tenant = limiter.tenant(TenantIdentity::Untenanted);
        let caller = Caller::new(None, ANONYMOUS.to_owned(), None);
        let agent = tenant.agent(caller.agent());
        Self {
            who: Who::default(),
            for_tools: for_tools(&caller),
            caller,
            owner: Owner { group: "".into(), member: "".into() },
            tenant,
            agent,
            key: None,
            credential: None,
            reading: Semaphore::new(reading),
            flood: Flood::default(),
            policy: ArcSwapOption::empty(),
        }
    }

    /// Limiter state is keyed by ids, so a tenant that is made again under its old slug starts afresh.
    fn of(credential: Credential, limiter: &Limiter, reading: usize, looked_up: Revision) -> Self {
        let tenant = limiter.tenant(TenantIdentity::Named(&credential.tenant_id.to_string()));
        let (agent_id, key_id) = (credential.agent_id.to_string(), credential.key_id.to_string());
        let key = Some(tenant.key(&agent_id, &key_id));
        let caller = Caller::new(Some(credential.tenant_slug), credential.agent_name, Some(key_id));
        Self {
            who: Who {
                tenant: Some(credential.tenant_id),
                agent: Some(credential.agent_id),
                key: Some(credential.key_id),
            },
            agent: tenant.agent(&agent_id),
            key,
            owner: Owner { group: credential.tenant_id.to_string().into(), member: agent_id.into() },
            for_tools: for_tools(&caller),
            caller,
            tenant,
            credential: Some(Presented {
                id: credential.key_id,
                secret: credential.secret_hash,
                scopes: credential.scopes,
                expires_at: credential.expires_at,
                revoked_at: credential.revoked_at,
                looked_up,
                noted_at: AtomicI64::new(i64::MIN),
            }),
            reading: Semaphore::new(reading),
            flood: Flood::default(),
            policy: ArcSwapOption::empty(),
        }
    }

    /// What the caller's key opens; `None` when there is no key and everything is open.
    pub(crate) fn scopes(&self) -> Option<&KeyScopes> {
        self.credential.as_ref().map(|presented| &presented.scopes)
    }

    /// Whether the policy in force says that what was looked up no longer holds.
    fn is_stale(&self, policy: &PolicyStore) -> bool {
        let (Some(presented), Some(tenant)) = (&self.credential, self.who.tenant) else {
            return false;
        };
        policy.current().outdates(presented.id, tenant, presented.looked_up)
    }
}

fn for_tools(caller: &Caller) -> Arc<Extensions> {
    let mut extensions = Extensions::new();
    extensions.insert(caller.clone());
    Arc::new(extensions)
}

/// What is remembered of a key id.
#[derive(Clone)]
enum Known {
    Principal(Arc<Principal>),
    Nobody,
}

/// Turns credentials into principals.
pub(crate) struct Authenticator {
    control: Control,
    limiter: Limiter,
    policy: Arc<PolicyStore>,
    clock: WallClock,
    /// See [`Principal::reading`].
    reading: usize,
    known: Cache<KeyId, Known>,
    last_used: Arc<LastUsed>,
    /// The one caller of a server with `auth = "none"`.
    anonymous: Option<Arc<Principal>>,
}

impl Authenticator {
    pub(crate) fn new(
        mode: AuthMode,
        control: Control,
        limiter: Limiter,
        policy: Arc<PolicyStore>,
        clock: WallClock,
        reading: usize,
        last_used: Arc<LastUsed>,
    ) -> Self {
        let anonymous = (mode == AuthMode::None).then(|| Arc::new(Principal::anonymous(&limiter, reading)));
        let known = Cache::builder().max_capacity(MOST_PRINCIPALS).expire_after(KnownFor).build();
        Self { control, limiter, policy, clock, reading, known, last_used, anonymous }
    }

    /// Authenticates a request by its headers, and takes the credentials out of them.
    pub(crate) async fn authenticate(&self, headers: &mut HeaderMap) -> Result<Arc<Principal>, Refusal> {
        let bearer = headers.remove(header::AUTHORIZATION);
        let api_key = headers.remove(X_API_KEY);
        if let Some(anonymous) = &self.anonymous {
            return Ok(Arc::clone(anonymous));
        }
        let text = bearer.as_ref().and_then(bearer_token).or_else(|| api_key.as_ref()?.to_str().ok());
        self.authenticate_key(text.ok_or(Refusal::Unauthenticated(MISSING))?).await
    }

    /// Authenticates by the text of an API key.
    pub(crate) async fn authenticate_key(&self, text: &str) -> Result<Arc<Principal>, Refusal> {
        if let Some(anonymous) = &self.anonymous {
            return Ok(Arc::clone(anonymous));
        }
        let presented = ApiKey::parse(text.trim()).map_err(|_| Refusal::Unauthenticated(MALFORMED))?;
        let mut known = self.find(presented.id()).await?;
        if matches!(&known, Known::Principal(principal) if principal.is_stale(&self.policy)) {
            self.known.invalidate(&presented.id()).await;
            known = self.find(presented.id()).await?;
        }
        match known {
            Known::Principal(principal) if self.is_good(&principal, &presented) => Ok(principal),
            Known::Principal(_) | Known::Nobody => Err(Refusal::Unauthenticated(WRONG)),
        }
    }

    /// Whether a caller who was authenticated some time ago would be let in again.
    pub(crate) async fn still_knows(&self, principal: &Principal) -> bool {
        let Some(presented) = &principal.credential else { return true };
        let holds = |presented: &Presented| {
            KeyStatus::at(self.clock.now_ms(), presented.expires_at, presented.revoked_at) == KeyStatus::Active
        };
        if !principal.is_stale(&self.policy) {
            return holds(presented);
        }
        if let Some(Known::Principal(known)) = self.known.get(&presented.id).await
            && known.is_stale(&self.policy)
        {
            self.known.invalidate(&presented.id).await;
        }
        match self.find(presented.id).await {
            Ok(Known::Principal(now)) => now.credential.as_ref().is_some_and(holds),
            Ok(Known::Nobody) => false,
            // It cannot be said at the moment.
            Err(_) => true,
        }
    }

    /// Looks a key id up, in memory or in the database; concurrent look-ups of one id are one query.
    async fn find(&self, id: KeyId) -> Result<Known, Refusal> {
        if let Some(known) = self.known.get(&id).await {
            return Ok(known);
        }
        let found = self.known.try_get_with(id, async {
            // Read before the query: a change that the query missed is newer than this.
            let looked_up = self.policy.current().revision;
            let credential = self.control.credentials().find(id).await?;
            let principal = credential
                .map(|credential| Arc::new(Principal::of(credential, &self.limiter, self.reading, looked_up)));
            Ok(principal.map_or(Known::Nobody, Known::Principal))
        });
        found.await.map_err(|error: Arc<sluicegate_control::ControlError>| {
            tracing::error!(error = ?error, "an API key could not be looked up");
            Refusal::Unavailable("Credentials cannot be checked at the moment.")
        })
    }

    /// Whether the secret is the key's, and the key still holds.
    fn is_good(&self, principal: &Principal, presented: &ParsedKey<'_>) -> bool {
        let Some(known) = &principal.credential else { return false };
        let now_ms = self.clock.now_ms();
        let good = known.secret.verify(presented)
            && KeyStatus::at(now_ms, known.expires_at, known.revoked_at) == KeyStatus::Active;
        if good && known.noted_at.load(Relaxed).saturating_add(LastUsed::RESOLUTION_MS) < now_ms {
            known.noted_at.store(now_ms, Relaxed);
            self.last_used.note(known.id, now_ms);
        }
        good
    }
}

fn bearer_token(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
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
