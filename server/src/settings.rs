//! Configuration: one list of settings, read from defaults, `sluicegate.toml`, `.env`, environment and command line.
//!
//! Later sources win, in that order. Every setting is one entry of the list below: its doc comment is its help text, its
//! default is the text that `.env.example` and docs/configuration.md show, and `SLUICEGATE_<NAME>` is its variable.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use figment::Figment;
use figment::value::Value;
use serde::{Deserialize, Serialize};

use crate::token::rules::TokenRules;
use crate::usage::Keep;

mod addresses;
pub(crate) mod sources;
pub(crate) mod tool_limits;
mod values;

pub use sluicegate_control::RefusalStyle;
use sluicegate_control::Retention;
use sluicegate_limits::Quota;
use sources::{Defaults, Origin};
pub use tool_limits::ToolLimit;
use tool_limits::VariableLimit;
pub use values::{
    AuthMode, CompatibilityEntry, EngineKind, LogFormat, OutageRule, ProxyHeader, RefusalCode, SessionMode, Span,
};

/// One setting as documentation shows it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Name in `sluicegate.toml`; the variable is `SLUICEGATE_` and this name in capitals.
    pub name: &'static str,
    /// Default as it would be written in `.env`.
    pub default: &'static str,
    /// What the setting does, one line a sentence.
    pub help: &'static [&'static str],
}

macro_rules! settings {
    ($($(#[doc = $help:literal])+ $name:ident: $type:ty = $default:literal,)+) => {
        /// Everything that can be configured. See the module documentation for where values come from.
        #[derive(Debug, Clone, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Settings {
            $($(#[doc = $help])+ pub $name: $type,)+
            /// More entries for the compatibility list, before the shipped ones (only in `sluicegate.toml`).
            #[serde(default)]
            pub compatibility: Vec<CompatibilityEntry>,
            /// Limits of tools by name (in `sluicegate.toml`; as variables: `SLUICEGATE_LIMIT__<TOOL>`).
            #[serde(default)]
            pub limits: BTreeMap<String, ToolLimit>,
            /// Where all that was read from.
            #[serde(skip)]
            pub(crate) provenance: Provenance,
        }

        impl Settings {
            /// Every setting with its value in this process, in the order of the documentation, without secrets.
            pub(crate) fn shown(&self) -> Vec<(String, String)> {
                vec![$((stringify!($name).to_owned(), shown(stringify!($name), format!("{:?}", self.$name)))),+]
            }
        }

        /// The list of settings, in the order in which they are documented.
        pub const SETTINGS: &[Setting] = &[
            $(Setting { name: stringify!($name), default: $default, help: &[$($help),+] },)+
        ];
    };
}

settings! {
    /// Address and port to listen on.
    bind: SocketAddr = "127.0.0.1:8080",
    /// Folder of the embedded database and the control socket.
    data: PathBuf = "./data",
    /// Database: `postgres://…` or `sqlite:PATH`. Without it an embedded SQLite database in the data folder is used.
    database_url: String = "",
    /// How callers are identified: `keys` (API keys), `jwt` (tokens of an identity provider), `both`, or `none` (everybody is one anonymous caller; loopback addresses only).
    auth: AuthMode = "keys",
    /// Allow `auth = "none"` on an address that is not loopback.
    auth_none_anywhere: bool = "false",
    /// The environment part of new API keys: `sg_<this>_…`.
    key_environment: String = "live",
    /// The address that clients use, where it is not the one that requests name: `https://mcp.example.com`, without a path.
    public_url: String = "",
    /// Tokens: the issuer that is trusted, as `iss` says it.
    jwt_issuer: String = "",
    /// Tokens: what `aud` has to name, one of these, comma-separated; the address of `/mcp` is usual.
    jwt_audience: String = "",
    /// Tokens: the algorithms that are accepted, comma-separated, of `RS256`, `ES256`, `EdDSA` and, with `jwt_secret`, `HS256`.
    jwt_algorithms: String = "RS256",
    /// Tokens: where the issuer publishes its keys, an https URL. It is read every five minutes, and when a token names an unknown key, at most once a minute.
    jwt_jwks_url: String = "",
    /// Tokens: instead, a file with the public key in PEM.
    jwt_public_key: String = "",
    /// Tokens: instead, the secret of 32 or more characters that signs them with `HS256`.
    jwt_secret: String = "",
    /// Tokens: by how much clocks may differ when `exp` and `nbf` are looked at.
    jwt_leeway: Span = "30s",
    /// Tokens: the claim that holds the tenant's slug.
    jwt_tenant_claim: String = "tenant_id",
    /// Tokens: the claims that say which agent calls, comma-separated; of several all are needed. Where there are none it is `client_id`.
    jwt_agent_claims: String = "sub",
    /// Tokens: the tools that a scope opens, such as `reports:read=get_* list_reports, admin=*`. Empty: scopes open only what tools ask them for.
    jwt_scope_tools: String = "",
    /// Failures of authentication that one address may have (an IPv6 network of 64 bits counts as one); above it they are answered 429. Good credentials are served whatever their address has sent. Empty: as many as it likes.
    failed_logins_per_address: String = "60/min",
    /// Host names that requests may address, comma-separated. Empty: only loopback names on a loopback address, any name elsewhere.
    allowed_hosts: String = "",
    /// Proxies whose `Forwarded` and `X-Forwarded-For` are believed, comma-separated addresses and networks (`10.0.0.0/8, ::1`). Empty: nobody's, the address of the connection is the client's.
    trusted_proxies: String = "",
    /// The field in which trusted proxies say whom they speak for: `x-forwarded-for` or `forwarded` (RFC 7239). The other one is not read.
    proxy_header: ProxyHeader = "x-forwarded-for",
    /// Origins that browsers may call from, comma-separated (`https://app.example.com`). Empty: none but, on a loopback address, pages of the server itself.
    allowed_origins: String = "",
    /// Requests that may be in work at once; above it a request is answered 429.
    max_in_flight: u32 = "1024",
    /// Largest request body in bytes; tenants may have their own.
    max_body_bytes: usize = "1048576",
    /// Bytes of bodies that may be on their way in at once, over all callers.
    max_buffered_bytes: usize = "67108864",
    /// Connections that may be open at once; above it the one that has been silent for the longest is closed.
    max_connections: usize = "10000",
    /// How long a connection may be open without a request before it is closed.
    idle_timeout: Span = "75s",
    /// How long a client may take to send the headers of a request, and from the connection to its first request.
    header_timeout: Span = "10s",
    /// How long a client may take to send the body of a request.
    body_timeout: Span = "30s",
    /// Deadline of a call whose tool declares none, and of every other request.
    call_timeout: Span = "5min",
    /// How long running calls may go on after SIGTERM or Ctrl-C.
    drain_timeout: Span = "30s",
    /// Sessions for clients before 2026-07-28: `off` (every request stands alone), or `memory` (kept by this process, so that tools can ask such clients; needs sticky routing with several instances).
    sessions: SessionMode = "off",
    /// Sessions that one tenant may have at a time.
    sessions_per_tenant: u32 = "1000",
    /// How long a session may be idle before it is closed. A call that runs longer without a message ends with it.
    session_idle: Span = "30min",
    /// Streams (`subscriptions/listen`, GET) that one agent may have open at once.
    streams_per_agent: u32 = "8",
    /// Streams that all agents of a tenant may have open at once.
    streams_per_tenant: u32 = "64",
    /// Secret of 32 or more characters that seals what tools keep while they ask their caller. Several instances need the same; empty: a random one that ends with the process.
    state_key: String = "",
    /// Limit over all calls of this server. Empty: none.
    limit_server: String = "",
    /// When tenants ask for more than the limit over all calls has, hand it out in weighted max-min shares, instead of to whoever comes first (docs/fair-share.md).
    fair_share: bool = "true",
    /// Limit of a tenant without one of its own or of a plan.
    limit_tenant: String = "600/min",
    /// Limit of an agent without one of its own or of a plan.
    limit_agent: String = "120/min",
    /// Limit of a tool that declares none, per agent.
    limit_tool: String = "60/min",
    /// Limit of everything that is not a tool call (`tools/list`, `initialize`, …), per agent.
    requests_per_agent: String = "300/min",
    /// Requests that one agent may have in work at once.
    agent_concurrency: u32 = "10",
    /// How a refused call is answered: `auto`, `http`, `jsonrpc` or `tool_result` (docs/limits.md).
    refusal_style: RefusalStyle = "auto",
    /// The JSON-RPC code of a refused call: `auto` (-32029, or 429 for peers on 2026-07-28) or an integer.
    rate_limit_error_code: RefusalCode = "auto",
    /// Add a random time, up to a quarter, to the wait that a refused caller is told.
    retry_jitter: bool = "false",
    /// Tell an agent that keeps coming back too early to wait longer: each such call doubles what it is told, up to this. `0s`: waits are told as they are. What is allowed does not change (docs/limits.md).
    escalate_waits_to: Span = "0s",
    /// How long a client may keep the list of tools, in milliseconds.
    tools_list_ttl_ms: u64 = "0",
    /// Who counts what limits allow: `memory` (this process alone), or `redis` (all instances together, by way of a Redis or Valkey server; docs/operations.md).
    engine: EngineKind = "memory",
    /// Address of the Redis or Valkey server of `engine = "redis"`: `redis://[user:password@]host[:port][/database]`, `rediss://…` over TLS, `unix:///path`. Several nodes of a cluster with commas.
    redis_url: String = "redis://127.0.0.1:6379",
    /// Whether `redis_url` is a Redis Cluster. Limits of the whole server are then enforced by each instance for its share.
    redis_cluster: bool = "false",
    /// What the keys in Redis begin with. Instances that share limits have the same.
    redis_prefix: String = "sluicegate",
    /// How long Redis may take to answer. A call that has waited for so long is decided without it.
    redis_timeout: Span = "50ms",
    /// What becomes of calls while Redis does not answer: `local_share` (each instance enforces its share of every limit), `closed` (they are refused) or `open` (they pass without rate limits). Tools may have their own (docs/limits.md).
    on_outage: OutageRule = "local_share",
    /// Live limiter states per tenant; above it, new agents and keys share one overflow state.
    max_live_keys_per_tenant: u32 = "57344",
    /// Serve the operator's panel at `/admin`.
    panel: bool = "true",
    /// Address and port of `/metrics`, `/healthz` and `/readyz` alone, for whoever can reach it. Empty: they are on the port of MCP, `/metrics` only for programs on this machine.
    metrics_bind: String = "",
    /// Combinations of tenant, agent and tool with labels of their own in `/metrics`; the calls of all others are counted under tenant and agent `other`.
    metrics_series: usize = "10000",
    /// How often the database is asked for changes when no notice came.
    reload_interval: Span = "5s",
    /// How long usage is kept by the minute; previews of limits look back as far, a week at most.
    keep_usage_minutes: Span = "7d",
    /// How long usage is kept by the hour.
    keep_usage_hours: Span = "90d",
    /// How long usage is kept by the day.
    keep_usage_days: Span = "730d",
    /// How long events (refusals one by one, and changes of state) are kept.
    keep_events: Span = "30d",
    /// How many events are kept at most.
    keep_events_most: u32 = "100000",
    /// Agents and tools whose usage one process counts apart; beyond, agents are counted with the others of their tenant.
    usage_series: usize = "50000",
    /// Let webhooks of alert rules be at private, loopback, link-local and other special addresses. Whoever may make a rule can then make this server call whatever it reaches.
    webhook_private_addresses: bool = "false",
    /// How long one attempt to call a webhook may take.
    webhook_timeout: Span = "10s",
    /// Log format: `pretty` or `json`.
    log_format: LogFormat = "pretty",
    /// Log filter in the syntax of tracing's `EnvFilter`.
    log: String = "info,rmcp=error",
}

/// What seals the state of calls is no shorter than what it is hashed to.
const MIN_STATE_KEY: usize = 32;

/// Values given on the command line; they win over every other source.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Overrides {
    /// `--bind`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<SocketAddr>,
    /// `--data`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// `--database-url`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_url: Option<String>,
}

impl Settings {
    /// Reads all sources: `config` (or `sluicegate.toml`), `.env`, the process environment, and `overrides`.
    ///
    /// # Errors
    /// Names the source, the setting and the value that cannot be used.
    pub fn load(config: Option<&Path>, overrides: &Overrides) -> Result<Self, SettingsError> {
        Self::load_with_data(config, overrides, None)
    }

    /// The same, with another default for the data folder.
    pub(crate) fn load_with_data(
        config: Option<&Path>,
        overrides: &Overrides,
        default_data: Option<&Path>,
    ) -> Result<Self, SettingsError> {
        Origin::new(config, overrides, default_data)?.read()
    }

    /// Where the value of a setting comes from: `default`, a file, `environment`.
    pub(crate) fn source_of(&self, setting: &str) -> &str {
        self.provenance.sources.get(setting).map_or("default", String::as_str)
    }

    /// The defaults alone, as tests and [`Server`](crate::Server) start from them.
    ///
    /// # Panics
    /// Never: the defaults are checked by a test.
    #[must_use]
    pub fn defaults() -> Self {
        Figment::from(Defaults).extract().expect("the defaults of the list are valid")
    }

    fn check(&self) -> Result<(), SettingsError> {
        self.metrics_address()?;
        self.proxies()?;
        self.redis()?;
        TokenRules::new(self)?;
        self.check_public_url()?;
        self.failures_per_address()?;
        if (1..MIN_STATE_KEY).contains(&self.state_key.len()) {
            return Err(SettingsError(format!("state_key: it is shorter than {MIN_STATE_KEY} characters")));
        }
        if let Err(error) = self.key_environment.parse::<sluicegate_control::Environment>() {
            return Err(SettingsError(format!("key_environment: {error}")));
        }
        if self.auth == AuthMode::None && !self.bind.ip().is_loopback() && !self.auth_none_anywhere {
            return Err(SettingsError(format!(
                "auth = \"none\" lets everybody on {} in: listen on a loopback address, use auth = \"keys\", or set auth_none_anywhere = true",
                self.bind
            )));
        }
        for (name, length) in [
            ("idle_timeout", self.idle_timeout),
            ("header_timeout", self.header_timeout),
            ("body_timeout", self.body_timeout),
            ("call_timeout", self.call_timeout),
            ("reload_interval", self.reload_interval),
            ("redis_timeout", self.redis_timeout),
        ] {
            if length.0.is_zero() {
                return Err(SettingsError(format!("{name} = 0 would let nobody be served")));
            }
        }
        if self.webhook_timeout.0.is_zero() {
            return Err(SettingsError("webhook_timeout = 0 would let no webhook answer".to_owned()));
        }
        for (name, length) in [
            ("keep_usage_minutes", self.keep_usage_minutes),
            ("keep_usage_hours", self.keep_usage_hours),
            ("keep_usage_days", self.keep_usage_days),
            ("keep_events", self.keep_events),
        ] {
            if length.0 < Duration::from_mins(2) {
                return Err(SettingsError(format!(
                    "{name} must be 2min or more: less would lose what is being counted"
                )));
            }
        }
        for (name, number) in [
            ("max_body_bytes", self.max_body_bytes),
            ("max_buffered_bytes", self.max_buffered_bytes),
            ("max_connections", self.max_connections),
            ("max_live_keys_per_tenant", self.max_live_keys_per_tenant as usize),
            ("usage_series", self.usage_series),
        ] {
            if number == 0 {
                return Err(SettingsError(format!("{name} = 0 would let nobody be served")));
            }
        }
        Ok(())
    }

    /// `failed_logins_per_address`, as governor counts.
    pub(crate) fn failures_per_address(&self) -> Result<Option<governor::Quota>, SettingsError> {
        let text = self.failed_logins_per_address.as_str();
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = |why: &dyn std::fmt::Display| SettingsError(format!("failed_logins_per_address: `{text}`: {why}"));
        let quota: Quota = text.parse().map_err(|error| wrong(&error))?;
        let count = u32::try_from(quota.count()).ok().and_then(NonZeroU32::new).ok_or_else(|| wrong(&"too many"))?;
        let quota = governor::Quota::with_period(quota.window() / count.get());
        Ok(Some(quota.ok_or_else(|| wrong(&"the window is too short"))?.allow_burst(count)))
    }

    /// How long is kept what is metered.
    pub(crate) fn keep(&self) -> Keep {
        let ms = |span: Span| i64::try_from(span.0.as_millis()).unwrap_or(i64::MAX);
        Keep {
            usage: Retention {
                minutes_ms: ms(self.keep_usage_minutes),
                hours_ms: ms(self.keep_usage_hours),
                days_ms: ms(self.keep_usage_days),
            },
            events_ms: ms(self.keep_events),
            events: self.keep_events_most,
        }
    }
}

/// Settings whose values are secrets, or hold some.
const SECRETS: [&str; 4] = ["database_url", "redis_url", "state_key", "jwt_secret"];

/// A value as people may see it: of what opens something, only whether it is set.
fn shown(name: &str, value: String) -> String {
    let value = value.trim_matches('"').to_owned();
    if SECRETS.contains(&name) && !value.is_empty() { "(set)".to_owned() } else { value }
}

/// The items of a comma-separated list.
pub(crate) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Where settings were read from.
#[derive(Clone, Default)]
pub(crate) struct Provenance {
    /// The name of the source, by setting.
    pub(crate) sources: BTreeMap<&'static str, String>,
    /// The value as text, by setting.
    pub(crate) values: BTreeMap<&'static str, String>,
    /// Limits of tools that variables set, the weakest source first.
    pub(crate) tool_limits: Vec<VariableLimit>,
    /// To read it again; `None` for settings that a program has made.
    pub(crate) origin: Option<Arc<Origin>>,
}

impl std::fmt::Debug for Provenance {
    /// Names only: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provenance").field("sources", &self.sources).finish_non_exhaustive()
    }
}

/// A setting that cannot be used; the message names source, setting and value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub(crate) String);

impl From<&figment::Error> for SettingsError {
    fn from(error: &figment::Error) -> Self {
        let setting = error.path.join(".");
        let source = error.metadata.as_ref().map_or_else(String::new, |metadata| format!(" ({})", metadata.name));
        Self(if setting.is_empty() {
            format!("{}{source}", error.kind)
        } else {
            format!("{setting}: {}{source}", error.kind)
        })
    }
}

impl Setting {
    /// A text as a value of the sort that the default is: a flag, a number, or a text.
    fn value(&self, text: &str) -> Value {
        let flag = self.default.parse::<bool>().is_ok().then(|| text.parse::<bool>().ok()).flatten();
        let number = self.default.parse::<i64>().is_ok().then(|| text.parse::<i64>().ok()).flatten();
        flag.map(Value::from).or(number.map(Value::from)).unwrap_or_else(|| Value::from(text))
    }

    /// Whether its value is a secret, or holds one.
    pub(crate) fn holds_a_secret(&self) -> bool {
        SECRETS.contains(&self.name)
    }

    /// The environment variable of this setting.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("SLUICEGATE_{}", self.name.to_uppercase())
    }
}

/// The text of `.env.example`: every setting, commented out, with its default and help.
#[must_use]
pub fn env_example() -> String {
    let mut text = String::from(
        "# Every setting of Sluicegate with its default. Copy this file to .env and uncomment what you change.\n\
         # Precedence: command line > environment > .env > sluicegate.toml > default.\n",
    );
    for setting in SETTINGS {
        text.push('\n');
        for line in setting.help {
            text.push_str(&format!("#{line}\n"));
        }
        text.push_str(&format!("# {}={}\n", setting.variable(), setting.default));
    }
    text.push_str(
        "\n# Limits of single tools, by the tool's name with `_` for what is neither a letter nor a digit (docs/limits.md).\n\
         # SLUICEGATE_LIMIT__<TOOL>=2/min\n# SLUICEGATE_LIMIT__<TOOL>__BURST=4\n# SLUICEGATE_LIMIT__<TOOL>__CONCURRENCY=2\n",
    );
    text
}

/// The table of docs/configuration.md.
#[cfg(test)]
fn configuration_table() -> String {
    let mut text = String::from("| setting | variable | default | meaning |\n|---|---|---|---|\n");
    for setting in SETTINGS {
        let default = if setting.default.is_empty() { String::new() } else { format!("`{}`", setting.default) };
        let help: String = setting.help.concat();
        text.push_str(&format!("| `{}` | `{}` | {default} |{help} |\n", setting.name, setting.variable()));
    }
    text
}

#[cfg(test)]
mod tests;
