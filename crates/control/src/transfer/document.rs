//! The form of the document.

use serde::{Deserialize, Serialize};
use sluicegate_limits::{Algorithm, Mode, Per};
use utoipa::ToSchema;

use crate::error::ControlError;
use crate::limits::{LimitEntry, LimitKind, LimitValue, NewLimit, Target};
use crate::status::Status;
use crate::tenants::TenantSettings;

/// A policy, or part of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyDocument {
    /// The form of the document: 1.
    #[schema(minimum = 1, maximum = 1)]
    pub version: u32,
    /// The limits of the server and of tools for everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<LimitDocument>>,
    /// The tools that are switched off for everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_tools: Option<Vec<String>>,
    /// Plans, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<PlanDocument>,
    /// Tenants, by slug.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantDocument>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanDocument {
    /// Its name.
    pub name: String,
    /// A remark for operators.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<LimitDocument>>,
}

/// A tenant. What is absent stays as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantDocument {
    /// Its slug.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// Whether it is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The name of its plan; an empty one takes it off its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// How it is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<TenantSettings>,
    /// A JSON object for the operator's own use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// The tools that are switched off for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_tools: Option<Vec<String>>,
    /// The limits of the tenant, and of tools when it calls them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<LimitDocument>>,
    /// Its agents, by name. An export holds those that are suspended or have limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentDocument>,
}

/// An agent. What is absent stays as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentDocument {
    /// Its name.
    pub name: String,
    /// Whether it is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The limits of the agent, and of tools when it calls them. Those of its API keys are not part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<LimitDocument>>,
}

/// A limit: `rate` or `concurrency`, of whatever it stands in or, with `tool`, of a tool when that calls it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitDocument {
    /// The tool that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// In a plan: whether it is that of each agent, not of the tenant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each_agent: bool,
    /// So many calls in so much time: `100/min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// How much a token bucket holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// How a rate is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Who shares one count of a tool's rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// So many calls at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<String>,
    /// `enforce` when absent, or `observe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// When it ends by itself, in epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// A remark for operators.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl LimitDocument {
    /// How a limit stands in a document.
    pub(super) fn of(entry: &LimitEntry) -> Self {
        let mut document = Self {
            tool: entry.target.tool().map(str::to_owned),
            each_agent: matches!(entry.target, Target::PlanAgent { .. }),
            mode: (entry.mode != Mode::Enforce).then(|| entry.mode.to_string()),
            expires_at: entry.expires_at,
            note: entry.note.clone(),
            ..Self::default()
        };
        match &entry.kind {
            LimitKind::Concurrency { cap } => document.concurrency = Some(cap.to_string()),
            LimitKind::Rate { quotas, burst, algorithm, per } => {
                document.rate = Some(quotas.to_string());
                document.burst = *burst;
                document.algorithm = algorithm.map(|algorithm| algorithm.to_string());
                document.per = per.map(|per| per.to_string());
            }
        }
        document
    }

    /// The limit that it asks for.
    pub(super) fn new_limit(&self, target: Target) -> Result<NewLimit, ControlError> {
        let value = match (&self.rate, &self.concurrency) {
            (Some(quotas), None) => LimitValue::Rate {
                quotas: quotas.clone(),
                burst: self.burst,
                algorithm: word::<Algorithm>("algorithm", self.algorithm.as_deref())?,
                per: word::<Per>("per", self.per.as_deref())?,
            },
            (None, Some(cap)) => LimitValue::Concurrency { cap: cap.clone() },
            _ => {
                let message = format!("a limit of {target} must have either a rate or a concurrency");
                return Err(ControlError::invalid("limits", &target, &message));
            }
        };
        Ok(NewLimit {
            target,
            value,
            mode: word::<Mode>("mode", self.mode.as_deref())?.unwrap_or(Mode::Enforce),
            expires_at: self.expires_at,
            note: self.note.clone(),
            allow_unknown_tool: true,
        })
    }
}

fn word<T>(field: &'static str, text: Option<&str>) -> Result<Option<T>, ControlError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.map(|text| text.parse().map_err(|error: T::Err| ControlError::invalid(field, text, &error))).transpose()
}
