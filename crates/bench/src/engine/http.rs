//! Owns the reading of HTTP answers by a client that polls or listens to an event stream, and the
//! few requests it makes. RFC 9112 as far as the servers under test use it.

use crate::loss::Loss;
use wire::http::Chunked;

/// What follows an answer's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    Length(usize),
    Chunked,
    /// Everything until the connection ends.
    UntilEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub body: Body,
    /// The server ends the connection behind this answer (RFC 9112 §9.6).
    pub closes: bool,
    /// Bytes up to and including the blank line.
    pub len: usize,
}

/// Longest head that is waited for.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Parses an answer's head; `None` while it is incomplete.
pub fn parse_head(bytes: &[u8]) -> Result<Option<Head>, Loss> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return match bytes.len() > HEAD_BYTES_MAX {
            true => Err(Loss::Unexpected("an endless answer head")),
            false => Ok(None),
        };
    };
    let text = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1."));
    let status = status.and_then(|rest| rest.get(2..5)?.parse().ok());
    let status = status.ok_or(Loss::Unexpected("no HTTP status line"))?;
    let mut body = Body::UntilEnd;
    let mut closes = text.starts_with("HTTP/1.0");
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let length = value
                .parse()
                .map_err(|_| Loss::Unexpected("a bad Content-Length"))?;
            body = Body::Length(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding")
            && value.eq_ignore_ascii_case("chunked")
        {
            body = Body::Chunked;
        } else if name.eq_ignore_ascii_case("connection") {
            let mut options = value.split(',').map(str::trim);
            closes |= options.any(|option| option.eq_ignore_ascii_case("close"));
        }
    }
    Ok(Some(Head {
        status,
        body,
        closes,
        len: end + 4,
    }))
}

/// A whole answer with a body of known length: its head, and where its body is.
pub fn parse_answer(bytes: &[u8]) -> Result<Option<(Head, std::ops::Range<usize>)>, Loss> {
    let Some(head) = parse_head(bytes)? else {
        return Ok(None);
    };
    let length = match head.body {
        Body::Length(length) => length,
        _ if head.status != 200 => 0,
        _ => return Err(Loss::Unexpected("a poll's answer without Content-Length")),
    };
    let body = head.len..head.len + length;
    Ok((bytes.len() >= body.end).then_some((head, body)))
}

/// An event stream under way (WHATWG HTML §9.2, "Server-sent events").
#[derive(Debug)]
pub struct EventStream {
    chunked: Option<Chunked>,
    line: Vec<u8>,
    /// The last line ended in CR: an LF that comes now belongs to it.
    after_cr: bool,
    is_first_line: bool,
    name: Vec<u8>,
    /// Each data line with LF behind it.
    data: Vec<u8>,
}

/// May stand before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Longest event that is kept.
const EVENT_BYTES_MAX: usize = 1 << 20;

impl EventStream {
    pub fn new(body: Body) -> Self {
        EventStream {
            chunked: (body == Body::Chunked).then(Chunked::default),
            line: Vec::new(),
            after_cr: false,
            is_first_line: true,
            name: Vec::new(),
            data: Vec::new(),
        }
    }

    /// Takes bytes off the wire; returns how many were used, and hands every event to `each`.
    pub fn take(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<usize, Loss> {
        let Some(chunked) = &mut self.chunked else {
            self.lines(bytes, &mut each)?;
            return Ok(bytes.len());
        };
        let limit = EVENT_BYTES_MAX + bytes.len();
        let used = chunked
            .decode(bytes, limit)
            .map_err(|_| Loss::Unexpected("bad chunks"))?;
        let body = std::mem::take(&mut chunked.body);
        let is_done = chunked.is_done();
        self.lines(&body, &mut each)?;
        match is_done {
            true => Err(Loss::EndOfStream),
            false => Ok(used),
        }
    }

    /// Lines end in LF, CR or both.
    fn lines(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8], &[u8])) -> Result<(), Loss> {
        for part in bytes.split_inclusive(|&byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match part {
                [text @ .., end @ (b'\n' | b'\r')] => (text, Some(*end)),
                text => (text, None),
            };
            let is_second_half = self.after_cr && part == b"\n";
            self.after_cr = end == Some(b'\r');
            if is_second_half {
                continue;
            }
            self.line.extend_from_slice(text);
            if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                return Err(Loss::FrameTooLarge);
            }
            if end.is_some() {
                let mut line = std::mem::take(&mut self.line);
                self.line_ended(&line, each);
                line.clear();
                self.line = line;
            }
        }
        Ok(())
    }

    fn line_ended(&mut self, line: &[u8], each: &mut impl FnMut(&[u8], &[u8])) {
        let is_first = std::mem::take(&mut self.is_first_line);
        let line = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(text) if is_first => text,
            _ => line,
        };
        if line.is_empty() {
            return self.event_ended(each);
        }
        let colon = line
            .iter()
            .position(|&byte| byte == b':')
            .unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"event" => self.name = value.to_vec(),
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            _ => {}
        }
    }

    fn event_ended(&mut self, each: &mut impl FnMut(&[u8], &[u8])) {
        if let Some(data) = self.data.strip_suffix(b"\n") {
            let name: &[u8] = match self.name.is_empty() {
                true => b"message",
                false => &self.name,
            };
            each(name, data);
        }
        self.name.clear();
        self.data.clear();
    }
}

/// Appends a request without a body.
pub fn write_get(out: &mut Vec<u8>, host: &str, target: &str, extra: &str) {
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{extra}\r\n");
    out.extend_from_slice(head.as_bytes());
}

pub fn write_post(out: &mut Vec<u8>, host: &str, target: &str, body: &[u8]) {
    let length = body.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/plain;charset=UTF-8\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_when_they_are_whole() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 2\r\n\r\nok";
        let (head, body) = parse_answer(answer).unwrap().unwrap();
        assert_eq!((head.status, head.closes, body), (200, false, 38..40));
        assert_eq!(parse_answer(&answer[..39]), Ok(None));
        assert_eq!(parse_answer(&answer[..20]), Ok(None));
        assert!(parse_answer(b"SMTP ready\r\n\r\n").is_err());
        assert!(parse_answer(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        let last = b"HTTP/1.1 503 Busy\r\nConnection: TE, Close\r\n\r\n";
        let (head, _) = parse_answer(last).unwrap().unwrap();
        assert_eq!((head.status, head.closes), (503, true));
    }

    fn events(body: Body, text: &[u8], step: usize) -> Vec<(String, String)> {
        let mut stream = EventStream::new(body);
        let mut events = Vec::new();
        let mut pending = Vec::new();
        for chunk in text.chunks(step) {
            pending.extend_from_slice(chunk);
            let used = stream.take(&pending, |name, data| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                events.push((text(name), text(data)));
            });
            pending.drain(..used.unwrap());
        }
        events
    }

    #[test]
    fn events_are_found_however_the_bytes_are_cut() {
        let plain =
            b": hello\n\nevent: tick\ndata: a\ndata: b\nid: 7\n\ndata:c\r\n\r\nevent: none\n\n";
        let chunked = b"d\r\nevent: tick\nd\r\n8\r\nata: a\nd\r\n10\r\nata: b\n\ndata:c\n\n\r\n";
        let expected = [("tick", "a\nb"), ("message", "c")];
        let expected = expected.map(|(name, data)| (name.to_owned(), data.to_owned()));
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(events(Body::UntilEnd, plain, step), expected, "{step}");
            assert_eq!(
                events(Body::Chunked, chunked, step),
                expected,
                "chunked, {step}"
            );
        }
    }

    #[test]
    fn lines_may_end_in_any_way_and_events_may_be_empty() {
        let text =
            b"\xEF\xBB\xBFdata: a\rdata:\r\ndata: b\n\revent: tick\r\n\r\ndata\r\rdata: c\n\n";
        let expected = [("message", "a\n\nb"), ("message", ""), ("message", "c")];
        let expected = expected.map(|(name, data)| (name.to_owned(), data.to_owned()));
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(events(Body::UntilEnd, text, step), expected, "{step}");
        }
        let mut endless = EventStream::new(Body::UntilEnd);
        let line = [b"data: ".as_slice(), &[b'x'; 100_000], b"\n"].concat();
        let outcome = (0..20).try_for_each(|_| endless.take(&line, |_, _| ()).map(|_| ()));
        assert_eq!(outcome, Err(Loss::FrameTooLarge));
    }
}
