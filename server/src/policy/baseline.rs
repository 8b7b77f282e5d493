//! What holds where the operator has decided nothing: the limits that tools declare and that configuration sets.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use sluicegate_limits::{Algorithm, Concurrency, OnOutage, Priority, RateLimit};
use sluicegate_mcp::ToolIndex;

use crate::declared::{Declaration, DeclaredText};
use crate::settings::tool_limits::{self, Configured, ConfiguredBy};
use crate::settings::{Settings, SettingsError};

/// The limits below every override, from code and configuration.
#[derive(Debug)]
pub(crate) struct Baseline {
    pub(crate) server: Option<RateLimit>,
    pub(crate) tenant: RateLimit,
    pub(crate) agent: RateLimit,
    /// For tools that declare no rate.
    pub(crate) tool: RateLimit,
    /// For everything that is not a tool call, per agent.
    pub(crate) requests: RateLimit,
    pub(crate) server_concurrency: Concurrency,
    pub(crate) agent_concurrency: Concurrency,
    pub(crate) timeout: Duration,
    on_outage: OnOutage,
    /// Whether some tool has a high priority, for which slots are kept back.
    pub(crate) reserve: bool,
    tools: Box<[(Box<str>, Declaration)]>,
    /// What the settings say of each tool.
    configured: Box<[Configured]>,
    /// Where settings come from, by name.
    sources: BTreeMap<&'static str, String>,
}

impl Baseline {
    /// Reads the limits of the settings and of every tool, given by name in the registry's order.
    ///
    /// # Errors
    /// Names the setting or the tool, and says what is wrong with its limit.
    pub(crate) fn new(
        settings: &Settings,
        tools: impl IntoIterator<Item = (String, DeclaredText)>,
    ) -> Result<Self, SettingsError> {
        let tools = tools.into_iter().map(|(name, declared)| match declared.read() {
            Ok(declaration) => Ok((name.into_boxed_str(), declaration)),
            Err(error) => Err(SettingsError(format!("tool `{name}`: {error}"))),
        });
        let tools = tools.collect::<Result<Box<[_]>, SettingsError>>()?;
        let configured = tool_limits::resolve(settings, &tools)?.into();
        let server = match settings.limit_server.as_str() {
            "" => None,
            text => Some(rate("limit_server", text, Algorithm::SlidingWindow)?),
        };
        Ok(Self {
            server,
            tenant: rate("limit_tenant", &settings.limit_tenant, Algorithm::SlidingWindow)?,
            agent: rate("limit_agent", &settings.limit_agent, Algorithm::TokenBucket)?,
            tool: rate("limit_tool", &settings.limit_tool, Algorithm::TokenBucket)?,
            requests: rate("requests_per_agent", &settings.requests_per_agent, Algorithm::TokenBucket)?,
            server_concurrency: cap("max_in_flight", settings.max_in_flight)?,
            agent_concurrency: cap("agent_concurrency", settings.agent_concurrency)?,
            timeout: settings.call_timeout.0,
            on_outage: settings.on_outage.0,
            reserve: tools.iter().any(|(_, declaration)| declaration.priority == Priority::High),
            tools,
            configured,
            sources: settings.provenance.sources.clone(),
        })
    }

    /// A setting, and where its value comes from.
    pub(crate) fn set_by(&self, setting: &'static str) -> ConfiguredBy {
        let source = self.sources.get(setting).map_or("default", String::as_str);
        ConfiguredBy { setting: setting.to_owned(), source: source.to_owned() }
    }

    /// What the settings say of a tool.
    pub(crate) fn configured(&self, tool: ToolIndex) -> &Configured {
        &self.configured[tool.get() as usize]
    }

    /// The tool of a name.
    pub(crate) fn tool(&self, name: &str) -> Option<ToolIndex> {
        let at = self.tools.iter().position(|(own, _)| **own == *name)?;
        ToolIndex::at(at)
    }

    /// What a tool declares.
    pub(crate) fn declaration(&self, tool: ToolIndex) -> &Declaration {
        &self.tools[tool.get() as usize].1
    }

    /// The tool's name.
    pub(crate) fn tool_name(&self, tool: ToolIndex) -> &str {
        &self.tools[tool.get() as usize].0
    }

    /// How long a call of the tool may run.
    pub(crate) fn timeout_of(&self, tool: ToolIndex) -> Duration {
        self.declaration(tool).timeout.unwrap_or(self.timeout)
    }

    /// What becomes of calls of the tool, or of other requests, while shared limits cannot be asked.
    pub(crate) fn on_outage(&self, tool: Option<ToolIndex>) -> OnOutage {
        let of_tool = |tool| self.configured(tool).on_outage.or(self.declaration(tool).on_outage);
        tool.and_then(of_tool).unwrap_or(self.on_outage)
    }

    /// Every tool's name and declaration, in the registry's order.
    pub(crate) fn tools(&self) -> impl Iterator<Item = (&str, &Declaration)> {
        self.tools.iter().map(|(name, declaration)| (&**name, declaration))
    }
}

fn rate(setting: &str, text: &str, algorithm: Algorithm) -> Result<RateLimit, SettingsError> {
    let quota = text.parse().map_err(|error| SettingsError(format!("{setting}: {error}")))?;
    RateLimit::new(quota, None, algorithm).map_err(|error| SettingsError(format!("{setting}: {error}")))
}

fn cap(setting: &str, calls: u32) -> Result<Concurrency, SettingsError> {
    let calls = NonZeroU32::new(calls).ok_or_else(|| SettingsError(format!("{setting} = 0 would let nobody in")))?;
    Ok(Concurrency::new(calls))
}
