//! Engine.IO 4 as a client: packets over WebSocket or long-polling, every polling request on a new connection.

use super::http::request;
use super::websocket::{Frame, WebSocket};
use crate::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::net::SocketAddr;

/// An Engine.IO message, or the end of the session.
#[derive(Clone, Debug, PartialEq)]
pub enum Packet {
    Text(String),
    Binary(Vec<u8>),
    /// Code and text of a close frame; an Engine.IO close packet has neither.
    Closed(Option<u16>, String),
}

pub trait Transport: Send + Debug {
    fn send(&mut self, packets: &[Packet]);
    /// The next message; heartbeats are answered on the way.
    fn receive(&mut self) -> Packet;
}

/// The open packet's JSON.
pub fn open_session(text: &str) -> Value {
    let json = text
        .strip_prefix('0')
        .unwrap_or_else(|| panic!("no open packet: {text:?}"));
    serde_json::from_str(json).expect("an open packet in JSON")
}

impl Transport for WebSocket {
    fn send(&mut self, packets: &[Packet]) {
        for packet in packets {
            match packet {
                Packet::Text(text) => self.text(&format!("4{text}")),
                Packet::Binary(bytes) => self.binary(bytes),
                Packet::Closed(code, _) => self.close(*code),
            }
        }
    }

    fn receive(&mut self) -> Packet {
        loop {
            match self.frame() {
                Frame::Text(text) if text == "2" => {
                    // The session may be closing already.
                    self.try_text("3");
                }
                Frame::Text(text) if text == "1" || text == "6" => {}
                Frame::Text(text) => {
                    let message = text.strip_prefix('4');
                    return Packet::Text(message.unwrap_or_else(|| panic!("{text:?}")).to_owned());
                }
                Frame::Binary(bytes) => return Packet::Binary(bytes),
                Frame::Ping(payload) => self.pong(&payload),
                Frame::Pong(_) => {}
                Frame::Close(code, text) => {
                    self.close(code);
                    return Packet::Closed(code, text);
                }
                Frame::End => return Packet::Closed(None, "end of stream".to_owned()),
            }
        }
    }
}

/// A long-polling session.
#[derive(Debug)]
pub struct Polling {
    addr: SocketAddr,
    pub path: String,
    pub open: Value,
    received: VecDeque<Packet>,
}

impl Polling {
    pub fn connect(addr: SocketAddr, query: &str) -> Self {
        let path = format!("/socket.io/?EIO=4&transport=polling{query}");
        let answer = request(addr, "GET", &path, "", "");
        assert_eq!(answer.status, 200, "{answer:?}");
        let open = open_session(&answer.body);
        let sid = open["sid"].as_str().expect("a sid");
        let path = format!("{path}&sid={sid}");
        Self {
            addr,
            path,
            open,
            received: VecDeque::new(),
        }
    }

    /// Another handle for a session, by its path.
    pub fn again(addr: SocketAddr, path: &str) -> Self {
        Self {
            addr,
            path: path.to_owned(),
            open: Value::Null,
            received: VecDeque::new(),
        }
    }

    pub fn post(&self, body: &str) -> Response {
        request(
            self.addr,
            "POST",
            &self.path,
            "Content-Type: text/plain;charset=UTF-8\r\n",
            body,
        )
    }

    pub fn poll(&self) -> Response {
        request(self.addr, "GET", &self.path, "", "")
    }

    fn take(&mut self, payload: &str) {
        for packet in payload.split('\x1e') {
            let (kind, rest) = packet.split_at(1);
            match kind {
                "2" => assert_eq!(self.post("3").status, 200),
                "4" => self.received.push_back(Packet::Text(rest.to_owned())),
                "b" => {
                    let bytes = BASE64_STANDARD.decode(rest).expect("base64");
                    self.received.push_back(Packet::Binary(bytes));
                }
                "1" => self
                    .received
                    .push_back(Packet::Closed(None, "close packet".to_owned())),
                "6" => {}
                _ => panic!("a packet of no known type: {packet:?}"),
            }
        }
    }
}

impl Transport for Polling {
    fn send(&mut self, packets: &[Packet]) {
        let encoded: Vec<String> = packets.iter().map(encode).collect();
        let answer = self.post(&encoded.join("\x1e"));
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
    }

    fn receive(&mut self) -> Packet {
        loop {
            if let Some(packet) = self.received.pop_front() {
                return packet;
            }
            let answer = self.poll();
            if answer.status != 200 {
                return Packet::Closed(None, format!("{} {}", answer.status, answer.body));
            }
            self.take(&answer.body);
        }
    }
}

fn encode(packet: &Packet) -> String {
    match packet {
        Packet::Text(text) => format!("4{text}"),
        Packet::Binary(bytes) => format!("b{}", BASE64_STANDARD.encode(bytes)),
        Packet::Closed(..) => "1".to_owned(),
    }
}
