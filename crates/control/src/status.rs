//! Whether a tenant or an agent is let in.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::db::{Arg, text_column};

/// Whether a tenant or an agent is let in. Keys have a status of their own, since they
/// end by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Calls are served.
    Active,
    /// Every call is refused until somebody resumes it.
    Suspended,
}

impl Status {
    /// Whether calls are served.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Active)
    }

    /// The text, as it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Status> for Arg<'_> {
    fn from(status: Status) -> Self {
        status.as_str().into()
    }
}

text_column!(Status, text => match text {
    "active" => Ok(Self::Active),
    "suspended" => Ok(Self::Suspended),
    other => Err(format!("unknown status {other:?}").into()),
});
