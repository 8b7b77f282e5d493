//! Sluicegate: a multi-tenant MCP server framework.
//!
//! You write tools. Sluicegate authenticates every caller, keeps every tenant, agent and tool inside its own limits, and
//! refuses what is too much in a way that clients and models understand.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use sluicegate::prelude::*;
//!
//! /// Export a dataset as CSV.
//! #[tool(rate_limit = "5/min", timeout = "30s")]
//! async fn export(dataset: String, caller: Caller) -> Result<String, ToolError> {
//!     if dataset.is_empty() {
//!         return Err(ToolError::new("name a dataset, for example `sales`"));
//!     }
//!     Ok(format!("dataset,owner\n{dataset},{}", caller.tenant().unwrap_or("nobody")))
//! }
//!
//! fn main() -> ExitCode {
//!     Server::new("reports").tool::<export>().run()
//! }
//! ```
//!
//! # Where to look
//!
//! * **Writing tools:** [`macro@tool`] and [`macro@tools`] with their parameters, results and limits; [`Caller`] and
//!   [`CallContext`] for who calls and how long it may take; [`ToolError`] for what a model should read.
//! * **Running a server:** [`Server::run`] is a whole command line (`serve`, `tenant`, `key`, `limit`, …).
//!   [`Server::start`] embeds a server in a program of yours; [`Settings`] are what can be configured.
//! * **Operating it:** [`control`] has the use cases behind the command line: tenants, agents, keys, limits, audit.
//! * **Calling other services:** [`resilience`] lets a tool that wraps another service behave well: retries with a budget,
//!   quotas, circuit breaker. With the feature `client` it also has `McpCaller`, which calls MCP servers and waits as told.
//! * **Limits as such:** [`limits`] has the text of limits, the algorithms and admission, without any server.
//!
//! # An embedded server
//!
//! ```
//! use sluicegate::control::{Actor, NewKey};
//! use sluicegate::prelude::*;
//! use sluicegate::Settings;
//!
//! /// Repeat a text.
//! #[tool(rate_limit = "600/min")]
//! async fn echo(text: String) -> String {
//!     text
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let mut settings = Settings::defaults();
//! settings.bind = "127.0.0.1:0".parse()?;
//! # settings.data = folder.path().to_owned();
//! let server = Server::new("demo").tool::<echo>().start(&settings).await?;
//!
//! let (actor, acme, bot) = (Actor::system("setup"), "acme".into(), "bot".into());
//! server.control().tenants().create(&actor, "acme", "Acme Inc.").await?;
//! server.control().agents().create(&actor, &acme, "bot").await?;
//! let minted = server.control().keys().create(&actor, &acme, &bot, NewKey::named("first")).await?;
//! assert!(minted.key.expose().starts_with("sg_live_"));
//!
//! assert!(server.endpoint().ends_with("/mcp"));
//! server.stop().await;
//! # Ok(())
//! # }
//! ```

mod accept;
mod api;
mod caller;
mod cli;
mod declared;
mod engine;
mod gate;
mod health;
mod keeping;
mod last_used;
mod live;
mod live_view;
mod meter;
mod pages;
mod panel;
mod policy;
pub mod prelude;
mod refusal;
mod server;
mod settings;
mod sightings;
mod site;
mod telemetry;
mod token;
mod usage;
mod webhooks;

#[doc(hidden)]
pub mod __private;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;

pub use sluicegate_macros::{tool, tools};
pub use sluicegate_mcp::{
    Answers, Argument, Ask, Audio, Call, CallContext, CallToolResult, Content, ContentBlock, FreeTool, FromCall, Icon,
    Image, InputSchema, Json, JsonObject, Log, OrToolError, Params, Peer, Progress, Question, Resource,
    ResourceContents, ServerHandler, Tool, ToolAnnotations, ToolError, ToolOutput, ToolSet,
};
pub use {
    schemars, serde, sluicegate_control as control, sluicegate_limits as limits, sluicegate_resilience as resilience,
};

pub use crate::caller::Caller;
pub use crate::declared::Declared;
pub use crate::server::{BoxError, Ready, Running, Server, StartError};
pub use crate::settings::{
    AuthMode, CompatibilityEntry, EngineKind, LogFormat, OutageRule, Overrides, ProxyHeader, RefusalCode, RefusalStyle,
    SETTINGS, SessionMode, Setting, Settings, SettingsError, Span, ToolLimit, env_example,
};
