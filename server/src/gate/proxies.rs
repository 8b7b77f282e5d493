//! Who a request comes from, where proxies that are trusted say so.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;

use crate::refusal::http::X_REQUEST_ID;
use crate::settings::{ProxyHeader, Settings, SettingsError};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The longest request id that is taken over.
const MOST_ID_BYTES: usize = 64;

/// The proxies in front of this server whose word counts.
#[derive(Debug)]
pub(crate) struct Proxies {
    trusted: Box<[IpNet]>,
    header: ProxyHeader,
}

impl Proxies {
    /// # Errors
    /// Names what is no address and no network.
    pub(crate) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        Ok(Self { trusted: settings.proxies()?.into(), header: settings.proxy_header })
    }

    fn trust(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }

    /// The address of the client: of the connection or, where that is a trusted proxy, the nearest one before it that is
    /// not. What stands further away in the field was written by strangers.
    pub(crate) fn client_of(&self, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.ip().to_canonical();
        if self.trusted.is_empty() || !self.trust(client) {
            return client;
        }
        let mut passed_on = match self.header {
            ProxyHeader::XForwardedFor => hops(headers, &X_FORWARDED_FOR, |hop| Some(hop)),
            ProxyHeader::Forwarded => hops(headers, &header::FORWARDED, forwarded_for),
        };
        while let Some(Some(address)) = passed_on.pop() {
            client = address;
            if !self.trust(client) {
                break;
            }
        }
        client
    }

    /// The correlation id that a trusted proxy gave the request. Callers could give many requests the same one, so theirs
    /// do not count.
    pub(crate) fn request_id<'a>(&self, peer: SocketAddr, headers: &'a HeaderMap) -> Option<&'a str> {
        if self.trusted.is_empty() {
            return None;
        }
        let id = headers.get(X_REQUEST_ID)?.to_str().ok()?;
        let is_sane = (1..=MOST_ID_BYTES).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        (is_sane && self.trust(peer.ip().to_canonical())).then_some(id)
    }
}

/// The addresses of a field, over all its lines, the nearest last; `None` for what is none.
fn hops(headers: &HeaderMap, name: &HeaderName, address: fn(&str) -> Option<&str>) -> Vec<Option<IpAddr>> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default());
    let hops = lines.flat_map(|line| line.split(',')).map(str::trim);
    hops.map(|hop| address(hop).and_then(parse)).collect()
}

/// The `for` of one element of `Forwarded` (RFC 7239, section 4).
fn forwarded_for(element: &str) -> Option<&str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        name.eq_ignore_ascii_case("for").then(|| value.trim_matches('"'))
    })
}

/// An address, with or without port and brackets.
fn parse(text: &str) -> Option<IpAddr> {
    let address = text.parse::<IpAddr>().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    let address = address.or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &str, header: ProxyHeader, peer: &str, fields: &[(&'static str, &'static str)]) -> String {
        let mut settings = Settings::defaults();
        trusted.clone_into(&mut settings.trusted_proxies);
        settings.proxy_header = header;
        let proxies = Proxies::new(&settings).expect("networks");
        proxies.client_of(peer.parse().expect("an address"), &headers(fields)).to_string()
    }

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a value"))).collect()
    }

    #[test]
    fn only_the_word_of_trusted_proxies_counts_and_only_up_to_the_first_stranger() {
        use ProxyHeader::{Forwarded, XForwardedFor};
        let xff = "x-forwarded-for";
        for (trusted, header, peer, fields, expected) in [
            ("", XForwardedFor, "192.0.2.1:9", &[(xff, "203.0.113.5")][..], "192.0.2.1"),
            ("10.0.0.0/8", XForwardedFor, "192.0.2.1:9", &[(xff, "203.0.113.5")], "192.0.2.1"),
            ("10.0.0.0/8", XForwardedFor, "10.1.1.1:9", &[(xff, "203.0.113.5")], "203.0.113.5"),
            ("10.0.0.0/8", XForwardedFor, "10.1.1.1:9", &[(xff, "6.6.6.6, 203.0.113.5, 10.2.2.2")], "203.0.113.5"),
            ("10.0.0.0/8", XForwardedFor, "10.1.1.1:9", &[(xff, "6.6.6.6"), (xff, "203.0.113.5")], "203.0.113.5"),
            ("10.0.0.0/8", XForwardedFor, "10.1.1.1:9", &[(xff, "203.0.113.5, nonsense, 10.2.2.2")], "10.2.2.2"),
            ("10.0.0.0/8", XForwardedFor, "10.1.1.1:9", &[], "10.1.1.1"),
            ("10.0.0.0/8", XForwardedFor, "10.1.1.1:9", &[("forwarded", "for=6.6.6.6")], "10.1.1.1"),
            (
                "::1, 10.1.1.1",
                Forwarded,
                "[::1]:9",
                &[("forwarded", "for=6.6.6.6, for=\"[2001:db8::7]:44\";proto=https")],
                "2001:db8::7",
            ),
            (
                "127.0.0.1",
                Forwarded,
                "[::ffff:127.0.0.1]:9",
                &[("forwarded", "proto=https;For=203.0.113.5")],
                "203.0.113.5",
            ),
            ("127.0.0.1", Forwarded, "127.0.0.1:9", &[("forwarded", "for=_hidden")], "127.0.0.1"),
        ] {
            assert_eq!(client(trusted, header, peer, fields), expected, "{trusted} {peer} {fields:?}");
        }
    }

    #[test]
    fn a_request_id_is_taken_over_from_trusted_proxies_if_it_is_sane() {
        let mut settings = Settings::defaults();
        "10.0.0.0/8".clone_into(&mut settings.trusted_proxies);
        let proxies = Proxies::new(&settings).expect("networks");
        let id = |peer: &str, id| {
            let headers = headers(&[("x-request-id", id)]);
            proxies.request_id(peer.parse().expect("an address"), &headers).map(str::to_owned)
        };
        assert_eq!(id("10.1.1.1:9", "7f-3_a.1").as_deref(), Some("7f-3_a.1"));
        assert_eq!(id("192.0.2.1:9", "7f-3"), None);
        assert_eq!(id("10.1.1.1:9", "a b"), None);
        assert_eq!(id("10.1.1.1:9", "a\"b"), None);
        assert_eq!(id("10.1.1.1:9", &"x".repeat(65).leak()[..]), None);
    }

    #[test]
    fn what_is_no_network_is_refused_with_its_text() {
        let mut settings = Settings::defaults();
        "10.0.0.0/8, proxy.internal".clone_into(&mut settings.trusted_proxies);
        assert!(Proxies::new(&settings).expect_err("a name").to_string().contains("`proxy.internal`"));
    }
}
