//! Owns the server side of a WebSocket over a blocking stream: the handshake, whole messages in,
//! whole messages out.

use std::io::{Read, Write};
use std::net::TcpStream;
use wire::websocket::frame::{OpCode, parse_header, unmask, write_frame};

/// Reads messages of one connection.
#[derive(Debug)]
pub struct Reader {
    stream: TcpStream,
    buf: Vec<u8>,
}

/// What came from a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    Text(Vec<u8>),
    Ping(Vec<u8>),
    /// A close frame, or the stream's end.
    End,
}

impl Reader {
    /// Answers the upgrade request; returns its target too. `None` when the client left first.
    pub fn accept(mut stream: TcpStream) -> Option<(Reader, String)> {
        stream.set_nodelay(true).ok()?;
        let mut buf = Vec::new();
        let mut chunk = [0u8; 4096];
        loop {
            let count = stream.read(&mut chunk).ok().filter(|&count| count > 0)?;
            buf.extend_from_slice(&chunk[..count]);
            let Some(head) = wire::http::parse_head(&buf).unwrap() else {
                continue;
            };
            let accept = wire::websocket::handshake::accept(&head).unwrap();
            let mut response = Vec::new();
            wire::websocket::handshake::write_accept(&mut response, &accept, None, b"");
            let target = head.target.to_string();
            let rest = buf[head.len..].to_vec();
            stream.write_all(&response).ok()?;
            return Some((Reader { stream, buf: rest }, target));
        }
    }

    pub fn next(&mut self) -> Incoming {
        let mut chunk = [0u8; 64 * 1024];
        loop {
            if let Some(incoming) = self.take() {
                return incoming;
            }
            match self.stream.read(&mut chunk) {
                Ok(count) if count > 0 => self.buf.extend_from_slice(&chunk[..count]),
                _ => return Incoming::End,
            }
        }
    }

    /// A whole frame of the buffer, if there is one.
    fn take(&mut self) -> Option<Incoming> {
        let header = parse_header(&self.buf).unwrap()?;
        let end = header.len + header.payload_len as usize;
        if self.buf.len() < end {
            return None;
        }
        unmask(&mut self.buf[header.len..end], header.mask.unwrap());
        let payload = self.buf[header.len..end].to_vec();
        self.buf.drain(..end);
        Some(match header.opcode {
            OpCode::Close => Incoming::End,
            OpCode::Ping => Incoming::Ping(payload),
            _ => Incoming::Text(payload),
        })
    }
}

/// The client may have hung up after its run: that is no error of the server.
pub fn send(mut stream: &TcpStream, opcode: OpCode, payload: &[u8]) -> bool {
    let mut frame = Vec::new();
    write_frame(&mut frame, opcode, payload);
    stream.write_all(&frame).is_ok()
}
