//! Log messages to the caller, who is not the operator: what he should know of a call while it runs.

#![expect(deprecated, reason = "log messages are deprecated by 2026-07-28 and still served to those who ask for them")]

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use serde_json::Value;

use crate::call::Call;
use crate::context::CallContext;
use crate::error::ToolError;
use crate::from_call::FromCall;
use crate::wire::Wire;

/// Log messages to the caller, as a parameter of a tool.
///
/// Sent to those who ask for them: by the request's log level since 2026-07-28, by `logging/setLevel` before (and from
/// `info` on where no level was set). For the operator's log use `tracing`.
///
/// ```
/// use sluicegate_mcp::Log;
///
/// async fn import(log: Log) -> &'static str {
///     log.info("reading the archive").await;
///     log.warning(serde_json::json!({ "skipped": 3 })).await;
///     "done"
/// }
/// ```
#[derive(Clone)]
pub struct Log {
    call: CallContext,
}

/// One method a level.
macro_rules! levels {
    ($($(#[$help:meta])* $method:ident $level:ident;)+) => {$(
        $(#[$help])*
        pub async fn $method(&self, data: impl Into<Value>) {
            self.send(LoggingLevel::$level, data.into()).await;
        }
    )+};
}

impl Log {
    levels! {
        /// Details for whoever looks for a mistake.
        debug Debug;
        /// What happens.
        info Info;
        /// What is worth knowing.
        notice Notice;
        /// What may go wrong.
        warning Warning;
        /// What went wrong.
        error Error;
    }

    async fn send(&self, level: LoggingLevel, data: Value) {
        let Some(wire) = self.call.wire() else { return };
        if wanted(wire).is_none_or(|least| severity(level) < severity(least)) {
            return;
        }
        let message = LoggingMessageNotificationParam::new(level, data).with_logger(&*wire.tool);
        if let Err(error) = wire.peer.notify_logging_message(message).await {
            tracing::debug!(request_id = self.call.request_id(), %error, "a log message could not be sent");
        }
    }
}

impl FromCall for Log {
    fn from_call(call: &Call) -> Result<Self, ToolError> {
        Ok(Self { call: call.context.clone() })
    }
}

/// The level from which on a legacy peer wants log messages (`logging/setLevel`); one for each session.
#[derive(Clone, Default)]
pub(crate) struct LogLevel(Arc<Mutex<Option<LoggingLevel>>>);

impl LogLevel {
    pub(crate) fn set(&self, level: LoggingLevel) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    pub(crate) fn get(&self) -> Option<LoggingLevel> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The level from which on the caller wants messages.
fn wanted(wire: &Wire) -> Option<LoggingLevel> {
    if wire.is_modern() {
        return wire.meta.log_level();
    }
    Some(wire.log_level.get().unwrap_or(LoggingLevel::Info))
}

/// The levels of RFC 5424, which MCP uses, by weight.
fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        _ => 7,
    }
}
