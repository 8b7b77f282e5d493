//! Under which labels calls are counted, and how many of those there may be.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use ::metrics::{Counter, Label, SharedString};
use parking_lot::Mutex;
use sluicegate_limits::Scope;
use sluicegate_mcp::Outcome;

use super::Telemetry;
use crate::refusal::Reason;

/// The tenant and the agent of those beyond the cap.
const OTHER: &str = "other";
/// The tool of a call that names none which the caller has.
pub(super) const UNKNOWN_TOOL: &str = "unknown";
/// The tool of a request that is no call: to Prometheus the label is not there.
pub(super) const NO_TOOL: &str = "";

/// How a call ended, as `sluicegate_calls_total` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Ok,
    ToolError,
    Throttled,
    Denied,
    Timeout,
    Cancelled,
    Panic,
    InputRequired,
}

impl CallOutcome {
    const NAMES: [&str; 8] =
        ["ok", "tool_error", "throttled", "denied", "timeout", "cancelled", "panic", "input_required"];
}

impl From<Outcome> for CallOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::Ok,
            // The model reads both in a result with `isError` and tries something else.
            Outcome::ToolError | Outcome::InvalidInput => Self::ToolError,
            Outcome::TimedOut => Self::Timeout,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Panicked => Self::Panic,
            Outcome::InputRequired => Self::InputRequired,
        }
    }
}

/// The combinations of tenant, agent and tool that are counted apart, first come first served.
pub(super) struct Labels {
    rows: Mutex<HashMap<[SharedString; 3], Arc<CallCounters>>>,
    most: usize,
}

/// The counters of one combination, each made when it first counts.
pub(crate) struct CallCounters {
    row: [SharedString; 3],
    outcomes: [OnceLock<Counter>; CallOutcome::NAMES.len()],
    throttled: OnceLock<Box<ByLimit>>,
    would_throttle: OnceLock<Box<ByLimit>>,
}

/// By scope and reason.
type ByLimit = [OnceLock<Counter>; 4 * Reason::ALL.len()];

impl Labels {
    pub(super) fn new(most: usize) -> Self {
        Self { rows: Mutex::default(), most }
    }

    /// The counters of a combination; beyond the cap, those that its tool has for all others.
    pub(super) fn counters(&self, tenant: &str, agent: &str, tool: SharedString) -> Arc<CallCounters> {
        let mut rows = self.rows.lock();
        let own: [SharedString; 3] = [tenant.to_owned().into(), agent.to_owned().into(), tool];
        if let Some(counters) = rows.get(&own) {
            return Arc::clone(counters);
        }
        let row = if rows.len() < self.most {
            own
        } else {
            let [_, _, tool] = own;
            [OTHER.into(), OTHER.into(), tool]
        };
        Arc::clone(rows.entry(row.clone()).or_insert_with(|| Arc::new(CallCounters::new(row))))
    }
}

impl CallCounters {
    fn new(row: [SharedString; 3]) -> Self {
        let outcomes = [const { OnceLock::new() }; CallOutcome::NAMES.len()];
        Self { row, outcomes, throttled: OnceLock::new(), would_throttle: OnceLock::new() }
    }

    pub(super) fn outcome(&self, outcome: CallOutcome, telemetry: &Telemetry) {
        let counter = self.outcomes[outcome as usize].get_or_init(|| {
            let outcome = Label::from_static_parts("outcome", CallOutcome::NAMES[outcome as usize]);
            telemetry.counter("sluicegate_calls_total", self.labels([outcome]))
        });
        counter.increment(1);
    }

    pub(super) fn throttled(&self, scope: Scope, reason: Reason, telemetry: &Telemetry) {
        self.by_limit("sluicegate_throttled_total", &self.throttled, scope, reason, telemetry);
    }

    pub(super) fn would_throttle(&self, scope: Scope, reason: Reason, telemetry: &Telemetry) {
        self.by_limit("sluicegate_would_throttle_total", &self.would_throttle, scope, reason, telemetry);
    }

    fn by_limit(
        &self,
        name: &'static str,
        counters: &OnceLock<Box<ByLimit>>,
        scope: Scope,
        reason: Reason,
        telemetry: &Telemetry,
    ) {
        let counters = counters.get_or_init(|| Box::new([const { OnceLock::new() }; 4 * Reason::ALL.len()]));
        let counter = counters[scope as usize * Reason::ALL.len() + reason as usize].get_or_init(|| {
            let limit = [
                Label::from_static_parts("scope", scope.as_str()),
                Label::from_static_parts("reason", reason.as_str()),
            ];
            telemetry.counter(name, self.labels(limit))
        });
        counter.increment(1);
    }

    fn labels<const N: usize>(&self, more: [Label; N]) -> Vec<Label> {
        let row = ["tenant", "agent", "tool"].into_iter().zip(&self.row);
        row.map(|(name, value)| Label::new(name, value.clone())).chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_cap_callers_are_counted_together_but_tools_apart() {
        let labels = Labels::new(2);
        let row = |agent: &str, tool: &'static str| labels.counters("acme", agent, tool.into());
        let first = row("a", "export");
        assert!(Arc::ptr_eq(&first, &row("a", "export")));
        row("b", "export");
        let (c, d) = (row("c", "export"), row("d", "export"));
        assert!(Arc::ptr_eq(&c, &d) && !Arc::ptr_eq(&c, &first));
        assert_eq!(c.row, ["other", "other", "export"].map(SharedString::from));
        assert_eq!(row("c", "echo").row, ["other", "other", "echo"].map(SharedString::from));
        assert!(Arc::ptr_eq(&first, &row("a", "export")), "who was there first stays");
    }

    #[test]
    fn names_are_never_joined() {
        let labels = Labels::new(10);
        let one = labels.counters("a", "b", "c".into());
        assert!(!Arc::ptr_eq(&one, &labels.counters("ab", "", "c".into())));
    }
}
