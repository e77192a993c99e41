//! Opening handshake (RFC 6455 §4.2), server side, and the request of a client for load and tests.
//! Extensions are not negotiated: none is ever echoed.

use crate::http::{self, Head, Method};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// Appended to the key before hashing (RFC 6455 §1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why a request does not become a websocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not GET: 405.
    Method,
    /// HTTP/1.0; missing, malformed or repeated key; body present: 400.
    Malformed,
    /// `Sec-WebSocket-Version` is not 13: 426 naming the version spoken here.
    Version,
    /// No `Connection: Upgrade`, or an upgrade to another protocol: 426.
    NotUpgrade,
}

impl Refusal {
    /// HTTP status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::Method => 405,
            Self::Malformed => 400,
            Self::Version | Self::NotUpgrade => 426,
        }
    }
}

/// `true` when the request means to become a websocket (its Upgrade header names it), whatever else
/// is wrong with it.
pub fn wants_upgrade(head: &Head<'_>) -> bool {
    head.has_token("upgrade", "websocket")
}

/// Checks the request (RFC 6455 §4.2.1) and returns the `Sec-WebSocket-Accept` value for it.
///
/// # Errors
/// The [`Refusal`] to answer with; the connection closes after it.
pub fn accept(head: &Head<'_>) -> Result<[u8; 28], Refusal> {
    if head.method != Method::Get {
        return Err(Refusal::Method);
    }
    // A body would be read as frames by us and as a body by a proxy in front: request smuggling.
    if !head.http11 || head.content_length.is_some_and(|bytes| bytes > 0) {
        return Err(Refusal::Malformed);
    }
    if !wants_upgrade(head) || !head.has_token("connection", "upgrade") {
        return Err(Refusal::NotUpgrade);
    }
    if !matches!(head.single("sec-websocket-version"), Ok(Some(b"13"))) {
        return Err(Refusal::Version);
    }
    match head.single("sec-websocket-key") {
        Ok(Some(key)) if is_key(key) => Ok(accept_value(key)),
        _ => Err(Refusal::Malformed),
    }
}

/// `Sec-WebSocket-Accept` for a key; a client compares it with the server's answer.
pub fn accept_value(key: &[u8]) -> [u8; 28] {
    let digest = Sha1::new()
        .chain_update(key)
        .chain_update(KEY_SUFFIX)
        .finalize();
    let mut value = [b'='; 28];
    let written = STANDARD.encode_slice(digest, &mut value);
    debug_assert_eq!(written, Ok(28), "20 bytes are 28 characters of base64");
    value
}

/// Base64 of sixteen bytes. The unused low bits of the last character are not judged: no server
/// looks at the decoded bytes.
fn is_key(key: &[u8]) -> bool {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    match key.strip_suffix(b"==") {
        Some(digits) => digits.len() == 22 && digits.iter().all(is_base64),
        None => false,
    }
}

/// First of `supported` that the client offers in `Sec-WebSocket-Protocol`.
///
/// Linear in the header; what is not ASCII matches nothing.
pub fn subprotocol<'s>(head: &Head<'_>, supported: &[&'s str]) -> Option<&'s str> {
    head.headers()
        .filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-protocol"))
        .flat_map(|(_, value)| value.split(|&byte| byte == b','))
        .filter_map(|offer| {
            let offer = offer.trim_ascii();
            supported.iter().position(|name| name.as_bytes() == offer)
        })
        .min()
        .and_then(|index| supported.get(index).copied())
}

/// Appends the 101 response head. `extra` are ready header lines, each ending in CRLF.
pub fn write_accept(out: &mut Vec<u8>, accept: &[u8; 28], subprotocol: Option<&str>, extra: &[u8]) {
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Accept: ",
    );
    out.extend_from_slice(accept);
    out.extend_from_slice(b"\r\n");
    if let Some(name) = subprotocol {
        out.extend_from_slice(b"Sec-WebSocket-Protocol: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(extra);
    out.extend_from_slice(b"\r\n");
}

/// Appends the complete response for a refused handshake; it announces `Connection: close`.
pub fn write_refusal(out: &mut Vec<u8>, refusal: Refusal) {
    let (extra, body): (&[u8], &[u8]) = match refusal {
        Refusal::Method => (
            b"Allow: GET\r\n",
            b"a websocket handshake is a GET request\n",
        ),
        Refusal::Malformed => (b"", b"malformed websocket handshake\n"),
        Refusal::Version => (
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
            b"only websocket version 13 is spoken here\n",
        ),
        Refusal::NotUpgrade => (
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
            b"only websocket connections are served here\n",
        ),
    };
    http::write_response(
        out,
        refusal.status(),
        "text/plain; charset=utf-8",
        extra,
        body,
        false,
    );
}

/// Appends a client's handshake request. `extra` are ready header lines, each ending in CRLF.
pub fn write_request(out: &mut Vec<u8>, host: &str, target: &str, key: &[u8; 24], extra: &[u8]) {
    for part in [
        b"GET ".as_slice(),
        target.as_bytes(),
        b" HTTP/1.1\r\nHost: ",
        host.as_bytes(),
        b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
          Sec-WebSocket-Key: ",
        key,
        b"\r\n",
        extra,
        b"\r\n",
    ] {
        out.extend_from_slice(part);
    }
}
