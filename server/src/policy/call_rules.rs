//! What holds for one sort of call: made once for all callers for whom the same holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use sluicegate_limits::{CapRule, Limit, Mode, OnOutage, Place, Priority, RateRule, RuleRef, Rules, Scope};
use sluicegate_mcp::ToolIndex;

use super::Snapshot;
use super::baseline::Baseline;
use super::resolve::{Applied, Asked, Limits};
use crate::refusal::fields;

/// How many are remembered for others. Where more differ, most callers have limits of their own anyway.
const MOST_REMEMBERED: usize = 4_096;

/// The rules of one sort of call, and how refusals tell them.
pub(crate) struct CallRules {
    pub(crate) rules: Rules,
    /// The tool that they are for.
    pub(crate) tool: Option<Arc<str>>,
    pub(crate) tool_index: Option<ToolIndex>,
    /// What they are for.
    pub(crate) asked: Asked,
    /// How long the work may take.
    pub(crate) deadline: Duration,
    /// The rates in words, by index, and the caps.
    rates: Box<[Words]>,
    caps: Box<[Words]>,
    pub(crate) policy_field: Option<HeaderValue>,
    pub(crate) on_outage: OnOutage,
}

/// A rule in words, written once per policy.
pub(crate) struct Words {
    /// The limit as refusals tell it: `10 requests / 60s`, `2 concurrent`.
    pub(crate) limit: Arc<str>,
    /// The name in the `RateLimit` fields, if it is a rate.
    pub(crate) name: Option<Arc<str>>,
}

impl CallRules {
    pub(crate) fn new(applied: &[Applied], baseline: &Baseline, asked: Asked) -> Self {
        let (mut rates, mut caps) = (Vec::new(), Vec::new());
        for Applied { scope, place, limits, mode, .. } in applied {
            let (scope, place, mode) = (*scope, *place, *mode);
            match limits {
                Limits::Cap(cap) => caps.push(CapRule { scope, place, cap: *cap, mode }),
                Limits::Rates(quotas) => {
                    rates.extend((first_ordinal(mode)..).zip(quotas).map(|(ordinal, limit)| RateRule {
                        scope,
                        place,
                        ordinal,
                        limit: *limit,
                        mode,
                    }));
                }
            }
        }
        let policy = rates.iter().filter(|rule| rule.mode == Mode::Enforce).map(|rule| {
            let quota = rule.limit.quota();
            (name(rule), quota.count(), quota.window())
        });
        let policy_field = fields::policy(policy);
        let words = |limit: Limit, name| Words { limit: limit.to_string().into(), name };
        let rates_in_words = rates.iter().map(|rule| words(Limit::Rate(rule.limit), Some(name(rule).into()))).collect();
        let caps_in_words = caps.iter().map(|rule| words(Limit::Concurrency(rule.cap), None)).collect();
        let tool_index = match asked {
            Asked::Tool(tool) => Some(tool),
            _ => None,
        };
        let declaration = tool_index.map(|tool| baseline.declaration(tool));
        let (cost, priority) = declaration.map_or((1, Priority::Normal), |tool| (tool.cost, tool.priority));
        let rules = Rules::new(rates, caps, cost, priority, baseline.reserve)
            .expect("each place has at most eight rates and one cap of each mode, so the rules hold together");
        Self {
            rules,
            tool: tool_index.map(|tool| baseline.tool_name(tool).into()),
            tool_index,
            asked,
            deadline: tool_index.map_or(baseline.timeout, |tool| baseline.timeout_of(tool)),
            rates: rates_in_words,
            caps: caps_in_words,
            policy_field,
            on_outage: baseline.on_outage(tool_index),
        }
    }

    /// A rule in words.
    pub(crate) fn words(&self, rule: RuleRef) -> &Words {
        match rule {
            RuleRef::Rate(index) => &self.rates[usize::from(index)],
            RuleRef::Cap(index) => &self.caps[usize::from(index)],
        }
    }
}

/// The rules that a snapshot has made. Copies of a snapshot have none: they are made to become another policy.
#[derive(Default)]
pub(super) struct Made(Mutex<HashMap<MadeFrom, Arc<CallRules>>>);

impl Clone for Made {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Everything that rules differ by under one baseline.
#[derive(PartialEq, Eq, Hash)]
struct MadeFrom {
    asked: Asked,
    limits: Box<[(Scope, Place, Mode, Limits)]>,
}

impl Snapshot {
    /// The rules of what is asked, where `applied` holds.
    pub(crate) fn rules(&self, applied: &[Applied], asked: Asked) -> Arc<CallRules> {
        let limits =
            applied.iter().map(|Applied { scope, place, mode, limits, .. }| (*scope, *place, *mode, limits.clone()));
        let from = MadeFrom { asked, limits: limits.collect() };
        let mut made = self.made.0.lock();
        if let Some(rules) = made.get(&from) {
            return Arc::clone(rules);
        }
        if made.len() >= MOST_REMEMBERED {
            made.clear();
        }
        let rules = Arc::new(CallRules::new(applied, &self.baseline, asked));
        made.insert(from, Arc::clone(&rules));
        rules
    }
}

/// What is observed is counted beside what is enforced.
const fn first_ordinal(mode: Mode) -> u8 {
    match mode {
        Mode::Enforce => 0,
        Mode::Observe => Rules::OBSERVED_ORDINALS,
    }
}

/// `tool`, and `tool-2` for the second quota of the same place.
fn name(rule: &RateRule) -> Box<str> {
    let place = match rule.place {
        Place::AgentKey => "key",
        Place::AgentRequests => "requests",
        _ => rule.scope.as_str(),
    };
    match rule.ordinal {
        0 => place.into(),
        ordinal => format!("{place}-{}", ordinal + 1).into(),
    }
}
