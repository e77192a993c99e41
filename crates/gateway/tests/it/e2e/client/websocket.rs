//! A WebSocket client (RFC 6455): handshake, masked frames out, whole frames in.

use super::PATIENCE;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// The nonce of the RFC's own example and the answer it must get (section 1.3).
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
    /// The connection ended without (or after) a close frame.
    End,
}

#[derive(Debug)]
pub struct WebSocket {
    stream: TcpStream,
    /// Received, not yet taken.
    inbox: Vec<u8>,
}

impl WebSocket {
    pub fn connect(addr: SocketAddr, path: &str, headers: &str) -> Self {
        Self::upgrade(TcpStream::connect(addr).expect("connect"), path, headers)
    }

    /// Shakes hands on a connection made by the caller.
    pub fn upgrade(mut stream: TcpStream, path: &str, headers: &str) -> Self {
        stream.set_nodelay(true).expect("no delay");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("read timeout");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{headers}\r\n"
        );
        stream
            .write_all(request.as_bytes())
            .expect("send the handshake");
        let mut socket = Self {
            stream,
            inbox: Vec::new(),
        };
        let end = loop {
            if let Some(at) = socket.inbox.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            let so_far = String::from_utf8_lossy(&socket.inbox).into_owned();
            assert!(
                socket.fill(),
                "connection closed in the handshake: {so_far:?}"
            );
        };
        let head = String::from_utf8(socket.inbox.drain(..end).collect()).expect("head in UTF-8");
        assert!(head.starts_with("HTTP/1.1 101 "), "not upgraded: {head:?}");
        assert!(
            head.contains(ACCEPT),
            "wrong Sec-WebSocket-Accept: {head:?}"
        );
        socket
    }

    pub fn text(&mut self, text: &str) {
        self.send(1, text.as_bytes());
    }

    pub fn binary(&mut self, bytes: &[u8]) {
        self.send(2, bytes);
    }

    pub fn pong(&mut self, bytes: &[u8]) {
        // The server may be gone already; what it sent before is still to be read.
        let _ = self.try_send(10, bytes);
    }

    /// Answers or begins the closing handshake.
    pub fn close(&mut self, code: Option<u16>) {
        let payload = code.map(u16::to_be_bytes);
        let _ = self.try_send(8, payload.as_ref().map_or(&[], |code| &code[..]));
    }

    fn send(&mut self, opcode: u8, payload: &[u8]) {
        self.try_send(opcode, payload).expect("send a frame");
    }

    pub fn try_send(&mut self, opcode: u8, payload: &[u8]) -> std::io::Result<()> {
        let mut frame = vec![0x80 | opcode];
        match payload.len() {
            len @ 0..126 => frame.push(0x80 | len as u8),
            len @ 126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend((len as u16).to_be_bytes());
            }
            len => {
                frame.push(0x80 | 127);
                frame.extend((len as u64).to_be_bytes());
            }
        }
        frame.extend(MASK);
        frame.extend(
            payload
                .iter()
                .zip(MASK.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        self.stream.write_all(&frame)
    }

    /// The next frame; panics when none comes.
    pub fn frame(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.take() {
                return frame;
            }
            if !self.fill() {
                return Frame::End;
            }
        }
    }

    /// Reads more; false at the end. A reset is an end like another.
    fn fill(&mut self) -> bool {
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(n) => {
                self.inbox.extend_from_slice(&chunk[..n]);
                n > 0
            }
            Err(error) if is_timeout(&error) => panic!("nothing came within {PATIENCE:?}"),
            Err(_) => false,
        }
    }

    /// A whole frame off the front of the inbox.
    fn take(&mut self) -> Option<Frame> {
        let (first, second) = (*self.inbox.first()?, *self.inbox.get(1)?);
        assert_eq!(
            first & 0xf0,
            0x80,
            "the server never fragments and sets no reserved bit"
        );
        let (start, len) = match second {
            126 => (
                4,
                u16::from_be_bytes(self.inbox.get(2..4)?.try_into().ok()?).into(),
            ),
            127 => (
                10,
                u64::from_be_bytes(self.inbox.get(2..10)?.try_into().ok()?) as usize,
            ),
            len => {
                assert!(len < 126, "the server never masks");
                (2, usize::from(len))
            }
        };
        let payload = self.inbox.get(start..start + len)?.to_vec();
        self.inbox.drain(..start + len);
        if self.inbox.is_empty() {
            // Thousands of idle clients should not keep what they once needed.
            self.inbox = Vec::new();
        }
        Some(decode(first & 0x0f, payload))
    }
}

fn decode(opcode: u8, payload: Vec<u8>) -> Frame {
    let text = |payload| String::from_utf8(payload).expect("text in UTF-8");
    match opcode {
        1 => Frame::Text(text(payload)),
        2 => Frame::Binary(payload),
        8 if payload.is_empty() => Frame::Close(None, String::new()),
        8 => {
            let code = u16::from_be_bytes([payload[0], payload[1]]);
            Frame::Close(Some(code), text(payload[2..].to_vec()))
        }
        9 => Frame::Ping(payload),
        10 => Frame::Pong(payload),
        other => panic!("opcode {other} from the server"),
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
