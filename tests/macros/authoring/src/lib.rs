//! The part of the facade `sluicegate` that tool authors meet, without the server.
//!
//! The tests of the macros compile against this, because trybuild builds every dependency once more in a folder of its own:
//! with the server that is a database driver and a TLS stack. The facade itself has the macros in its examples and
//! end-to-end tests, which is where a difference would show.

pub use sluicegate_macros::{tool, tools};
pub use sluicegate_mcp::{
    Answers, Argument, Ask, Audio, Call, CallContext, CallToolResult, Content, ContentBlock, FreeTool, FromCall, Icon,
    Image, InputSchema, Json, JsonObject, Log, OrToolError, Params, Peer, Progress, Question, Resource,
    ResourceContents, Tool, ToolAnnotations, ToolError, ToolOutput, ToolSet,
};

/// What a tool author imports.
pub mod prelude {
    pub use crate::{Ask, Audio, CallContext, Image, Json, Log, OrToolError, Params, Progress, ToolError, tool, tools};
}

/// What the macros' output names.
#[doc(hidden)]
pub mod __private {
    pub use sluicegate_mcp::__private::*;

    /// The limit attributes of one tool; the same fields as the facade's.
    #[derive(Clone, Copy, Debug)]
    pub struct Declared {
        /// `rate_limit`
        pub rates: &'static [&'static str],
        /// `burst`
        pub burst: Option<u32>,
        /// `algorithm`
        pub algorithm: Option<&'static str>,
        /// `per`
        pub per: Option<&'static str>,
        /// `cost`
        pub cost: u32,
        /// `concurrency`
        pub concurrency: Option<u32>,
        /// `timeout` in milliseconds
        pub timeout_ms: Option<u64>,
        /// `priority`
        pub priority: Option<&'static str>,
        /// `on_outage`
        pub on_outage: Option<&'static str>,
        /// `scopes`
        pub scopes: &'static [&'static str],
    }
}
