//! Request heads: the `httparse` grammar plus the strictness that keeps request smuggling out.
//! Where RFC 9112 lets a server choose between lenient and strict, strict it is: a proxy in front
//! may have chosen otherwise.

use crate::bounds::{
    HEAD_BYTES_MAX, HEADERS_MAX, METHOD_BYTES_MAX, REQUEST_LINE_BYTES_MAX, TARGET_BYTES_MAX,
};

/// Request method, as far as realtime paths tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// POST
    Post,
    /// OPTIONS, the CORS preflight.
    Options,
    /// HEAD
    Head,
    /// Any other token.
    Other,
}

impl Method {
    fn from_token(token: &str) -> Self {
        match token {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "OPTIONS" => Self::Options,
            "HEAD" => Self::Head,
            _ => Self::Other,
        }
    }
}

/// Why a request head is refused; the connection closes after the answer, since nobody can say
/// where the next request would begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// Not HTTP: bad token, bare LF or CR, NUL, blank before a colon, folded line (RFC 9112 §5).
    Malformed,
    /// Head longer than [`HEAD_BYTES_MAX`].
    TooLarge,
    /// More than [`HEADERS_MAX`] header lines.
    TooManyHeaders,
    /// Target longer than [`TARGET_BYTES_MAX`].
    TargetTooLong,
    /// Neither HTTP/1.1 nor HTTP/1.0; an HTTP/2 preface.
    Version,
    /// HTTP/1.1 without Host; repeated or malformed Host (RFC 9112 §3.2).
    MissingHost,
    /// Content-Length repeated, signed, not a number, or beside Transfer-Encoding (RFC 9112 §6.3).
    BadLength,
    /// A Transfer-Encoding other than `chunked`, or in HTTP/1.0.
    TransferEncoding,
}

impl HeadError {
    /// HTTP status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::Malformed | Self::MissingHost | Self::BadLength | Self::TransferEncoding => 400,
            Self::TargetTooLong => 414,
            Self::TooLarge | Self::TooManyHeaders => 431,
            Self::Version => 505,
        }
    }
}

/// What a client waits for before it sends the body (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// `100 Continue`.
    Continue,
    /// Something no server knows: 417.
    Unknown,
}

/// A header that must be unique is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeated;

/// One parsed request head, borrowed from the read buffer.
#[derive(Debug)]
pub struct Head<'a> {
    /// Request method.
    pub method: Method,
    /// As sent: path and query.
    pub target: &'a str,
    /// Path as sent, not decoded.
    pub path: &'a str,
    /// Without `?`; empty when there is none.
    pub query: &'a str,
    /// HTTP/1.1 rather than 1.0.
    pub http11: bool,
    /// The connection may serve another request (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// Declared body bytes.
    pub content_length: Option<u64>,
    /// The body comes in chunks (`Transfer-Encoding: chunked`).
    pub chunked: bool,
    /// Bytes up to and including the blank line.
    pub len: usize,
    headers: [httparse::Header<'a>; HEADERS_MAX],
    header_count: usize,
}

impl<'a> Head<'a> {
    /// A body follows the head.
    pub fn has_body(&self) -> bool {
        self.chunked || self.content_length.is_some_and(|bytes| bytes > 0)
    }

    /// What the client expects. Such headers of HTTP/1.0 are ignored, as they must be.
    pub fn expectation(&self) -> Option<Expectation> {
        let mut expectations = self
            .values("expect")
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|item| self.http11 && !item.is_empty())
            .peekable();
        expectations.peek()?;
        let known = expectations.all(|item| item.eq_ignore_ascii_case(b"100-continue"));
        Some(if known {
            Expectation::Continue
        } else {
            Expectation::Unknown
        })
    }

    /// First value of a header, by case-insensitive name. Values are bytes: never assume UTF-8.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// All headers in the order sent.
    pub fn headers(&self) -> impl DoubleEndedIterator<Item = (&'a str, &'a [u8])> {
        self.headers
            .iter()
            .take(self.header_count)
            .map(|header| (header.name, header.value))
    }

    /// `true` when a comma-separated header holds this token (ASCII case-insensitive).
    pub fn has_token(&self, name: &str, token: &str) -> bool {
        self.values(name)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    }

    /// Values of all header lines of a name, in the order sent.
    pub fn values(&self, name: &str) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.headers()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Value of a header that may occur only once, since two readers could pick different ones.
    pub(crate) fn single(&self, name: &str) -> Result<Option<&'a [u8]>, Repeated> {
        let mut values = self.values(name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(Repeated),
            (value, None) => Ok(value),
        }
    }

    /// Host, body length and persistence: what decides where the next request begins.
    fn check_framing(&mut self) -> Result<(), HeadError> {
        let host = self.single("host").map_err(|_| HeadError::MissingHost)?;
        if host.map_or(self.http11, |host| !is_host(host)) {
            return Err(HeadError::MissingHost);
        }
        let length = self
            .single("content-length")
            .map_err(|_| HeadError::BadLength)?;
        let coding = self
            .single("transfer-encoding")
            .map_err(|_| HeadError::TransferEncoding)?;
        if let Some(coding) = coding {
            if length.is_some() {
                return Err(HeadError::BadLength);
            }
            if !coding.eq_ignore_ascii_case(b"chunked") || !self.http11 {
                return Err(HeadError::TransferEncoding);
            }
            self.chunked = true;
        }
        self.content_length = match length {
            Some(digits) => Some(decimal(digits).ok_or(HeadError::BadLength)?),
            None => None,
        };
        self.keep_alive = if self.http11 {
            !self.has_token("connection", "close")
        } else {
            self.has_token("connection", "keep-alive")
        };
        Ok(())
    }
}

/// Parses the request head at the front of `buf`; `Ok(None)` means that more bytes are needed.
///
/// One empty line in front of the request line is skipped (RFC 9112 §2.2). What cannot become a
/// request (TLS hello, HTTP/2 preface, noise) is refused from its first bytes.
///
/// # Errors
/// Any [`HeadError`].
pub fn parse_head(buf: &[u8]) -> Result<Option<Head<'_>>, HeadError> {
    let skipped = if buf.starts_with(b"\r\n") { 2 } else { 0 };
    let Some(len) = find_end(buf, skipped)? else {
        return Ok(None);
    };
    let mut head = Head {
        method: Method::Other,
        target: "",
        path: "",
        query: "",
        http11: true,
        keep_alive: true,
        content_length: None,
        chunked: false,
        len,
        headers: [httparse::EMPTY_HEADER; HEADERS_MAX],
        header_count: 0,
    };
    let mut request = httparse::Request::new(&mut head.headers);
    let parsed = request
        .parse(buf.get(skipped..len).unwrap_or_default())
        .map_err(from_httparse)?;
    // `find_end` saw the blank line: had the parser not, the two would disagree on the framing.
    if parsed != httparse::Status::Complete(len - skipped) {
        return Err(HeadError::Malformed);
    }
    let target = request.path.unwrap_or_default();
    head.method = Method::from_token(request.method.unwrap_or_default());
    head.http11 = request.version == Some(1);
    head.header_count = request.headers.len();
    if target.len() > TARGET_BYTES_MAX {
        return Err(HeadError::TargetTooLong);
    }
    head.target = target;
    (head.path, head.query) = split_target(target);
    head.check_framing()?;
    Ok(Some(head))
}

/// Index behind the blank line, `None` while it is missing. Every line must end in CRLF: httparse
/// would take a bare LF, but not every proxy does.
fn find_end(buf: &[u8], skipped: usize) -> Result<Option<usize>, HeadError> {
    let window = &buf[..buf.len().min(HEAD_BYTES_MAX)];
    let mut line = skipped;
    for lf in memchr::memchr_iter(b'\n', window).skip_while(|&lf| lf < skipped) {
        if lf == 0 || window.get(lf - 1) != Some(&b'\r') {
            return Err(HeadError::Malformed);
        }
        if lf == line + 1 {
            // An empty first line is not the end of anything.
            return if line == skipped {
                Err(HeadError::Malformed)
            } else {
                Ok(Some(lf + 1))
            };
        }
        if line == skipped {
            check_request_line(&window[line..lf])?;
            // RFC 9112 §3: exactly two blanks; a third one would be part of some reader's target.
            if memchr::memchr_iter(b' ', &window[line..lf]).count() != 2 {
                return Err(HeadError::Malformed);
            }
        }
        line = lf + 1;
    }
    if line == skipped {
        check_request_line(&window[skipped..])?;
    }
    if buf.len() >= HEAD_BYTES_MAX {
        return Err(HeadError::TooLarge);
    }
    Ok(None)
}

/// Refuses a request line, complete or not, that can no longer become a good one.
fn check_request_line(line: &[u8]) -> Result<(), HeadError> {
    let method = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    let is_crlf_begun = method == b"\r";
    let is_method = method
        .iter()
        .all(|&byte| byte.is_ascii_alphabetic() || byte == b'-');
    if method.len() > METHOD_BYTES_MAX || !(is_method || is_crlf_begun) {
        return Err(HeadError::Malformed);
    }
    // The HTTP/2 preface (RFC 9113 §3.4) is made to look like a request.
    if line.starts_with(b"PRI ") {
        return Err(HeadError::Version);
    }
    if line.len() > REQUEST_LINE_BYTES_MAX {
        return Err(HeadError::TargetTooLong);
    }
    Ok(())
}

fn from_httparse(error: httparse::Error) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyHeaders,
        httparse::Error::Version => HeadError::Version,
        _ => HeadError::Malformed,
    }
}

/// Path and query of an origin-form target, or of the absolute form that RFC 9112 §3.2.2 obliges
/// servers to take. Others (`*`, `host:port`) are all path and match nothing.
fn split_target(target: &str) -> (&str, &str) {
    let origin = match target.split_once("://") {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") =>
        {
            match rest.find(['/', '?']) {
                Some(at) => &rest[at..],
                None => "/",
            }
        }
        _ => target,
    };
    match origin.split_once('?') {
        Some(("", query)) => ("/", query),
        Some(split) => split,
        None => (origin, ""),
    }
}

/// Nothing that could be a second host, a path or a user (RFC 9110 §7.2); empty is allowed.
fn is_host(host: &[u8]) -> bool {
    !host
        .iter()
        .any(|byte| matches!(byte, 0..=b' ' | b',' | b'/' | b'@' | b'\\' | 0x7f..))
}

/// Digits only: no sign, blank or empty text, which `str::parse` and proxies judge differently.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// A method, a field's or a subprotocol's name (RFC 9110 §5.6.2).
pub fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_token_byte(*byte))
}

pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
