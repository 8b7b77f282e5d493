//! Telling the caller how far a call has come.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ProgressNotificationParam;

use crate::call::Call;
use crate::context::CallContext;
use crate::error::ToolError;
use crate::from_call::FromCall;

/// How far a call has come, as a parameter of a tool.
///
/// Callers that want to know send a progress token; for all others [`report`](Self::report) does nothing. The call keeps
/// its permits and its deadline while it reports.
///
/// ```
/// use sluicegate_mcp::Progress;
///
/// async fn import(rows: Vec<String>, progress: Progress) -> String {
///     for (at, _row) in rows.iter().enumerate() {
///         progress.report(at as f64, rows.len() as f64).await;
///     }
///     format!("{} rows", rows.len())
/// }
/// ```
#[derive(Clone)]
pub struct Progress {
    call: CallContext,
    last: Arc<Mutex<f64>>,
}

impl Progress {
    /// Says that `done` of `total` is done; `None` when nobody knows the total.
    pub async fn report(&self, done: f64, total: impl Into<Option<f64>>) {
        self.send(done, total.into(), None).await;
    }

    /// The same with a sentence for people.
    pub async fn report_with(&self, done: f64, total: impl Into<Option<f64>>, message: impl Into<String>) {
        self.send(done, total.into(), Some(message.into())).await;
    }

    /// Whether the caller wants to know.
    pub fn is_wanted(&self) -> bool {
        self.call.wire().is_some_and(|wire| wire.meta.get_progress_token().is_some())
    }

    async fn send(&self, done: f64, total: Option<f64>, message: Option<String>) {
        let Some(wire) = self.call.wire() else { return };
        let Some(token) = wire.meta.get_progress_token() else { return };
        if !self.is_further(done) {
            return;
        }
        let mut progress = ProgressNotificationParam::new(token, done);
        progress.total = total;
        progress.message = message;
        if let Err(error) = wire.peer.notify_progress(progress).await {
            tracing::debug!(request_id = self.call.request_id(), %error, "progress could not be sent");
        }
    }

    /// Progress only ever grows (MCP, "Progress"): what does not is not sent.
    fn is_further(&self, done: f64) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if done > *last {
            *last = done;
            return true;
        }
        false
    }
}

impl FromCall for Progress {
    fn from_call(call: &Call) -> Result<Self, ToolError> {
        Ok(Self { call: call.context.clone(), last: Arc::new(Mutex::new(f64::NEG_INFINITY)) })
    }
}
