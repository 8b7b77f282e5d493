//! What a tool author needs: `use sluicegate::prelude::*;`.

pub use sluicegate_macros::{tool, tools};
pub use sluicegate_mcp::{Ask, Audio, CallContext, Image, Json, Log, OrToolError, Params, Progress, ToolError};

pub use crate::caller::Caller;
pub use crate::server::Server;
