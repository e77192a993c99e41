//! Addresses that proxies write into requests: `X-Forwarded-For`, and `Forwarded` (RFC 7239). Each proxy appends the one it
//! got the request from, so the truth is at the right end and anything at all may be at the left: elements are read from the
//! right, and what is wrong with one says nothing about those behind it.

use core::net::{IpAddr, Ipv6Addr};

/// Hops of a list in the order of `X-Forwarded-For`, last proxy first. `None` stands for a hop whose address is not told:
/// `unknown`, an obfuscated name, or something that is no address.
///
/// `lines` are the values of all header lines of that name, in the order sent.
pub fn x_forwarded_for<'a>(
    lines: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> impl Iterator<Item = Option<IpAddr>> {
    elements(lines).map(|element| node(unquoted(element)?))
}

/// The same for `Forwarded`: the `for` parameter of each element.
pub fn forwarded<'a>(
    lines: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> impl Iterator<Item = Option<IpAddr>> {
    elements(lines).map(|element| node(unquoted(for_parameter(element)?)?))
}

/// Elements from the right. Empty ones are no hops (RFC 9110 §5.6.1). A comma in a quoted string ends an element all the
/// same: no address holds one, and the halves, with a quote each, are no addresses.
fn elements<'a>(
    lines: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> impl Iterator<Item = &'a [u8]> {
    lines
        .rev()
        .flat_map(|line| line.rsplit(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

/// Value of the one `for` of an element (RFC 7239 §4: names in any case, each at most once).
fn for_parameter(element: &[u8]) -> Option<&[u8]> {
    let mut found = None;
    for pair in element.split(|&byte| byte == b';') {
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        let (name, value) = pair.split_at(equals);
        if name.trim_ascii().eq_ignore_ascii_case(b"for")
            && found.replace(value[1..].trim_ascii()).is_some()
        {
            return None;
        }
    }
    found
}

/// A token as it is, a quoted string without its quotes.
fn unquoted(value: &[u8]) -> Option<&str> {
    let text = match value {
        [b'"', text @ .., b'"'] => text,
        text => text,
    };
    // Escapes are for characters that no address has.
    let plain = !text.iter().any(|byte| matches!(byte, b'"' | b'\\'));
    plain.then(|| std::str::from_utf8(text).ok())?
}

/// The address of a node (RFC 7239 §6): IPv4, or IPv6 in brackets, each perhaps with a port; and IPv6 without brackets, as
/// `X-Forwarded-For` has it.
fn node(text: &str) -> Option<IpAddr> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let sound = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        let address: Ipv6Addr = address.parse().ok()?;
        return sound.then_some(address.to_canonical());
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let (address, port) = text.split_once(':')?;
    let address: core::net::Ipv4Addr = address.parse().ok()?;
    is_port(port).then_some(address.into())
}

/// One to five digits, or an obfuscated port: an underscore and more (RFC 7239 §6.2).
fn is_port(text: &str) -> bool {
    let hidden = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match text.strip_prefix('_') {
        Some(rest) => !rest.is_empty() && rest.bytes().all(hidden),
        None => (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xff(lines: &[&str]) -> Vec<String> {
        let lines = lines.iter().map(|line| line.as_bytes());
        x_forwarded_for(lines).map(shown).collect()
    }

    fn rfc7239(lines: &[&str]) -> Vec<String> {
        let lines = lines.iter().map(|line| line.as_bytes());
        forwarded(lines).map(shown).collect()
    }

    fn shown(hop: Option<IpAddr>) -> String {
        hop.map_or("-".to_owned(), |hop| hop.to_string())
    }

    #[test]
    fn the_last_proxys_word_comes_first() {
        assert_eq!(
            xff(&["203.0.113.9, 192.0.2.1", "198.51.100.2"]),
            ["198.51.100.2", "192.0.2.1", "203.0.113.9"]
        );
        assert_eq!(xff(&[", ,192.0.2.1,,"]), ["192.0.2.1"]);
        assert_eq!(xff(&[]), [""; 0]);
        assert_eq!(xff(&[""]), [""; 0]);
    }

    #[test]
    fn addresses_come_in_every_spelling_in_use() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:8080", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("\"[2001:db8::1]:443\"", "2001:db8::1"),
            ("\"192.0.2.1\"", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:_port", "192.0.2.1"),
            ("unknown", "-"),
            ("_hidden", "-"),
            ("localhost", "-"),
            ("192.0.2.1.", "-"),
            ("192.0.2.1:", "-"),
            ("192.0.2.1:x", "-"),
            ("192.0.2.1:123456", "-"),
            ("192.0.2.01", "-"),
            ("[192.0.2.1]", "-"),
            ("[2001:db8::1", "-"),
            ("[2001:db8::1]443", "-"),
            ("fe80::1%eth0", "-"),
            ("\"192.0.2.1", "-"),
            ("\"192.0.2\\.1\"", "-"),
            ("\"", "-"),
            ("192.0.2.1 192.0.2.2", "-"),
        ] {
            assert_eq!(xff(&[text]), [expected], "{text}");
        }
        let binary = x_forwarded_for([&b"\xff\xfe"[..]].into_iter());
        assert_eq!(binary.collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn forwarded_is_read_as_the_rfc_shows_it() {
        for (text, expected) in [
            ("for=\"_gazonk\"", "-"),
            ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
            (
                "by=203.0.113.43; FOR = 192.0.2.60 ;host=\"a:1\"",
                "192.0.2.60",
            ),
            ("for=unknown", "-"),
            ("proto=http", "-"),
            ("for=192.0.2.1;for=192.0.2.2", "-"),
            ("192.0.2.1", "-"),
            ("for=", "-"),
        ] {
            assert_eq!(rfc7239(&[text]), [expected], "{text}");
        }
        assert_eq!(
            rfc7239(&[
                "for=192.0.2.43, for=\"[2001:db8:cafe::17]\"",
                "for=198.51.100.2"
            ]),
            ["198.51.100.2", "2001:db8:cafe::17", "192.0.2.43"]
        );
    }

    #[test]
    fn a_quote_left_open_by_the_client_hides_nothing_a_proxy_added() {
        assert_eq!(rfc7239(&["for=\"x, for=192.0.2.1"]), ["192.0.2.1", "-"]);
        assert_eq!(
            rfc7239(&["for=\"a,b\", for=192.0.2.1"]),
            ["192.0.2.1", "-", "-"]
        );
    }
}
