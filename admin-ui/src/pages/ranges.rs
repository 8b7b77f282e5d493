//! The lengths of time that pages offer.

use sluicegate_control::Period;

/// What a query asks for; an hour where it asks for nothing that there is.
pub(crate) fn read(text: &str) -> Period {
    text.parse().unwrap_or_default()
}

/// All of them, for templates.
pub(crate) fn all() -> &'static [Period] {
    &Period::ALL
}
