//! The control plane of Sluicegate: tenants, agents, API keys, plans, limits, tools and
//! the audit log, in SQLite or Postgres.
//!
//! The server, the panel, the admin API and the command line all work through the use
//! cases of this crate, so that validation, permission, the audit entry and the notice to
//! other instances exist once each. It is the only crate that speaks SQL.
//!
//! # A first tenant
//!
//! ```
//! use sluicegate_control::{Actor, ApiKey, Control, NewKey, NewLimit, Options, Target};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let control = Control::connect("sqlite::memory:", Options::default()).await?;
//! control.migrate().await?;
//!
//! let root = Actor::cli("root");
//! let tenant = control.tenants().create(&root, "acme", "Acme Inc.").await?;
//! let agent = control.agents().create(&root, &tenant.id.into(), "u-42").await?;
//!
//! // The text of a key is shown once; the database has only a hash of it.
//! let new = NewKey::named("laptop");
//! let minted = control.keys().create(&root, &"acme".into(), &"u-42".into(), new).await?;
//!
//! // Whoever presents it is found by the id in it, and proves it with the secret in it.
//! let presented = ApiKey::parse(minted.key.expose())?;
//! let credential = control.credentials().find(presented.id()).await?.expect("is there");
//! assert!(credential.secret_hash.verify(&presented));
//!
//! let target = Target::Agent { tenant: tenant.id, agent: agent.id };
//! control.limits().set(&root, &NewLimit::rate(target, "100/min")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Who may do what
//!
//! Every use case takes an [`Actor`], who has a [`Role`] that holds in the whole server
//! or inside one tenant. A confined actor sees and can name only what belongs to its
//! tenant; the answer to everything else is [`ControlError::NotFound`], as if it did not
//! exist. What creates or deletes tenants, and plans and their assignment, belongs to the
//! server. Authentication ([`Credentials`]) and the policy feed ([`Policy`]) are asked by
//! the server itself and take no actor.
//!
//! # Changes
//!
//! A change is one transaction: it bumps the [`Revision`], writes rows that carry it,
//! appends to the audit log, and is announced when it commits. Changes happen one after
//! the other, on both databases. Bookkeeping (when an agent was seen, when a key was
//! used) is no change.
//!
//! Those who enforce the policy follow it like this:
//!
//! ```no_run
//! # async fn run(control: sluicegate_control::Control) -> Result<(), sluicegate_control::ControlError> {
//! let mut watch = control.watch().await?;
//! let mut revision = control.policy().load_all().await?.revision;
//! loop {
//!     watch.changed().await;
//!     let delta = control.policy().changes_since(revision).await?;
//!     revision = delta.revision;
//!     // … merge the delta (or replace everything, if it is complete) …
//! }
//! # }
//! ```
//!
//! # Databases
//!
//! One SQL text serves both. Ids are text with a prefix, times are epoch milliseconds,
//! JSON is text. The migrations are part of the program; [`Control::migrate`] applies
//! them under a lock.

mod actor;
mod admins;
mod agents;
mod alerts;
mod api_key;
mod audit;
mod base62;
mod change;
mod clock;
mod control;
mod credentials;
mod db;
mod error;
mod events;
mod ids;
mod instances;
mod json;
mod keys;
mod limits;
mod live;
mod migrations;
mod page;
mod plans;
mod policy;
mod status;
mod tenants;
mod text;
mod tool_glob;
mod tools;
mod transfer;
mod usage;
mod watch;

pub use actor::{Actor, Reach, Role};
pub use admins::{
    AdminToken, AdminTokens, AdminUser, MintedToken, NewToken, NewUser, Session, SessionState, Sessions, Setup,
    ShownOnce, UserRef, Users,
};
pub use agents::{Agent, AgentRef, Agents, Origin, Sighting, SightingReport};
pub use alerts::{
    Alert, AlertKind, AlertRule, Alerts, AttemptOutcome, ClaimedDelivery, Delivery, DeliveryEvent, MintedAlertRule,
    NewAlertRule, Signals, WebhookMessage,
};
pub use api_key::{ApiKey, Environment, KeyFormatError, ParsedKey, SecretHash};
pub use audit::{Audit, AuditEntry, AuditFilter, AuditVerdict};
pub use clock::{ManualClock, WallClock};
pub use control::{Control, Options};
pub use credentials::{Credential, Credentials, Subject};
pub use error::ControlError;
pub use events::{Event, EventFilter, EventKind, Events, NewEvent};
pub use ids::{
    AdminTokenId, AgentId, AlertId, AlertRuleId, AuditId, DeliveryId, EventId, IdError, KeyId, LimitId, PlanId,
    SessionId, TenantId, UserId,
};
pub use instances::{Instance, Instances};
pub use json::JsonText;
pub use keys::{KeyRecord, KeyScopes, KeyStatus, Keys, MintedKey, NewKey, Overlap};
pub use limits::{
    LimitEntry, LimitFilter, LimitKind, LimitKindName, LimitValue, Limits, NewLimit, Preview, PreviewedAgent, Target,
};
pub use live::{
    Answer, EngineHealth, ExplainedLimit, ExplainedSource, Explanation, Health, LimitUsage, LiveView, PolicyHealth,
    Question, Shadowed, UsageHealth, WebhookAnswer,
};
pub use migrations::MigrationStatus;
pub use page::{Cursor, Page, PageRequest};
pub use plans::{Plan, PlanRef, Plans};
pub use policy::{AgentPolicy, PlanPolicy, Policy, PolicyDelta, Revision, TenantPolicy, Tombstone};
pub use sluicegate_limits::{Algorithm, Mode, Per};
pub use status::Status;
pub use tenants::{RefusalStyle, Tenant, TenantFilter, TenantOrder, TenantRef, TenantSettings, TenantUpdate, Tenants};
pub use tool_glob::{ToolGlob, ToolGlobError};
pub use tools::{Tool, ToolDefinition, ToolSwitch, Tools};
pub use transfer::{
    AgentDocument, ImportReport, ImportStep, LimitDocument, PlanDocument, PolicyDocument, TenantDocument, Transfer,
};
pub use usage::{
    ATTEMPT_BOUNDS, AgentLabel, Counts, Grain, LATENCY_BOUNDS_MS, MatrixQuery, MatrixRow, Period, Retention, Runaway,
    RunawayRule, ThrottleCell, ThrottleMatrix, ToolColumn, ToolUsage, Totals, Usage, UsageBatch, UsagePoint,
    UsageRange, UsageRow, UsageScope,
};
pub use watch::PolicyWatch;
