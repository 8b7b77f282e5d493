//! Options that cannot be used.

use std::fmt;

/// An option has a value that makes no sense. Says which, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{option}` cannot be {value}: {rule}")]
pub struct OptionsError {
    option: &'static str,
    value: String,
    rule: &'static str,
}

impl OptionsError {
    /// Fails with the rule unless it is kept.
    pub(crate) fn unless(
        kept: bool,
        option: &'static str,
        value: impl fmt::Debug,
        rule: &'static str,
    ) -> Result<(), Self> {
        if kept { Ok(()) } else { Err(Self { option, value: format!("{value:?}"), rule }) }
    }
}
