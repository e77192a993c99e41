//! The request that opens a session, as the handlers that ask for it see it: they may refuse it, hold it for a while, and add
//! header lines to its answer and to all later ones of its session.

pub use crate::access::held::{Opening, OwnAnswer};
use crate::clients::session::Protocol;
use crate::tables::slot::{ConnId, Key};
use std::net::IpAddr;
use wire::http::{self, Head};

/// A request of a session that there is or is to be. It is shown during the call; nothing of it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub(crate) head: &'a Head<'a>,
    pub(crate) conn: Key<ConnId>,
    /// The protocol of the path that it asks for.
    pub protocol: Protocol,
    /// The client's address, as trusted proxies tell it.
    pub peer: IpAddr,
}

impl<'a> Request<'a> {
    /// Path and query as sent.
    pub fn target(&self) -> &'a str {
        self.head.target
    }

    /// First value of a header.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.head.header(name)
    }

    /// All header lines, in the order sent.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.head.headers()
    }

    /// Names the request while it is held.
    pub fn key(&self) -> OpeningKey {
        OpeningKey(self.conn)
    }
}

/// A request that waits for its handler's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpeningKey(Key<ConnId>);

impl OpeningKey {
    pub(crate) fn conn(self) -> Key<ConnId> {
        self.0
    }
}

/// Header lines of an answer.
#[derive(Debug, Default)]
pub struct AnswerHeaders {
    pub(crate) lines: Vec<u8>,
}

/// Not a header line: the name is no token, or the value has control characters (RFC 9110 §5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidHeader;

impl AnswerHeaders {
    /// Adds a line. A name that the gateway writes itself (`Content-Length`, `Date`, …) would stand there twice: leave it out.
    ///
    /// # Errors
    /// When it would not be one header line; nothing is added then.
    pub fn add(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidHeader> {
        let value = value.as_ref();
        let is_text = |byte: &u8| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f;
        if !http::is_token(name.as_bytes()) || !value.iter().all(is_text) {
            return Err(InvalidHeader);
        }
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.lines.extend_from_slice(part);
        }
        Ok(())
    }
}

impl OwnAnswer {
    /// `None`: the status ends no exchange (below 200), is none, or has no content (RFC 9110 §15), and `body` is not empty.
    pub fn new(status: u16, headers: AnswerHeaders, body: Vec<u8>) -> Option<Self> {
        let empty = matches!(status, 204 | 205 | 304);
        let lines = headers.lines;
        let is_whole = (200..600).contains(&status) && (body.is_empty() || !empty);
        is_whole.then_some(Self {
            status,
            lines,
            body,
        })
    }
}

/// Header lines of an opening request that were kept, as `Name: value` and CRLF.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeaderLines<'a>(pub(crate) &'a [u8]);

fn line<'a>((name, value): (&'a str, &'a [u8])) -> [&'a [u8]; 4] {
    [name.as_bytes(), b": ", value, b"\r\n"]
}

impl<'a> HeaderLines<'a> {
    /// What is kept of a request.
    pub(crate) fn of(head: &Head<'_>) -> Box<[u8]> {
        let parts = || head.headers().flat_map(line);
        let mut lines = Vec::with_capacity(parts().map(<[u8]>::len).sum());
        parts().for_each(|part| lines.extend_from_slice(part));
        lines.into()
    }

    /// All of them, in the order sent.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        // Values hold no CR and names no colon: the parser of heads refuses them.
        let lines = self.0.split(|byte| *byte == b'\n');
        lines.filter_map(|line| {
            let line = line.strip_suffix(b"\r")?;
            let colon = line.iter().position(|byte| *byte == b':')?;
            let name = std::str::from_utf8(&line[..colon]).ok()?;
            Some((name, line.get(colon + 2..)?))
        })
    }

    /// First value of a header.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        let mut lines = self.iter();
        lines.find_map(|(other, value)| other.eq_ignore_ascii_case(name).then_some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_would_be_two_lines_is_refused() {
        let mut headers = AnswerHeaders::default();
        for (name, value) in [
            ("X", "a\r\nb"),
            ("X y", "a"),
            ("", "a"),
            ("X", "\0"),
            ("X:", "a"),
        ] {
            assert_eq!(
                headers.add(name, value),
                Err(InvalidHeader),
                "{name}: {value}"
            );
        }
        assert!(headers.lines.is_empty());
        assert_eq!(headers.add("Set-Cookie", "a=\u{fc}; Path=/"), Ok(()));
        assert_eq!(headers.lines, "Set-Cookie: a=\u{fc}; Path=/\r\n".as_bytes());
    }

    #[test]
    fn kept_lines_are_those_of_the_request() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\nCookie: b=c: d\r\nEmpty:\r\n\r\n";
        let head = http::parse_head(text).expect("sound").expect("whole");
        let kept = HeaderLines::of(&head);
        let lines = HeaderLines(&kept);
        assert_eq!(lines.get("cookie"), Some(b"b=c: d".as_slice()));
        assert_eq!(lines.get("empty"), Some(b"".as_slice()));
        assert_eq!(lines.iter().count(), 3);
    }
}
