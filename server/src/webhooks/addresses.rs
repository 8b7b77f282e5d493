//! Which addresses a webhook may be at.
//!
//! Whoever may make a rule chooses a URL that this server calls from inside its network, so that addresses of that network,
//! of this machine and of the metadata services of clouds are refused (server-side request forgery). What counts is the
//! address that is connected to: a name is resolved once, here, and what is refused is never handed on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Blocks that are not public, from the IANA registry of special-purpose IPv4 addresses (RFC 6890).
const SPECIAL_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Carrier-grade NAT (RFC 6598), where Alibaba Cloud has its metadata service.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local, where most clouds have their metadata service.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, what is reserved, and broadcast.
    (Ipv4Addr::new(224, 0, 0, 0), 3),
    // A public address at which Azure has services for each machine.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// Global unicast addresses of IPv6; everything else is special.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Blocks of those that are not public: protocol assignments (Teredo among them), documentation, 6to4.
const SPECIAL_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// What stands before an IPv4 address where the network translates (NAT64, RFC 6052).
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

fn holds_v4((network, prefix): (Ipv4Addr, u32), address: Ipv4Addr) -> bool {
    (network.to_bits() ^ address.to_bits()).leading_zeros() >= prefix
}

fn holds_v6((network, prefix): (Ipv6Addr, u32), address: Ipv6Addr) -> bool {
    (network.to_bits() ^ address.to_bits()).leading_zeros() >= prefix
}

/// Whether an address is one of the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => !SPECIAL_V4.iter().any(|block| holds_v4(*block, v4)),
        IpAddr::V6(v6) if holds_v6(NAT64, v6) => {
            let [.., a, b, c, d] = v6.octets();
            is_public(Ipv4Addr::new(a, b, c, d).into())
        }
        IpAddr::V6(v6) => holds_v6(GLOBAL_V6, v6) && !SPECIAL_V6.iter().any(|block| holds_v6(*block, v6)),
    }
}

/// An address that is not called.
#[derive(Debug, thiserror::Error)]
#[error(
    "{address} is not a public address; set webhook_private_addresses = true if webhooks may be inside your network"
)]
pub(super) struct NotPublic {
    pub(super) address: IpAddr,
}

/// Resolves names to public addresses only.
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(public(found)?)
        })
    }
}

/// Those that are public; an error if there are others only.
fn public(found: Vec<SocketAddr>) -> Result<Addrs, NotPublic> {
    let other = found.iter().map(SocketAddr::ip).find(|address| !is_public(*address));
    let public: Vec<_> = found.into_iter().filter(|address| is_public(address.ip())).collect();
    match other {
        Some(address) if public.is_empty() => Err(NotPublic { address }),
        _ => Ok(Box::new(public.into_iter())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn addresses_of_this_network_and_of_metadata_services_are_not_public() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(address(text)), "{text}");
        }
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.17",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
        ] {
            assert!(is_public(address(text)), "{text}");
        }
    }

    #[test]
    fn of_a_name_only_the_public_addresses_are_left() {
        let sockets = |texts: &[&str]| texts.iter().map(|text| SocketAddr::new(address(text), 0)).collect::<Vec<_>>();
        let left: Vec<_> = public(sockets(&["127.0.0.1", "1.1.1.1", "fd00::1"])).expect("one is public").collect();
        assert_eq!(left, sockets(&["1.1.1.1"]));
        let refused = public(sockets(&["10.0.0.1", "::1"])).err().expect("none is public");
        assert!(refused.to_string().contains("10.0.0.1"), "{refused}");
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_not_resolved() {
        let refused = PublicOnly.resolve("localhost".parse().expect("a name")).await.err().expect("refused");
        assert!(refused.downcast_ref::<NotPublic>().is_some(), "{refused}");
    }
}
