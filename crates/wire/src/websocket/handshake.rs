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
    /// HTTP/1.0; missing, malformed or repeated key; malformed list of subprotocols; body present: 400.
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

    /// Ready header lines of the answer, each ending in CRLF.
    pub fn headers(self) -> &'static [u8] {
        match self {
            Self::Method => b"Allow: GET\r\n",
            Self::Malformed => b"",
            Self::Version | Self::NotUpgrade => {
                b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            }
        }
    }

    /// What the answer says to people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Method => "a websocket handshake is a GET request\n",
            Self::Malformed => "malformed websocket handshake\n",
            Self::Version => "only websocket version 13 is spoken here\n",
            Self::NotUpgrade => "only websocket connections are served here\n",
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
    if !head.http11 || head.has_body() {
        return Err(Refusal::Malformed);
    }
    if !wants_upgrade(head) || !head.has_token("connection", "upgrade") {
        return Err(Refusal::NotUpgrade);
    }
    if !matches!(head.single("sec-websocket-version"), Ok(Some(b"13"))) {
        return Err(Refusal::Version);
    }
    if !offers_are_sound(head) {
        return Err(Refusal::Malformed);
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

/// Whether the offered subprotocols are tokens, none of them empty and each named once (RFC 6455 §4.1). The `ws` package, on
/// which Node's Socket.IO server stands, refuses the same lists.
fn offers_are_sound(head: &Head<'_>) -> bool {
    let mut names: Vec<&[u8]> = head
        .values("sec-websocket-protocol")
        .flat_map(|list| list.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect();
    // Sorted, so that a long list costs no more than it is long.
    names.sort_unstable();
    names.iter().all(|name| http::is_token(name)) && names.windows(2).all(|pair| pair[0] != pair[1])
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

/// First subprotocol that the client offers, whatever it means: clients that offer some break off unless one is chosen
/// (RFC 6455 §4.1), and the `ws` package, on which Node's Socket.IO server stands, chooses the first.
pub fn first_subprotocol<'a>(head: &Head<'a>) -> Option<&'a str> {
    let offers = head.values("sec-websocket-protocol").next()?;
    let first = offers.split(|&byte| byte == b',').next()?.trim_ascii();
    std::str::from_utf8(first)
        .ok()
        .filter(|name| http::is_token(name.as_bytes()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::parse_head;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn request(replace: &[(&str, &str)]) -> String {
        let mut text = format!(
            "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
        );
        for (from, to) in replace {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        text
    }

    fn judge(text: &str) -> Result<String, Refusal> {
        let head = parse_head(text.as_bytes())
            .expect("well-formed")
            .expect("complete");
        accept(&head).map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    #[test]
    fn good_handshakes_get_the_accept_value_of_the_rfc() {
        let spellings: [&[(&str, &str)]; 6] = [
            &[],
            &[("Upgrade: websocket", "upgrade: WebSocket")],
            &[("Connection: Upgrade", "Connection: keep-alive, Upgrade")],
            &[("Upgrade: websocket", "Upgrade: h2c, websocket")],
            &[("Host: a", "Host: a\r\nContent-Length: 0")],
            &[(
                "Host: a",
                "Host: a\r\nSec-WebSocket-Protocol: b,  a\r\nSec-WebSocket-Protocol: c",
            )],
        ];
        for spelling in spellings {
            let accepted = judge(&request(spelling));
            assert_eq!(
                accepted.as_deref(),
                Ok("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
                "{spelling:?}"
            );
        }
    }

    #[test]
    fn bad_handshakes_are_refused_by_kind() {
        let key = format!("Sec-WebSocket-Key: {KEY}");
        let twice = format!("{key}\r\n{key}");
        let offers = |list: &str| format!("Host: a\r\nSec-WebSocket-Protocol: {list}");
        let lists = [
            "",
            "a,,b",
            "a b",
            "a, a",
            "\u{fc}",
            "a\r\nSec-WebSocket-Protocol: a",
        ]
        .map(offers);
        for list in &lists {
            let request = request(&[("Host: a", list)]);
            assert_eq!(judge(&request), Err(Refusal::Malformed), "{list}");
        }
        let cases: [(&[(&str, &str)], Refusal); 15] = [
            (&[("GET", "POST")], Refusal::Method),
            (&[("HTTP/1.1", "HTTP/1.0")], Refusal::Malformed),
            (&[("Connection: Upgrade\r\n", "")], Refusal::NotUpgrade),
            (
                &[("Connection: Upgrade", "Connection: close")],
                Refusal::NotUpgrade,
            ),
            (
                &[("Upgrade: websocket", "Upgrade: h2c")],
                Refusal::NotUpgrade,
            ),
            (
                &[("Upgrade: websocket", "Upgrade: websockets")],
                Refusal::NotUpgrade,
            ),
            (&[("Version: 13", "Version: 99")], Refusal::Version),
            (&[("Sec-WebSocket-Version: 13\r\n", "")], Refusal::Version),
            (&[(&key, "X: y")], Refusal::Malformed),
            (&[(&key, &twice)], Refusal::Malformed),
            (&[(KEY, "")], Refusal::Malformed),
            (&[(KEY, "dGhlIHNhbXBsZSBub25jZQ")], Refusal::Malformed),
            (&[(KEY, "dGhlIHNhbXBsZSBub25j!Q==")], Refusal::Malformed),
            (&[(KEY, "dGhlIHNhbXBsZSBub25jZXM==")], Refusal::Malformed),
            (
                &[("Host: a", "Host: a\r\nContent-Length: 5")],
                Refusal::Malformed,
            ),
        ];
        for (replace, refusal) in cases {
            assert_eq!(judge(&request(replace)), Err(refusal), "{replace:?}");
        }
    }

    #[test]
    fn subprotocols_are_chosen_in_the_servers_order() {
        let supported = ["best", "good"];
        let blanks = format!("x,{}good", " ,".repeat(5_000));
        let cases = [
            ("", None),
            ("good", Some("good")),
            ("good, best", Some("best")),
            ("GOOD", None),
            ("goods", None),
            ("ü, good", Some("good")),
            (&blanks, Some("good")),
        ];
        for (offer, expected) in cases {
            let line = format!("Host: a\r\nSec-WebSocket-Protocol: {offer}");
            let text = request(&[("Host: a", &line)]);
            let head = parse_head(text.as_bytes())
                .expect("well-formed")
                .expect("complete");
            assert_eq!(subprotocol(&head, &supported), expected, "{offer}");
        }
    }

    #[test]
    fn own_request_is_accepted_and_answers_parse() {
        let mut key = [0; 24];
        key.copy_from_slice(KEY.as_bytes());
        let mut text = Vec::new();
        write_request(&mut text, "a:1", "/ws?x=1", &key, b"Origin: http://a\r\n");
        let head = parse_head(&text).expect("well-formed").expect("complete");
        assert_eq!(
            (head.target, head.header("origin")),
            ("/ws?x=1", Some(b"http://a".as_slice()))
        );
        assert!(wants_upgrade(&head));
        let value = accept(&head).expect("a good handshake");
        let mut answer = Vec::new();
        write_accept(&mut answer, &value, Some("good"), b"X: y\r\n");
        assert_eq!(
            String::from_utf8_lossy(&answer),
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: good\r\n\
             X: y\r\n\r\n"
        );
    }

    #[test]
    fn refusals_say_what_is_spoken_here() {
        assert_eq!(Refusal::Method.headers(), b"Allow: GET\r\n");
        for refusal in [Refusal::Version, Refusal::NotUpgrade] {
            assert_eq!(refusal.status(), 426);
            assert!(
                refusal
                    .headers()
                    .ends_with(b"Sec-WebSocket-Version: 13\r\n")
            );
        }
    }
}
