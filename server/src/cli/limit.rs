//! `limit set|list|unset|explain`.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::Serialize;
use sluicegate_control::{
    AgentRef, ControlError, ExplainedLimit, ExplainedSource, Explanation, KeyId, LimitEntry, LimitFilter,
    LimitKindName, LimitValue, NewLimit, Question, Target, TenantRef, WallClock,
};
use sluicegate_limits::{Algorithm, Mode, Per};

use super::Desk;
use super::output::optional_time;
use super::targets::Names;
use crate::live;
use crate::pages;
use crate::policy::explain::Explainer;
use crate::settings::Span;

/// Limits.
#[derive(Debug, Subcommand)]
pub(crate) enum Limit {
    /// Set a limit, in place of the one that its target has. A running server obeys within a second.
    Set(Set),
    /// List the limits that are set.
    List {
        /// Only those of this tenant, its agents and its keys.
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Take a limit away: the plan's, the declared or the configured one holds again.
    Unset {
        #[command(flatten)]
        target: TargetArguments,
        /// The cap of calls at a time, not the rate.
        #[arg(long)]
        concurrency: bool,
    },
    /// Say which limits hold for an agent and a tool, where each comes from, and how it stands.
    Explain(Explain),
}

/// What a limit is about.
#[derive(Debug, Args)]
pub(crate) struct TargetArguments {
    /// The whole server.
    #[arg(long, conflicts_with_all = ["tenant", "agent", "key", "plan", "tool"])]
    server: bool,
    /// A tenant, by slug or id.
    #[arg(long, conflicts_with = "plan")]
    tenant: Option<String>,
    /// An agent of the tenant, by name or id.
    #[arg(long, requires = "tenant")]
    agent: Option<String>,
    /// A key of the agent, by id.
    #[arg(long, requires = "agent", conflicts_with = "tool")]
    key: Option<KeyId>,
    /// All tenants on a plan, by name or id.
    #[arg(long)]
    plan: Option<String>,
    /// Each agent of the tenants on the plan.
    #[arg(long, requires = "plan", conflicts_with = "tool")]
    each_agent: bool,
    /// A tool.
    #[arg(long)]
    tool: Option<String>,
}

/// A limit to be set.
#[derive(Debug, Args)]
pub(crate) struct Set {
    #[command(flatten)]
    target: TargetArguments,
    /// The rate: `50/min`; several hold together: `10/s 1000/h`.
    #[arg(required_unless_present = "concurrency", conflicts_with = "concurrency", value_name = "QUOTA")]
    quotas: Vec<String>,
    /// Calls at a time, in place of a rate.
    #[arg(long, value_name = "CALLS", conflicts_with_all = ["burst", "algorithm", "per"])]
    concurrency: Option<String>,
    /// How much a token bucket holds.
    #[arg(long)]
    burst: Option<u32>,
    /// `token_bucket` or `sliding_window`.
    #[arg(long)]
    algorithm: Option<Algorithm>,
    /// Who shares one count of a tool: `agent`, `tenant` or `server`.
    #[arg(long)]
    per: Option<Per>,
    /// Only count what would have been refused.
    #[arg(long)]
    observe: bool,
    /// For how long; then the limit before it holds again.
    #[arg(long = "for", value_name = "TIME")]
    lasting: Option<Span>,
    /// A remark for operators.
    #[arg(long, default_value = "")]
    note: String,
    /// Accept a tool that no server has registered yet.
    #[arg(long)]
    allow_unknown_tool: bool,
}

/// Whose limits are asked for.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The tenant's slug or id.
    #[arg(long)]
    tenant: String,
    /// The agent's name or id.
    #[arg(long)]
    agent: String,
    /// The tool.
    #[arg(long)]
    tool: String,
    /// The key that the agent calls with, by id.
    #[arg(long)]
    key: Option<KeyId>,
}

/// An entry with the names of what it is about.
#[derive(Debug, Serialize)]
struct Named {
    #[serde(flatten)]
    entry: LimitEntry,
    about: String,
}

impl Limit {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        match self {
            Self::Set(set) => set.run(desk).await,
            Self::Explain(explain) => explain.run(desk).await,
            Self::Unset { target, concurrency } => {
                let target = target.resolve(desk).await?;
                let kind = if concurrency { LimitKindName::Concurrency } else { LimitKindName::Rate };
                let about = Names::default().describe(desk, &target).await?;
                match desk.control.limits().unset(&desk.actor, &target, kind).await {
                    Err(ControlError::NotFound { what: "limit", .. }) => anyhow::bail!("{about}: no {kind} is set"),
                    unset => unset?,
                }
                tell_server(desk).await;
                desk.output.result(&target, || format!("{about}: {kind} taken away"))
            }
            Self::List { tenant } => {
                let filter = tenant.map_or(LimitFilter::All, |tenant| LimitFilter::Tenant(tenant.as_str().into()));
                let limits = desk.control.limits();
                let limits = pages::all(async |page| limits.list(&desk.actor, &filter, page).await).await?;
                let mut names = Names::default();
                let mut named = Vec::with_capacity(limits.len());
                for entry in limits {
                    let about = names.describe(desk, &entry.target).await?;
                    named.push(Named { entry, about });
                }
                desk.output.list(&named, ["ABOUT", "LIMIT", "MODE", "ENDS", "BY", "NOTE"], |Named { entry, about }| {
                    [
                        about.clone(),
                        entry.kind.to_string(),
                        entry.mode.to_string(),
                        optional_time(entry.expires_at),
                        entry.updated_by.clone(),
                        entry.note.clone(),
                    ]
                })
            }
        }
    }
}

impl Set {
    async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let value = match self.concurrency {
            Some(cap) => LimitValue::Concurrency { cap },
            None => LimitValue::Rate {
                quotas: self.quotas.join(", "),
                burst: self.burst,
                algorithm: self.algorithm,
                per: self.per,
            },
        };
        let new = NewLimit {
            target: self.target.resolve(desk).await?,
            value,
            mode: if self.observe { Mode::Observe } else { Mode::Enforce },
            expires_at: self.lasting.map(|Span(length)| {
                WallClock::system().now_ms().saturating_add(i64::try_from(length.as_millis()).unwrap_or(i64::MAX))
            }),
            note: self.note,
            allow_unknown_tool: self.allow_unknown_tool,
        };
        let entry = desk.control.limits().set(&desk.actor, &new).await?;
        tell_server(desk).await;
        let about = Names::default().describe(desk, &entry.target).await?;
        let named = Named { entry, about };
        desk.output.result(&named, || format!("{}: now {}", named.about, named.entry.kind))
    }
}

/// Saves a server on this data folder the wait for its next look; others notice by themselves.
async fn tell_server(desk: &Desk) {
    if let Err(error) = live::reload(&desk.settings.control_socket()).await {
        tracing::warn!(?error, "the running server could not be told; it will notice by itself");
    }
}

impl TargetArguments {
    /// Finds what the arguments name.
    async fn resolve(self, desk: &Desk) -> anyhow::Result<Target> {
        let Self { server, tenant, agent, key, plan, each_agent, tool } = self;
        if server {
            return Ok(Target::Server);
        }
        if let Some(plan) = plan {
            let plan = desk.control.plans().get(&desk.actor, &plan.as_str().into()).await?.id;
            return Ok(match tool {
                Some(tool) => Target::PlanTool { plan, tool },
                None if each_agent => Target::PlanAgent { plan },
                None => Target::Plan { plan },
            });
        }
        let Some(tenant) = tenant.as_deref().map(TenantRef::from) else {
            let tool = tool.context("a limit is about something: give --server, --tenant, --plan or --tool")?;
            return Ok(Target::Tool { tool });
        };
        let Some(agent) = agent.as_deref().map(AgentRef::from) else {
            let tenant = desk.control.tenants().get(&desk.actor, &tenant).await?.id;
            return Ok(match tool {
                Some(tool) => Target::TenantTool { tenant, tool },
                None => Target::Tenant { tenant },
            });
        };
        let agent = desk.control.agents().get(&desk.actor, &tenant, &agent).await?;
        let (tenant, agent) = (agent.tenant_id, agent.id);
        Ok(match (key, tool) {
            (Some(key), _) => Target::Key { tenant, agent, key },
            (None, Some(tool)) => Target::AgentTool { tenant, agent, tool },
            (None, None) => Target::Agent { tenant, agent },
        })
    }
}

impl Explain {
    async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let Self { tenant, agent, tool, key } = self;
        let question = Question { tenant, agent, tool, key };
        let explanation = match live::explain(&desk.settings.control_socket(), question.clone()).await? {
            Some(explanation) => explanation,
            None => Explainer::offline(&desk.control, &desk.settings).await?.explain(&desk.actor, question).await?,
        };
        desk.output.result(&explanation, || describe(&explanation))
    }
}

fn describe(explanation: &Explanation) -> String {
    let Question { tenant, agent, tool, .. } = &explanation.question;
    let state = if explanation.live { "live" } else { "no server runs on this data folder, so usage is not known" };
    let mut text = format!("{agent} of {tenant} calls {tool} (revision {}, {state})", explanation.revision);
    for limit in &explanation.limits {
        text.push_str(&describe_limit(limit));
    }
    text
}

fn describe_limit(limit: &ExplainedLimit) -> String {
    let ExplainedLimit { scope, text, limit: words, mode, source, shadows, usage, .. } = limit;
    let mut line = format!("\n\n{scope}: {words} ({text}");
    for extra in [&limit.algorithm, &limit.worst_case].into_iter().flatten() {
        line.push_str(&format!(", {extra}"));
    }
    line.push(')');
    if mode == "observe" {
        line.push_str(", only observed");
    }
    line.push_str(&format!("\n  from {}", describe_source(source)));
    for shadowed in shadows {
        line.push_str(&format!("\n  replaces {} from {}", shadowed.text, describe_source(&shadowed.source)));
    }
    if let Some(usage) = usage {
        line.push_str(&format!("\n  used {}, left {}", usage.used, usage.remaining));
        if let Some(wait) = usage.retry_after_ms.filter(|_| usage.refuses) {
            line.push_str(&format!("; refuses for another {wait} ms"));
        }
    }
    line
}

fn describe_source(source: &ExplainedSource) -> String {
    match source {
        ExplainedSource::Declared => "the tool's code".to_owned(),
        ExplainedSource::Config { setting } => format!("the setting {setting}"),
        ExplainedSource::Override { id, author, expires_at, note, .. } => {
            let end = expires_at.map(|end| format!(", until {}", optional_time(Some(end)))).unwrap_or_default();
            let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
            format!("override {id} by {author}{end}{note}")
        }
    }
}
