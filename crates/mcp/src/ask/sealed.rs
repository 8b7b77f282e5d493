//! What a tool keeps between the rounds of a call, sealed, because it travels through the caller's hands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{JsonObject, RequestStateCodec, RequestStateError, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ToolError;
use crate::wire::Wire;

/// How long a caller may take to answer.
const GOOD_FOR: Duration = Duration::from_hours(1);

/// The key of a server. Several instances need the same, or a call must be answered where it was asked.
#[derive(Clone)]
pub(crate) struct Seal(Arc<RequestStateCodec>);

impl Seal {
    /// A seal with a secret of the operator, or with one that ends with the process.
    ///
    /// # Errors
    ///
    /// When the secret is too short to keep anything.
    pub(crate) fn new(secret: Option<&str>) -> Result<Self, RequestStateError> {
        let key = match secret {
            Some(secret) => secret.as_bytes().to_vec(),
            None => [uuid::Uuid::new_v4(), uuid::Uuid::new_v4(), uuid::Uuid::new_v4()]
                .iter()
                .flat_map(|random| random.into_bytes())
                .collect(),
        };
        RequestStateCodec::try_new(key).map(|codec| Self(Arc::new(codec)))
    }

    pub(super) fn seal(&self, kept: &Kept, binding: &[u8]) -> Result<String, ToolError> {
        let options = SealOptions::new().associated_data(binding).ttl(GOOD_FOR);
        let sealed = self.0.seal_json_with(kept, &options);
        sealed.map_err(|error| ToolError::new("what is kept cannot be sealed").with_source(error))
    }

    pub(super) fn open(&self, sealed: &str, binding: &[u8]) -> Result<Kept, RequestStateError> {
        self.0.open_json_with(sealed, binding)
    }
}

/// What is kept of a call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Answers of all rounds so far.
    pub(super) answers: BTreeMap<String, Value>,
    /// What the tool itself wants to keep.
    pub(super) value: Option<Value>,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.value.is_none()
    }
}

/// What a seal holds together: who calls, what, and with which arguments.
pub(super) fn binding(wire: &Wire, arguments: &JsonObject) -> Vec<u8> {
    let owner = wire.owner.as_ref().map(|owner| (&*owner.group, &*owner.member));
    serde_json::to_vec(&(owner, &*wire.tool, ordered(&Value::Object(arguments.clone())))).unwrap_or_default()
}

/// The same value with its keys in order, however the caller wrote them.
fn ordered(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let sorted: BTreeMap<_, _> = object.iter().map(|(key, value)| (key.clone(), ordered(value))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(ordered).collect()),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_sealed_opens_for_the_same_call_alone() {
        let seal = Seal::new(None).expect("a key");
        let kept = Kept { value: Some(json!({ "round": 1 })), ..Kept::default() };
        let sealed = seal.seal(&kept, b"ours").expect("it is sealed");
        assert_eq!(seal.open(&sealed, b"ours").expect("it opens").value, kept.value);
        assert!(seal.open(&sealed, b"theirs").is_err());
        assert!(seal.open(&sealed.replace("rs1", "rs2"), b"ours").is_err());
        assert!(Seal::new(None).expect("a key").open(&sealed, b"ours").is_err(), "another process has another key");
    }

    #[test]
    fn a_short_secret_is_refused_and_a_long_one_is_shared() {
        assert!(Seal::new(Some("short")).is_err());
        let secret = Some("an operator's secret of 32 letters or more");
        let sealed = Seal::new(secret).expect("a key").seal(&Kept::default(), b"").expect("it is sealed");
        assert!(Seal::new(secret).expect("a key").open(&sealed, b"").is_ok());
    }

    #[test]
    fn the_order_of_arguments_does_not_matter() {
        let (one, other) = (json!({ "a": 1, "b": { "c": 2, "d": 3 } }), json!({ "b": { "d": 3, "c": 2 }, "a": 1 }));
        assert_eq!(ordered(&one).to_string(), ordered(&other).to_string());
    }
}
