//! Failures of upstreams as failures of tools.

use sluicegate_mcp::ToolError;

use crate::error::UpstreamError;

/// Text for the model, the data in `_meta`, the cause for the log.
///
/// ```
/// use sluicegate_mcp::ToolError;
/// use sluicegate_resilience::{CallOptions, Failure, Upstream, UpstreamOptions};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let upstream = Upstream::new("warehouse", UpstreamOptions::default()).unwrap();
/// let down = |_| async { Err::<(), _>(Failure::Rejected("no such table".into())) };
/// let error = ToolError::from(upstream.run(CallOptions::default(), down).await.unwrap_err());
/// assert_eq!(error.message(), "The request to `warehouse` cannot succeed. Repeating it does not help.");
/// assert_eq!(error.into_result().meta.unwrap().0["type"], "upstream_rejected");
/// # });
/// ```
impl From<UpstreamError> for ToolError {
    fn from(error: UpstreamError) -> Self {
        let tool_error = Self::new(error.text());
        error
            .meta()
            .into_iter()
            .fold(tool_error, |tool_error, (key, value)| tool_error.with_meta(key, value))
            .with_source(error)
    }
}
