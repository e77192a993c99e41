//! PROXY headers: one that is taken is taken at its last byte and not before, and a verdict on a beginning is final. The same
//! bytes as lists of forwarding proxies: what is appended to them is always read.
use std::net::IpAddr;
use wire::http::{forwarded, x_forwarded_for};
use wire::proxy::{self, PROXY_HEADER_BYTES_MAX};

pub fn run(bytes: &[u8]) {
    let whole = proxy::parse(bytes);
    if let Ok(Some(header)) = whole {
        assert!(header.len <= PROXY_HEADER_BYTES_MAX);
        assert_eq!(proxy::parse(&bytes[..header.len - 1]), Ok(None));
        let canonical = |client: IpAddr| client.to_canonical() == client;
        assert!(header.client.is_none_or(canonical));
    }
    // Every prefix would be quadratic; a verdict falls within the first bytes, or at the end.
    let some = (0..bytes.len().min(128)).chain([bytes.len() * 3 / 4]);
    for end in some {
        let part = proxy::parse(&bytes[..end.min(bytes.len())]);
        assert!(part == Ok(None) || part == whole);
    }
    lists(bytes);
}

fn lists(noise: &[u8]) {
    let hop = Some(IpAddr::from([192, 0, 2, 1]));
    let list = [noise, b",192.0.2.1"].concat();
    let mut hops = x_forwarded_for([&list[..]].into_iter());
    assert_eq!(hops.next(), Some(hop));
    assert!(hops.count() <= noise.len());
    let list = [noise, b",for=192.0.2.1"].concat();
    let mut hops = forwarded([&list[..]].into_iter());
    assert_eq!(hops.next(), Some(hop));
    assert!(hops.count() <= noise.len());
}
