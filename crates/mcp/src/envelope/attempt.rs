//! What a caller that repeats its calls says of them in `_meta`.

use std::borrow::Cow;

use rmcp::model::JsonObject;
use serde_json::value::RawValue;

pub(super) const NUMBER: &str = "sluicegate/attempt";
pub(super) const KEY: &str = "sluicegate/idempotencyKey";

/// What a caller that repeats its calls says of this one. Whatever is no such number or key is as if it were missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// Which attempt of a call this is, from 1 on: `sluicegate/attempt`.
    pub number: Option<u32>,
    /// A text of 1 to 255 bytes, the same in all attempts of one call: `sluicegate/idempotencyKey`.
    pub key: Option<Cow<'a, str>>,
}

impl<'a> Attempt<'a> {
    /// Longer keys are none: they are remembered.
    const LONGEST_KEY: usize = 255;

    pub(super) fn new(number: Option<u32>, key: Option<Cow<'a, str>>) -> Self {
        Self {
            number: number.filter(|number| *number > 0),
            key: key.filter(|key| (1..=Self::LONGEST_KEY).contains(&key.len())),
        }
    }

    /// From members that may be anything.
    pub(super) fn of_members(number: Option<&RawValue>, key: Option<&RawValue>) -> Self {
        let number = number.and_then(|number| number.get().parse().ok());
        Self::new(number, key.and_then(|key| serde_json::from_str::<String>(key.get()).ok()).map(Cow::Owned))
    }

    /// From a `_meta` that the protocol engine has read.
    pub(crate) fn of_meta(meta: &'a JsonObject) -> Self {
        let number = meta.get(NUMBER).and_then(|number| u32::try_from(number.as_u64()?).ok());
        Self::new(number, meta.get(KEY).and_then(|key| key.as_str()).map(Cow::Borrowed))
    }
}
