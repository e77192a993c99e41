//! The plain protocol as a client, in JSON or MessagePack.

use super::websocket::{Frame, WebSocket};
use super::{Event, as_bytes, bytes, msgpack, replace};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::net::SocketAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Msgpack,
}

#[derive(Debug)]
pub struct Plain {
    pub socket: WebSocket,
    encoding: Encoding,
    acks: u64,
}

impl Plain {
    pub fn connect(addr: SocketAddr, encoding: Encoding) -> Self {
        let headers = match encoding {
            Encoding::Json => "",
            Encoding::Msgpack => "Sec-WebSocket-Protocol: sockeye.msgpack\r\n",
        };
        Self::over(WebSocket::connect(addr, "/ws", headers), encoding)
    }

    /// Over a WebSocket opened by the caller.
    pub fn over(socket: WebSocket, encoding: Encoding) -> Self {
        Self {
            socket,
            encoding,
            acks: 0,
        }
    }

    /// Sends an object as it is.
    pub fn send(&mut self, message: &Value) {
        match self.encoding {
            Encoding::Json => {
                let mut message = message.clone();
                replace(&mut message, &mut |value| {
                    let encoded = BASE64_STANDARD.encode(as_bytes(value)?);
                    Some(json!({ "_binary": encoded }))
                });
                self.socket.text(&message.to_string());
            }
            Encoding::Msgpack => self.socket.binary(&msgpack::encode(message)),
        }
    }

    /// Sends an object with an id and returns the answer's payload as arguments.
    pub fn ask(&mut self, mut message: Value) -> Vec<Value> {
        self.acks += 1;
        message["id"] = self.acks.into();
        self.send(&message);
        let answer = self.receive();
        assert_eq!(
            (&answer["type"], &answer["id"]),
            (&json!("ack"), &json!(self.acks)),
            "{answer}"
        );
        arguments(&answer)
    }

    pub fn join(&mut self, room: &str) -> Vec<Value> {
        self.ask(json!({ "type": "join", "room": room }))
    }

    /// Sends an event by the documented mapping.
    pub fn emit(&mut self, name: &str, args: &[Value]) {
        self.send(&match args {
            [one] => json!({ "type": name, "payload": one }),
            [] => json!({ "type": name, "payload": null, "args": 0 }),
            several => json!({ "type": name, "payload": several, "args": several.len() }),
        });
    }

    /// The next message as an object.
    pub fn receive(&mut self) -> Value {
        loop {
            match self.socket.frame() {
                Frame::Ping(payload) => self.socket.pong(&payload),
                frame => {
                    return self
                        .decode(&frame)
                        .unwrap_or_else(|| panic!("a message was due, not {frame:?}"));
                }
            }
        }
    }

    /// The message in a frame, if it holds one in this client's encoding.
    pub fn decode(&self, frame: &Frame) -> Option<Value> {
        match (self.encoding, frame) {
            (Encoding::Json, Frame::Text(text)) => {
                let mut message = serde_json::from_str(text).expect("a message in JSON");
                replace(&mut message, &mut |value| {
                    let encoded = value.as_object()?.get("_binary")?.as_str()?;
                    Some(bytes(&BASE64_STANDARD.decode(encoded).expect("base64")))
                });
                Some(message)
            }
            (Encoding::Msgpack, Frame::Binary(bytes)) => Some(msgpack::decode(bytes)),
            _ => None,
        }
    }

    /// The next event by the documented mapping.
    #[expect(clippy::should_implement_trait, reason = "events have no end")]
    pub fn next(&mut self) -> Event {
        let message = self.receive();
        Event {
            name: message["type"]
                .as_str()
                .unwrap_or_else(|| panic!("no type: {message}"))
                .to_owned(),
            args: arguments(&message),
            ack: message["id"].as_u64(),
            room: message["room"].as_str().map(str::to_owned),
        }
    }

    /// Messages until the close frame, and what that says.
    pub fn until_closed(&mut self) -> (Vec<Value>, Option<u16>, String) {
        let mut messages = Vec::new();
        loop {
            match self.socket.frame() {
                Frame::Close(code, text) => {
                    self.socket.close(code);
                    return (messages, code, text);
                }
                Frame::End => return (messages, None, "end of stream".to_owned()),
                Frame::Ping(payload) => self.socket.pong(&payload),
                frame => messages.extend(self.decode(&frame)),
            }
        }
    }
}

fn arguments(message: &Value) -> Vec<Value> {
    let payload = message
        .get("payload")
        .unwrap_or_else(|| panic!("no payload: {message}"));
    match (message.get("args").map(Value::as_u64), payload) {
        (None, one) => vec![one.clone()],
        (Some(Some(0)), Value::Null) => Vec::new(),
        (Some(Some(count)), Value::Array(several))
            if count == several.len() as u64 && count > 1 =>
        {
            several.clone()
        }
        _ => panic!("payload and args do not fit: {message}"),
    }
}
