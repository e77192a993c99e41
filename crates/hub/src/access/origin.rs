//! Lists of origins (RFC 6454). An origin is written as browsers send it. `https://*.example.com` stands for every name below
//! `example.com`, and `null` for pages that have none.

use crate::books::config::Cors;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a text can stand in a list of origins.
pub fn is_pattern(text: &str) -> bool {
    if text == "null" {
        return true;
    }
    let Some((scheme, host)) = text.split_once("://") else {
        return false;
    };
    let host = host.strip_prefix("*.").unwrap_or(host);
    let (name, port) = split_port(host);
    is_scheme(scheme) && is_host(name) && port.is_none_or(is_port)
}

/// Whether an Origin header is one of those a pattern means. Both are compared as they are: browsers write origins in one way
/// only (lower case, no default port).
fn matches(pattern: &str, origin: &[u8]) -> bool {
    let Some((scheme, domain)) = pattern.split_once("*.") else {
        return pattern.as_bytes() == origin;
    };
    let names = origin
        .strip_prefix(scheme.as_bytes())
        .and_then(|rest| rest.strip_suffix(domain.as_bytes()))
        .and_then(|names| names.strip_suffix(b"."));
    // Only labels of a host: `https://evil.example/.example.com` is no origin, but who knows what sends it.
    names.is_some_and(|names| !names.is_empty() && names.split(|&byte| byte == b'.').all(is_label))
}

pub(crate) fn is_listed(list: &[String], origin: &[u8]) -> bool {
    list.iter().any(|pattern| matches(pattern, origin))
}

/// Whether a page came from the address that it asks now (`host`: its Host header). A name without TLS shows nothing: any site can lead
/// its own name to this address for a moment, and its pages then have our address as their origin. Browsers let no page do that over
/// TLS, by number or as localhost.
pub(crate) fn is_own(origin: &[u8], host: &[u8]) -> bool {
    if host.is_empty() {
        return false;
    }
    // Over TLS no other site can stand under our name.
    if origin.strip_prefix(b"https://") == Some(host) {
        return true;
    }
    let name = std::str::from_utf8(host).map_or("", |host| split_port(host).0);
    let literal = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let by_number = name.parse::<Ipv4Addr>().is_ok()
        || literal.is_some_and(|literal| literal.parse::<Ipv6Addr>().is_ok());
    let fixed = by_number || name == "localhost" || name.ends_with(".localhost");
    fixed && origin.strip_prefix(b"http://") == Some(host)
}

impl Cors {
    /// Whether pages of this origin are named: then answers echo it, and allow credentials.
    pub fn names(&self, origin: &[u8]) -> bool {
        matches!(self, Cors::Origins(listed) if is_listed(listed, origin))
    }
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        // A colon within brackets belongs to the address.
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    }
}

fn is_scheme(scheme: &str) -> bool {
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !scheme.is_empty()
        && scheme
            .bytes()
            .all(|byte| lower(byte) || matches!(byte, b'+' | b'-' | b'.'))
}

fn is_host(name: &str) -> bool {
    if let Some(address) = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let upper = name.bytes().any(|byte| byte.is_ascii_uppercase());
    !upper && name.split('.').all(|label| is_label(label.as_bytes()))
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Letters, digits, hyphens; and underscores, which names in private networks have.
fn is_label(label: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !label.is_empty() && label.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_compared_whole() {
        let pattern = "https://example.com";
        assert!(matches(pattern, b"https://example.com"));
        for origin in [
            "http://example.com",
            "https://example.com:444",
            "https://example.com.evil.example",
            "https://evil-example.com",
            "https://a.example.com",
            "HTTPS://example.com",
            "https://example.com/",
            "null",
            "",
        ] {
            assert!(!matches(pattern, origin.as_bytes()), "{origin}");
        }
        assert!(matches("null", b"null") && !matches("null", b"NULL"));
    }

    #[test]
    fn a_star_stands_for_one_label_or_more() {
        let pattern = "https://*.example.com";
        for origin in ["https://a.example.com", "https://a-1.b_2.example.com"] {
            assert!(matches(pattern, origin.as_bytes()), "{origin}");
        }
        for origin in [
            "https://example.com",
            "https://.example.com",
            "https://a..example.com",
            "https://aexample.com",
            "https://a.example.com:8443",
            "https://a.example.com.evil.example",
            "https://evil.example/.example.com",
            "https://evil.example#.example.com",
            "https://user@evil.example.com",
            "https://evil.example:1.example.com",
            "http://a.example.com",
            "https://*.example.com",
            "null",
        ] {
            assert!(!matches(pattern, origin.as_bytes()), "{origin}");
        }
        assert!(matches(
            "http://*.localhost:3000",
            b"http://a.localhost:3000"
        ));
        assert!(!matches("http://*.localhost:3000", b"http://a.localhost"));
    }

    #[test]
    fn the_own_origin_is_the_address_that_was_asked_and_can_not_be_borrowed() {
        let own = |origin: &str, host: &str| is_own(origin.as_bytes(), host.as_bytes());
        for (origin, host) in [
            ("https://chat.example", "chat.example"),
            ("https://chat.example:8443", "chat.example:8443"),
            ("http://192.0.2.7:3000", "192.0.2.7:3000"),
            ("http://[::1]:3000", "[::1]:3000"),
            ("http://localhost:3000", "localhost:3000"),
            ("http://app.localhost", "app.localhost"),
        ] {
            assert!(own(origin, host), "{origin} at {host}");
        }
        for (origin, host) in [
            ("http://localhost:5173", "localhost:3000"),
            ("https://evil.example", "chat.example"),
            ("https://chat.example", "chat.example:3000"),
            // A site whose name leads here for a moment.
            ("http://evil.example:3000", "evil.example:3000"),
            ("http://1.evil.example", "1.evil.example"),
            ("http://evillocalhost", "evillocalhost"),
            ("http://[::1", "[::1"),
            ("ftp://192.0.2.7", "192.0.2.7"),
            ("https://", ""),
            ("http://", ""),
            ("null", "null"),
            ("", ""),
        ] {
            assert!(!own(origin, host), "{origin} at {host}");
        }
    }

    #[test]
    fn patterns_are_origins_as_browsers_write_them() {
        for text in [
            "null",
            "https://example.com",
            "http://localhost:3000",
            "https://*.example.com",
            "http://*.localhost:8080",
            "http://192.0.2.1:80",
            "http://[::1]:3000",
            "https://[2001:db8::1]",
            "capacitor://localhost",
            "chrome-extension://abcdef",
        ] {
            assert!(is_pattern(text), "{text}");
        }
        for text in [
            "",
            "*",
            "example.com",
            "*.example.com",
            "https://",
            "https://*",
            "https://*.",
            "https://a.*.example.com",
            "https://*example.com",
            "https://example.com/",
            "https://example.com/path",
            "https://Example.com",
            "https://example.com:port",
            "https://example.com:",
            "https://*.*.example.com",
            "https://a b",
            "https://user@example.com",
            "://example.com",
        ] {
            assert!(!is_pattern(text), "{text}");
        }
    }
}
