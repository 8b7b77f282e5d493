//! What a caller that repeats its calls says of them in `_meta`.

use std::borrow::Cow;

use rmcp::model::JsonObject;
use serde_json::value::RawValue;

pub(super) const NUMBER: &str = "sluicegate/attempt";
pub(super) const KEY: &str = "sluicegate/idempotencyKey";

/// What a caller that repeats its calls says of this one. A number that makes no sense is as if it were missing; a key that
/// makes none is not, since its sender relies on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// Which attempt of a call this is, from 1 on: `sluicegate/attempt`.
    pub number: Option<u32>,
    /// A text of 1 to 255 bytes, the same in all attempts of one call: `sluicegate/idempotencyKey`.
    pub key: Option<Result<Cow<'a, str>, UnusableKey>>,
}

/// An idempotency key that is no text of 1 to 255 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnusableKey;

impl<'a> Attempt<'a> {
    /// Longer keys are none: they are remembered.
    const LONGEST_KEY: usize = 255;

    /// `key` is `Some(None)` when there is one that is no text.
    pub(super) fn new(number: Option<u32>, key: Option<Option<Cow<'a, str>>>) -> Self {
        let usable = |key: &Cow<'a, str>| (1..=Self::LONGEST_KEY).contains(&key.len());
        Self { number: number.filter(|number| *number > 0), key: key.map(|key| key.filter(usable).ok_or(UnusableKey)) }
    }

    /// From members that may be anything.
    pub(super) fn of_members(number: Option<&RawValue>, key: Option<&RawValue>) -> Self {
        let number = number.and_then(|number| number.get().parse().ok());
        Self::new(number, key.map(|key| serde_json::from_str::<String>(key.get()).ok().map(Cow::Owned)))
    }

    /// From a `_meta` that the protocol engine has read.
    pub(crate) fn of_meta(meta: &'a JsonObject) -> Self {
        let number = meta.get(NUMBER).and_then(|number| u32::try_from(number.as_u64()?).ok());
        Self::new(number, meta.get(KEY).filter(|key| !key.is_null()).map(|key| key.as_str().map(Cow::Borrowed)))
    }
}
