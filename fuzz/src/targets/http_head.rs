//! HTTP request heads: a head that is taken is taken at its last byte and not before; a refusal of
//! a prefix is final. Handshake and query parsing run on what is taken.
use wire::http::{self, Head};
use wire::websocket::handshake;

pub fn run(bytes: &[u8]) {
    let whole = http::parse_head(bytes);
    if let Ok(Some(head)) = &whole {
        use_head(head);
        assert!(matches!(http::parse_head(&bytes[..head.len - 1]), Ok(None)));
    }
    // A few prefixes are enough to find a disagreement; all of them would be quadratic.
    for part in 1..8 {
        match http::parse_head(&bytes[..bytes.len() * part / 8]) {
            Ok(None) => {}
            Ok(Some(head)) => {
                let len = whole
                    .as_ref()
                    .ok()
                    .and_then(Option::as_ref)
                    .map(|head| head.len);
                assert_eq!(len, Some(head.len));
            }
            Err(_) => assert!(whole.is_err()),
        }
    }
}

fn use_head(head: &Head<'_>) {
    assert!(head.len <= http::HEAD_BYTES_MAX);
    assert!(head.headers().count() <= http::HEADERS_MAX);
    if handshake::accept(head).is_ok() {
        assert!(handshake::wants_upgrade(head) && head.http11);
        assert!(!head.has_body());
    }
    if let Some(name) = handshake::subprotocol(head, &["a", "sockeye.msgpack"]) {
        assert!(head.has_token("sec-websocket-protocol", name));
    }
    if let Some((name, value)) = http::query_pairs(head.query).next() {
        assert_eq!(http::query_param(head.query, &name), Some(value));
    }
}
