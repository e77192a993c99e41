//! Addresses that are on the Internet. A name may lead anywhere: what it leads to is checked, and connected to.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Whether anybody can have this address. The excluded ranges are those of the registries of special addresses (RFC 6890).
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match a {
        0 | 10 | 127 => true,
        100 => (64..128).contains(&b),
        169 => b == 254,
        172 => (16..32).contains(&b),
        192 => (b == 168) || (b == 0 && (c == 0 || c == 2)) || (b == 88 && c == 99),
        198 => b == 18 || b == 19 || (b == 51 && c == 100),
        203 => b == 0 && c == 113,
        _ => a >= 224,
    };
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let inner = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        // An IPv4 address in other clothes: mapped, and through NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0xffff, high, low] => inner(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        // Global unicast is 2000::/3. In it: Teredo and its neighbours, documentation, 6to4, documentation again.
        [0x2001, 0..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x2002, ..] => false,
        [0x3fff, 0..=0x0fff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Gives out only addresses that are on the Internet. The connection is made to one of those.
#[derive(Debug)]
pub(super) struct Guard;

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let name = name.as_str();
            // The port is set later.
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(only_public(name, found.collect())?)
        })
    }
}

fn only_public(name: &str, found: Vec<SocketAddr>) -> Result<Addrs, Error> {
    let (public, private): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|addr| is_public(addr.ip()));
    match private.first() {
        Some(first) if public.is_empty() => {
            let why = format!(
                "{name} leads to {}, which is no address on the Internet; set private_addresses if the endpoint is in your own network",
                first.ip()
            );
            Err(Error::new(ErrorKind::PermissionDenied, why))
        }
        _ => Ok(Box::new(public.into_iter())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_only_this_network_has_are_not_public() {
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(
                !is_public(private.parse().expect("an address")),
                "{private}"
            );
        }
        for public in [
            "1.1.1.1",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1",
            "2001:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(public.parse().expect("an address")), "{public}");
        }
    }

    #[test]
    fn a_name_that_leads_inside_leads_nowhere() {
        let to = |all: &[&str]| {
            let all = all.iter().map(|addr| addr.parse().expect("an address"));
            only_public("shop.test", all.collect()).map(|addrs| addrs.count())
        };
        assert_eq!(to(&["93.184.216.34:0", "10.0.0.1:0"]).expect("one"), 1);
        let error = to(&["10.0.0.1:0", "[::1]:0"])
            .expect_err("none")
            .to_string();
        assert!(error.contains("shop.test leads to 10.0.0.1"), "{error}");
    }
}
