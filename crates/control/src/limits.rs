//! Limits: what whom may call how often, and how many at a time.
//!
//! A target can have one limit of each kind, and one more of each that is only observed: it
//! stands beside the enforced one, whose place it would take. Over a lasting one there can be a temporary
//! one, with an end: while it runs it takes the other's place, and when its time is over
//! the lasting one is in force again without anybody doing anything. To set a lasting
//! limit ends a temporary one at once, for the last word counts.

mod entry;
mod preview;
mod rehearsal;
mod target;

pub(crate) use entry::LimitRow;
pub use entry::{LimitEntry, LimitKind, LimitKindName, LimitValue, NewLimit};
pub use preview::{Preview, PreviewedAgent};
pub use target::Target;

use sluicegate_limits::{Algorithm, Mode, Per};

use crate::actor::{Actor, Role};
use crate::agents::{self, AgentRef};
use crate::audit::Record;
use crate::change::Change;
use crate::clock;
use crate::control::Control;
use crate::db::{Transaction, args};
use crate::error::ControlError;
use crate::ids::LimitId;
use crate::json::JsonText;
use crate::keys;
use crate::page::{Page, PageRequest};
use crate::plans::{self, PlanRef};
use crate::policy::Revision;
use crate::tenants::{self, TenantRef};
use crate::text;
use crate::tools;

/// Which limits a list holds.
#[derive(Clone, Debug, Default)]
pub enum LimitFilter {
    /// All that the actor sees.
    #[default]
    All,
    /// Those of a tenant, its agents and its keys.
    Tenant(TenantRef),
    /// Those of a plan.
    Plan(PlanRef),
}

macro_rules! select_limits {
    ($tail:literal) => {
        concat!(
            "SELECT id, scope, tenant_id, agent_id, key_id, plan_id, tool, kind, quotas, burst,
                    algorithm, per, cap, mode, expires_at, note, created_by, updated_by,
                    updated_at, revision
             FROM limits ",
            $tail
        )
    };
}
pub(crate) use select_limits;

const BY_ID: &str = select_limits!("WHERE id = $1");

const BY_TARGET: &str = select_limits!("WHERE target = $1 AND kind = $2 ORDER BY temporary");

const LIST: &str =
    select_limits!("WHERE (target, kind, temporary) > ($1, $2, $3) ORDER BY target, kind, temporary LIMIT $4");

const LIST_OF_TENANT: &str = select_limits!(
    "WHERE tenant_id = $5 AND (target, kind, temporary) > ($1, $2, $3)
     ORDER BY target, kind, temporary LIMIT $4"
);

const LIST_OF_PLAN: &str = select_limits!(
    "WHERE plan_id = $5 AND (target, kind, temporary) > ($1, $2, $3)
     ORDER BY target, kind, temporary LIMIT $4"
);

const UPSERT: &str = "INSERT INTO limits (id, target, scope, tenant_id, agent_id, key_id, plan_id,
         tool, kind, quotas, burst, algorithm, per, cap, mode, temporary, expires_at, note,
         created_by, updated_by, updated_at, revision)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
         $20, $21, $22)
     ON CONFLICT (target, kind, temporary) DO UPDATE SET quotas = excluded.quotas,
         burst = excluded.burst, algorithm = excluded.algorithm, per = excluded.per,
         cap = excluded.cap, mode = excluded.mode, expires_at = excluded.expires_at,
         note = excluded.note, updated_by = excluded.updated_by,
         updated_at = excluded.updated_at, revision = excluded.revision";

const DELETE: &str = "DELETE FROM limits WHERE id = $1";

/// Use cases on limits.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    pub(crate) control: &'a Control,
}

impl Limits<'_> {
    /// Sets a limit, in place of the one the target had.
    ///
    /// # Errors
    /// `Invalid` with the message of the limit parser for a bad text, `NotFound` for a
    /// tenant, agent, key or plan that does not exist, `UnknownTool` for a tool that no
    /// server has registered.
    pub async fn set(self, actor: &Actor, new: &NewLimit) -> Result<LimitEntry, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let entry = set(&mut change, new).await?;
        change.commit().await?;
        Ok(entry)
    }

    /// Sets a limit like [`set`](Self::set), for somebody who has seen what the target had: the newest revision among
    /// its entries of this kind, [`Revision::START`] when there were none.
    ///
    /// # Errors
    /// As [`set`](Self::set); `Conflict` when the target has got another limit since, with both of them in the message.
    pub async fn replace(self, actor: &Actor, new: &NewLimit, seen: Revision) -> Result<LimitEntry, ControlError> {
        actor.require(Role::Operator)?;
        let kind = new.value.check(&new.target)?;
        check_reach(actor, &new.target)?;
        let mut change = self.control.change(actor).await?;
        let now = of_kind(&mut change.tx, &new.target, kind.name()).await?;
        if newest(&now) != seen {
            return Err(changed_meanwhile(&now, &kind));
        }
        let entry = set(&mut change, new).await?;
        change.commit().await?;
        Ok(entry)
    }

    /// Takes the limit of this kind that is enforced from the target, a temporary one over
    /// it as well. What holds then is what is less specific: the plan, the code, the default.
    ///
    /// # Errors
    /// `NotFound` when the target has none.
    pub async fn unset(self, actor: &Actor, target: &Target, kind: LimitKindName) -> Result<(), ControlError> {
        self.unset_mode(actor, target, kind, Mode::Enforce).await
    }

    /// The same for the limit of one mode; a target may have one that is enforced and one
    /// that is observed.
    ///
    /// # Errors
    /// See [`unset`](Self::unset).
    pub async fn unset_mode(
        self,
        actor: &Actor,
        target: &Target,
        kind: LimitKindName,
        mode: Mode,
    ) -> Result<(), ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        check_reach(actor, target)?;
        let entries = of_target(&mut change.tx, target, kind, mode).await?;
        if entries.is_empty() {
            return Err(ControlError::not_found("limit", &format!("{kind} of {target}")));
        }
        for entry in &entries {
            remove(&mut change, entry).await?;
        }
        change.commit().await
    }

    /// The limits of this kind that a target has itself: the lasting one and a temporary one over it, and those that are
    /// only observed, after them.
    ///
    /// # Errors
    /// `NotFound` for a target that the actor does not see.
    pub async fn of(
        self,
        actor: &Actor,
        target: &Target,
        kind: LimitKindName,
    ) -> Result<Vec<LimitEntry>, ControlError> {
        actor.require(Role::Viewer)?;
        check_reach(actor, target)?;
        of_kind(&mut self.control.read().await?, target, kind).await
    }

    /// Deletes one entry: a temporary one alone, so that the lasting one below it holds again, or a lasting one alone.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn delete(self, actor: &Actor, limit: LimitId) -> Result<(), ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let row: Option<LimitRow> = change.tx.optional(BY_ID, args![limit]).await?;
        let entry = visible(actor, limit, row)?;
        remove(&mut change, &entry).await?;
        change.commit().await
    }

    /// One limit.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn get(self, actor: &Actor, limit: LimitId) -> Result<LimitEntry, ControlError> {
        actor.require(Role::Viewer)?;
        let row: Option<LimitRow> = self.control.read().await?.optional(BY_ID, args![limit]).await?;
        visible(actor, limit, row)
    }

    /// The limits that are set, by target. Ended temporary ones stay listed until another
    /// is set.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the plan, `Invalid` for a bad page.
    pub async fn list(
        self,
        actor: &Actor,
        filter: &LimitFilter,
        page: &PageRequest,
    ) -> Result<Page<LimitEntry>, ControlError> {
        actor.require(Role::Viewer)?;
        let [target, kind, temporary] = page.key()?;
        let temporary = temporary == "true";
        let limit = page.rows();
        let mut tx = self.control.read().await?;
        let tenant = match filter {
            LimitFilter::Tenant(tenant) => Some(tenants::visible(&mut tx, actor, tenant).await?.id),
            LimitFilter::All | LimitFilter::Plan(_) => actor.confined_to(),
        };
        let rows: Vec<LimitRow> = if let LimitFilter::Plan(plan) = filter {
            let plan = plans::visible(&mut tx, actor, plan).await?.id;
            tx.all(LIST_OF_PLAN, args![&target, &kind, temporary, limit, plan]).await?
        } else if let Some(tenant) = tenant {
            tx.all(LIST_OF_TENANT, args![&target, &kind, temporary, limit, tenant]).await?
        } else {
            tx.all(LIST, args![&target, &kind, temporary, limit]).await?
        };
        let entries = rows.into_iter().map(LimitEntry::try_from).collect::<Result<_, _>>()?;
        Ok(Page::new(entries, page, |entry: &LimitEntry| {
            let temporary = entry.expires_at.is_some();
            vec![place(&entry.target, entry.mode), entry.kind.name().to_string(), temporary.to_string()]
        }))
    }
}

fn newest(entries: &[LimitEntry]) -> Revision {
    entries.iter().map(|entry| entry.revision).max().unwrap_or(Revision::START)
}

/// Two saved at once: the second sees both values, and decides.
fn changed_meanwhile(now: &[LimitEntry], wanted: &LimitKind) -> ControlError {
    ControlError::Conflict(match now.iter().max_by_key(|entry| entry.revision) {
        Some(entry) => format!(
            "{} has set this limit to {} meanwhile, you want {wanted}: look at both, and save again to replace it",
            entry.updated_by, entry.kind
        ),
        None => format!("this limit was removed meanwhile, you want {wanted}: save again to set it anew"),
    })
}

/// Sets a limit in a change of somebody who may.
pub(crate) async fn set(change: &mut Change<'_>, new: &NewLimit) -> Result<LimitEntry, ControlError> {
    let actor = change.actor();
    let kind = new.value.check(&new.target)?;
    text::note(&new.note)?;
    clock::check_end(new.expires_at, change.now)?;
    check_target(&mut change.tx, actor, &new.target).await?;
    if let Some(tool) = new.target.tool() {
        tools::check_name(tool)?;
        if !new.allow_unknown_tool {
            tools::check_known(&mut change.tx, tool).await?;
        }
    }
    let before = of_target(&mut change.tx, &new.target, kind.name(), new.mode).await?;
    let (temporary, lasting): (Vec<_>, Vec<_>) = before.into_iter().partition(|entry| entry.expires_at.is_some());
    let replaced = if new.expires_at.is_some() {
        temporary.first()
    } else {
        for entry in &temporary {
            remove(change, entry).await?;
        }
        lasting.first()
    };
    let entry = LimitEntry {
        id: replaced.map_or_else(|| LimitId::generate(change.now), |replaced| replaced.id),
        target: new.target.clone(),
        kind,
        mode: new.mode,
        expires_at: new.expires_at,
        note: new.note.clone(),
        created_by: replaced.map_or_else(|| actor.label().to_owned(), |replaced| replaced.created_by.clone()),
        updated_by: actor.label().to_owned(),
        updated_at: change.now,
        revision: change.revision,
    };
    write(change, &entry).await?;
    change.record(record("limit.set", replaced, Some(&entry))).await?;
    Ok(entry)
}

/// What a row holds; to an actor that is confined to another tenant it does not exist.
fn visible(actor: &Actor, limit: LimitId, row: Option<LimitRow>) -> Result<LimitEntry, ControlError> {
    let entry = row.map(LimitEntry::try_from).transpose()?;
    entry
        .filter(|entry| check_reach(actor, &entry.target).is_ok())
        .ok_or_else(|| ControlError::not_found("limit", &limit))
}

/// Refuses a target outside the tenant that the actor is confined to.
fn check_reach(actor: &Actor, target: &Target) -> Result<(), ControlError> {
    match actor.confined_to() {
        Some(own) if target.tenant() != Some(own) => Err(ControlError::not_found("limit target", &target)),
        _ => Ok(()),
    }
}

/// Refuses a target whose tenant, agent, key or plan does not exist.
async fn check_target(tx: &mut Transaction, actor: &Actor, target: &Target) -> Result<(), ControlError> {
    check_reach(actor, target)?;
    if let Some(plan) = target.plan() {
        plans::visible(tx, actor, &plan.into()).await?;
    }
    let Some(tenant) = target.tenant() else { return Ok(()) };
    let Some(agent) = target.agent() else {
        tenants::visible(tx, actor, &tenant.into()).await?;
        return Ok(());
    };
    agents::visible(tx, actor, &tenant.into(), &AgentRef::Id(agent)).await?;
    if let Some(key) = target.key() {
        let found = keys::visible(tx, actor, key).await?;
        if (found.tenant_id, found.agent_id) != (tenant, agent) {
            return Err(ControlError::not_found("API key", &key));
        }
    }
    Ok(())
}

/// The text under which limits of a target and mode are stored: what is observed has a place
/// of its own. No target's own text starts like that.
fn place(target: &Target, mode: Mode) -> String {
    match mode {
        Mode::Enforce => target.to_string(),
        Mode::Observe => format!("observe:{target}"),
    }
}

/// All limits of a kind that a target has: the enforced ones, then the observed ones.
async fn of_kind(tx: &mut Transaction, target: &Target, kind: LimitKindName) -> Result<Vec<LimitEntry>, ControlError> {
    let mut entries = of_target(tx, target, kind, Mode::Enforce).await?;
    entries.extend(of_target(tx, target, kind, Mode::Observe).await?);
    Ok(entries)
}

/// The lasting and the temporary limit of a target and mode, as far as there are such.
pub(crate) async fn of_target(
    tx: &mut Transaction,
    target: &Target,
    kind: LimitKindName,
    mode: Mode,
) -> Result<Vec<LimitEntry>, ControlError> {
    let rows: Vec<LimitRow> = tx.all(BY_TARGET, args![place(target, mode), kind.as_str()]).await?;
    rows.into_iter().map(LimitEntry::try_from).collect()
}

async fn write(change: &mut Change<'_>, entry: &LimitEntry) -> Result<(), ControlError> {
    let (quotas, burst, algorithm, per, cap) = match &entry.kind {
        LimitKind::Rate { quotas, burst, algorithm, per } => (Some(quotas.to_string()), *burst, *algorithm, *per, None),
        LimitKind::Concurrency { cap } => (None, None, None, None, Some(i64::from(cap.get()))),
    };
    let target = &entry.target;
    let values = args![
        entry.id,
        place(target, entry.mode),
        target.scope(),
        target.tenant(),
        target.agent(),
        target.key(),
        target.plan(),
        target.tool(),
        entry.kind.name().as_str(),
        quotas,
        burst.map(i64::from),
        algorithm.map(Algorithm::as_str),
        per.map(Per::as_str),
        cap,
        entry.mode.as_str(),
        entry.expires_at.is_some(),
        entry.expires_at,
        &entry.note,
        &entry.created_by,
        &entry.updated_by,
        entry.updated_at,
        entry.revision,
    ];
    change.execute(UPSERT, values).await?;
    Ok(())
}

pub(crate) async fn remove(change: &mut Change<'_>, entry: &LimitEntry) -> Result<(), ControlError> {
    change.execute(DELETE, args![entry.id]).await?;
    change.bury("limit", entry.id.to_string()).await?;
    change.record(record("limit.unset", Some(entry), None)).await
}

fn record(action: &'static str, before: Option<&LimitEntry>, after: Option<&LimitEntry>) -> Record {
    let entry = after.or(before);
    Record {
        action,
        target: entry.map(|entry| format!("{} limit of {}", entry.kind.name(), entry.target)).unwrap_or_default(),
        tenant_id: entry.and_then(|entry| entry.target.tenant()),
        before: before.map(JsonText::of),
        after: after.map(JsonText::of),
    }
}
