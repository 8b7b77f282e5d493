//! The answer on its way out: our headers on it, and the ticket tied to its body.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use http_body_util::combinators::BoxBody;

use super::ticket::Ticket;
use crate::refusal::fields::Fields;
use crate::refusal::http::X_REQUEST_ID;

/// The body of an answer.
pub(crate) enum Answer {
    /// All of it, from the short path.
    Whole(Full<Bytes>),
    /// Whatever rmcp sends.
    Streamed(BoxBody<Bytes, Infallible>),
}

/// A body that holds the ticket until its last frame, or until it is dropped. Refusals have none.
pub(crate) struct HeldBody {
    inner: Answer,
    ticket: Option<Arc<Ticket>>,
}

/// Writes the `RateLimit` fields and lets the body hold the ticket.
pub(crate) fn respond(response: Response<Answer>, fields: &Fields, ticket: Arc<Ticket>) -> Response<HeldBody> {
    let mut response = stamp(response, &ticket.request_id);
    fields.write(response.headers_mut());
    response.map(|inner| HeldBody { inner, ticket: Some(ticket) })
}

/// Every response carries the id under which the logs speak of it.
pub(crate) fn stamp<B>(mut response: Response<B>, request_id: &str) -> Response<B> {
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    response
}

impl HeldBody {
    /// The body of an answer to whoever is not served.
    pub(crate) fn of_refusal(text: Bytes) -> Self {
        Self { inner: Answer::Whole(Full::new(text)), ticket: None }
    }
}

impl Default for HeldBody {
    /// An empty one.
    fn default() -> Self {
        Self::of_refusal(Bytes::new())
    }
}

impl Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match &mut self.inner {
            Answer::Whole(body) => Pin::new(body).poll_frame(cx),
            Answer::Streamed(body) => Pin::new(body).poll_frame(cx),
        };
        if matches!(frame, Poll::Ready(None)) {
            self.ticket = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Answer::Whole(body) => body.is_end_stream(),
            Answer::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Answer::Whole(body) => body.size_hint(),
            Answer::Streamed(body) => body.size_hint(),
        }
    }
}
