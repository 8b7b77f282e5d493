//! One limit, as it is asked for, stored and read.

use std::fmt;

use serde::{Serialize, Serializer};
use sluicegate_limits::{Algorithm, Concurrency, Mode, Per, Quotas, RateLimit};

use crate::error::ControlError;
use crate::ids::{AgentId, KeyId, LimitId, PlanId, TenantId};
use crate::limits::target::Target;
use crate::policy::Revision;

/// A limit that is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitEntry {
    /// Its id.
    pub id: LimitId,
    /// What it is about.
    pub target: Target,
    /// What it allows.
    pub kind: LimitKind,
    /// Whether it refuses or only watches.
    #[serde(serialize_with = "as_text")]
    pub mode: Mode,
    /// When it ends by itself, in epoch milliseconds. An entry with an end lies over the
    /// lasting entry of the same target and kind, if there is one.
    pub expires_at: Option<i64>,
    /// A remark for operators.
    pub note: String,
    /// Who set it first.
    pub created_by: String,
    /// Who set it last.
    pub updated_by: String,
    /// When it was set last, in epoch milliseconds.
    pub updated_at: i64,
    /// The revision of that change.
    pub revision: Revision,
}

impl LimitEntry {
    /// Whether the entry's time has not ended.
    pub fn is_in_force(&self, now_ms: i64) -> bool {
        self.expires_at.is_none_or(|end| now_ms < end)
    }
}

/// What a limit allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LimitKind {
    /// So many calls in so much time.
    Rate {
        /// One or more quotas, which all hold.
        #[serde(serialize_with = "as_text")]
        quotas: Quotas,
        /// How much a token bucket holds; absent for the count of each quota.
        burst: Option<u32>,
        /// How it is counted; absent for [`Target::default_algorithm`].
        #[serde(serialize_with = "as_optional_text")]
        algorithm: Option<Algorithm>,
        /// Who shares one count, for a limit on a tool; absent for each agent its own.
        #[serde(serialize_with = "as_optional_text")]
        per: Option<Per>,
    },
    /// So many calls at a time.
    Concurrency {
        /// How many.
        #[serde(serialize_with = "as_text")]
        cap: Concurrency,
    },
}

impl LimitKind {
    /// Which of the two it is.
    pub const fn name(&self) -> LimitKindName {
        match self {
            Self::Rate { .. } => LimitKindName::Rate,
            Self::Concurrency { .. } => LimitKindName::Concurrency,
        }
    }
}

impl fmt::Display for LimitKind {
    /// The limit on one line: `10/s, 1000/h, burst 20, per tenant`, or `4 concurrent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Concurrency { cap } => f.write_str(&cap.describe()),
            Self::Rate { quotas, burst, algorithm, per } => {
                write!(f, "{quotas}")?;
                if let Some(burst) = burst {
                    write!(f, ", burst {burst}")?;
                }
                if let Some(algorithm) = algorithm {
                    write!(f, ", {algorithm}")?;
                }
                if let Some(per) = per {
                    write!(f, ", per {per}")?;
                }
                Ok(())
            }
        }
    }
}

/// The two kinds of limits. A target may have one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKindName {
    /// [`LimitKind::Rate`].
    Rate,
    /// [`LimitKind::Concurrency`].
    Concurrency,
}

impl LimitKindName {
    /// The word, as it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
        }
    }
}

impl fmt::Display for LimitKindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A limit as somebody asks for it: the texts are not checked yet.
#[derive(Clone, Debug)]
pub struct NewLimit {
    /// What it is about.
    pub target: Target,
    /// What it allows.
    pub value: LimitValue,
    /// Whether it refuses or only watches.
    pub mode: Mode,
    /// When it ends by itself, in epoch milliseconds.
    pub expires_at: Option<i64>,
    /// A remark for operators.
    pub note: String,
    /// Accept a tool that no server has registered yet.
    pub allow_unknown_tool: bool,
}

impl NewLimit {
    /// A lasting rate that refuses, such as `100/min` or `10/s, 1000/h`.
    pub fn rate(target: Target, quotas: &str) -> Self {
        let value = LimitValue::Rate { quotas: quotas.to_owned(), burst: None, algorithm: None, per: None };
        Self::lasting(target, value)
    }

    /// A lasting cap of concurrent calls that refuses.
    pub fn concurrency(target: Target, cap: &str) -> Self {
        Self::lasting(target, LimitValue::Concurrency { cap: cap.to_owned() })
    }

    fn lasting(target: Target, value: LimitValue) -> Self {
        Self { target, value, mode: Mode::Enforce, expires_at: None, note: String::new(), allow_unknown_tool: false }
    }
}

/// What a limit is to allow, in the words of whoever asks.
#[derive(Clone, Debug)]
pub enum LimitValue {
    /// So many calls in so much time.
    Rate {
        /// The text that [`Quotas`] parses.
        quotas: String,
        /// How much a token bucket holds.
        burst: Option<u32>,
        /// How it is counted.
        algorithm: Option<Algorithm>,
        /// Who shares one count; for limits on tools only.
        per: Option<Per>,
    },
    /// So many calls at a time.
    Concurrency {
        /// The text that [`Concurrency`] parses.
        cap: String,
    },
}

impl LimitValue {
    /// Reads the texts and checks that the parts go together.
    pub(crate) fn check(&self, target: &Target) -> Result<LimitKind, ControlError> {
        match self {
            Self::Concurrency { cap } => {
                let cap = cap.parse().map_err(|e| ControlError::invalid("concurrency", &cap, &e))?;
                Ok(LimitKind::Concurrency { cap })
            }
            Self::Rate { quotas: text, burst, algorithm, per } => {
                let quotas: Quotas = text.parse().map_err(|e| ControlError::invalid("rate", text, &e))?;
                let counted = algorithm.unwrap_or(target.default_algorithm());
                if let Some(burst_size) = burst {
                    for quota in &quotas {
                        RateLimit::new(*quota, *burst, counted)
                            .map_err(|e| ControlError::invalid("burst", &burst_size, &e))?;
                    }
                }
                if let Some(per) = per.filter(|_| target.tool().is_none()) {
                    let message = format!(
                        "per is for limits on tools: the limit of a {} is counted for it as a whole",
                        target.scope()
                    );
                    return Err(ControlError::invalid("per", &per, &message));
                }
                Ok(LimitKind::Rate { quotas, burst: *burst, algorithm: *algorithm, per: *per })
            }
        }
    }
}

/// The row of an entry.
#[derive(sqlx::FromRow)]
pub(crate) struct LimitRow {
    id: LimitId,
    scope: String,
    tenant_id: Option<TenantId>,
    agent_id: Option<AgentId>,
    key_id: Option<KeyId>,
    plan_id: Option<PlanId>,
    tool: Option<String>,
    kind: String,
    quotas: Option<String>,
    burst: Option<i64>,
    algorithm: Option<String>,
    per: Option<String>,
    cap: Option<i64>,
    mode: String,
    expires_at: Option<i64>,
    note: String,
    created_by: String,
    updated_by: String,
    updated_at: i64,
    revision: Revision,
}

impl TryFrom<LimitRow> for LimitEntry {
    type Error = ControlError;

    /// Fails only on a row that this crate has not written.
    fn try_from(row: LimitRow) -> Result<Self, ControlError> {
        let id = row.id;
        read(row).ok_or_else(|| {
            let message = format!("limit {id} is not readable: it was changed from outside");
            sqlx::Error::Decode(message.into()).into()
        })
    }
}

fn read(row: LimitRow) -> Option<LimitEntry> {
    let target = Target::from_columns(&row.scope, row.tenant_id, row.agent_id, row.key_id, row.plan_id, row.tool)?;
    let kind = match row.kind.as_str() {
        "rate" => LimitKind::Rate {
            quotas: row.quotas?.parse().ok()?,
            burst: row.burst.map(u32::try_from).transpose().ok()?,
            algorithm: row.algorithm.map(|text| text.parse()).transpose().ok()?,
            per: row.per.map(|text| text.parse()).transpose().ok()?,
        },
        "concurrency" => LimitKind::Concurrency { cap: row.cap?.to_string().parse().ok()? },
        _ => return None,
    };
    Some(LimitEntry {
        id: row.id,
        target,
        kind,
        mode: row.mode.parse().ok()?,
        expires_at: row.expires_at,
        note: row.note,
        created_by: row.created_by,
        updated_by: row.updated_by,
        updated_at: row.updated_at,
        revision: row.revision,
    })
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn as_optional_text<S: Serializer>(value: &Option<impl fmt::Display>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}
