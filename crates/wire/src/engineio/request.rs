//! What a request to Engine.IO's path asks for, and why it is refused.

use super::jsonp::Callback;
use crate::http;
use crate::json;
use std::borrow::Cow;

/// Which protocol a client speaks, `EIO` in its requests. A session has one for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// That of Socket.IO 2.
    Three,
    /// That of Socket.IO 3 and 4.
    Four,
}

/// How a client wants to exchange packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// GET waits for packets, POST brings them.
    Polling,
    /// One packet in each WebSocket message.
    WebSocket,
    /// A stream of QUIC. Its carrier speaks WebSocket to the hub.
    WebTransport,
}

/// The parameters of a request. Of a name that is given twice no value is believed, so that a proxy that looks at the first and
/// a server that looks at the last cannot be played off against each other; the reference server finds no meaning in them either.
#[derive(Debug, Default)]
pub struct Query<'a> {
    /// `None` = missing, unknown or given twice.
    pub transport: Option<Transport>,
    /// The session; one that is given twice is empty, which is no session's.
    pub sid: Option<Cow<'a, str>>,
    /// `None` = missing, unknown or given twice.
    pub revision: Option<Revision>,
    /// Binary is to be sent as base64, also by WebSocket.
    pub base64: bool,
    /// The client takes offsets, by which it can come back (`recovery=1`; no part of Engine.IO).
    pub recovery: bool,
    /// The answer is to be a script (JSONP), which calls this.
    pub jsonp: Option<Callback>,
    /// A word that clients make up for each request, so that no cache answers it.
    pub t: Option<Cow<'a, str>>,
}

impl<'a> Query<'a> {
    /// From the query of a target.
    pub fn parse(query: &'a str) -> Self {
        let (mut transport, mut sid, mut version) = (None, None, None);
        let mut found = Self::default();
        for (name, value) in http::query_pairs(query) {
            match name.as_ref() {
                "transport" => note(&mut transport, value),
                "sid" => note(&mut sid, value),
                "EIO" => note(&mut version, value),
                "b64" => found.base64 = !value.is_empty() && value != "0",
                "recovery" => found.recovery = !value.is_empty() && value != "0",
                "j" => found.jsonp = Some(Callback::parse(&value)),
                "t" => found.t = Some(value),
                _ => {}
            }
        }
        found.transport = match transport.as_deref() {
            Some("polling") => Some(Transport::Polling),
            Some("websocket") => Some(Transport::WebSocket),
            Some("webtransport") => Some(Transport::WebTransport),
            _ => None,
        };
        found.sid = sid;
        found.revision = match version.as_deref() {
            Some("3") => Some(Revision::Three),
            Some("4") => Some(Revision::Four),
            _ => None,
        };
        found
    }
}

fn note<'a>(seen: &mut Option<Cow<'a, str>>, value: Cow<'a, str>) {
    *seen = Some(match seen {
        Some(_) => Cow::Borrowed(""),
        None => value,
    });
}

/// Why an Engine.IO request is refused; the numbers are part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// `transport` is missing, unknown or switched off.
    UnknownTransport = 0,
    /// `sid` names no living session.
    UnknownSid = 1,
    /// A handshake that is not GET.
    BadMethod = 2,
    /// Transport and request, or request and session, do not fit together.
    BadRequest = 3,
    /// The allow hook refused.
    Forbidden = 4,
    /// `EIO` is not 4, or 3 where that is allowed.
    UnsupportedVersion = 5,
}

impl RequestError {
    /// Text of the reference server for it.
    pub fn message(self) -> &'static str {
        match self {
            Self::UnknownTransport => "Transport unknown",
            Self::UnknownSid => "Session ID unknown",
            Self::BadMethod => "Bad handshake method",
            Self::BadRequest => "Bad request",
            Self::Forbidden => "Forbidden",
            Self::UnsupportedVersion => "Unsupported protocol version",
        }
    }

    /// HTTP status of the answer: 403 for a refusal, 400 for the rest.
    pub fn status(self) -> u16 {
        match self {
            Self::Forbidden => 403,
            _ => 400,
        }
    }

    /// Appends the response body, `{"code":1,"message":"Session ID unknown"}`.
    pub fn write_json(self, out: &mut Vec<u8>) {
        self.write_json_saying(self.message(), out);
    }

    /// The same in an application's own words.
    pub fn write_json_saying(self, message: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"code\":");
        out.extend_from_slice(itoa::Buffer::new().format(self as u8).as_bytes());
        out.extend_from_slice(b",\"message\":");
        json::quote(out, message);
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_is_given_twice_means_nothing() {
        let usual = Query::parse("EIO=4&transport=polling&t=abc&sid=x%2D1");
        assert_eq!(usual.transport, Some(Transport::Polling));
        assert_eq!(usual.sid.as_deref(), Some("x-1"));
        assert_eq!((usual.revision, usual.jsonp), (Some(Revision::Four), None));
        assert!(!usual.base64);
        let twice =
            Query::parse("EIO=4&EIO=4&transport=polling&transport=polling&sid=x&sid=x&%73id=x");
        assert_eq!(twice.transport, None);
        assert_eq!(twice.sid.as_deref(), Some(""));
        assert_eq!(twice.revision, None);
        let other = Query::parse("transport=websocket&b64=1&j=0");
        assert_eq!(other.transport, Some(Transport::WebSocket));
        assert!(other.base64 && other.jsonp.is_some() && other.sid.is_none());
        assert_eq!(other.revision, None);
        for (query, revision) in [
            ("EIO=3", Some(Revision::Three)),
            ("EIO=3&EIO=4", None),
            ("EIO=03", None),
            ("EIO=5", None),
            ("EIO=", None),
        ] {
            assert_eq!(Query::parse(query).revision, revision, "{query}");
        }
        assert!(!Query::parse("b64=0").base64);
    }

    #[test]
    fn errors_have_the_numbers_and_texts_of_the_reference_server() {
        let cases = [
            (
                RequestError::UnknownTransport,
                400,
                r#"{"code":0,"message":"Transport unknown"}"#,
            ),
            (
                RequestError::UnknownSid,
                400,
                r#"{"code":1,"message":"Session ID unknown"}"#,
            ),
            (
                RequestError::BadMethod,
                400,
                r#"{"code":2,"message":"Bad handshake method"}"#,
            ),
            (
                RequestError::BadRequest,
                400,
                r#"{"code":3,"message":"Bad request"}"#,
            ),
            (
                RequestError::Forbidden,
                403,
                r#"{"code":4,"message":"Forbidden"}"#,
            ),
            (
                RequestError::UnsupportedVersion,
                400,
                r#"{"code":5,"message":"Unsupported protocol version"}"#,
            ),
        ];
        for (error, status, json) in cases {
            let mut out = Vec::new();
            error.write_json(&mut out);
            assert_eq!(
                (error.status(), String::from_utf8_lossy(&out).as_ref()),
                (status, json)
            );
        }
    }
}
