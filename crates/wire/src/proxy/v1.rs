//! Version 1: one line of text, such as `PROXY TCP4 192.0.2.1 198.51.100.7 56324 443` and CRLF.

use super::{ProxyError, ProxyHeader};
use crate::bounds::PROXY_LINE_BYTES_MAX;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

pub(super) const PREFIX: &[u8] = b"PROXY ";

pub(super) fn parse(buf: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    let window = &buf[..buf.len().min(PROXY_LINE_BYTES_MAX)];
    let Some(lf) = memchr::memchr(b'\n', window) else {
        if window.len() == PROXY_LINE_BYTES_MAX {
            return Err(ProxyError::Malformed);
        }
        return Ok(None);
    };
    let line = window[..lf]
        .strip_suffix(b"\r")
        .and_then(|line| std::str::from_utf8(line).ok())
        .ok_or(ProxyError::Malformed)?;
    // Exactly one blank between the words (section 2.1): an empty word fits nowhere.
    let mut words = line.split(' ').skip(1);
    let client = match words.next() {
        Some("TCP4") => Some(addresses::<Ipv4Addr>(words)?.into()),
        Some("TCP6") => Some(addresses::<Ipv6Addr>(words)?.to_canonical()),
        // What follows is to be ignored.
        Some("UNKNOWN") => None,
        _ => return Err(ProxyError::Malformed),
    };
    let len = lf + 1;
    Ok(Some(ProxyHeader { client, len }))
}

/// Source and destination address, source and destination port, and nothing else; returns the source.
fn addresses<'a, A: FromStr>(words: impl Iterator<Item = &'a str>) -> Result<A, ProxyError> {
    let words: [&str; 4] = exactly(words).ok_or(ProxyError::Malformed)?;
    let [source, destination, source_port, destination_port] = words;
    let source = source.parse().map_err(|_| ProxyError::Malformed)?;
    let sound =
        destination.parse::<A>().is_ok() && is_port(source_port) && is_port(destination_port);
    if sound {
        Ok(source)
    } else {
        Err(ProxyError::Malformed)
    }
}

fn exactly<'a, const N: usize>(mut words: impl Iterator<Item = &'a str>) -> Option<[&'a str; N]> {
    let mut taken = [""; N];
    for word in &mut taken {
        *word = words.next()?;
    }
    words.next().is_none().then_some(taken)
}

/// Decimal from 0 to 65535 without leading zeros, which some readers take for octal.
fn is_port(text: &str) -> bool {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits && (text == "0" || !text.starts_with('0')) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn client(line: &str) -> Option<String> {
        let header = parse(line.as_bytes()).expect(line).expect("complete");
        assert_eq!(header.len, line.find('\n').expect("a line") + 1, "{line}");
        header.client.map(|client| client.to_string())
    }

    #[test]
    fn the_source_is_the_client() {
        for (line, expected) in [
            (
                "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n",
                Some("192.0.2.1"),
            ),
            (
                "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\nGET /",
                Some("255.255.255.255"),
            ),
            (
                "PROXY TCP6 2001:db8::1 ::1 0 65535\r\n",
                Some("2001:db8::1"),
            ),
            ("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", Some("192.0.2.1")),
            ("PROXY UNKNOWN\r\n", None),
            ("PROXY UNKNOWN ffff::1 whatever 1\r\n", None),
        ] {
            assert_eq!(client(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_line_that_is_not_exactly_right_is_malformed() {
        for line in [
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
            "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2  2\r\n",
            "PROXY TCP4 192.0.02.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 2001:db8::1 ::1 1 2\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
            "PROXY UNKNOWN\n",
        ] {
            assert_eq!(
                parse(line.as_bytes()),
                Err(ProxyError::Malformed),
                "{line:?}"
            );
        }
        assert_eq!(parse(b"PROXY UNKNOWN \xff\r\n"), Err(ProxyError::Malformed));
    }

    #[test]
    fn the_longest_line_is_read_and_a_longer_one_is_not_waited_for() {
        let longest = format!("PROXY UNKNOWN {}\r\n", "f".repeat(91));
        assert_eq!(longest.len(), PROXY_LINE_BYTES_MAX);
        assert!(matches!(parse(longest.as_bytes()), Ok(Some(_))));
        for len in 0..PROXY_LINE_BYTES_MAX {
            assert_eq!(parse(&longest.as_bytes()[..len]), Ok(None), "{len}");
        }
        let longer = longest.replace("\r\n", "ff");
        assert_eq!(parse(longer.as_bytes()), Err(ProxyError::Malformed));
    }
}
