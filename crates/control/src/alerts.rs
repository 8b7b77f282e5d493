//! Alerts: rules of what operators want to be told of, and what there was to tell.
//!
//! Any number of servers evaluate the rules. An alert is begun and ended by whichever
//! comes first, which also writes down what the rule's webhook is to be told.

mod deliveries;
mod evaluation;
mod rules;

pub use deliveries::{AttemptOutcome, ClaimedDelivery, Delivery, DeliveryEvent, WebhookMessage};
pub use evaluation::{Alert, Signals};
pub use rules::{AlertKind, AlertRule, MintedAlertRule, NewAlertRule};

use crate::control::Control;

const NO_WEBHOOK: &str = "the rule has no webhook";

/// Use cases on alerts and their rules.
#[derive(Clone, Copy)]
pub struct Alerts<'a> {
    pub(crate) control: &'a Control,
}
