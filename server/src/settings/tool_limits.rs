//! Limits of single tools in the settings: as a table of the configuration file, and as variables.
//!
//! ```toml
//! [limits.export]
//! rate = "2/min"
//! burst = 4
//! concurrency = 2
//! on_outage = "closed"
//! ```
//!
//! As variables these are `SLUICEGATE_LIMIT__EXPORT=2/min`, `SLUICEGATE_LIMIT__EXPORT__BURST=4`,
//! `SLUICEGATE_LIMIT__EXPORT__CONCURRENCY=2` and `SLUICEGATE_LIMIT__EXPORT__ON_OUTAGE=closed`, or, where that could mean
//! something else, with `LIMIT__TOOL__` in front. A variable names a tool in capitals, with `_` for everything that is neither
//! a letter nor a digit.

use std::fmt;
use std::num::NonZeroU32;

use serde::Deserialize;
use sluicegate_limits::{Algorithm, Concurrency, OnOutage, Quotas, RateLimit};

use super::{Settings, SettingsError};
use crate::declared::Declaration;

pub(super) const PREFIX: &str = "SLUICEGATE_LIMIT__";
const OF_TOOL: &str = "TOOL__";

/// The limits of one tool in the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolLimit {
    /// In place of the rate that the tool declares: `2/min`, or several that all hold.
    pub rate: Option<String>,
    /// How much the token bucket of the rate holds.
    pub burst: Option<u32>,
    /// In place of the cap of calls at a time that the tool declares.
    pub concurrency: Option<u32>,
    /// What becomes of its calls while Redis does not answer, in place of what the tool declares.
    pub on_outage: Option<String>,
}

/// A variable that sets a limit of a tool. Which tool that is can be said when the tools are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VariableLimit {
    source: &'static str,
    /// What stands behind the prefix.
    name: String,
    text: String,
}

/// Which part of a limit a variable sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Rate,
    Burst,
    Concurrency,
    OnOutage,
}

/// What the settings say of one tool, with the name of the setting that says it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Configured {
    pub(crate) rates: Option<(Vec<RateLimit>, ConfiguredBy)>,
    pub(crate) concurrency: Option<(Concurrency, ConfiguredBy)>,
    pub(crate) on_outage: Option<OnOutage>,
}

/// A setting and where it stands: `SLUICEGATE_LIMIT__EXPORT` in `.env`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfiguredBy {
    pub(crate) setting: String,
    pub(crate) source: String,
}

impl fmt::Display for ConfiguredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.setting, self.source)
    }
}

/// The texts for one tool, each with its setting, as later sources replace those of earlier ones.
#[derive(Default)]
struct Texts {
    rate: Option<(String, ConfiguredBy)>,
    burst: Option<(String, ConfiguredBy)>,
    concurrency: Option<(String, ConfiguredBy)>,
    on_outage: Option<(String, ConfiguredBy)>,
}

impl VariableLimit {
    pub(super) fn new(source: &'static str, name: &str, text: String) -> Self {
        Self { source, name: name.to_owned(), text }
    }

    fn by(&self) -> ConfiguredBy {
        ConfiguredBy { setting: format!("{PREFIX}{}", self.name), source: self.source.to_owned() }
    }

    /// Every way to read the name: which text would be the tool's, and which part of its limit is meant.
    fn readings(&self) -> impl Iterator<Item = (&str, Part)> {
        let names = [Some(&*self.name), self.name.strip_prefix(OF_TOOL)].into_iter().flatten();
        names.flat_map(|name| {
            let part = |ending, part| name.strip_suffix(ending).map(|name| (name, part));
            let parts = [
                part("__BURST", Part::Burst),
                part("__CONCURRENCY", Part::Concurrency),
                part("__ON_OUTAGE", Part::OnOutage),
            ];
            parts.into_iter().flatten().chain([(name, Part::Rate)])
        })
    }

    /// The one tool that is meant.
    fn tool<'a>(&self, tools: &'a [(Box<str>, Declaration)]) -> Result<(&'a str, Part), SettingsError> {
        let meant = self.readings().flat_map(|(text, part)| {
            let named = tools.iter().map(|(name, _)| &**name).filter(move |name| is_written(name, text));
            named.map(move |name| (name, part))
        });
        let meant: Vec<_> = meant.collect();
        match &*meant {
            [one] => Ok(*one),
            [] => {
                let known: Vec<_> = tools.iter().map(|(name, _)| as_variable(name)).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(self.wrong(format!("there is no such tool; the tools are {known}")))
            }
            several => {
                let names: Vec<_> = several.iter().map(|(name, part)| format!("the {part:?} of `{name}`")).collect();
                let names = names.join(" and ").to_lowercase();
                Err(self.wrong(format!("this may mean {names}: set such limits in sluicegate.toml, under [limits]")))
            }
        }
    }

    fn wrong(&self, why: impl fmt::Display) -> SettingsError {
        wrong(&self.by(), why)
    }
}

fn wrong(by: &ConfiguredBy, why: impl fmt::Display) -> SettingsError {
    SettingsError(format!("{by}: {why}"))
}

/// A tool's name as variables write it.
fn as_variable(tool: &str) -> String {
    tool.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

fn is_written(tool: &str, text: &str) -> bool {
    as_variable(tool) == as_variable(text)
}

/// What the settings say of each of these tools, in their order.
///
/// # Errors
/// Names the setting that means no tool, or several, or whose limit makes no sense.
pub(crate) fn resolve(
    settings: &Settings,
    tools: &[(Box<str>, Declaration)],
) -> Result<Vec<Configured>, SettingsError> {
    let mut texts: Vec<Texts> = tools.iter().map(|_| Texts::default()).collect();
    let at = |tool: &str| tools.iter().position(|(name, _)| **name == *tool);
    for (tool, limit) in &settings.limits {
        let by = |part: &str| ConfiguredBy {
            setting: format!("limits.{tool}.{part}"),
            source: "sluicegate.toml".to_owned(),
        };
        let Some(texts) = at(tool).map(|at| &mut texts[at]) else {
            return Err(wrong(&by("*"), "there is no such tool"));
        };
        texts.rate = limit.rate.clone().map(|text| (text, by("rate")));
        texts.burst = limit.burst.map(|burst| (burst.to_string(), by("burst")));
        texts.concurrency = limit.concurrency.map(|cap| (cap.to_string(), by("concurrency")));
        texts.on_outage = limit.on_outage.clone().map(|text| (text, by("on_outage")));
    }
    for variable in &settings.provenance.tool_limits {
        let (tool, part) = variable.tool(tools)?;
        let Some(texts) = at(tool).map(|at| &mut texts[at]) else { continue };
        let place = match part {
            Part::Rate => &mut texts.rate,
            Part::Burst => &mut texts.burst,
            Part::Concurrency => &mut texts.concurrency,
            Part::OnOutage => &mut texts.on_outage,
        };
        *place = Some((variable.text.clone(), variable.by()));
    }
    tools.iter().zip(texts).map(|((_, declared), texts)| texts.read(declared)).collect()
}

impl Texts {
    fn read(self, declared: &Declaration) -> Result<Configured, SettingsError> {
        let concurrency = self.concurrency.map(|(text, by)| {
            let cap = text.trim().parse::<Concurrency>().map_err(|error| wrong(&by, error))?;
            Ok::<_, SettingsError>((cap, by))
        });
        let on_outage = self.on_outage.map(|(text, by)| text.trim().parse().map_err(|error| wrong(&by, error)));
        let on_outage = on_outage.transpose()?;
        let burst = self.burst.map(|(text, by)| match text.trim().parse::<NonZeroU32>() {
            Ok(burst) => Ok((burst.get(), by)),
            Err(_) => Err(wrong(&by, format!("`{text}` is not a number of calls, 1 or more"))),
        });
        let (concurrency, burst) = (concurrency.transpose()?, burst.transpose()?);
        let quotas = match (self.rate, &burst) {
            (Some((text, by)), _) => {
                let quotas: Quotas = text.parse().map_err(|error| wrong(&by, error))?;
                (quotas.iter().copied().collect::<Vec<_>>(), by)
            }
            // Only the burst is another one.
            (None, Some((_, by))) if !declared.rates.is_empty() => {
                (declared.rates.iter().map(RateLimit::quota).collect(), by.clone())
            }
            (None, Some((_, by))) => return Err(wrong(by, "the tool declares no rate: set one with it")),
            (None, None) => return Ok(Configured { rates: None, concurrency, on_outage }),
        };
        let (quotas, by) = quotas;
        let algorithm = declared.rates.first().map_or(Algorithm::TokenBucket, RateLimit::algorithm);
        let burst = burst.map(|(burst, _)| burst);
        let rates = quotas.into_iter().map(|quota| RateLimit::new(quota, burst, algorithm));
        let rates = rates.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&by, error))?;
        Ok(Configured { rates: Some((rates, by)), concurrency, on_outage })
    }
}

#[cfg(test)]
mod tests;
