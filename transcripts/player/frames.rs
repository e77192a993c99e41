//! What a client writes and reads: HTTP/1.1 requests and responses, and frames by the codec of the test clients.

use client::conn::masked;
use client::{Frame, OpCode};

/// The key of RFC 6455 §1.3, and the answer to it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// Separator of polling packets, and how transcripts show it.
const SEPARATOR: &str = "\x1e";
const SEPARATOR_SHOWN: &str = "␞";

/// Something a client received.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// As a transcript writes it.
    pub(super) text: String,
    /// Response headers, names in lower case.
    pub(super) headers: Vec<String>,
    /// From now on there are frames.
    pub(super) upgraded: bool,
}

/// `GET target`, `POST target body`, `OPTIONS target` or `WS target` as bytes.
pub(super) fn request(what: &str, headers: &[String]) -> Vec<u8> {
    let mut parts = what.splitn(3, ' ');
    let (method, target) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or("/"),
    );
    let body = parts
        .next()
        .unwrap_or_default()
        .replace(SEPARATOR_SHOWN, SEPARATOR);
    let mut out = match method {
        "WS" => format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
        ),
        "POST" => format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain;charset=UTF-8\r\n\
             Content-Length: {}\r\n",
            body.len()
        ),
        _ => format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n"),
    };
    for header in headers {
        out.push_str(header);
        out.push_str("\r\n");
    }
    out.push_str("\r\n");
    out.push_str(&body);
    out.into_bytes()
}

/// `ping`, `pong`, `close [code [reason]]`, `hex 01 02` (binary) or else a text message, as one masked frame.
pub(super) fn frame(what: &str) -> Vec<u8> {
    let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
    match word {
        "ping" => masked(true, OpCode::Ping, hex(rest)),
        "pong" => masked(true, OpCode::Pong, hex(rest)),
        "close" => masked(true, OpCode::Close, close_payload(rest)),
        "hex" => masked(true, OpCode::Binary, hex(rest)),
        _ => masked(true, OpCode::Text, what),
    }
}

fn close_payload(rest: &str) -> Vec<u8> {
    let (code, reason) = rest.split_once(' ').unwrap_or((rest, ""));
    match code.parse::<u16>() {
        Ok(code) => [&code.to_be_bytes(), reason.as_bytes()].concat(),
        Err(_) => Vec::new(),
    }
}

/// `01 02 ff` or `0102ff`.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).unwrap_or_default();
        u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("not hex: {pair:?} in {text:?}"))
    };
    digits.chunks(2).map(byte).collect()
}

fn show_hex(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(" ")
}

/// The response at the front of `bytes` and its length, once it is whole.
pub(super) fn response(bytes: &[u8]) -> Option<(Item, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end - 4]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<String> = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            format!("{}: {}", name.to_ascii_lowercase(), value.trim())
        })
        .collect();
    let length = headers
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |text| text.parse().expect("a content length"));
    let body = bytes.get(end..end + length)?;
    if status == "101" {
        let accept = format!("sec-websocket-accept: {ACCEPT}");
        assert!(headers.contains(&accept), "{accept} is not in {headers:?}");
    }
    let body = String::from_utf8_lossy(body).replace(SEPARATOR, SEPARATOR_SHOWN);
    let upgraded = status == "101";
    let text = format!("{status} {body}").trim_end().to_owned();
    Some((
        Item {
            text,
            headers,
            upgraded,
        },
        end + length,
    ))
}

/// The frame at the front of `bytes` and its length, once it is whole.
pub(super) fn incoming(bytes: &[u8]) -> Option<(Item, usize)> {
    let mut rest = bytes.to_vec();
    let frame = Frame::take(&mut rest, false)?;
    let text = match (frame.opcode, &frame.payload[..]) {
        (OpCode::Text, _) => frame.text().to_owned(),
        (OpCode::Binary, payload) => format!("hex {}", show_hex(payload)),
        (OpCode::Close, [high, low, reason @ ..]) => {
            let code = u16::from_be_bytes([*high, *low]);
            format!("close {code} {}", String::from_utf8_lossy(reason))
        }
        (OpCode::Close, _) => "close".to_owned(),
        (OpCode::Ping, payload) => format!("ping {}", show_hex(payload)),
        (OpCode::Pong, payload) => format!("pong {}", show_hex(payload)),
        (OpCode::Continuation, _) => panic!("half a message from a server"),
    };
    let item = Item {
        text: text.trim_end().to_owned(),
        headers: Vec::new(),
        upgraded: false,
    };
    Some((item, bytes.len() - rest.len()))
}
