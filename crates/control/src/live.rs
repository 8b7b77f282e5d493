//! What only the running server knows.
//!
//! The panel and the admin API ask it through [`LiveView`], which the server implements:
//! the policy that it enforces, how its limits stand, and how it is.

use std::pin::Pin;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::actor::Actor;
use crate::agents::AgentRef;
use crate::error::ControlError;
use crate::ids::{AlertRuleId, KeyId};
use crate::policy::Revision;
use crate::tenants::TenantRef;
use crate::tools::Tool;

/// An answer on its way.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The running server, as the panel and the admin API see it, and what only it can do.
pub trait LiveView: Send + Sync + 'static {
    /// The revision of the policy that it enforces. Behind the database's for less than a second.
    fn revision(&self) -> Revision;

    /// Which limits hold for an agent and a tool, where each comes from, what it shadows, and how it stands.
    ///
    /// # Errors
    /// `NotFound` for the tenant, the agent or the key (also for an actor that does not see them), `UnknownTool`.
    fn explain<'a>(&'a self, actor: &'a Actor, question: Question) -> Answer<'a, Result<Explanation, ControlError>>;

    /// The same for all tools that the server serves and `tools` names, in that order.
    ///
    /// # Errors
    /// `NotFound` for the tenant, the agent or the key (also for an actor that does not see them).
    fn explain_each<'a>(
        &'a self,
        actor: &'a Actor,
        tenant: &'a TenantRef,
        agent: &'a AgentRef,
        key: Option<KeyId>,
        tools: &'a [Tool],
    ) -> Answer<'a, Result<Vec<Explanation>, ControlError>>;

    /// How the server is.
    fn health(&self) -> Health;

    /// Calls the webhook of a rule once with a message of its own, to see whether it answers.
    ///
    /// # Errors
    /// As [`Alerts::test_message`](crate::Alerts::test_message). That the webhook does not answer is no error.
    fn test_webhook<'a>(
        &'a self,
        actor: &'a Actor,
        rule: AlertRuleId,
    ) -> Answer<'a, Result<WebhookAnswer, ControlError>>;
}

/// What came back from a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WebhookAnswer {
    /// Whether it has taken the message: it has answered 2xx.
    pub delivered: bool,
    /// The HTTP status of its answer, if there was one.
    pub status: Option<u16>,
    /// Why it has not taken the message.
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// Whose limits are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Question {
    /// The tenant, by slug or id.
    pub tenant: String,
    /// The agent, by name or id.
    pub agent: String,
    /// The name of the tool.
    pub tool: String,
    /// The API key that it calls with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
}

/// Which limits hold.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// What was asked.
    pub question: Question,
    /// The revision of the policy that it describes.
    pub revision: i64,
    /// Whether it comes from a running server, so that usage is known.
    pub live: bool,
    /// The limits, each of which a call must pass.
    pub limits: Vec<ExplainedLimit>,
}

/// One limit that holds.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExplainedLimit {
    /// `server`, `tenant`, `agent` or `tool`.
    pub scope: String,
    /// `rate` or `concurrency`.
    pub kind: String,
    /// The text of the limit: `50/min`, or the number of calls at a time.
    pub text: String,
    /// The limit in words, as a refused caller reads it.
    pub limit: String,
    /// How a rate is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// The most that one window can see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_case: Option<String>,
    /// `enforce` or `observe`.
    pub mode: String,
    /// Where it comes from.
    pub source: ExplainedSource,
    /// The less specific limits in whose place it stands.
    pub shadows: Vec<Shadowed>,
    /// How it stands; known to a running server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<LimitUsage>,
}

/// How a limit stands now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LimitUsage {
    /// How much of it is used.
    pub used: u64,
    /// How much is left.
    pub remaining: u64,
    /// Whether a call would be refused by it now.
    pub refuses: bool,
    /// How long such a call would have to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Where a limit comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum ExplainedSource {
    /// The tool's attribute.
    Declared,
    /// A setting.
    Config {
        /// Its name.
        setting: String,
        /// Who set it: `default`, `sluicegate.toml`, `.env`, `environment` or `command line`.
        #[serde(default)]
        source: String,
    },
    /// An entry of the database.
    Override {
        /// Its id.
        id: String,
        /// What it is about, see [`Target`](crate::Target).
        target: String,
        /// Who set it last.
        author: String,
        /// When, in epoch milliseconds.
        updated_at: i64,
        /// When it ends by itself, in epoch milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<i64>,
        /// A remark of its author.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        note: String,
    },
}

/// A limit that a more specific one replaces.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Shadowed {
    /// Its text.
    pub text: String,
    /// Where it comes from.
    pub source: ExplainedSource,
}

/// How the server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Health {
    /// Its version.
    pub version: String,
    /// When it started, in epoch milliseconds.
    pub started_at: i64,
    /// Whether it is being stopped: new calls are refused.
    pub draining: bool,
    /// Requests in work.
    pub in_flight: u64,
    /// The engine that decides about limits.
    pub engine: EngineHealth,
    /// The policy that it enforces.
    pub policy: PolicyHealth,
    /// What of usage is counted and not yet in the database.
    pub usage: UsageHealth,
}

/// How the engine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EngineHealth {
    /// `memory` or `redis`.
    pub kind: String,
    /// Whether it decides by itself what it should decide with others.
    pub degraded: bool,
    /// How many counters it holds.
    pub live_keys: u64,
}

/// How the policy is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PolicyHealth {
    /// The revision that is enforced.
    pub revision: i64,
    /// When it was taken over, in epoch milliseconds.
    pub loaded_at: i64,
    /// Why the last attempt to take over a newer one failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How metering is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct UsageHealth {
    /// Agents and tools that are counted apart.
    pub series: u64,
    /// Rows that wait to be written.
    pub pending: u64,
    /// When the last batch was written, in epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_at: Option<i64>,
}
