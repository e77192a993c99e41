//! Version 2: a fixed head of sixteen bytes, the addresses, then extensions (TLVs), none of which is needed here: they are
//! skipped by their overall length, whatever they hold (section 2.2).

use super::{ProxyError, ProxyHeader};
use crate::bounds::PROXY_HEADER_BYTES_MAX;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, length of the rest.
const HEAD_BYTES: usize = 16;

pub(super) fn parse(buf: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    // What cannot become a good header is refused before the rest is waited for.
    let command = buf.get(12).copied().map(command).transpose()?;
    let family = buf.get(13).copied().map(family).transpose()?;
    let Some(&[high, low]) = buf.get(14..HEAD_BYTES) else {
        return Ok(None);
    };
    let len = HEAD_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if len > PROXY_HEADER_BYTES_MAX {
        return Err(ProxyError::TooLong);
    }
    let Some(rest) = buf.get(HEAD_BYTES..len) else {
        return Ok(None);
    };
    let client = match (command, family) {
        // A health check of the proxy itself: real addresses hold, and what the block says is to be discarded.
        (Some(Command::Local), _) | (_, None | Some(Family::None)) => None,
        (_, Some(Family::Inet)) => Some(source::<4, 12, Ipv4Addr>(rest)?.into()),
        (_, Some(Family::Inet6)) => Some(source::<16, 36, Ipv6Addr>(rest)?.to_canonical()),
    };
    Ok(Some(ProxyHeader { client, len }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Local,
    Proxy,
}

/// Addresses as far as they name a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Inet,
    Inet6,
    /// Unspecified, or a Unix socket, which has no address.
    None,
}

/// Version 2 in the high half, the command in the low one; connections with other values are dropped.
fn command(byte: u8) -> Result<Command, ProxyError> {
    match byte {
        0x20 => Ok(Command::Local),
        0x21 => Ok(Command::Proxy),
        _ => Err(ProxyError::Malformed),
    }
}

/// Address family in the high half, transport (unspecified, stream, datagram) in the low one; others are to be rejected.
fn family(byte: u8) -> Result<Family, ProxyError> {
    match (byte >> 4, byte & 0x0f) {
        (0 | 3, 0..=2) | (1 | 2, 0) => Ok(Family::None),
        (1, 1 | 2) => Ok(Family::Inet),
        (2, 1 | 2) => Ok(Family::Inet6),
        _ => Err(ProxyError::Malformed),
    }
}

/// The source of an address block of `BLOCK` bytes, whose first `N` it is.
fn source<const N: usize, const BLOCK: usize, A: From<[u8; N]>>(
    rest: &[u8],
) -> Result<A, ProxyError> {
    if rest.len() < BLOCK {
        return Err(ProxyError::Malformed);
    }
    let address = rest.first_chunk::<N>().ok_or(ProxyError::Malformed)?;
    Ok(A::from(*address))
}

/// Appends a header as a proxy writes it: for a client and the address it connected to (both of one family), or `LOCAL`.
/// `extensions` are ready TLVs.
pub fn write(out: &mut Vec<u8>, addresses: Option<(SocketAddr, SocketAddr)>, extensions: &[u8]) {
    let mut block = Vec::new();
    let (command, family) = match addresses {
        None => (0x20, 0x00),
        Some((from, to)) => {
            for ip in [from.ip(), to.ip()] {
                match ip {
                    IpAddr::V4(ip) => block.extend_from_slice(&ip.octets()),
                    IpAddr::V6(ip) => block.extend_from_slice(&ip.octets()),
                }
            }
            block.extend_from_slice(&from.port().to_be_bytes());
            block.extend_from_slice(&to.port().to_be_bytes());
            (0x21, if from.is_ipv4() { 0x11 } else { 0x21 })
        }
    };
    block.extend_from_slice(extensions);
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[command, family]);
    let len = u16::try_from(block.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&block[..usize::from(len)]);
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let len = (rest.len() as u16).to_be_bytes();
        [SIGNATURE, &[command, family], &len, rest].concat()
    }

    fn written(from: &str, to: &str, extensions: &[u8]) -> Vec<u8> {
        let addr = |text: &str| text.parse().expect(text);
        let mut out = Vec::new();
        write(&mut out, Some((addr(from), addr(to))), extensions);
        out
    }

    #[test]
    fn the_source_is_the_client_whatever_extensions_follow() {
        // ALPN, a unique id, one with a length that lies.
        let extensions = b"\x01\x00\x02h2\x05\x00\x03abc\xee\xff\xff";
        for (from, to, client) in [
            ("192.0.2.1:56324", "198.51.100.7:443", "192.0.2.1"),
            ("[2001:db8::1]:1", "[::1]:2", "2001:db8::1"),
            ("[::ffff:192.0.2.1]:1", "[::1]:2", "192.0.2.1"),
        ] {
            for extensions in [&extensions[..], b""] {
                let mut bytes = written(from, to, extensions);
                let len = bytes.len();
                bytes.extend_from_slice(b"GET / HTTP/1.1\r\n");
                let client = Some(client.parse().expect(client));
                assert_eq!(
                    parse(&bytes),
                    Ok(Some(ProxyHeader { client, len })),
                    "{from}"
                );
            }
        }
    }

    #[test]
    fn the_proxy_itself_has_no_other_address() {
        let inet = written("192.0.2.1:1", "192.0.2.2:2", b"");
        let block = &inet[HEAD_BYTES..];
        for (command, family, rest) in [
            (0x20, 0x00, &b""[..]),
            // LOCAL: neither the family nor what follows counts, not even when it is too short for it.
            (0x20, 0x11, b""),
            (0x20, 0x11, block),
            (0x20, 0x00, b"anything at all"),
            (0x21, 0x00, b""),
            (0x21, 0x00, b"tlv"),
            (0x21, 0x31, &[b'/'; 216]),
        ] {
            let bytes = header(command, family, rest);
            let expected = ProxyHeader {
                client: None,
                len: bytes.len(),
            };
            assert_eq!(
                parse(&bytes),
                Ok(Some(expected)),
                "{command:#x} {family:#x}"
            );
        }
        let mut local = Vec::new();
        write(&mut local, None, b"");
        assert_eq!(
            parse(&local),
            Ok(Some(ProxyHeader {
                client: None,
                len: 16
            }))
        );
    }

    #[test]
    fn values_nobody_assigned_and_short_addresses_are_malformed() {
        for (command, family, rest) in [
            (0x22, 0x11, &[0; 12][..]),
            (0x11, 0x11, &[0; 12]),
            (0x31, 0x11, &[0; 12]),
            (0x21, 0x13, &[0; 12]),
            (0x21, 0x41, &[0; 36]),
            (0x21, 0x11, &[0; 11]),
            (0x21, 0x11, b""),
            (0x21, 0x21, &[0; 35]),
            (0x21, 0x21, &[0; 12]),
        ] {
            let bytes = header(command, family, rest);
            assert_eq!(parse(&bytes), Err(ProxyError::Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn a_bad_header_is_refused_as_soon_as_it_shows() {
        let bytes = header(0x2f, 0x11, &[0; 12]);
        assert_eq!(parse(&bytes[..13]), Err(ProxyError::Malformed));
        let bytes = header(0x21, 0x71, &[0; 12]);
        assert_eq!(parse(&bytes[..14]), Err(ProxyError::Malformed));
        let huge = [SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat();
        assert_eq!(parse(&huge), Err(ProxyError::TooLong));
    }

    #[test]
    fn lengths_end_at_the_bound() {
        let most = header(0x21, 0x00, &[0; PROXY_HEADER_BYTES_MAX - HEAD_BYTES]);
        assert_eq!(parse(&most[..most.len() - 1]), Ok(None));
        assert!(matches!(parse(&most), Ok(Some(header)) if header.len == PROXY_HEADER_BYTES_MAX));
        let more = header(0x21, 0x00, &[0; PROXY_HEADER_BYTES_MAX - HEAD_BYTES + 1]);
        assert_eq!(parse(&more), Err(ProxyError::TooLong));
    }

    #[test]
    fn what_is_no_header_is_known_by_its_first_strange_byte() {
        for bytes in [
            &b"G"[..],
            b"POST /",
            b"PROXX",
            b"\r\nGET",
            b"\r\n\r\nGET",
            b"\x16\x03\x01",
        ] {
            assert_eq!(parse(bytes), Err(ProxyError::Absent), "{bytes:?}");
        }
        for bytes in [&b""[..], b"P", b"PROXY", b"\r\n", SIGNATURE] {
            assert_eq!(parse(bytes), Ok(None), "{bytes:?}");
        }
    }
}
