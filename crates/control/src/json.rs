//! JSON that is stored and passed on, not looked into.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::db::{Arg, json_column};

/// A JSON document, kept as the text it came in.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// The JSON of a value of this crate.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        let raw = serde_json::value::to_raw_value(value);
        Self(raw.expect("the types of the control plane have string keys only"))
    }

    /// The empty object.
    pub fn empty_object() -> Self {
        Self::of(&serde_json::Map::new())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl std::str::FromStr for JsonText {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

impl From<serde_json::Value> for JsonText {
    fn from(value: serde_json::Value) -> Self {
        Self::of(&value)
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'a> From<&'a JsonText> for Arg<'a> {
    fn from(json: &'a JsonText) -> Self {
        json.as_str().into()
    }
}

json_column!(JsonText);
