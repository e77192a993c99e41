//! What a shard is asked in the name of a client: the opening request of a WebSocket.

use web_transport_quinn::proto::ConnectRequest;
use wire::http::query_pairs;
use wire::websocket::handshake;

/// No key is needed between two ends of one process; a handshake has one.
const KEY: &[u8; 24] = b"d2VidHJhbnNwb3J0LWtleQ==";
/// Lines that belong to the way a request came by, or that the handshake has itself.
const NOT_PASSED_ON: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// `sid`: of the session that moves here.
pub(crate) fn write(asked: &ConnectRequest, sid: Option<&str>) -> Vec<u8> {
    let mut target = format!("{}?EIO=4&transport=webtransport", asked.url.path());
    if let Some(sid) = sid {
        target.push_str("&sid=");
        target.push_str(sid);
    }
    let query = asked.url.query().unwrap_or_default();
    for pair in query.split('&').filter(|pair| is_free(pair)) {
        target.push('&');
        target.push_str(pair);
    }
    let mut lines = Vec::new();
    for (name, value) in &asked.headers {
        let name = name.as_str();
        if NOT_PASSED_ON.contains(&name) || name.starts_with("sec-") {
            continue;
        }
        lines.extend_from_slice(name.as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value.as_bytes());
        lines.extend_from_slice(b"\r\n");
    }
    let mut request = Vec::new();
    let host = asked.url.authority();
    handshake::write_request(&mut request, host, &target, KEY, &lines);
    request
}

/// A parameter of the client's that is none of ours.
fn is_free(pair: &str) -> bool {
    let ours = |name: &str| matches!(name, "EIO" | "transport" | "sid" | "j" | "b64");
    !pair.is_empty() && query_pairs(pair).all(|(name, _)| !ours(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::engineio::{Query, Transport};
    use wire::http::parse_head;

    fn asked(url: &str, lines: &[(&'static str, &'static str)]) -> ConnectRequest {
        let url: url::Url = url.parse().expect("a URL");
        let mut asked = ConnectRequest::new(url);
        for (name, value) in lines {
            let name = web_transport_quinn::http::HeaderName::from_static(name);
            let value = web_transport_quinn::http::HeaderValue::from_static(value);
            asked.headers.append(name, value);
        }
        asked
    }

    #[test]
    fn a_client_asks_for_its_session_and_for_nothing_that_is_ours() {
        let lines = [
            ("origin", "https://a.example"),
            ("user-agent", "x"),
            ("upgrade", "h2c"),
            ("transfer-encoding", "chunked"),
            ("sec-websocket-extensions", "permessage-deflate"),
        ];
        let url = "https://h:7/socket.io/?sid=other&token=a%20b&%73id=x&EIO=3&&x";
        let request = write(&asked(url, &lines), Some("n2tYsQdc0rQqRtH-AABg"));
        let head = parse_head(&request).expect("good").expect("whole");
        let query = Query::parse(head.query);
        assert_eq!(query.transport, Some(Transport::WebTransport));
        assert_eq!(query.sid.as_deref(), Some("n2tYsQdc0rQqRtH-AABg"));
        assert!(head.query.ends_with("&token=a%20b&x"), "{}", head.query);
        assert_eq!(head.path, "/socket.io/");
        assert_eq!(head.header("origin"), Some(&b"https://a.example"[..]));
        assert_eq!(head.header("host"), Some(&b"h:7"[..]));
        assert_eq!(head.header("sec-websocket-extensions"), None);
        assert!(handshake::accept(&head).is_ok() && !head.has_body());
        assert_eq!(head.len, request.len());
    }
}
