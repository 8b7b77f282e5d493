//! Identifiers: a prefix that says what is meant, and a UUID v7 (so that ids sort by
//! the time of creation).

use std::fmt;
use std::str::FromStr;

use rand::Rng;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{Schema, Type};
use utoipa::openapi::{ObjectBuilder, RefOr};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

use crate::db::{Arg, text_column};

/// A text that is not an identifier of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what} id: expected {prefix:?} and 32 hexadecimal digits")]
pub struct IdError {
    text: String,
    what: &'static str,
    prefix: &'static str,
}

fn new_uuid(now_ms: i64) -> Uuid {
    let mut random = [0; 10];
    rand::rng().fill_bytes(&mut random);
    uuid::Builder::from_unix_timestamp_millis(now_ms.unsigned_abs(), &random).into_uuid()
}

macro_rules! id {
    ($name:ident, $prefix:literal, $what:literal) => {
        #[doc = concat!("The id of ", $what, ": `", $prefix, "` and 32 hexadecimal digits.")]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(Uuid);

        impl $name {
            pub(crate) fn generate(now_ms: i64) -> Self {
                Self(new_uuid(now_ms))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let id = text.strip_prefix($prefix).and_then(|digits| {
                    // Only the form that `Display` writes, so that one id has one text.
                    let canonical =
                        digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
                    canonical.then(|| Uuid::try_parse(digits).ok()).flatten()
                });
                id.map(Self).ok_or_else(|| IdError { text: text.to_owned(), what: $what, prefix: $prefix })
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl From<$name> for Arg<'_> {
            fn from(id: $name) -> Self {
                id.to_string().into()
            }
        }

        impl From<Option<$name>> for Arg<'_> {
            fn from(id: Option<$name>) -> Self {
                id.map(String::from).into()
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String);
                text.pattern(Some(concat!("^", $prefix, "[0-9a-f]{32}$"))).into()
            }
        }

        impl ToSchema for $name {}

        text_column!($name);
    };
}

id!(TenantId, "ten_", "a tenant");
id!(AgentId, "agt_", "an agent");
id!(KeyId, "key_", "an API key");
id!(PlanId, "pln_", "a plan");
id!(LimitId, "lim_", "a limit");
id!(AuditId, "aud_", "an audit entry");
id!(EventId, "evt_", "an event");
id!(UserId, "usr_", "an admin user");
id!(AdminTokenId, "tok_", "an admin token");
id!(SessionId, "ses_", "a session");
id!(AlertRuleId, "rul_", "an alert rule");
id!(AlertId, "alr_", "an alert");
id!(DeliveryId, "msg_", "a message to a webhook");

impl KeyId {
    /// The 128 bits that the text of an API key carries in base62.
    pub(crate) const fn as_u128(self) -> u128 {
        self.0.as_u128()
    }

    pub(crate) const fn from_u128(bits: u128) -> Self {
        Self(Uuid::from_u128(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_from_the_text_it_prints() {
        let id = TenantId::generate(1_700_000_000_000);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().len(), "ten_".len() + 32);
    }

    #[test]
    fn an_id_of_another_kind_or_spelling_is_refused() {
        let agent = AgentId::generate(0).to_string();
        let error = agent.parse::<TenantId>().expect_err("an agent id is no tenant id");
        assert!(error.to_string().contains("is not a tenant id"), "{error}");
        assert!(agent.to_uppercase().parse::<AgentId>().is_err());
        assert!("agt_".parse::<AgentId>().is_err());
    }

    #[test]
    fn ids_sort_by_the_time_they_were_made() {
        assert!(TenantId::generate(1_000) < TenantId::generate(2_000));
    }
}
