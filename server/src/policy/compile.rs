//! The limits of one caller in the form that the call path uses: compiled on first use, shared until the policy changes.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use sluicegate_control::TenantSettings;
use sluicegate_mcp::ToolIndex;

use super::Snapshot;
use super::call_rules::CallRules;
use super::resolve::{Asked, Resolver, Who};
use crate::declared::Declaration;
use crate::engine::SharedLimits;
use crate::gate::authenticate::{Opened, Opens};
use crate::gate::escalation::Heeded;
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

/// The limits of one sort of call, with what is counted of the caller's calls.
pub(crate) struct CallLimits {
    /// What others have as well.
    rules: Arc<CallRules>,
    /// Where calls with these limits are counted, once one was.
    pub(crate) counters: OnceLock<Arc<CallCounters>>,
    /// Where the caller's calls of it are counted; found at the first.
    pub(crate) series: OnceLock<Arc<Series>>,
    /// What the caller has made of the waits that it was told.
    pub(crate) heeded: Heeded,
    /// What is needed to ask others about the caller's calls of it, where limits are shared; made at the first.
    pub(crate) shared: OnceLock<Box<SharedLimits>>,
}

impl Deref for CallLimits {
    type Target = CallRules;

    fn deref(&self) -> &CallRules {
        &self.rules
    }
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
            let applied = Resolver { snapshot: &self.snapshot, who }.resolve(asked);
            Arc::new(self.snapshot.rules(&applied, asked).into())
        })
    }
}

impl From<Arc<CallRules>> for CallLimits {
    fn from(rules: Arc<CallRules>) -> Self {
        let (counters, series, shared) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { rules, counters, series, heeded: Heeded::default(), shared }
    }
}

/// Whether a tool is there for a tenant, whatever its callers' credentials open.
fn is_there(snapshot: &Snapshot, settings: &TenantSettings, who: Who, tool: &str) -> bool {
    let allowed = settings.allowed_tools.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.matches(tool)));
    allowed && !snapshot.is_disabled(tool, who.tenant)
}
