//! The policy as a document: to keep in git, to review, and to bring into another server.
//!
//! A document says how the things that it names are to be; what it does not name stays as
//! it is. Nothing is deleted but limits and switches: those of a thing whose list is
//! there are exactly the ones in the list. API keys, people and usage are not policy.

mod document;
mod export;
mod import;

pub use document::{AgentDocument, LimitDocument, PlanDocument, PolicyDocument, TenantDocument};
pub use import::{ImportReport, ImportStep};

use crate::control::Control;

/// Use cases on the policy as a document.
#[derive(Clone, Copy)]
pub struct Transfer<'a> {
    pub(crate) control: &'a Control,
}
