//! Tools and transports of Sluicegate over the official MCP SDK (rmcp).
//!
//! A [`Tool`] is usually written by the macros `#[tools]` and `#[tool]`; its parameters are [`Argument`]s or made
//! [`FromCall`], and what it returns is a [`ToolOutput`]. All tools of a server form a [`Registry`]. A gate lets a call
//! through by handing out [`Admitted`], and [`call_scope()`] runs it. This crate knows nothing of tenants, limits or
//! databases: whatever the gate needs to keep for the length of a call is a [`Ticket`].

mod admitted;
mod arguments;
mod ask;
mod call;
mod call_scope;
mod content;
mod context;
mod engine;
mod envelope;
mod error;
mod from_call;
mod handler;
mod hints;
mod http;
mod learn;
mod log;
mod output;
mod panic;
mod parameter;
mod passage;
mod plain;
mod progress;
mod registry;
mod replay;
mod rmcp_handler;
mod schema;
mod sessions;
mod stdio;
mod tool;
mod validation;
mod wire;

pub use rmcp::ServerHandler;
pub use rmcp::model::{CallToolResult, ContentBlock, Icon, JsonObject, Resource, ResourceContents, ToolAnnotations};

pub use crate::admitted::{Admitted, Outcome, Ticket};
pub use crate::ask::{Answers, Ask, Question};
pub use crate::call::Call;
pub use crate::call_scope::call_scope;
pub use crate::content::{Audio, Content, Image};
pub use crate::context::CallContext;
pub use crate::engine::{Engine, StateKeyError};
pub use crate::envelope::{Attempt, Envelope, Kind, UnusableKey};
pub use crate::error::{OrToolError, ToolError};
pub use crate::from_call::{FromCall, Params, Peer};
pub use crate::handler::ServerInfo;
pub use crate::http::HttpEndpoint;
pub use crate::learn::LearnError;
pub use crate::log::Log;
pub use crate::output::{Json, ToolOutput};
pub use crate::parameter::Argument;
pub use crate::passage::{Owner, Passage, Visible, Visit};
pub use crate::plain::PlainCall;
pub use crate::progress::Progress;
pub use crate::registry::{Registry, RegistryError, ToolIndex};
pub use crate::replay::IdempotencyKey;
pub use crate::rmcp_handler::RmcpHandler;
pub use crate::schema::InputSchema;
pub use crate::sessions::SessionOptions;
pub use crate::stdio::{StdioGate, StdioPassage, StdioRefusal, StdioRequest, serve_stdio, serve_stream};
pub use crate::tool::{FreeTool, Tool, ToolSet};

/// What the macros' output names, re-exported by the facade. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use std::boxed::Box;
    pub use std::concat;
    pub use std::mem::drop;
    pub use std::module_path;
    pub use std::option::Option;
    pub use std::sync::Arc;
    pub use std::vec::Vec;

    pub use crate::Icon;
    pub use crate::hints::hints;
    pub use crate::output::{OutputKind, output};
    pub use crate::parameter::{IsArgument, IsFromCall, IsNeither, Parameter, ParameterKind, made_from_call};
    pub use crate::{Call, FreeTool, InputSchema, Tool, ToolSet};
}
