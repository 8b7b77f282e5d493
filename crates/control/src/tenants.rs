//! Tenants: the customers who share the server.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::actor::{Actor, Role};
use crate::audit::Record;
use crate::change::Change;
use crate::control::Control;
use crate::db::{Arg, Transaction, args, json_column};
use crate::error::ControlError;
use crate::ids::{PlanId, TenantId};
use crate::json::JsonText;
use crate::plans::{self, PlanRef};
use crate::policy::Revision;
use crate::status::Status;
use crate::text;
use crate::tool_glob::ToolGlob;

/// A tenant.
#[derive(Clone, Debug, PartialEq, Serialize, sqlx::FromRow, ToSchema)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// Its name in tokens, URLs and logs; unique, never changes.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// Whether its calls are served.
    pub status: Status,
    /// The plan whose limits it has, where it has none of its own.
    pub plan_id: Option<PlanId>,
    /// The name of that plan.
    pub plan_name: Option<String>,
    /// What is special about how it is served.
    pub settings: TenantSettings,
    /// A JSON object for the operator's own use, such as a customer number.
    pub metadata: JsonText,
    /// When it was created, in epoch milliseconds.
    pub created_at: i64,
    /// When it was last changed, in epoch milliseconds.
    pub updated_at: i64,
    /// The revision of that change.
    pub revision: Revision,
}

/// How the calls of one tenant are served. What is absent follows the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TenantSettings {
    /// The form in which a refused call is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal_style: Option<RefusalStyle>,
    /// The largest request body, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_body_bytes: Option<u64>,
    /// The tools that its agents see and may call: those that match at least one pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<ToolGlob>>,
    /// How much its share of a limit over the whole server counts for against those of
    /// others, when more is asked of it than it has; 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub weight: Option<u32>,
}

json_column!(TenantSettings);

/// The form in which a refused call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusalStyle {
    /// HTTP 429 with a JSON-RPC error as the body.
    Http,
    /// HTTP 200 with a JSON-RPC error.
    Jsonrpc,
    /// A tool result that is marked as an error, which a model can read.
    ToolResult,
    /// What suits the caller's protocol revision.
    Auto,
}

/// How a use case is told which tenant is meant. A text that reads as an id is one: no
/// slug does, for want of `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantRef {
    /// By id.
    Id(TenantId),
    /// By slug.
    Slug(String),
}

impl From<&str> for TenantRef {
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Slug(text.to_owned()), Self::Id)
    }
}

impl From<TenantId> for TenantRef {
    fn from(id: TenantId) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for TenantRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Slug(slug) => f.write_str(slug),
        }
    }
}

/// What is to be different about a tenant; the rest stays as it is.
#[derive(Clone, Debug, Default)]
pub struct TenantUpdate {
    /// Another name for people.
    pub name: Option<String>,
    /// Other settings, all of them.
    pub settings: Option<TenantSettings>,
    /// Other metadata, all of it.
    pub metadata: Option<JsonText>,
    /// Another plan, or none.
    pub plan: Option<Option<PlanRef>>,
}

/// The largest metadata of a tenant, in bytes of JSON.
const MAX_METADATA: usize = 1024;

/// The most patterns in [`TenantSettings::allowed_tools`].
const MAX_PATTERNS: usize = 64;

macro_rules! select_tenants {
    ($tail:literal) => {
        concat!(
            "SELECT t.id, t.slug, t.name, t.status, t.plan_id, p.name AS plan_name, t.settings,
                    t.metadata, t.created_at, t.updated_at, t.revision
             FROM tenants t LEFT JOIN plans p ON p.id = t.plan_id ",
            $tail
        )
    };
}

mod listing;

pub use listing::{TenantFilter, TenantOrder};

const BY_ID: &str = select_tenants!("WHERE t.id = $1");

const BY_SLUG: &str = select_tenants!("WHERE t.slug = $1");

const INSERT: &str = "INSERT INTO tenants (id, slug, name, status, plan_id, settings, metadata,
         created_at, updated_at, revision)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const UPDATE: &str = "UPDATE tenants SET name = $2, status = $3, plan_id = $4, settings = $5,
         metadata = $6, updated_at = $7, revision = $8
     WHERE id = $1";

const DELETE: &str = "DELETE FROM tenants WHERE id = $1";

/// Use cases on tenants.
#[derive(Clone, Copy)]
pub struct Tenants<'a> {
    pub(crate) control: &'a Control,
}

impl Tenants<'_> {
    /// Creates a tenant without a plan.
    ///
    /// # Errors
    /// `Invalid` for a bad slug or name, `Conflict` when the slug is taken, `Forbidden`
    /// for an actor confined to a tenant.
    pub async fn create(self, actor: &Actor, slug: &str, name: &str) -> Result<Tenant, ControlError> {
        actor.require_global(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let tenant = create(&mut change, slug, name).await?;
        change.commit().await?;
        Ok(tenant)
    }

    /// Creates a tenant that is like this from its first moment on.
    ///
    /// # Errors
    /// As [`create`](Self::create) and [`update`](Self::update).
    pub async fn create_with(
        self,
        actor: &Actor,
        slug: &str,
        name: &str,
        rest: TenantUpdate,
    ) -> Result<Tenant, ControlError> {
        actor.require_global(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let tenant = create(&mut change, slug, name).await?;
        let tenant = update(&mut change, tenant, rest).await?;
        change.commit().await?;
        Ok(tenant)
    }

    /// Changes several things about a tenant at once: all of them or none.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the plan, `Invalid`, `Forbidden` for a plan and an actor confined to a tenant.
    pub async fn update(self, actor: &Actor, tenant: &TenantRef, update: TenantUpdate) -> Result<Tenant, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let before = visible(&mut change.tx, actor, tenant).await?;
        let after = self::update(&mut change, before, update).await?;
        change.finish().await?;
        Ok(after)
    }

    /// One tenant.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn get(self, actor: &Actor, tenant: &TenantRef) -> Result<Tenant, ControlError> {
        actor.require(Role::Viewer)?;
        visible(&mut self.control.read().await?, actor, tenant).await
    }

    /// Gives the tenant another name for people.
    ///
    /// # Errors
    /// `NotFound`, `Invalid`.
    pub async fn rename(self, actor: &Actor, tenant: &TenantRef, name: &str) -> Result<Tenant, ControlError> {
        text::name("name", name)?;
        self.edit(actor, tenant, "tenant.rename", |tenant| name.clone_into(&mut tenant.name)).await
    }

    /// Refuses all calls of the tenant from now on.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn suspend(self, actor: &Actor, tenant: &TenantRef) -> Result<Tenant, ControlError> {
        self.edit(actor, tenant, "tenant.suspend", |tenant| tenant.status = Status::Suspended).await
    }

    /// Serves the tenant again.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn resume(self, actor: &Actor, tenant: &TenantRef) -> Result<Tenant, ControlError> {
        self.edit(actor, tenant, "tenant.resume", |tenant| tenant.status = Status::Active).await
    }

    /// Replaces the settings.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` for a body size of 0, for more than 64 tool patterns or for a weight that is not 1 to 1000,
    /// `Forbidden` for another weight by an actor confined to the tenant.
    pub async fn set_settings(
        self,
        actor: &Actor,
        tenant: &TenantRef,
        settings: TenantSettings,
    ) -> Result<Tenant, ControlError> {
        check_settings(&settings)?;
        self.edit(actor, tenant, "tenant.settings", |tenant| tenant.settings = settings).await
    }

    /// Replaces the metadata: a JSON object of at most 1024 bytes.
    ///
    /// # Errors
    /// `NotFound`, `Invalid`.
    pub async fn set_metadata(
        self,
        actor: &Actor,
        tenant: &TenantRef,
        metadata: JsonText,
    ) -> Result<Tenant, ControlError> {
        check_metadata(&metadata)?;
        self.edit(actor, tenant, "tenant.metadata", |tenant| tenant.metadata = metadata).await
    }

    /// Puts the tenant on a plan, or on none.
    ///
    /// # Errors
    /// `NotFound` for the tenant or the plan, `Forbidden` for an actor confined to a
    /// tenant: plans are not its to choose.
    pub async fn assign_plan(
        self,
        actor: &Actor,
        tenant: &TenantRef,
        plan: Option<&PlanRef>,
    ) -> Result<Tenant, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let before = visible(&mut change.tx, actor, tenant).await?;
        let after = assign_plan(&mut change, before, plan).await?;
        change.finish().await?;
        Ok(after)
    }

    /// Deletes the tenant with its agents, API keys and limits, for good.
    ///
    /// # Errors
    /// `NotFound`, `Forbidden` for an actor confined to a tenant.
    pub async fn delete(self, actor: &Actor, tenant: &TenantRef) -> Result<(), ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let tenant = visible(&mut change.tx, actor, tenant).await?;
        actor.require_global(Role::Operator)?;
        change.execute(DELETE, args![tenant.id]).await?;
        change.bury("tenant", tenant.id.to_string()).await?;
        change.record(record("tenant.delete", Some(&tenant), None)).await?;
        change.commit().await
    }

    async fn edit(
        self,
        actor: &Actor,
        tenant: &TenantRef,
        action: &'static str,
        edit: impl FnOnce(&mut Tenant),
    ) -> Result<Tenant, ControlError> {
        actor.require(Role::Operator)?;
        let mut change = self.control.change(actor).await?;
        let before = visible(&mut change.tx, actor, tenant).await?;
        let mut after = before.clone();
        edit(&mut after);
        let after = save(&mut change, action, before, after).await?;
        change.finish().await?;
        Ok(after)
    }
}

/// Creates a tenant in a change of somebody who may.
pub(crate) async fn create(change: &mut Change<'_>, slug: &str, name: &str) -> Result<Tenant, ControlError> {
    change.actor().require_global(Role::Operator)?;
    text::slug("slug", slug)?;
    text::name("name", name)?;
    if change.tx.optional::<Tenant>(BY_SLUG, args![slug]).await?.is_some() {
        return Err(ControlError::Conflict(format!("there already is a tenant {slug:?}: choose another slug")));
    }
    let tenant = Tenant {
        id: TenantId::generate(change.now),
        slug: slug.to_owned(),
        name: name.to_owned(),
        status: Status::Active,
        plan_id: None,
        plan_name: None,
        settings: TenantSettings::default(),
        metadata: JsonText::empty_object(),
        created_at: change.now,
        updated_at: change.now,
        revision: change.revision,
    };
    let values = args![
        tenant.id,
        slug,
        name,
        tenant.status,
        tenant.plan_id,
        &tenant.settings,
        &tenant.metadata,
        tenant.created_at,
        tenant.updated_at,
        tenant.revision,
    ];
    change.execute(INSERT, values).await?;
    change.record(record("tenant.create", None, Some(&tenant))).await?;
    Ok(tenant)
}

/// The most that the share of one tenant counts for.
const MAX_WEIGHT: u32 = 1_000;

pub(crate) fn check_settings(settings: &TenantSettings) -> Result<(), ControlError> {
    if settings.max_body_bytes == Some(0) {
        let message = "max_body_bytes must be at least 1; leave it out to follow the server";
        return Err(ControlError::invalid("max_body_bytes", &0, message));
    }
    if let Some(weight) = settings.weight
        && !(1..=MAX_WEIGHT).contains(&weight)
    {
        let message = format!("weight must be 1 to {MAX_WEIGHT}; leave it out for 1");
        return Err(ControlError::invalid("weight", &weight, &message));
    }
    let patterns = settings.allowed_tools.as_ref().map_or(0, Vec::len);
    if patterns > MAX_PATTERNS {
        let message = format!("allowed_tools must have at most {MAX_PATTERNS} patterns, not {patterns}");
        return Err(ControlError::invalid("allowed_tools", &patterns, &message));
    }
    Ok(())
}

pub(crate) fn check_metadata(metadata: &JsonText) -> Result<(), ControlError> {
    let text = metadata.as_str();
    if !text.starts_with('{') || text.len() > MAX_METADATA {
        let size = text.len();
        let message = format!("metadata must be a JSON object of at most {MAX_METADATA} bytes, this has {size}");
        return Err(ControlError::invalid("metadata", text, &message));
    }
    Ok(())
}

/// Reads a tenant; to an actor that is confined to another one it does not exist.
pub(crate) async fn visible(tx: &mut Transaction, actor: &Actor, tenant: &TenantRef) -> Result<Tenant, ControlError> {
    let found: Option<Tenant> = match tenant {
        TenantRef::Id(id) => tx.optional(BY_ID, args![*id]).await?,
        TenantRef::Slug(slug) => tx.optional(BY_SLUG, args![slug]).await?,
    };
    found.filter(|found| actor.sees(found.id)).ok_or_else(|| ControlError::not_found("tenant", &tenant))
}

/// Writes an edited tenant. An edit that changes nothing leaves no trace.
pub(crate) async fn save(
    change: &mut Change<'_>,
    action: &'static str,
    before: Tenant,
    mut after: Tenant,
) -> Result<Tenant, ControlError> {
    if after == before {
        return Ok(before);
    }
    after.updated_at = change.now;
    after.revision = change.revision;
    let values = args![
        after.id,
        &after.name,
        after.status,
        after.plan_id,
        &after.settings,
        &after.metadata,
        after.updated_at,
        after.revision,
    ];
    if before.settings.weight != after.settings.weight {
        // It takes from others.
        change.actor().require_global(Role::Operator)?;
    }
    change.execute(UPDATE, values).await?;
    change.record(record(action, Some(&before), Some(&after))).await?;
    Ok(after)
}

/// Changes several things about a tenant, in a change of somebody who may.
async fn update(change: &mut Change<'_>, before: Tenant, update: TenantUpdate) -> Result<Tenant, ControlError> {
    let TenantUpdate { name, settings, metadata, plan } = update;
    let mut after = before.clone();
    if let Some(name) = name {
        text::name("name", &name)?;
        after.name = name;
    }
    if let Some(settings) = settings {
        check_settings(&settings)?;
        after.settings = settings;
    }
    if let Some(metadata) = metadata {
        check_metadata(&metadata)?;
        after.metadata = metadata;
    }
    if let Some(plan) = plan {
        put_on_plan(change, &mut after, plan.as_ref()).await?;
    }
    save(change, "tenant.update", before, after).await
}

/// Puts a tenant on a plan, in a change of somebody who may.
pub(crate) async fn assign_plan(
    change: &mut Change<'_>,
    before: Tenant,
    plan: Option<&PlanRef>,
) -> Result<Tenant, ControlError> {
    let mut after = before.clone();
    put_on_plan(change, &mut after, plan).await?;
    save(change, "tenant.plan", before, after).await
}

async fn put_on_plan(change: &mut Change<'_>, tenant: &mut Tenant, plan: Option<&PlanRef>) -> Result<(), ControlError> {
    let actor = change.actor();
    actor.require_global(Role::Operator)?;
    (tenant.plan_id, tenant.plan_name) = match plan {
        None => (None, None),
        Some(plan) => {
            let plan = plans::visible(&mut change.tx, actor, plan).await?;
            (Some(plan.id), Some(plan.name))
        }
    };
    Ok(())
}

fn record(action: &'static str, before: Option<&Tenant>, after: Option<&Tenant>) -> Record {
    let tenant = after.or(before);
    Record {
        action,
        target: tenant.map_or_else(String::new, |tenant| format!("tenant {}", tenant.slug)),
        tenant_id: tenant.map(|tenant| tenant.id),
        before: before.map(JsonText::of),
        after: after.map(JsonText::of),
    }
}

impl From<&TenantSettings> for Arg<'_> {
    fn from(settings: &TenantSettings) -> Self {
        JsonText::of(settings).as_str().to_owned().into()
    }
}
