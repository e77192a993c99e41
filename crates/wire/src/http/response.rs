//! Whole HTTP/1.1 responses with a known body.

/// The interim answer to `Expect: 100-continue` (RFC 9110 §15.2.1): send the body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Reason phrase of the statuses used on realtime paths.
pub fn reason(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        // The phrase may be empty (RFC 9112 §4).
        _ => "",
    }
}

/// Appends a complete response.
///
/// `extra` are ready header lines, each ending in CRLF (CORS, Cache-Control and such). An empty
/// `content_type` leaves that line out. A 426 gets the `Upgrade` connection option its Upgrade
/// header needs (RFC 9110 §7.8). Content-Length is written for every status, also 204: browsers
/// have been seen to wait for a body without it.
pub fn write_response(
    out: &mut Vec<u8>,
    status: u16,
    content_type: &str,
    extra: &[u8],
    body: &[u8],
    keep_alive: bool,
) {
    out.reserve(160 + content_type.len() + extra.len() + body.len());
    let mut digits = itoa::Buffer::new();
    let connection: &[u8] = match (status, keep_alive) {
        (426, true) => b"Upgrade, keep-alive",
        (426, false) => b"Upgrade, close",
        (_, true) => b"keep-alive",
        (_, false) => b"close",
    };
    push_all(out, &[b"HTTP/1.1 ", digits.format(status).as_bytes(), b" "]);
    push_all(out, &[reason(status).as_bytes(), b"\r\n"]);
    if !content_type.is_empty() {
        push_all(out, &[b"Content-Type: ", content_type.as_bytes(), b"\r\n"]);
    }
    push_all(
        out,
        &[
            b"Content-Length: ",
            digits.format(body.len()).as_bytes(),
            b"\r\n",
        ],
    );
    push_all(
        out,
        &[extra, b"Connection: ", connection, b"\r\n\r\n", body],
    );
}

fn push_all(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_complete() {
        let mut out = Vec::new();
        write_response(&mut out, 200, "text/html", b"X: y\r\n", b"ok", true);
        write_response(&mut out, 204, "", b"", b"", false);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\nX: y\r\n\
             Connection: keep-alive\r\n\r\nok\
             HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn unknown_statuses_have_an_empty_reason() {
        let mut out = Vec::new();
        write_response(&mut out, 299, "", b"", b"", true);
        assert!(out.starts_with(b"HTTP/1.1 299 \r\n"));
    }
}
