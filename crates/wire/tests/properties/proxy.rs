//! What proxies say about clients: PROXY headers under any chunking, and lists of hops with anything in front of them.

use core::net::{IpAddr, SocketAddr};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::http::{forwarded, x_forwarded_for};
use wire::proxy::{self, PROXY_HEADER_BYTES_MAX, ProxyHeader};

fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ]
}

/// Addresses of one family.
fn pair() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let v4 = (any::<[u8; 4]>(), any::<[u8; 4]>());
    let v6 = (any::<[u8; 16]>(), any::<[u8; 16]>());
    prop_oneof![
        v4.prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        v6.prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ]
    .prop_flat_map(|(a, b)| {
        (any::<u16>(), any::<u16>())
            .prop_map(move |(from, to)| (SocketAddr::new(a, from), SocketAddr::new(b, to)))
    })
}

/// A header in one of both versions, and the client it names.
fn header() -> impl Strategy<Value = (Vec<u8>, Option<IpAddr>)> {
    let version1 = pair().prop_map(|(from, to)| {
        let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
        let (source, destination) = (from.ip(), to.ip());
        let (port, other) = (from.port(), to.port());
        let line = format!("PROXY {family} {source} {destination} {port} {other}\r\n");
        (line.into_bytes(), Some(from.ip().to_canonical()))
    });
    let version2 = (proptest::option::of(pair()), vec(any::<u8>(), 0..200));
    let version2 = version2.prop_map(|(addresses, extensions)| {
        let mut bytes = Vec::new();
        proxy::write_v2(&mut bytes, addresses, &extensions);
        (bytes, addresses.map(|(from, _)| from.ip().to_canonical()))
    });
    prop_oneof![version1, version2]
}

proptest! {
    #[test]
    fn a_header_is_complete_at_its_last_byte_and_not_before(
        (bytes, client) in header(),
        behind in vec(any::<u8>(), 0..20),
    ) {
        let len = bytes.len();
        for end in 0..len {
            prop_assert_eq!(proxy::parse(&bytes[..end]), Ok(None), "{} of {}", end, len);
        }
        let whole = [bytes, behind].concat();
        prop_assert_eq!(proxy::parse(&whole), Ok(Some(ProxyHeader { client, len })));
    }

    #[test]
    fn a_verdict_on_a_beginning_holds_for_the_whole(
        (mut bytes, _) in header(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        let whole = proxy::parse(&bytes);
        for end in 0..bytes.len() {
            let part = proxy::parse(&bytes[..end]);
            if part != Ok(None) {
                prop_assert_eq!(part, whole, "{} bytes of {:?}", end, bytes);
            }
        }
        if let Ok(Some(header)) = whole {
            prop_assert!(header.len <= bytes.len().min(PROXY_HEADER_BYTES_MAX));
        }
    }

    #[test]
    fn what_proxies_appended_is_read_whatever_a_client_wrote_before(
        noise in vec(any::<u8>(), 0..60),
        hops in vec(ip(), 1..6),
        port in any::<u16>(),
    ) {
        let expected: Vec<_> = hops.iter().rev().map(|hop| Some(hop.to_canonical())).collect();
        let mut list = noise.clone();
        for hop in &hops {
            list.extend_from_slice(format!(", {hop}").as_bytes());
        }
        let read: Vec<_> = x_forwarded_for([&list[..]].into_iter()).take(hops.len()).collect();
        prop_assert_eq!(&read, &expected);

        let mut list = noise;
        for hop in &hops {
            let node = SocketAddr::new(*hop, port);
            list.extend_from_slice(format!(", proto=https;for=\"{node}\"").as_bytes());
        }
        let read: Vec<_> = forwarded([&list[..]].into_iter()).take(hops.len()).collect();
        prop_assert_eq!(&read, &expected);
    }

    #[test]
    fn hops_are_no_more_than_the_bytes_they_take(lines in vec(vec(any::<u8>(), 0..80), 0..4)) {
        let bytes: usize = lines.iter().map(Vec::len).sum();
        let lines = || lines.iter().map(|line| &line[..]);
        prop_assert!(x_forwarded_for(lines()).count() <= bytes);
        prop_assert!(forwarded(lines()).count() <= bytes);
    }
}
