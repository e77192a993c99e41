//! Whole HTTP/1.1 responses with a known body.

use super::date::Date;

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

/// A complete response.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// HTTP status.
    pub status: u16,
    /// An empty one leaves that line out.
    pub content_type: &'a str,
    /// Ready header lines, each ending in CRLF (CORS, Cache-Control and such).
    pub extra: &'a [u8],
    /// The content, also where it is not sent.
    pub body: &'a [u8],
    /// When it was made (RFC 9110 §6.6.1).
    pub date: &'a Date,
    /// The connection may serve another request.
    pub keep_alive: bool,
    /// It answers HEAD: the header fields of the answer to GET, and no content (RFC 9110 §9.3.2).
    pub head_only: bool,
}

impl Response<'_> {
    /// Appends it. A 426 gets the `Upgrade` connection option its Upgrade header needs (RFC 9110 §7.8). Content-Length is
    /// written for every status, also 204: browsers have been seen to wait for a body without it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(192 + self.content_type.len() + self.extra.len() + self.body.len());
        let mut digits = itoa::Buffer::new();
        let connection: &[u8] = match (self.status, self.keep_alive) {
            (426, true) => b"Upgrade, keep-alive",
            (426, false) => b"Upgrade, close",
            (_, true) => b"keep-alive",
            (_, false) => b"close",
        };
        let status = digits.format(self.status).as_bytes();
        push_all(
            out,
            &[b"HTTP/1.1 ", status, b" ", reason(self.status).as_bytes()],
        );
        push_all(out, &[b"\r\nDate: ", self.date.as_bytes(), b"\r\n"]);
        if !self.content_type.is_empty() {
            push_all(
                out,
                &[b"Content-Type: ", self.content_type.as_bytes(), b"\r\n"],
            );
        }
        let len = digits.format(self.body.len()).as_bytes();
        push_all(out, &[b"Content-Length: ", len, b"\r\n", self.extra]);
        push_all(out, &[b"Connection: ", connection, b"\r\n\r\n"]);
        if !self.head_only {
            out.extend_from_slice(self.body);
        }
    }
}

fn push_all(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Response<'_> = Response {
        status: 200,
        content_type: "text/html",
        extra: b"X: y\r\n",
        body: b"ok",
        date: &Date::EPOCH,
        keep_alive: true,
        head_only: false,
    };

    fn written(response: &Response<'_>) -> String {
        let mut out = Vec::new();
        response.write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn responses_are_complete() {
        let head = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/html\r\n\
                    Content-Length: 2\r\nX: y\r\nConnection: keep-alive\r\n\r\n";
        assert_eq!(written(&ANSWER), format!("{head}ok"));
        let to_head = Response {
            head_only: true,
            ..ANSWER
        };
        assert_eq!(written(&to_head), head);
        let empty = Response {
            status: 204,
            content_type: "",
            extra: b"",
            body: b"",
            keep_alive: false,
            ..ANSWER
        };
        assert_eq!(
            written(&empty),
            "HTTP/1.1 204 No Content\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn unknown_statuses_have_an_empty_reason_and_426_its_option() {
        let with = |status| written(&Response { status, ..ANSWER });
        assert!(with(299).starts_with("HTTP/1.1 299 \r\n"));
        assert!(with(426).contains("Connection: Upgrade, keep-alive\r\n"));
    }
}
