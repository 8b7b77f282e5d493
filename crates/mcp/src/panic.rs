//! Panics of code that is not ours: caught, logged under a reference, answered.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use rmcp::ErrorData;

/// What a panic leaves behind.
pub(crate) type Panic = Box<dyn Any + Send>;

/// What a panic said.
pub(crate) fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}

/// Lets a handler answer a request. A panic is an answer too: rmcp would leave the peer waiting for ever.
///
/// # Errors
///
/// The handler's own, or an internal error with the reference under which the panic is in the log.
pub(crate) async fn answered<T>(
    method: &str,
    request_id: &str,
    work: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        tracing::error!(method, request_id, panic = said(&*panic), "handler panicked");
        let text = format!("the server failed unexpectedly; its operator finds the reason under {request_id}");
        Err(ErrorData::internal_error(text, None))
    })
}

/// Lets a handler take a notification, which nobody waits for.
pub(crate) async fn noted(method: &str, work: impl Future<Output = ()>) {
    if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
        tracing::error!(method, panic = said(&*panic), "handler panicked");
    }
}
