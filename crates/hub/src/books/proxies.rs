//! The word that is taken for a client's address. Anybody can write a header, so only what a trusted proxy says counts. Of a list of
//! addresses only what trusted proxies appended counts: the client is the rightmost address that is none of theirs.

use crate::bounds::HOPS_MAX;
use std::net::IpAddr;
use wire::http;

/// The proxies that are believed, and what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Addresses of the proxies whose word is taken.
    pub trusted: Vec<Cidr>,
    /// The header that they write.
    pub header: ClientHeader,
    /// Whether their connections begin with a PROXY protocol header.
    pub protocol: ProxyProtocol,
}

/// The header that the proxies write. Never both: a proxy that writes one passes a client's own other one on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// RFC 7239.
    Forwarded,
    /// They write none that may be believed.
    None,
}

/// Whether connections of trusted proxies begin with a PROXY protocol header. Those of others never do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// No connection begins with one.
    #[default]
    Off,
    /// A connection may begin with one.
    Optional,
    /// Each connection must begin with one.
    Required,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    bits: u8,
}

impl Cidr {
    /// From `10.0.0.0/8`, `2001:db8::/32`, or one address.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let network: IpAddr = address.parse().ok()?;
        let width = if network.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            // `parse` would take a sign, too.
            Some(bits) if !bits.bytes().all(|byte| byte.is_ascii_digit()) => return None,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= width)?,
            None => width,
        };
        Some(Self { network, bits })
    }

    /// Whether the address is in the range.
    pub fn holds(&self, address: IpAddr) -> bool {
        let differs = match (self.network, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                // Prefixes of both kinds are counted from the first bit.
                u128::from(u32::from(a) ^ u32::from(b)) << (u128::BITS - u32::BITS)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => u128::from(a) ^ u128::from(b),
            _ => return false,
        };
        differs.leading_zeros() >= u32::from(self.bits)
    }
}

impl Proxies {
    /// Whether the address is one of a trusted proxy.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|cidr| cidr.holds(address))
    }

    /// The client of a request that came from `peer`. `lines` gives the values of all header lines of a name (lower case),
    /// in the order sent. A hop that is not named ends the way back: the proxy that wrote it is then the client, as far as we know.
    pub fn client<'a, L>(&self, peer: IpAddr, lines: impl FnOnce(&'static str) -> L) -> IpAddr
    where
        L: DoubleEndedIterator<Item = &'a [u8]>,
    {
        if !self.trusts(peer) {
            return peer;
        }
        match self.header {
            ClientHeader::None => peer,
            ClientHeader::XForwardedFor => {
                self.follow(peer, http::x_forwarded_for(lines("x-forwarded-for")))
            }
            ClientHeader::Forwarded => self.follow(peer, http::forwarded(lines("forwarded"))),
        }
    }

    fn follow(&self, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut client = peer;
        for hop in hops.take(HOPS_MAX) {
            match hop {
                Some(address) => client = address,
                None => break,
            }
            // What stands before a stranger's address is only the stranger's word.
            if !self.trusts(client) {
                break;
            }
        }
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    fn proxies(trusted: &[&str], header: ClientHeader) -> Proxies {
        let cidr = |text: &&str| Cidr::parse(text).expect(text);
        Proxies {
            trusted: trusted.iter().map(cidr).collect(),
            header,
            protocol: ProxyProtocol::Off,
        }
    }

    fn client(proxies: &Proxies, peer: &str, lines: &[&str]) -> String {
        let lines = |_| lines.iter().map(|line| line.as_bytes());
        proxies.client(ip(peer), lines).to_string()
    }

    #[test]
    fn ranges_hold_what_they_say() {
        for (cidr, inside, outside) in [
            (
                "10.0.0.0/8",
                &["10.0.0.0", "10.255.255.255"][..],
                &["11.0.0.0", "9.255.255.255", "::ffff:10.0.0.1", "a00::"][..],
            ),
            ("192.0.2.7", &["192.0.2.7"], &["192.0.2.6", "192.0.2.8"]),
            ("192.0.2.7/31", &["192.0.2.6", "192.0.2.7"], &["192.0.2.8"]),
            ("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], &["::"]),
            ("2001:db8::/32", &["2001:db8:ffff::1"], &["2001:db9::"]),
            ("::1", &["::1"], &["::2", "127.0.0.1"]),
            ("::/0", &["::", "ffff::"], &["1.2.3.4"]),
        ] {
            let range = Cidr::parse(cidr).expect(cidr);
            assert!(
                inside.iter().all(|address| range.holds(ip(address))),
                "{cidr}"
            );
            assert!(
                !outside.iter().any(|address| range.holds(ip(address))),
                "{cidr}"
            );
        }
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0/8",
            "a/8",
            "10.0.0.0/8/8",
            " ::1",
        ] {
            assert_eq!(Cidr::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_rightmost_address_that_is_no_proxy_of_ours_is_the_client() {
        let proxies = proxies(&["10.0.0.0/8", "fd00::/8"], ClientHeader::XForwardedFor);
        for (peer, lines, expected) in [
            // Nobody asked this one.
            ("192.0.2.1", &["203.0.113.9"][..], "192.0.2.1"),
            ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            // What the client wrote itself stands to the left.
            (
                "10.0.0.1",
                &["127.0.0.1, 10.9.9.9, 203.0.113.9"],
                "203.0.113.9",
            ),
            ("10.0.0.1", &["127.0.0.1", "203.0.113.9"], "203.0.113.9"),
            (
                "10.0.0.1",
                &["198.51.100.3, 203.0.113.9, fd00::7, 10.0.0.2"],
                "203.0.113.9",
            ),
            // All are ours: the first of them.
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["unknown"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9, _hidden, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["203.0.113.9, "], "203.0.113.9"),
            ("fd00::1", &["[2001:db8::9]:443"], "2001:db8::9"),
        ] {
            assert_eq!(client(&proxies, peer, lines), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn only_the_header_that_the_proxies_write_is_read() {
        let none = proxies(&["10.0.0.0/8"], ClientHeader::None);
        assert_eq!(client(&none, "10.0.0.1", &["203.0.113.9"]), "10.0.0.1");
        let rfc7239 = proxies(&["10.0.0.0/8"], ClientHeader::Forwarded);
        let head = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.66\r\n\
                    Forwarded: for=\"[2001:db8::9]:1\";proto=https, for=10.0.0.7\r\n\r\n";
        let head = http::parse_head(head.as_bytes());
        let head = head.expect("a sound head").expect("a whole head");
        let client = |proxies: &Proxies| proxies.client(ip("10.0.0.1"), |name| head.values(name));
        assert_eq!(client(&rfc7239), ip("2001:db8::9"));
        let usual = proxies(&["10.0.0.0/8"], ClientHeader::XForwardedFor);
        assert_eq!(client(&usual), ip("192.0.2.66"));
    }

    #[test]
    fn a_thousand_hops_are_not_followed_to_their_end() {
        let proxies = proxies(&["10.0.0.0/8"], ClientHeader::XForwardedFor);
        let far = format!("203.0.113.9{}", ", 10.1.1.1".repeat(1_000));
        assert_eq!(client(&proxies, "10.0.0.1", &[&far]), "10.1.1.1");
        let near = format!("{}203.0.113.9", "10.1.1.1, ".repeat(1_000));
        assert_eq!(client(&proxies, "10.0.0.1", &[&near]), "203.0.113.9");
    }
}
