//! Owns the URLs of servers under test: scheme, host and port, and why another URL cannot be used.

use anyhow::{Result, bail};

const PORT: u16 = 80;
const TLS_PORT: u16 = 443;

/// A server as its URL names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// As the `Host` header has it.
    pub host: String,
    /// The same, always with a port, to be looked up.
    pub address: String,
    /// The name alone, as a certificate has it, where the scheme asks for TLS.
    pub tls: Option<String>,
}

/// Reads `http://host:port`, `wss://host` or only `host:port`.
pub fn authority(url: &str) -> Result<Authority> {
    let (is_tls, rest) = match url.split_once("://") {
        Some(("http" | "ws", rest)) => (false, rest),
        Some(("https" | "wss", rest)) => (true, rest),
        Some((scheme, _)) => {
            bail!("cannot use URL {url}: scheme {scheme} is none of http, https, ws and wss")
        }
        None => (false, url),
    };
    let host = rest.trim_end_matches('/');
    if let Some((_, behind)) = host.rsplit_once('@') {
        // Not shown: it may be somebody's password.
        bail!(
            "cannot use the URL of {behind}: credentials in it are not supported, write it without \
             what stands before \"@\" and give them by an \"auth\" step of the scenario"
        );
    }
    if host.contains(['/', '?', '#']) {
        bail!("cannot use URL {url}: the path belongs into the scenario (path = …)");
    }
    let (name, port) = split(url, host)?;
    if name.is_empty() {
        bail!("cannot use URL {url:?}: it names no host, write http://127.0.0.1:3000");
    }
    let port = match port {
        None if is_tls => TLS_PORT,
        None => PORT,
        Some(text) => match text.parse() {
            Ok(port) if port > 0 => port,
            _ => bail!("cannot use URL {url}: port {text:?} is no number from 1 to 65535"),
        },
    };
    Ok(Authority {
        host: host.to_owned(),
        address: format!("{name}:{port}"),
        tls: is_tls.then(|| name.trim_matches(['[', ']']).to_owned()),
    })
}

/// Host and port. Only an IPv6 address has more than one colon, and stands in brackets.
fn split<'a>(url: &str, host: &'a str) -> Result<(&'a str, Option<&'a str>)> {
    let name_end = match host.rfind(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    let (name, rest) = host.split_at(name_end);
    match rest.strip_prefix(':') {
        Some(port) if !port.contains(':') => Ok((name, Some(port))),
        None if rest.is_empty() => Ok((name, None)),
        _ => bail!("cannot use URL {url}: write an IPv6 address as http://[::1]:3000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read() {
        for (url, host, address) in [
            ("http://127.0.0.1:3000/", "127.0.0.1:3000", "127.0.0.1:3000"),
            ("ws://example.org", "example.org", "example.org:80"),
            ("localhost:9", "localhost:9", "localhost:9"),
            ("http://[::1]:3000", "[::1]:3000", "[::1]:3000"),
            ("[::1]", "[::1]", "[::1]:80"),
        ] {
            let read = authority(url).unwrap();
            assert_eq!((&*read.host, &*read.address), (host, address), "{url}");
            assert_eq!(read.tls, None);
        }
    }

    #[test]
    fn what_a_certificate_must_name_is_the_host_alone() {
        for (url, address, name) in [
            ("https://example.org", "example.org:443", "example.org"),
            ("wss://[::1]:8443/", "[::1]:8443", "::1"),
        ] {
            let read = authority(url).unwrap();
            assert_eq!((&*read.address, read.tls.as_deref()), (address, Some(name)));
        }
    }

    #[test]
    fn what_cannot_be_used_is_told_with_the_reason() {
        let table = "http://h:99999 => port \"99999\" is no number from 1 to 65535
            http://h:0 => port \"0\" is no number
            http://h:web => port \"web\" is no number
            http://u:p@h:80 => credentials in it are not supported
            ftp://h => scheme ftp is none of http, https, ws and wss
            http://h/path => the path belongs into the scenario
            http://h?a=b => the path belongs into the scenario
            http://::1:3000 => http://[::1]:3000
            http:// => it names no host
            http://:3000 => it names no host";
        for (url, told) in table
            .lines()
            .filter_map(|line| line.trim().split_once(" => "))
        {
            let error = authority(url).unwrap_err().to_string();
            assert!(error.contains(told), "{url}: {error}");
            assert!(!error.contains("u:p"), "{error}");
        }
    }
}
