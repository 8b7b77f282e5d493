//! The limits that a tool declares in its attribute: as the macros write them, as text for other processes, as values.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluicegate_limits::{Algorithm, Concurrency, OnOutage, Per, Priority, Quotas, RateLimit};

/// The limit attributes of one tool, as written. The macros have checked the texts.
///
/// Attached to a [`Tool`](sluicegate_mcp::Tool) with `with`; a tool without it declares nothing. For tools without macros:
///
/// ```
/// use sluicegate::{Declared, Params, Tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Export {
///     dataset: String,
/// }
///
/// let limits = Declared { rates: &["5/min"], concurrency: Some(2), ..Declared::default() };
/// let export = Tool::from_fn("export", async |Params(export): Params<Export>| export.dataset).with(limits);
/// # let _ = sluicegate::Server::new("reports").add_tool(export);
/// ```
///
/// What is wrong with a text is reported when the server starts.
#[derive(Debug, Clone, Copy)]
pub struct Declared {
    /// `rate_limit`: quotas such as `100/min`.
    pub rates: &'static [&'static str],
    /// `burst`
    pub burst: Option<u32>,
    /// `algorithm`
    pub algorithm: Option<&'static str>,
    /// `per`
    pub per: Option<&'static str>,
    /// `cost`, 1 if not given.
    pub cost: u32,
    /// `concurrency`
    pub concurrency: Option<u32>,
    /// `timeout` in milliseconds.
    pub timeout_ms: Option<u64>,
    /// `priority`
    pub priority: Option<&'static str>,
    /// `on_outage`
    pub on_outage: Option<&'static str>,
    /// `scopes`: what the caller's key or token must carry.
    pub scopes: &'static [&'static str],
}

impl Default for Declared {
    /// Nothing declared.
    fn default() -> Self {
        Self {
            rates: &[],
            burst: None,
            algorithm: None,
            per: None,
            cost: 1,
            concurrency: None,
            timeout_ms: None,
            priority: None,
            on_outage: None,
            scopes: &[],
        }
    }
}

/// The same as text, as the database keeps it for processes that do not have the tool's code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DeclaredText {
    rate_limit: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per: Option<String>,
    cost: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_outage: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<String>,
}

impl Default for DeclaredText {
    /// Nothing declared.
    fn default() -> Self {
        Self {
            rate_limit: Vec::new(),
            burst: None,
            algorithm: None,
            per: None,
            cost: 1,
            concurrency: None,
            timeout_ms: None,
            priority: None,
            on_outage: None,
            scopes: Vec::new(),
        }
    }
}

impl From<&Declared> for DeclaredText {
    fn from(declared: &Declared) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Self {
            rate_limit: owned(declared.rates),
            burst: declared.burst,
            algorithm: declared.algorithm.map(str::to_owned),
            per: declared.per.map(str::to_owned),
            cost: declared.cost,
            concurrency: declared.concurrency,
            timeout_ms: declared.timeout_ms,
            priority: declared.priority.map(str::to_owned),
            on_outage: declared.on_outage.map(str::to_owned),
            scopes: owned(declared.scopes),
        }
    }
}

/// What a tool declares, as values.
#[derive(Debug, Clone)]
pub(crate) struct Declaration {
    pub(crate) rates: Vec<RateLimit>,
    pub(crate) per: Per,
    pub(crate) cost: u32,
    pub(crate) concurrency: Option<Concurrency>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) priority: Priority,
    pub(crate) on_outage: Option<OnOutage>,
    pub(crate) scopes: Vec<String>,
}

impl DeclaredText {
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("its keys are texts")
    }

    /// The texts as values.
    ///
    /// # Errors
    /// The parser's message; tools written with the macros have been checked when they were compiled.
    pub(crate) fn read(self) -> Result<Declaration, Box<dyn std::error::Error + Send + Sync>> {
        let algorithm = self.algorithm.as_deref().map(str::parse).transpose()?.unwrap_or(Algorithm::TokenBucket);
        let quotas = self.rate_limit.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>()?;
        let quotas = if quotas.is_empty() { None } else { Some(Quotas::new(quotas)?) };
        let rates = quotas.iter().flatten().map(|quota| RateLimit::new(*quota, self.burst, algorithm));
        let rates = rates.collect::<Result<Vec<_>, _>>()?;
        rates.iter().try_for_each(|rate| rate.check_cost(self.cost))?;
        Ok(Declaration {
            rates,
            per: self.per.as_deref().map(str::parse).transpose()?.unwrap_or(Per::Agent),
            cost: self.cost,
            concurrency: self.concurrency.map(|cap| cap.to_string().parse()).transpose()?,
            timeout: self.timeout_ms.map(Duration::from_millis),
            priority: self.priority.as_deref().map(str::parse).transpose()?.unwrap_or(Priority::Normal),
            on_outage: self.on_outage.as_deref().map(str::parse).transpose()?,
            scopes: self.scopes,
        })
    }
}
