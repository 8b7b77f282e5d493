//! One call of one tool.

use rmcp::model::JsonObject;

use crate::context::CallContext;

/// One call of one tool: what the caller sent, and the circumstances.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// The arguments object of the request; empty if there was none.
    pub arguments: JsonObject,
    /// Deadline, cancellation, correlation id and the gate's typed values.
    pub context: CallContext,
}

impl Call {
    /// Puts a call together.
    pub fn new(arguments: JsonObject, context: CallContext) -> Self {
        Self { arguments, context }
    }
}
