//! Streams that stay open to tell of changes: `subscriptions/listen`, and the GET streams of older clients.
//!
//! They do no work, so they take no permit of calls and have no deadline. They are few per caller instead, and they end
//! when their caller may no longer call, and when the server goes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::authenticate::Principal;
use crate::policy::resolve::Asked;
use crate::refusal::Refusal;
use crate::settings::Settings;

/// How often it is looked whether the callers of open streams may still call.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a stream that was told to end may take to say so to its peer.
const FAREWELL: Duration = Duration::from_millis(500);

/// The open streams of a server.
pub(crate) struct Streams {
    open: Mutex<Open>,
    most_of_agent: u32,
    most_of_tenant: u32,
    draining: CancellationToken,
}

#[derive(Default)]
struct Open {
    last: u64,
    streams: HashMap<u64, Stream>,
    tenants: HashMap<Arc<str>, OfTenant>,
}

/// How many streams a tenant has, and each of its agents.
#[derive(Default)]
struct OfTenant {
    all: u32,
    agents: HashMap<Arc<str>, u32>,
}

struct Stream {
    principal: Arc<Principal>,
    ends: CancellationToken,
}

/// The place of an open stream, given back when it is dropped.
pub(crate) struct StreamPermit {
    id: u64,
    streams: Arc<Streams>,
    /// Cancelled when the stream has to end.
    pub(crate) ends: CancellationToken,
}

impl Streams {
    pub(crate) fn new(settings: &Settings, draining: CancellationToken) -> Arc<Self> {
        let (most_of_agent, most_of_tenant) = (settings.streams_per_agent, settings.streams_per_tenant);
        Arc::new(Self { open: Mutex::default(), most_of_agent, most_of_tenant, draining })
    }

    /// A place for what is asked, if that is a stream.
    ///
    /// # Errors
    /// When the agent or its tenant has as many streams as it may have.
    pub(crate) fn open(
        self: &Arc<Self>,
        principal: &Arc<Principal>,
        asked: Asked,
    ) -> Result<Option<StreamPermit>, Refusal> {
        if !matches!(asked, Asked::Listen | Asked::Stream) {
            return Ok(None);
        }
        let mut open = self.open.lock();
        let owner = &principal.owner;
        let tenant = open.tenants.entry(Arc::clone(&owner.group)).or_default();
        let agent = tenant.agents.get(&owner.member).copied().unwrap_or(0);
        if agent >= self.most_of_agent {
            return Err(Refusal::TooManyStreams { whose: "agent", most: self.most_of_agent });
        }
        if tenant.all >= self.most_of_tenant {
            return Err(Refusal::TooManyStreams { whose: "tenant", most: self.most_of_tenant });
        }
        tenant.all += 1;
        *tenant.agents.entry(Arc::clone(&owner.member)).or_default() += 1;
        open.last += 1;
        let (id, ends) = (open.last, self.draining.child_token());
        open.streams.insert(id, Stream { principal: Arc::clone(principal), ends: ends.clone() });
        Ok(Some(StreamPermit { id, streams: Arc::clone(self), ends }))
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.lock().streams.len()
    }

    /// Everybody who has one open, with what ends it.
    pub(crate) fn all(&self) -> Vec<(Arc<Principal>, CancellationToken)> {
        let open = self.open.lock();
        open.streams.values().map(|stream| (Arc::clone(&stream.principal), stream.ends.clone())).collect()
    }

    fn close(&self, id: u64) {
        let mut open = self.open.lock();
        let Some(stream) = open.streams.remove(&id) else { return };
        let owner = &stream.principal.owner;
        let Entry::Occupied(mut tenant) = open.tenants.entry(Arc::clone(&owner.group)) else { return };
        let of_tenant = tenant.get_mut();
        of_tenant.all -= 1;
        if let Some(agent) = of_tenant.agents.get_mut(&owner.member) {
            *agent -= 1;
            if *agent == 0 {
                of_tenant.agents.remove(&owner.member);
            }
        }
        if of_tenant.all == 0 {
            tenant.remove();
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.streams.close(self.id);
    }
}

/// The body of a stream, which ends when `ends` is cancelled: by itself, if it takes its leave in time.
pub(crate) fn ending(body: BoxBody<Bytes, Infallible>, ends: CancellationToken) -> BoxBody<Bytes, Infallible> {
    let cut = async move {
        ends.cancelled().await;
        tokio::time::sleep(FAREWELL).await;
    };
    EndingBody { body, cut: Box::pin(cut) }.boxed()
}

struct EndingBody {
    body: BoxBody<Bytes, Infallible>,
    /// Of a type that may be shared between threads, as bodies are.
    cut: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
}

impl Body for EndingBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_pending() && self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
