//! The audit log: who changed what, when, from what to what.
//!
//! The log is append-only, and each entry carries the hash of the one before it, so an
//! entry cannot be altered, removed or slipped in without breaking every hash after it.
//! The hash of the newest entry is kept apart, so that a cut-off end is found as well.
//! Whoever can rewrite the whole database can also rewrite the whole chain; keep a copy
//! of the newest hash elsewhere to rule that out.

use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::control::Control;
use crate::db::{Transaction, args};
use crate::error::ControlError;
use crate::ids::{AuditId, TenantId};
use crate::json::JsonText;
use crate::page::{Page, PageRequest};
use crate::tenants::{self, TenantRef};
use crate::text;

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, sqlx::FromRow, ToSchema)]
pub struct AuditEntry {
    /// 1 for the first entry, then without gaps.
    pub seq: i64,
    /// The id of the entry.
    pub id: AuditId,
    /// When, in epoch milliseconds.
    pub at: i64,
    /// Who: `cli:root`, `user:alice`.
    pub actor: String,
    /// What was done: `tenant.create`, `key.revoke`.
    pub action: String,
    /// To what, in words: `tenant acme`, `agent acme/u-42`.
    pub target: String,
    /// The tenant it belongs to, if any; the tenant may be gone by now.
    pub tenant_id: Option<TenantId>,
    /// How it was before; absent when it was created.
    pub before: Option<JsonText>,
    /// How it was afterwards; absent when it was deleted.
    pub after: Option<JsonText>,
    /// The network address of the request, if it was one.
    pub address: Option<String>,
    /// The id of the request, if it was one.
    pub request_id: Option<String>,
    /// The hash of the entry before this one.
    pub previous_hash: String,
    /// SHA-256 over everything above, in hexadecimal.
    pub hash: String,
}

impl AuditEntry {
    fn computed_hash(&self) -> String {
        // A JSON array of strings and numbers cannot be read in two ways.
        let fields = serde_json::json!([
            self.previous_hash,
            self.seq,
            self.id,
            self.at,
            self.actor,
            self.action,
            self.target,
            self.tenant_id,
            self.before.as_ref().map(JsonText::as_str),
            self.after.as_ref().map(JsonText::as_str),
            self.address,
            self.request_id,
        ]);
        hex::encode(Sha256::digest(fields.to_string()))
    }
}

/// Which entries a search finds: those for which everything holds that is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Those of this tenant.
    pub tenant: Option<TenantRef>,
    /// Those of this actor, as it is written: `user:alice`.
    pub actor: Option<String>,
    /// Those with this action, `limit.set`, or with one of this sort, `limit`.
    pub action: Option<String>,
    /// Those whose target contains this text, ignoring the case of ASCII letters.
    pub target: Option<String>,
    /// Those from this moment on, in epoch milliseconds.
    pub from: Option<i64>,
    /// Those before this moment, in epoch milliseconds.
    pub to: Option<i64>,
}

/// What [`Audit::verify`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditVerdict {
    /// All entries are as they were written, and none is missing.
    Intact {
        /// How many there are.
        entries: i64,
    },
    /// The chain does not hold.
    Broken {
        /// The first entry that is altered, missing or out of place.
        seq: i64,
    },
}

/// The end of the chain, which the next entry is linked to.
pub(crate) struct ChainHead {
    pub(crate) seq: i64,
    pub(crate) hash: String,
}

/// What a use case says of its change. `before` and `after` are made from the public
/// types of this crate, which hold no secrets.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) action: &'static str,
    pub(crate) target: String,
    pub(crate) tenant_id: Option<TenantId>,
    pub(crate) before: Option<JsonText>,
    pub(crate) after: Option<JsonText>,
}

macro_rules! select_entries {
    ($tail:literal) => {
        concat!(
            "SELECT seq, id, at, actor, action, target, tenant_id, before, after, address,
                    request_id, previous_hash, hash
             FROM audit_log ",
            $tail
        )
    };
}

const NEWEST_FIRST: &str = select_entries!("WHERE seq < $1 ORDER BY seq DESC LIMIT $2");

const NEWEST_FIRST_OF_TENANT: &str = select_entries!("WHERE tenant_id = $3 AND seq < $1 ORDER BY seq DESC LIMIT $2");

const BY_SEQ: &str = select_entries!("WHERE seq = $1 AND (CAST($2 AS TEXT) IS NULL OR tenant_id = $2)");

/// How many entries one page of a search looks at. What is rare may be on none of them, and the log grows for ever.
const LOOKED_AT: i64 = 20_000;

/// The oldest entry that a page looks at, and how many those are.
const REACH: &str = "SELECT CAST(COUNT(*) AS BIGINT), CAST(COALESCE(MIN(seq), 0) AS BIGINT)
     FROM (SELECT seq FROM audit_log WHERE seq < $1 ORDER BY seq DESC LIMIT $2) looked_at";

const REACH_OF_TENANT: &str = "SELECT CAST(COUNT(*) AS BIGINT), CAST(COALESCE(MIN(seq), 0) AS BIGINT)
     FROM (SELECT seq FROM audit_log WHERE tenant_id = $3 AND seq < $1 ORDER BY seq DESC LIMIT $2) looked_at";

/// `$4` to `$7` are the filters of a search, `$8` to `$9` the time, `$10` is the oldest entry that is looked at.
const SEARCH: &str = select_entries!(
    r"WHERE seq < $1 AND seq >= $10
        AND (CAST($3 AS TEXT) IS NULL OR tenant_id = $3)
        AND (CAST($4 AS TEXT) IS NULL OR actor = $4)
        AND (CAST($5 AS TEXT) IS NULL OR action = $5 OR action LIKE $6 ESCAPE '\')
        AND (CAST($7 AS TEXT) IS NULL OR lower(target) LIKE $7 ESCAPE '\')
        AND at >= $8 AND at < $9
      ORDER BY seq DESC LIMIT $2"
);

const SEARCH_OF_TENANT: &str = select_entries!(
    r"WHERE tenant_id = $3 AND seq < $1 AND seq >= $10
        AND (CAST($4 AS TEXT) IS NULL OR actor = $4)
        AND (CAST($5 AS TEXT) IS NULL OR action = $5 OR action LIKE $6 ESCAPE '\')
        AND (CAST($7 AS TEXT) IS NULL OR lower(target) LIKE $7 ESCAPE '\')
        AND at >= $8 AND at < $9
      ORDER BY seq DESC LIMIT $2"
);

const OLDEST_FIRST: &str = select_entries!("WHERE seq > $1 ORDER BY seq LIMIT $2");

const HEAD: &str = "SELECT audit_seq, audit_hash FROM control_state WHERE id = 1";

const APPEND: &str = "INSERT INTO audit_log (seq, id, at, actor, action, target, tenant_id, before,
         after, address, request_id, previous_hash, hash)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

const VERIFY_PAGE: i64 = 1_000;

/// Use cases on the audit log.
#[derive(Clone, Copy)]
pub struct Audit<'a> {
    pub(crate) control: &'a Control,
}

impl Audit<'_> {
    /// The entries, newest first: of one tenant, or of everything. A confined actor gets
    /// its tenant's either way.
    ///
    /// # Errors
    /// `NotFound` for an unknown tenant.
    pub async fn list(
        self,
        actor: &Actor,
        tenant: Option<&TenantRef>,
        page: &PageRequest,
    ) -> Result<Page<AuditEntry>, ControlError> {
        actor.require(Role::Viewer)?;
        let before = before(page)?;
        let mut tx = self.control.read().await?;
        let tenant = match tenant {
            Some(tenant) => Some(tenants::visible(&mut tx, actor, tenant).await?.id),
            None => actor.confined_to(),
        };
        let limit = page.rows();
        let rows = match tenant {
            None => tx.all(NEWEST_FIRST, args![before, limit]).await?,
            Some(id) => tx.all(NEWEST_FIRST_OF_TENANT, args![before, limit, id]).await?,
        };
        Ok(Page::new(rows, page, |entry: &AuditEntry| vec![entry.seq.to_string()]))
    }

    /// One entry, by its number.
    ///
    /// # Errors
    /// `NotFound`, also for an entry of another tenant than a confined actor's.
    pub async fn get(self, actor: &Actor, seq: i64) -> Result<AuditEntry, ControlError> {
        actor.require(Role::Viewer)?;
        let found: Option<AuditEntry> =
            self.control.read().await?.optional(BY_SEQ, args![seq, actor.confined_to()]).await?;
        found.ok_or_else(|| ControlError::not_found("audit entry", &seq))
    }

    /// The entries that a filter lets through, newest first; a confined actor gets its tenant's. A page looks at 20 000
    /// entries at most: it may have few of them, or none, and yet a next one.
    ///
    /// # Errors
    /// `NotFound` for an unknown tenant, `Invalid` for a bad page.
    pub async fn search(
        self,
        actor: &Actor,
        filter: &AuditFilter,
        page: &PageRequest,
    ) -> Result<Page<AuditEntry>, ControlError> {
        actor.require(Role::Viewer)?;
        let before = before(page)?;
        let mut tx = self.control.read().await?;
        let tenant = match &filter.tenant {
            Some(tenant) => Some(tenants::visible(&mut tx, actor, tenant).await?.id),
            None => actor.confined_to(),
        };
        let (count, oldest): (i64, i64) = match tenant {
            Some(tenant) => tx.one(REACH_OF_TENANT, args![before, LOOKED_AT, tenant]).await?,
            None => tx.one(REACH, args![before, LOOKED_AT]).await?,
        };
        let statement = if tenant.is_some() { SEARCH_OF_TENANT } else { SEARCH };
        let values = args![
            before,
            page.rows(),
            tenant,
            filter.actor.as_deref(),
            filter.action.as_deref(),
            filter.action.as_deref().map(|action| text::like(&format!("{action}."), "", "%")),
            filter.target.as_deref().map(|target| text::like(&target.to_ascii_lowercase(), "%", "%")),
            filter.from.unwrap_or(i64::MIN),
            filter.to.unwrap_or(i64::MAX),
            oldest,
        ];
        let rows = tx.all(statement, values).await?;
        let found = Page::new(rows, page, |entry: &AuditEntry| vec![entry.seq.to_string()]);
        Ok(if count < LOOKED_AT { found } else { found.or_next(vec![oldest.to_string()]) })
    }

    /// Computes every hash again, a page at a time.
    ///
    /// # Errors
    /// `Forbidden` for an actor confined to a tenant: the chain runs through all.
    pub async fn verify(self, actor: &Actor) -> Result<AuditVerdict, ControlError> {
        actor.require_global(Role::Viewer)?;
        let mut tx = self.control.read().await?;
        let (head_seq, head_hash): (i64, String) = tx.one(HEAD, args![]).await?;
        let (mut seq, mut hash) = (0, "0".repeat(64));
        loop {
            let entries: Vec<AuditEntry> = tx.all(OLDEST_FIRST, args![seq, VERIFY_PAGE]).await?;
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                let holds = entry.seq == seq + 1 && entry.previous_hash == hash && entry.hash == entry.computed_hash();
                if !holds {
                    return Ok(AuditVerdict::Broken { seq: seq + 1 });
                }
                (seq, hash) = (entry.seq, entry.hash);
            }
        }
        if (seq, &hash) != (head_seq, &head_hash) {
            return Ok(AuditVerdict::Broken { seq: seq.min(head_seq) + 1 });
        }
        Ok(AuditVerdict::Intact { entries: seq })
    }
}

/// The number of the entry at which a page of newest entries begins; that one is not part of it.
fn before(page: &PageRequest) -> Result<i64, ControlError> {
    let [before] = page.key()?;
    match before.as_str() {
        "" => Ok(i64::MAX),
        seq => seq.parse().map_err(|_| ControlError::invalid("cursor", seq, "this cursor belongs to another list")),
    }
}

/// Appends one entry and returns the new end of the chain. Only a
/// [`Change`](crate::change::Change) calls this: it holds the lock on the chain.
pub(crate) async fn append(
    tx: &mut Transaction,
    actor: &Actor,
    now: i64,
    head: &ChainHead,
    record: &Record,
) -> Result<ChainHead, ControlError> {
    let mut entry = AuditEntry {
        seq: head.seq + 1,
        id: AuditId::generate(now),
        at: now,
        actor: actor.label().to_owned(),
        action: record.action.to_owned(),
        target: record.target.clone(),
        tenant_id: record.tenant_id,
        before: record.before.clone(),
        after: record.after.clone(),
        address: actor.address().map(str::to_owned),
        request_id: actor.request_id().map(str::to_owned),
        previous_hash: head.hash.clone(),
        hash: String::new(),
    };
    entry.hash = entry.computed_hash();
    let values = args![
        entry.seq,
        entry.id,
        entry.at,
        &entry.actor,
        &entry.action,
        &entry.target,
        entry.tenant_id,
        entry.before.as_ref().map(JsonText::as_str),
        entry.after.as_ref().map(JsonText::as_str),
        entry.address.as_deref(),
        entry.request_id.as_deref(),
        &entry.previous_hash,
        &entry.hash,
    ];
    tx.execute(APPEND, values).await?;
    Ok(ChainHead { seq: entry.seq, hash: entry.hash })
}
