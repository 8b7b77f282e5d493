//! The way of one request, in the order in which it is walked.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Version, header};
use hyper::body::Incoming;
use sluicegate_mcp::{Envelope, HttpEndpoint};
use tokio_util::sync::CancellationToken;

use crate::accept::Via;
use crate::meter::Meter;
use crate::policy::compile::{CallLimits, CallerPolicy};
use crate::policy::resolve::Asked;
use crate::refusal::Refusal;
use crate::refusal::http::{Peer, Wording};

pub(crate) mod admit;
pub(crate) mod authenticate;
mod dispatch;
pub(crate) mod edge;
pub(crate) mod escalation;
pub(crate) mod proxies;
pub(crate) mod request_id;
pub(crate) mod respond;
pub(crate) mod stdio;
pub(crate) mod strangers;
pub(crate) mod streams;
mod ticket;

use admit::Admission;
use authenticate::{Authenticator, LastCaller, Principal};
use edge::Edge;
use proxies::Proxies;
use request_id::new_request_id;
use respond::HeldBody;
use strangers::Strangers;
use streams::Streams;

/// Everything that a request passes through. One per server.
pub(crate) struct Gate {
    pub(crate) edge: Edge,
    pub(crate) proxies: Proxies,
    pub(crate) authenticator: Authenticator,
    pub(crate) admission: Admission,
    pub(crate) endpoint: HttpEndpoint,
    pub(crate) wording: Wording,
    pub(crate) meter: Arc<Meter>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) strangers: Arc<Strangers>,
    pub(crate) draining: CancellationToken,
}

impl Gate {
    /// Serves one HTTP request.
    pub(crate) async fn serve(&self, request: Request<Incoming>, via: &Via) -> Response<HeldBody> {
        let (mut parts, body) = request.into_parts();
        let trip = Trip::start(&parts.headers, via, &self.proxies);
        let arrived = match self.arrive(&mut parts, body, &trip, via).await {
            Ok(arrived) => arrived,
            Err(refusal) => return self.refuse(&refusal, &trip, &mut parts, None),
        };
        let envelope = Envelope::read(&arrived.body);
        let asked = self.admission.asked(&arrived.policy, &parts.method, &envelope.kind);
        match self.pass(&trip, &mut parts, &arrived, &envelope, asked).await {
            Ok(response) => response,
            Err(refusal) => self.refuse(&refusal, &trip, &mut parts, Some((&arrived, &envelope, asked))),
        }
    }

    /// What holds for everything that is served beside MCP, but for what probes ask.
    pub(crate) fn check_door(&self, parts: &Parts, via: &Via) -> Result<(), Refusal> {
        self.edge.check_connection(via)?;
        self.edge.check_host(parts).map(drop)
    }

    /// Edge and authentication, from the headers alone; then the body, for those who may send one.
    async fn arrive(&self, parts: &mut Parts, body: Incoming, trip: &Trip, via: &Via) -> Result<Arrived, Refusal> {
        self.edge.check_connection(via)?;
        self.edge.check_addressing(parts)?;
        let principal = self.identify(&mut parts.headers, trip.client, &via.last_caller).await?;
        let policy = self.admission.policy_of(&principal);
        let body = self.edge.read_body(body, &principal, policy.settings.max_body_bytes).await?;
        Ok(Arrived { principal, policy, body })
    }

    /// Who calls. Whoever fails takes one of the tries of the address.
    async fn identify(
        &self,
        headers: &mut HeaderMap,
        client: Option<IpAddr>,
        last: &LastCaller,
    ) -> Result<Arc<Principal>, Refusal> {
        let identified = self.authenticator.authenticate(headers, client, last).await;
        if let Err(Refusal::Unauthenticated(_) | Refusal::InvalidToken(_)) = &identified {
            self.strangers.failed(client)?;
        }
        identified
    }

    /// Admission, the work, and its answer. Metering and release are the ticket's, when work and body have ended.
    async fn pass(
        &self,
        trip: &Trip,
        parts: &mut Parts,
        arrived: &Arrived,
        envelope: &Envelope<'_>,
        asked: Asked,
    ) -> Result<Response<HeldBody>, Refusal> {
        // What runs may still be answered, told of and cancelled.
        if self.draining.is_cancelled() && !matches!(asked, Asked::Notification) {
            return Err(Refusal::Unavailable("The server is shutting down."));
        }
        let stream = self.streams.open(&arrived.principal, asked)?;
        let admitted = self.admission.admit(&arrived.principal, &arrived.policy, asked).await?;
        let fields = admitted.fields();
        let ticket = admitted.into_ticket(trip, arrived, &envelope.attempt, &self.meter, stream);
        if let Asked::UnknownTool = asked
            && let Some(scopes) = self.admission.lacking_scopes(&arrived.principal, &arrived.policy, &envelope.kind)
        {
            return Err(Refusal::InsufficientScope(scopes.join(" ")));
        }
        let response = dispatch::dispatch(self, parts, arrived, envelope, &ticket).await?;
        Ok(respond::respond(response, &fields, ticket))
    }

    /// Ends the streams of those who may no longer call, until `shutdown` is cancelled.
    pub(crate) async fn watch_streams(self: Arc<Self>, shutdown: CancellationToken) {
        while tokio::time::timeout(streams::LOOK_EVERY, shutdown.cancelled()).await.is_err() {
            for (principal, ends) in self.streams.all() {
                let suspended = self.admission.policy_of(&principal).suspended.is_some();
                if suspended || !self.authenticator.still_knows(&principal).await {
                    ends.cancel();
                }
            }
        }
    }

    /// The one way out for everybody who is not served.
    fn refuse(
        &self,
        refusal: &Refusal,
        trip: &Trip,
        parts: &mut Parts,
        read: Option<(&Arrived, &Envelope<'_>, Asked)>,
    ) -> Response<HeldBody> {
        let who = read.map(|(arrived, _, asked)| (&*arrived.principal, arrived.limits(asked)));
        self.meter.refused(refusal, trip, who);
        let peer = peer(parts, read.map(|(_, envelope, _)| envelope));
        let style = read.and_then(|(arrived, ..)| arrived.policy.settings.refusal_style);
        let (status, body) = self.wording.render(refusal, peer, style, &trip.request_id);
        let challenge = self.wording.challenge(refusal, || edge::host_of(parts));
        let mut headers = emptied(parts);
        refusal.write_fields(&mut headers, challenge);
        if read.is_none() && parts.version <= Version::HTTP_11 {
            // The body was not read, so nothing can follow it on this connection; say so before it closes.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let mut response = Response::new(HeldBody::of_refusal(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        respond::stamp(response, &trip.request_id)
    }
}

/// Who came, and with what.
pub(crate) struct Arrived {
    pub(crate) principal: Arc<Principal>,
    pub(crate) policy: Arc<CallerPolicy>,
    pub(crate) body: Bytes,
}

impl Arrived {
    /// The limits of what is asked.
    pub(crate) fn limits(&self, asked: Asked) -> &CallLimits {
        self.policy.limits(asked, self.principal.who)
    }
}

/// What is known of a request before anything else is.
pub(crate) struct Trip {
    pub(crate) request_id: Arc<str>,
    /// The address that the request comes from; `None` on stdio.
    pub(crate) client: Option<IpAddr>,
    pub(crate) started: Instant,
}

const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

impl Trip {
    fn start(headers: &HeaderMap, via: &Via, proxies: &Proxies) -> Self {
        Self {
            request_id: proxies.request_id(via.peer, headers).map_or_else(new_request_id, Arc::from),
            client: Some(proxies.client_of(via.peer, headers)),
            started: Instant::now(),
        }
    }

    /// For transports that have no headers.
    fn without_headers() -> Self {
        Self { request_id: new_request_id(), client: None, started: Instant::now() }
    }
}

/// The headers of a request that is done with, emptied: their memory does for those of the answer.
fn emptied(parts: &mut Parts) -> HeaderMap {
    let mut headers = std::mem::take(&mut parts.headers);
    headers.clear();
    headers
}

/// The peer, as far as its head and its message tell how to refuse it.
fn peer<'a>(parts: &'a Parts, envelope: Option<&'a Envelope<'_>>) -> Peer<'a> {
    let text = |name: &HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    Peer {
        id: envelope.and_then(|envelope| envelope.id),
        version: text(&MCP_PROTOCOL_VERSION).or(envelope.and_then(|envelope| envelope.protocol_version.as_deref())),
        user_agent: text(&header::USER_AGENT).unwrap_or_default(),
        is_tool_call: envelope.is_some_and(Envelope::is_tool_call),
    }
}
