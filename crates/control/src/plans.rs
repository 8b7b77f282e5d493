//! Plans: named sets of limits that tenants share.
//!
//! A plan itself is only a name. Its limits are entries with the targets
//! [`Plan`](crate::Target::Plan), [`PlanAgent`](crate::Target::PlanAgent) and
//! [`PlanTool`](crate::Target::PlanTool); to change one is to change it for every tenant
//! on the plan. Plans belong to the server, so an actor confined to a tenant has none.

use std::fmt;

use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::audit::Record;
use crate::change::Change;
use crate::control::Control;
use crate::db::{Transaction, args};
use crate::error::ControlError;
use crate::ids::PlanId;
use crate::json::JsonText;
use crate::page::{Page, PageRequest};
use crate::policy::Revision;
use crate::text;

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow, ToSchema)]
pub struct Plan {
    /// Its id.
    pub id: PlanId,
    /// Its name; unique, never changes.
    pub name: String,
    /// A remark for operators.
    pub note: String,
    /// When it was created, in epoch milliseconds.
    pub created_at: i64,
    /// The revision of that change.
    pub revision: Revision,
}

/// How a use case is told which plan is meant. A text that reads as an id is one: no
/// plan's name does, for want of `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanRef {
    /// By id.
    Id(PlanId),
    /// By name.
    Name(String),
}

impl From<&str> for PlanRef {
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

impl From<PlanId> for PlanRef {
    fn from(id: PlanId) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for PlanRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

macro_rules! select_plans {
    ($tail:literal) => {
        concat!("SELECT id, name, note, created_at, revision FROM plans ", $tail)
    };
}

const BY_ID: &str = select_plans!("WHERE id = $1");

const BY_NAME: &str = select_plans!("WHERE name = $1");

const LIST: &str = select_plans!("WHERE name > $1 ORDER BY name LIMIT $2");

const INSERT: &str = "INSERT INTO plans (id, name, note, created_at, revision) VALUES ($1, $2, $3, $4, $5)";

const SET_NOTE: &str = "UPDATE plans SET note = $2, revision = $3 WHERE id = $1";

const TENANTS_ON_PLAN: &str = "SELECT slug FROM tenants WHERE plan_id = $1 ORDER BY plan_id, slug LIMIT 3";

const DELETE: &str = "DELETE FROM plans WHERE id = $1";

/// Use cases on plans.
#[derive(Clone, Copy)]
pub struct Plans<'a> {
    pub(crate) control: &'a Control,
}

impl Plans<'_> {
    /// Creates a plan without limits.
    ///
    /// # Errors
    /// `Invalid` for a bad name or note, `Conflict` when the name is taken, `Forbidden`
    /// for an actor confined to a tenant.
    pub async fn create(self, actor: &Actor, name: &str, note: &str) -> Result<Plan, ControlError> {
        actor.require_global(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let plan = create(&mut change, name, note).await?;
        change.commit().await?;
        Ok(plan)
    }

    /// One plan.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn get(self, actor: &Actor, plan: &PlanRef) -> Result<Plan, ControlError> {
        actor.require(Role::Viewer)?;
        visible(&mut self.control.read().await?, actor, plan).await
    }

    /// All plans, by name.
    ///
    /// # Errors
    /// `Invalid` for a bad page.
    pub async fn list(self, actor: &Actor, page: &PageRequest) -> Result<Page<Plan>, ControlError> {
        actor.require(Role::Viewer)?;
        let [after] = page.key()?;
        if actor.confined_to().is_some() {
            return Ok(Page::empty());
        }
        let rows = self.control.read().await?.all(LIST, args![&after, page.rows()]).await?;
        Ok(Page::new(rows, page, |plan: &Plan| vec![plan.name.clone()]))
    }

    /// Gives the plan another remark.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` for a long remark.
    pub async fn set_note(self, actor: &Actor, plan: &PlanRef, note: &str) -> Result<Plan, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let before = visible(&mut change.tx, actor, plan).await?;
        let after = set_note(&mut change, before, note).await?;
        change.finish().await?;
        Ok(after)
    }

    /// Deletes a plan with its limits.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` while tenants are on it.
    pub async fn delete(self, actor: &Actor, plan: &PlanRef) -> Result<(), ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let plan = visible(&mut change.tx, actor, plan).await?;
        let tenants: Vec<(String,)> = change.tx.all(TENANTS_ON_PLAN, args![plan.id]).await?;
        if !tenants.is_empty() {
            let name = &plan.name;
            let some = tenants.into_iter().map(|(slug,)| slug).collect::<Vec<_>>().join(", ");
            return Err(ControlError::Conflict(format!(
                "plan {name:?} is in use (by {some}, perhaps others): \
                 give its tenants another plan first"
            )));
        }
        change.execute(DELETE, args![plan.id]).await?;
        change.bury("plan", plan.id.to_string()).await?;
        change
            .record(Record {
                action: "plan.delete",
                target: format!("plan {}", plan.name),
                tenant_id: None,
                before: Some(JsonText::of(&plan)),
                after: None,
            })
            .await?;
        change.commit().await
    }
}

/// Creates a plan in a change of somebody who may.
pub(crate) async fn create(change: &mut Change<'_>, name: &str, note: &str) -> Result<Plan, ControlError> {
    change.actor().require_global(Role::Operator)?;
    text::slug("name", name)?;
    text::note(note)?;
    if change.tx.optional::<Plan>(BY_NAME, args![name]).await?.is_some() {
        return Err(ControlError::Conflict(format!("there already is a plan {name:?}: choose another name")));
    }
    let plan = Plan {
        id: PlanId::generate(change.now),
        name: name.to_owned(),
        note: note.to_owned(),
        created_at: change.now,
        revision: change.revision,
    };
    let values = args![plan.id, name, note, plan.created_at, plan.revision];
    change.execute(INSERT, values).await?;
    change
        .record(Record {
            action: "plan.create",
            target: format!("plan {name}"),
            tenant_id: None,
            before: None,
            after: Some(JsonText::of(&plan)),
        })
        .await?;
    Ok(plan)
}

/// Gives a plan another remark, in a change of somebody who may.
pub(crate) async fn set_note(change: &mut Change<'_>, before: Plan, note: &str) -> Result<Plan, ControlError> {
    text::note(note)?;
    if before.note == note {
        return Ok(before);
    }
    let after = Plan { note: note.to_owned(), revision: change.revision, ..before.clone() };
    change.execute(SET_NOTE, args![after.id, note, after.revision]).await?;
    change
        .record(Record {
            action: "plan.note",
            target: format!("plan {}", after.name),
            tenant_id: None,
            before: Some(JsonText::of(&before)),
            after: Some(JsonText::of(&after)),
        })
        .await?;
    Ok(after)
}

/// Reads a plan; to an actor that is confined to a tenant no plan exists.
pub(crate) async fn visible(tx: &mut Transaction, actor: &Actor, plan: &PlanRef) -> Result<Plan, ControlError> {
    let found: Option<Plan> = match plan {
        PlanRef::Id(id) => tx.optional(BY_ID, args![*id]).await?,
        PlanRef::Name(name) => tx.optional(BY_NAME, args![name]).await?,
    };
    found.filter(|_| actor.confined_to().is_none()).ok_or_else(|| ControlError::not_found("plan", &plan))
}
