//! How a limit is written: the same when it is asked for and when it is told.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sluicegate_control::{LimitEntry, LimitId, LimitKind, LimitValue, NewLimit, Revision, Target, WallClock};
use sluicegate_limits::{Algorithm, Mode, Per};
use utoipa::ToSchema;

use crate::api::problem::Problem;
use crate::api::versions::Revised;

/// A limit that is set.
#[derive(Serialize, ToSchema)]
pub(crate) struct Limit {
    /// Its id.
    pub(crate) id: LimitId,
    /// What it is about.
    pub(crate) target: Target,
    /// So many calls in so much time: `100/min`, `10/s, 1000/h`. Null for a concurrency limit.
    pub(crate) rate: Option<String>,
    /// How much a token bucket holds; null for the count of each quota.
    burst: Option<u32>,
    /// How a rate is counted: `token_bucket` or `sliding_window`; null for what is usual for the target.
    algorithm: Option<String>,
    /// Who shares one count of a tool's rate; null for each agent its own.
    per: Option<String>,
    /// So many calls at a time. Null for a rate.
    concurrency: Option<u32>,
    /// `enforce`, or `observe` for one that only counts what it would have refused.
    mode: String,
    /// When it ends by itself, in epoch milliseconds.
    expires_at: Option<i64>,
    /// Whether its time has not ended.
    in_force: bool,
    /// A remark for operators.
    note: String,
    /// Who set it first.
    created_by: String,
    /// Who set it last.
    updated_by: String,
    /// When it was set last, in epoch milliseconds.
    updated_at: i64,
    /// The revision of that change.
    revision: Revision,
}

impl Limit {
    pub(crate) fn of(entry: LimitEntry, clock: &WallClock) -> Self {
        let in_force = entry.is_in_force(clock.now_ms());
        let (rate, burst, algorithm, per, concurrency) = match entry.kind {
            LimitKind::Rate { quotas, burst, algorithm, per } => {
                (Some(quotas.to_string()), burst, algorithm, per, None)
            }
            LimitKind::Concurrency { cap } => (None, None, None, None, Some(cap.get())),
        };
        Self {
            id: entry.id,
            target: entry.target,
            rate,
            burst,
            algorithm: algorithm.map(|algorithm| algorithm.to_string()),
            per: per.map(|per| per.to_string()),
            concurrency,
            mode: entry.mode.to_string(),
            expires_at: entry.expires_at,
            in_force,
            note: entry.note,
            created_by: entry.created_by,
            updated_by: entry.updated_by,
            updated_at: entry.updated_at,
            revision: entry.revision,
        }
    }
}

impl Revised for Limit {
    fn revision(&self) -> Revision {
        self.revision
    }
}

/// A limit as somebody asks for it: either `rate` or `concurrency`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitForm {
    /// What it is about.
    target: Target,
    /// So many calls in so much time: `100/min`, `10/s, 1000/h`.
    #[schema(example = "100/min")]
    pub(crate) rate: Option<String>,
    /// How much a token bucket holds; the count of each quota when absent.
    #[schema(minimum = 1)]
    burst: Option<u32>,
    /// How a rate is counted: `token_bucket` or `sliding_window`; what is usual for the target when absent.
    algorithm: Option<String>,
    /// Who shares one count of a tool's rate: `agent`, `tenant` or `server`; `agent` when absent.
    per: Option<String>,
    /// So many calls at a time.
    #[schema(minimum = 1)]
    concurrency: Option<u32>,
    /// `enforce` when absent, or `observe` for one that only counts what it would have refused.
    mode: Option<String>,
    /// When it ends by itself, in epoch milliseconds.
    expires_at: Option<i64>,
    /// A remark for operators.
    #[serde(default)]
    #[schema(max_length = 500)]
    note: String,
    /// Accept a tool that no server has registered yet.
    #[serde(default)]
    allow_unknown_tool: bool,
}

/// Another value of a limit: either `rate` or `concurrency`. What is left out is as for a new one.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewValue {
    /// So many calls in so much time: `100/min`, `10/s, 1000/h`.
    #[schema(example = "300/min")]
    rate: Option<String>,
    /// How much a token bucket holds; the count of each quota when absent.
    #[schema(minimum = 1)]
    burst: Option<u32>,
    /// How a rate is counted: `token_bucket` or `sliding_window`; what is usual for the target when absent.
    algorithm: Option<String>,
    /// Who shares one count of a tool's rate: `agent`, `tenant` or `server`; `agent` when absent.
    per: Option<String>,
    /// So many calls at a time.
    #[schema(minimum = 1)]
    concurrency: Option<u32>,
    /// `enforce` when absent, or `observe` for one that only counts what it would have refused.
    mode: Option<String>,
    /// When it ends by itself, in epoch milliseconds.
    expires_at: Option<i64>,
    /// A remark for operators.
    #[serde(default)]
    #[schema(max_length = 500)]
    note: String,
}

impl NewValue {
    /// The value for this target. Its tool was accepted before.
    pub(crate) fn of_target(self, target: Target) -> LimitForm {
        let Self { rate, burst, algorithm, per, concurrency, mode, expires_at, note } = self;
        LimitForm { target, rate, burst, algorithm, per, concurrency, mode, expires_at, note, allow_unknown_tool: true }
    }
}

impl LimitForm {
    /// What the control plane is asked for.
    pub(crate) fn read(self) -> Result<NewLimit, Problem> {
        let mode = word::<Mode>("mode", self.mode.as_deref())?.unwrap_or(Mode::Enforce);
        let value = match (self.rate, self.concurrency) {
            (Some(quotas), None) => LimitValue::Rate {
                quotas,
                burst: self.burst,
                algorithm: word::<Algorithm>("algorithm", self.algorithm.as_deref())?,
                per: word::<Per>("per", self.per.as_deref())?,
            },
            (None, Some(cap)) => {
                let of_rates = [
                    ("burst", self.burst.is_some()),
                    ("algorithm", self.algorithm.is_some()),
                    ("per", self.per.is_some()),
                ];
                if let Some((member, _)) = of_rates.into_iter().find(|(_, is_there)| *is_there) {
                    return Err(Problem::invalid(
                        member,
                        format!("`{member}` belongs to a rate, not to `concurrency`."),
                    ));
                }
                LimitValue::Concurrency { cap: cap.to_string() }
            }
            (Some(_), Some(_)) => {
                return Err(Problem::invalid("concurrency", "A limit has either `rate` or `concurrency`: set two."));
            }
            (None, None) => return Err(Problem::invalid("rate", "A limit has either `rate` or `concurrency`.")),
        };
        Ok(NewLimit {
            target: self.target,
            value,
            mode,
            expires_at: self.expires_at,
            note: self.note,
            allow_unknown_tool: self.allow_unknown_tool,
        })
    }
}

fn word<T>(member: &str, text: Option<&str>) -> Result<Option<T>, Problem>
where
    T: FromStr,
    T::Err: Display,
{
    text.map(|text| text.parse().map_err(|error: T::Err| Problem::invalid(member, error.to_string()))).transpose()
}
