//! Who calls: what a tool may know of its caller.

use std::sync::Arc;

use sluicegate_mcp::{Call, FromCall, ToolError};

/// Who calls, as a parameter of a tool.
///
/// ```
/// use sluicegate::prelude::*;
///
/// /// Says who you are.
/// #[tool]
/// async fn whoami(caller: Caller) -> String {
///     format!("{} of {}", caller.agent(), caller.tenant().unwrap_or("nobody"))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller(Arc<Known>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Known {
    tenant: Option<String>,
    agent: String,
    key: Option<String>,
    client: Option<String>,
}

impl Caller {
    pub(crate) fn new(tenant: Option<String>, agent: String, key: Option<String>, client: Option<String>) -> Self {
        Self(Arc::new(Known { tenant, agent, key, client }))
    }

    /// The slug of the caller's tenant; `None` when the server identifies nobody (`auth = "none"`).
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.0.tenant.as_deref()
    }

    /// The agent's name, unique in its tenant; `anonymous` when the server identifies nobody.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.0.agent
    }

    /// The id of the API key that was presented; `None` when it was a token.
    #[must_use]
    pub fn key_id(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The program that the agent uses, as its token says (`client_id` or `azp`). Many agents may share one.
    #[must_use]
    pub fn client_id(&self) -> Option<&str> {
        self.0.client.as_deref()
    }
}

impl FromCall for Caller {
    const NEEDS_PEER: bool = false;

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        let caller = call.context.extensions().get::<Self>();
        caller.cloned().ok_or_else(|| ToolError::new("this tool needs to know its caller, and the call names none"))
    }
}
