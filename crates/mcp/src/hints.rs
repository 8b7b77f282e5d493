//! The hints of a tool as the macros write them.

use rmcp::model::ToolAnnotations;

/// What `read_only`, `destructive`, `idempotent` and `open_world` say; `None` where a key was not written.
pub fn hints(
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
) -> ToolAnnotations {
    ToolAnnotations::from_raw(None, read_only, destructive, idempotent, open_world)
}
