//! The edge: which host names and origins may be addressed, and how much body is read.

use std::error::Error;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderValue, header};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::Semaphore;

use super::authenticate::Principal;
use crate::accept::Via;
use crate::refusal::Refusal;
use crate::settings::Settings;

/// The edge of one server.
#[derive(Debug)]
pub(crate) struct Edge {
    hosts: Hosts,
    origins: Vec<String>,
    max_body_bytes: usize,
    body_timeout: Duration,
    /// The bytes of bodies that may still be on their way in, over all callers.
    buffer: Semaphore,
}

/// Which host names a request may address. A page of a foreign site that rebinds its own name to our address is what
/// this keeps out (DNS rebinding; MCP, "Streamable HTTP", security warning).
#[derive(Debug)]
enum Hosts {
    Any,
    /// With the address of the server itself, as nearly all requests name it.
    Loopback {
        own: String,
    },
    Named(Vec<String>),
}

impl Edge {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            hosts: Hosts::new(settings.hosts().map(str::to_owned).collect(), settings.bind),
            origins: settings.origins().map(str::to_owned).collect(),
            max_body_bytes: settings.max_body_bytes,
            body_timeout: settings.body_timeout.0,
            buffer: Semaphore::new(settings.max_buffered_bytes.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// Refuses requests on a connection above the cap.
    pub(crate) fn check_connection(&self, via: &Via) -> Result<(), Refusal> {
        if via.is_superfluous {
            return Err(Refusal::Unavailable("The server has all the connections it takes."));
        }
        Ok(())
    }

    /// Refuses requests that address a name that is not ours, or come from a page that may not call.
    pub(crate) fn check_addressing(&self, parts: &Parts) -> Result<(), Refusal> {
        let host = self.check_host(parts)?;
        let Some(origin) = parts.headers.get(header::ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        if self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
            || self.hosts.is_own_page(host, origin)
        {
            return Ok(());
        }
        Err(Refusal::Forbidden(format!("Pages of `{origin}` may not call this server (allowed_origins).")))
    }

    /// The name that a request addresses, if it is one of ours.
    pub(crate) fn check_host<'a>(&self, parts: &'a Parts) -> Result<&'a str, Refusal> {
        let mut named = parts.headers.get_all(header::HOST).iter();
        let (named, another) = (named.next(), named.next());
        if another.is_some() {
            return Err(Refusal::Forbidden("The request names more than one host.".to_owned()));
        }
        let Some(host) = host_in(parts, named) else {
            return Err(Refusal::Forbidden("The request names no host.".to_owned()));
        };
        // `user@host` names no host of ours, whatever stands behind the `@`.
        if host.contains('@') || !self.hosts.allow(name_of(host)) {
            return Err(Refusal::Forbidden(format!("The host `{host}` is not served here (allowed_hosts).")));
        }
        Ok(host)
    }

    /// Reads the body whole, up to the tenant's or the server's limit. What has not arrived yet is not admitted yet, so it
    /// is bounded here: by the number of bodies of one caller and by the bytes of all of them.
    pub(crate) async fn read_body<B>(
        &self,
        mut body: B,
        principal: &Principal,
        tenant_limit: Option<u64>,
    ) -> Result<Bytes, Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let limit = tenant_limit.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(self.max_body_bytes);
        let announced = body.size_hint().exact();
        if announced.is_some_and(|length| length > limit as u64) {
            return Err(Refusal::BodyTooLarge { limit });
        }
        // Most bodies are short and come with their head; they are not waited for, and so bound nothing.
        let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await;
        let first = match first {
            Poll::Ready(None) => return Ok(Bytes::new()),
            Poll::Ready(Some(Err(_))) => return Err(Refusal::BodyBroken),
            Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Poll::Pending => Bytes::new(),
        };
        let Some(left) = limit.checked_sub(first.len()) else { return Err(Refusal::BodyTooLarge { limit }) };
        if body.is_end_stream() {
            return Ok(first);
        }
        let Ok(_reading) = principal.reading.try_acquire() else {
            return Err(Refusal::Unavailable("This agent is sending as many requests as it may at once."));
        };
        let room = announced.map_or(limit, |length| usize::try_from(length).unwrap_or(limit));
        let Ok(_room) = self.buffer.try_acquire_many(u32::try_from(room).unwrap_or(u32::MAX)) else {
            return Err(Refusal::Unavailable("The server is reading as many bodies as it can hold."));
        };
        // In a box, as few bodies are read so: what every call carries along stays small.
        match Box::pin(tokio::time::timeout(self.body_timeout, Limited::new(body, left).collect())).await {
            Ok(Ok(rest)) => Ok(join(first, rest.to_bytes())),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::BodyTooLarge { limit }),
            Ok(Err(_)) => Err(Refusal::BodyBroken),
            Err(_) => Err(Refusal::BodyTimeout),
        }
    }
}

/// Both parts of a body in one piece, which costs nothing where there is only one.
fn join(first: Bytes, rest: Bytes) -> Bytes {
    if first.is_empty() {
        return rest;
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    whole.freeze()
}

impl Hosts {
    fn new(names: Vec<String>, bind: SocketAddr) -> Self {
        if !names.is_empty() {
            Self::Named(names)
        } else if bind.ip().is_loopback() {
            Self::Loopback { own: bind.ip().to_string() }
        } else {
            Self::Any
        }
    }

    fn allow(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Loopback { own } => own == name || is_loopback(name),
            Self::Named(names) => names.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)),
        }
    }

    /// Whether a page comes from this very server on a loopback address, whose host name was checked before. The
    /// conformance suite asks for it ("dns-rebinding-protection").
    fn is_own_page(&self, host: &str, origin: &str) -> bool {
        matches!(self, Self::Loopback { .. })
            && origin.strip_prefix("http://").is_some_and(|page| page.eq_ignore_ascii_case(host))
    }
}

/// The `host:port` that a request addresses.
pub(crate) fn host_of(parts: &Parts) -> Option<&str> {
    host_in(parts, parts.headers.get(header::HOST))
}

/// The same, with the header at hand.
fn host_in<'a>(parts: &'a Parts, named: Option<&'a HeaderValue>) -> Option<&'a str> {
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    authority.or_else(|| Some(named?.to_str().unwrap_or_default()))
}

/// Whether a `host:port` names this machine itself.
pub(crate) fn names_loopback(host: &str) -> bool {
    !host.contains('@') && is_loopback(name_of(host))
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The name of a `host:port`, without the brackets of an IPv6 address.
fn name_of(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(allowed: &[&str], bind: &str) -> Hosts {
        let allowed = allowed.iter().map(ToString::to_string).collect();
        Hosts::new(allowed, bind.parse().expect("an address"))
    }

    #[test]
    fn on_a_loopback_address_only_loopback_names_are_served() {
        let hosts = hosts(&[], "127.0.0.1:8080");
        for (host, allowed) in [
            ("127.0.0.1:8080", true),
            ("localhost", true),
            ("LOCALHOST:1", true),
            ("[::1]:8080", true),
            ("evil.example:8080", false),
            ("127.0.0.1.evil.example", false),
        ] {
            assert_eq!(hosts.allow(name_of(host)), allowed, "{host}");
        }
    }

    #[test]
    fn on_a_loopback_address_pages_of_the_server_itself_may_call() {
        let loopback = hosts(&[], "127.0.0.1:8080");
        for (origin, own) in [
            ("http://127.0.0.1:8080", true),
            ("http://127.0.0.1:9090", false),
            ("http://localhost:8080", false),
            ("https://evil.example", false),
            ("null", false),
        ] {
            assert_eq!(loopback.is_own_page("127.0.0.1:8080", origin), own, "{origin}");
        }
        assert!(!hosts(&["mcp.example"], "0.0.0.0:80").is_own_page("mcp.example", "http://mcp.example"));
    }

    #[test]
    fn elsewhere_any_name_is_served_until_names_are_given() {
        assert!(hosts(&[], "0.0.0.0:80").allow("mcp.example"));
        let named = hosts(&["mcp.example", "other.example"], "0.0.0.0:80");
        assert!(named.allow("MCP.example") && named.allow("other.example") && !named.allow("evil.example"));
    }
}
