//! `key add|list|rotate|revoke`.

use clap::{Args, Subcommand};
use serde::Serialize;
use sluicegate_control::{
    AgentRef, ControlError, Environment, KeyId, KeyRecord, KeyScopes, MintedKey, NewKey, Overlap, TenantRef, ToolGlob,
    WallClock,
};

use super::Desk;
use super::output::optional_time;
use crate::pages;
use crate::settings::Span;

/// API keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make a key and print it, once. The agent is created if the tenant does not have it.
    Add(Add),
    /// List a tenant's keys, ended ones too.
    List {
        /// The tenant's slug or id.
        #[arg(long)]
        tenant: String,
        /// Only the keys of this agent.
        #[arg(long)]
        agent: Option<String>,
    },
    /// Make a new key in place of another, and print it, once.
    Rotate {
        /// The id of the key to replace.
        key: KeyId,
        /// How long the old key goes on working: 0, 1h, 24h or 7d.
        #[arg(long, default_value = "0")]
        overlap: Overlap,
    },
    /// End a key now.
    Revoke {
        /// The id of the key.
        key: KeyId,
    },
}

/// A key to be made.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The tenant's slug or id.
    #[arg(long)]
    tenant: String,
    /// The agent's name or id.
    #[arg(long)]
    agent: String,
    /// A name for the key.
    #[arg(long, default_value = "default")]
    name: String,
    /// Tools that the key opens, as names with `*`; more than one may be given.
    #[arg(long = "scope", value_name = "TOOLS", default_value = "*")]
    tools: Vec<ToolGlob>,
    /// What tools ask for that the key carries (`scopes` in their code); more than one may be given.
    #[arg(long = "grant", value_name = "SCOPE")]
    grants: Vec<String>,
    /// When the key ends by itself: `30d`, `12h`.
    #[arg(long, value_name = "TIME")]
    expires_in: Option<Span>,
}

impl Key {
    pub(crate) async fn run(self, desk: &Desk) -> anyhow::Result<()> {
        let keys = desk.control.keys();
        match self {
            Self::Add(add) => {
                let minted = add.run(desk).await?;
                print(desk, &minted)
            }
            Self::Rotate { key, overlap } => {
                let minted = keys.rotate(&desk.actor, key, overlap).await?;
                print(desk, &minted)
            }
            Self::Revoke { key } => {
                let record = keys.revoke(&desk.actor, key).await?;
                desk.output.result(&record, || format!("key {} revoked", record.id))
            }
            Self::List { tenant, agent } => {
                let (tenant, agent) = (TenantRef::from(tenant.as_str()), agent.as_deref().map(AgentRef::from));
                let list = async |page: &_| keys.list(&desk.actor, &tenant, agent.as_ref(), page).await;
                let now_ms = WallClock::system().now_ms();
                desk.output.list(
                    &pages::all(list).await?,
                    ["ID", "NAME", "STATUS", "TOOLS", "EXPIRES", "LAST USED"],
                    |key| {
                        [
                            key.id.to_string(),
                            key.name.clone(),
                            key.status(now_ms).to_string(),
                            key.scopes.to_string(),
                            optional_time(key.expires_at),
                            optional_time(key.last_used_at),
                        ]
                    },
                )
            }
        }
    }
}

impl Add {
    async fn run(self, desk: &Desk) -> anyhow::Result<MintedKey> {
        let (tenant, agent) = (TenantRef::from(self.tenant.as_str()), AgentRef::from(self.agent.as_str()));
        let environment: Environment = desk.settings.key_environment.parse()?;
        let expires_at = self.expires_in.map(|Span(length)| {
            WallClock::system().now_ms().saturating_add(i64::try_from(length.as_millis()).unwrap_or(i64::MAX))
        });
        let scopes = KeyScopes::new(self.tools)?.with_grants(self.grants)?;
        let new = NewKey { name: self.name, environment, scopes, expires_at };
        match desk.control.agents().get(&desk.actor, &tenant, &agent).await {
            Err(ControlError::NotFound { what: "agent", .. }) => {
                desk.control.agents().create(&desk.actor, &tenant, &self.agent).await?;
            }
            found => drop(found?),
        }
        Ok(desk.control.keys().create(&desk.actor, &tenant, &agent, new).await?)
    }
}

/// The only time that a key's text is printed.
fn print(desk: &Desk, MintedKey { key, record }: &MintedKey) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Printed<'a> {
        key: &'a str,
        #[serde(flatten)]
        record: &'a KeyRecord,
    }
    let printed = Printed { key: key.expose(), record };
    desk.output
        .result(&printed, || format!("{}\n\nkey {}: keep it now, it is not shown again", key.expose(), record.id))
}
