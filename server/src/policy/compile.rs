//! The limits of one caller in the form that the call path uses: compiled on first use, shared until the policy changes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderValue;
use sluicegate_control::TenantSettings;
use sluicegate_limits::{CapRule, Limit, Mode, Priority, RateRule, RuleRef, Rules};
use sluicegate_mcp::ToolIndex;

use super::Snapshot;
use super::baseline::Baseline;
use super::resolve::{Applied, Asked, Limits, Resolver, Who};
use crate::declared::Declaration;
use crate::engine::{OnOutage, SharedLimits};
use crate::gate::authenticate::{Opened, Opens};
use crate::gate::escalation::Heeded;
use crate::refusal::fields;
use crate::telemetry::labels::CallCounters;
use crate::usage::Series;

/// What a snapshot means for one caller.
pub(crate) struct CallerPolicy {
    /// What it was made from.
    snapshot: Arc<Snapshot>,
    /// Who is suspended, if anybody: `tenant` or `agent`.
    pub(crate) suspended: Option<&'static str>,
    pub(crate) settings: TenantSettings,
    /// Which tools the caller has, by index.
    pub(crate) visible: Arc<[bool]>,
    tools: Box<[OnceLock<Arc<CallLimits>>]>,
    unknown: OnceLock<Arc<CallLimits>>,
    requests: OnceLock<Arc<CallLimits>>,
    notifications: OnceLock<Arc<CallLimits>>,
    listens: OnceLock<Arc<CallLimits>>,
    streams: OnceLock<Arc<CallLimits>>,
}

/// The limits of one sort of call.
pub(crate) struct CallLimits {
    pub(crate) rules: Rules,
    /// The tool that they are for.
    pub(crate) tool: Option<Arc<str>>,
    pub(crate) tool_index: Option<ToolIndex>,
    /// What they are for.
    pub(crate) asked: Asked,
    /// Where calls with these limits are counted, once one was.
    pub(crate) counters: OnceLock<Arc<CallCounters>>,
    /// How long the work may take.
    pub(crate) deadline: Duration,
    /// The rates in words, by index, and the caps.
    rates: Box<[Words]>,
    caps: Box<[Words]>,
    pub(crate) policy_field: Option<HeaderValue>,
    /// Where the caller's calls of it are counted; found at the first.
    pub(crate) series: OnceLock<Arc<Series>>,
    /// What the caller has made of the waits that it was told.
    pub(crate) heeded: Heeded,
    /// What is needed to ask others about the caller's calls of it, where limits are shared; made at the first.
    pub(crate) shared: OnceLock<SharedLimits>,
    pub(crate) on_outage: OnOutage,
}

/// A rule in words, written once per policy.
pub(crate) struct Words {
    /// The limit as refusals tell it: `10 requests / 60s`, `2 concurrent`.
    pub(crate) limit: Arc<str>,
    /// The name in the `RateLimit` fields, if it is a rate.
    pub(crate) name: Option<Arc<str>>,
}

impl CallerPolicy {
    /// What `snapshot` means for `who`, whose credential opens `opens`.
    pub(crate) fn of(snapshot: &Arc<Snapshot>, who: Who, opens: Opens<'_>) -> Self {
        let baseline = &snapshot.baseline;
        // A tenant that the snapshot does not know yet is newer than it.
        let tenant = who.tenant.and_then(|id| snapshot.tenant(id));
        let suspended = if tenant.is_some_and(|tenant| !tenant.status.is_active()) {
            Some("tenant")
        } else {
            who.agent.filter(|agent| snapshot.is_suspended(*agent)).map(|_| "agent")
        };
        let settings = tenant.map(|tenant| tenant.settings.clone()).unwrap_or_default();
        let visible: Arc<[bool]> = baseline
            .tools()
            .map(|(name, declaration)| {
                opens.tool(name, &declaration.scopes) == Opened::Yes && is_there(snapshot, &settings, who, name)
            })
            .collect();
        let tools = visible.iter().map(|_| OnceLock::new()).collect();
        let [unknown, requests, notifications, listens, streams] = [const { OnceLock::new() }; 5];
        let snapshot = Arc::clone(snapshot);
        Self { snapshot, suspended, settings, visible, tools, unknown, requests, notifications, listens, streams }
    }

    /// Whether this is what `snapshot` means.
    pub(crate) fn is_of(&self, snapshot: &Snapshot) -> bool {
        self.snapshot.generation == snapshot.generation
    }

    /// Whether the caller has the tool.
    pub(crate) fn sees(&self, tool: ToolIndex) -> bool {
        self.visible[tool.get() as usize]
    }

    /// What a tool asks for that the caller does not see, if more scopes are all that it would take.
    pub(crate) fn lacking_scopes(&self, tool: ToolIndex, who: Who, opens: Opens<'_>) -> Option<&[String]> {
        let baseline = &self.snapshot.baseline;
        let (name, Declaration { scopes, .. }) = (baseline.tool_name(tool), baseline.declaration(tool));
        let lacking = opens.tool(name, scopes) == Opened::WithMoreScopes;
        (lacking && is_there(&self.snapshot, &self.settings, who, name)).then_some(scopes)
    }

    /// The limits of what is asked, by the snapshot that this policy was made from; compiled at first use.
    pub(crate) fn limits(&self, asked: Asked, who: Who) -> &Arc<CallLimits> {
        let compiled = match asked {
            Asked::Tool(tool) => &self.tools[tool.get() as usize],
            Asked::UnknownTool => &self.unknown,
            Asked::Request => &self.requests,
            Asked::Notification => &self.notifications,
            Asked::Listen => &self.listens,
            Asked::Stream => &self.streams,
        };
        compiled.get_or_init(|| {
            let resolver = Resolver { snapshot: &self.snapshot, who };
            Arc::new(CallLimits::new(&resolver.resolve(asked), &self.snapshot.baseline, asked))
        })
    }
}

impl CallLimits {
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
        let deadline = tool_index.map_or(baseline.timeout, |tool| baseline.timeout_of(tool));
        let tool = tool_index.map(|tool| baseline.tool_name(tool).into());
        let (series, counters, shared) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let on_outage = baseline.on_outage(tool_index);
        Self {
            rules,
            tool,
            tool_index,
            asked,
            series,
            counters,
            shared,
            on_outage,
            deadline,
            rates: rates_in_words,
            caps: caps_in_words,
            policy_field,
            heeded: Heeded::default(),
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

/// Whether a tool is there for a tenant, whatever its callers' credentials open.
fn is_there(snapshot: &Snapshot, settings: &TenantSettings, who: Who, tool: &str) -> bool {
    let allowed = settings.allowed_tools.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.matches(tool)));
    allowed && !snapshot.is_disabled(tool, who.tenant)
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
        sluicegate_limits::Place::AgentKey => "key",
        sluicegate_limits::Place::AgentRequests => "requests",
        _ => rule.scope.as_str(),
    };
    match rule.ordinal {
        0 => place.into(),
        ordinal => format!("{place}-{}", ordinal + 1).into(),
    }
}
