//! The server's side of HTTP and WebSocket for servers that tests run, with a codec that is not ours: a fault in `wire` shows.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::{Read, Write};
use std::net::TcpStream;
pub use tungstenite::protocol::frame::Frame;
pub use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::{Role, WebSocket};

/// The head of a request.
pub struct Head(String);

impl Head {
    /// `None` when the client left first. Byte by byte, so that nothing behind it is taken.
    pub fn read(mut stream: &TcpStream) -> Option<Head> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        Some(Head(String::from_utf8(head).unwrap()))
    }

    pub fn target(&self) -> &str {
        self.0.split(' ').nth(1).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.0.lines().filter_map(|line| line.split_once(": "));
        let mut lines = lines.filter(|(own, _)| own.eq_ignore_ascii_case(name));
        lines.next().map(|(_, value)| value)
    }
}

/// Reads messages of one connection, and answers pings.
pub struct Reader(WebSocket<TcpStream>);

impl Reader {
    /// Answers the upgrade request (RFC 6455 §4.2.2); `None` when the client left first.
    pub fn accept(mut stream: TcpStream, head: &Head) -> Option<Reader> {
        let key = head.header("Sec-WebSocket-Key").unwrap();
        let proof = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
        let proof = digest(&SHA1_FOR_LEGACY_USE_ONLY, proof.as_bytes());
        let proof = STANDARD.encode(proof);
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {proof}\r\n\r\n"
        );
        stream.set_nodelay(true).ok()?;
        stream.write_all(answer.as_bytes()).ok()?;
        let socket = WebSocket::from_raw_socket(stream, Role::Server, None);
        Some(Reader(socket))
    }

    /// The next text; `None` at a close frame or the stream's end.
    pub fn next(&mut self) -> Option<String> {
        loop {
            let message = self.0.read().ok()?;
            if message.is_close() {
                return None;
            }
            if message.is_text() {
                return Some(message.into_text().unwrap().to_string());
            }
        }
    }
}

pub fn text(text: &[u8]) -> Vec<u8> {
    bytes(Frame::message(
        text.to_vec(),
        OpCode::Data(Data::Text),
        true,
    ))
}

pub fn bytes(frame: Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.format(&mut bytes).unwrap();
    bytes
}
