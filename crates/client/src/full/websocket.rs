//! A WebSocket whose frames are taken apart.

use crate::conn::RawConn;
use crate::{Ended, OpCode, PATIENCE};
use std::net::{SocketAddr, TcpStream};

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
pub struct WebSocket(RawConn);

impl WebSocket {
    pub fn connect(addr: SocketAddr, path: &str, headers: &str) -> Self {
        Self(RawConn::websocket_with(addr, path, headers))
    }

    /// Shakes hands on a connection made by the caller.
    pub fn upgrade(stream: TcpStream, path: &str, headers: &str) -> Self {
        Self(RawConn::over(stream).upgraded(path, headers))
    }

    pub fn text(&mut self, text: &str) {
        self.0.send_text(text);
    }

    pub fn binary(&mut self, bytes: &[u8]) {
        self.0.send_binary(bytes);
    }

    /// The server may be gone already; what it sent before is still to be read.
    pub fn try_text(&mut self, text: &str) -> bool {
        self.0.try_send_frame(OpCode::Text, text)
    }

    /// The same for an answer to a ping.
    pub fn pong(&mut self, bytes: &[u8]) {
        self.0.try_send_frame(OpCode::Pong, bytes);
    }

    /// Answers or begins the closing handshake.
    pub fn close(&mut self, code: Option<u16>) {
        let payload = code.map(u16::to_be_bytes);
        let payload = payload.as_ref().map_or(&[][..], |code| code);
        self.0.try_send_frame(OpCode::Close, payload);
    }

    /// The next frame; panics when none comes.
    pub fn frame(&mut self) -> Frame {
        match self.0.frame_within(PATIENCE) {
            Ok(frame) => decode(frame),
            Err(Ended::Open) => panic!("nothing came within {PATIENCE:?}"),
            Err(Ended::Cleanly | Ended::Reset) => Frame::End,
        }
    }
}

fn decode(frame: crate::Frame) -> Frame {
    let code = frame.close_code();
    let text = |payload: &[u8]| String::from_utf8(payload.to_vec()).expect("text in UTF-8");
    match frame.opcode {
        OpCode::Text => Frame::Text(text(&frame.payload)),
        OpCode::Binary => Frame::Binary(frame.payload),
        OpCode::Ping => Frame::Ping(frame.payload),
        OpCode::Pong => Frame::Pong(frame.payload),
        OpCode::Close => Frame::Close(code, text(frame.payload.get(2..).unwrap_or_default())),
        OpCode::Continuation => panic!("a continuation of nothing: {frame:?}"),
    }
}
