//! Alerts: rules of what operators want to be told of, and what there was to tell.
//!
//! Any number of servers evaluate the rules. An alert is opened and closed by whichever
//! comes first, and only that one is told to notify.

mod evaluation;
mod rules;

pub use evaluation::{Alert, AlertNotice, Signals};
pub use rules::{AlertKind, AlertRule, MintedAlertRule, NewAlertRule};

use crate::control::Control;

/// Use cases on alerts and their rules.
#[derive(Clone, Copy)]
pub struct Alerts<'a> {
    pub(crate) control: &'a Control,
}
