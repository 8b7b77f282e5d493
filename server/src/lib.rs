//! Sluicegate.

mod accept;
mod caller;
mod cli;
mod declared;
mod gate;
mod last_used;
mod live;
mod meter;
mod pages;
mod policy;
pub mod prelude;
mod refusal;
mod server;
mod settings;

#[doc(hidden)]
pub mod __private;

pub use sluicegate_control as control;
pub use sluicegate_limits as limits;
pub use sluicegate_macros::{tool, tools};
pub use sluicegate_mcp::{
    Argument, Call, CallContext, CallToolResult, ContentBlock, FreeTool, FromCall, InputSchema,
    Json, JsonObject, OrToolError, Params, Tool, ToolError, ToolOutput, ToolSet,
};
pub use {schemars, serde};

pub use crate::caller::Caller;
pub use crate::server::{BoxError, Ready, Running, Server, StartError};
pub use crate::settings::{
    AuthMode, CompatibilityEntry, LogFormat, Overrides, RefusalCode, RefusalStyle, SETTINGS,
    Setting, Settings, SettingsError, Span, env_example,
};
