//! Owns how the generator speaks to a server: the target description and the cheap reading of
//! incoming messages. It looks at one or two bytes of a message, never at its JSON.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What a server speaks on the connections under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Socket.IO 5 over Engine.IO 4 over WebSocket.
    SocketIo,
    /// Any WebSocket endpoint that is merely connected to.
    Plain,
    /// Bare WebSocket by a convention of one letter: `j` joins (answered `j`), `e…` is echoed,
    /// `p…` goes to everyone who joined.
    Bare,
}

/// The server under test and how its application is driven.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Target {
    pub addr: SocketAddr,
    pub protocol: Protocol,
    /// Request target of the WebSocket handshake.
    pub path: String,
    pub events: EventNames,
}

/// Socket.IO servers differ only by the names of their events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventNames {
    /// `emit(join, room)`, acknowledged.
    pub join: String,
    /// `emit(echo, payload)`, acknowledged with the payload.
    pub echo: String,
    /// `emit(publish, payload)`: to everyone in room `bench`, the sender included.
    pub publish: String,
    /// `emit(publish_own, payload)`: to everyone in the sender's rooms, the sender included.
    pub publish_own: String,
}

impl Default for EventNames {
    fn default() -> Self {
        EventNames {
            join: "join".into(),
            echo: "echo".into(),
            publish: "pub".into(),
            publish_own: "pub-own".into(),
        }
    }
}

/// The room everyone joins unless a load is spread over several.
pub const ROOM: &str = "bench";

/// One incoming message, as far as a load generator cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Engine.IO open packet: the Socket.IO connect may be sent.
    EngineOpen,
    /// Engine.IO ping: must be answered or the server hangs up.
    EnginePing,
    /// Connected to the namespace.
    Connected,
    /// The namespace refused us.
    Refused,
    /// Answer to an event (or to `j`, `e…`).
    Ack,
    /// A broadcast, as far as it carries a stamp.
    Event,
}

impl Target {
    pub fn new(addr: SocketAddr, protocol: Protocol) -> Self {
        let path = match protocol {
            Protocol::SocketIo => "/socket.io/?EIO=4&transport=websocket",
            Protocol::Plain => "/ws",
            Protocol::Bare => "/",
        };
        Target {
            addr,
            protocol,
            path: path.into(),
            events: EventNames::default(),
        }
    }

    /// Appends the message that joins `room`.
    pub fn write_join(&self, out: &mut Vec<u8>, id: u32, room: &str) {
        match self.protocol {
            Protocol::SocketIo => write_event(out, Some(id), &self.events.join, room.as_bytes()),
            Protocol::Plain | Protocol::Bare => out.push(b'j'),
        }
    }

    /// Appends an event whose answer carries the same payload.
    pub fn write_echo(&self, out: &mut Vec<u8>, id: u32, payload: &[u8]) {
        match self.protocol {
            Protocol::SocketIo => write_event(out, Some(id), &self.events.echo, payload),
            Protocol::Plain | Protocol::Bare => write_lettered(out, b'e', payload),
        }
    }

    /// Appends a broadcast; `own` addresses the sender's rooms instead of room `bench`.
    pub fn write_publish(&self, out: &mut Vec<u8>, own: bool, payload: &[u8]) {
        let name = if own {
            &self.events.publish_own
        } else {
            &self.events.publish
        };
        match self.protocol {
            Protocol::SocketIo => write_event(out, None, name, payload),
            Protocol::Plain | Protocol::Bare => write_lettered(out, b'p', payload),
        }
    }
}

impl Protocol {
    /// Reads the kind of a message from its first bytes; `None` for what needs no reaction.
    pub fn classify(self, message: &[u8]) -> Option<Incoming> {
        match self {
            Protocol::SocketIo => classify_socket_io(message),
            Protocol::Plain => None,
            Protocol::Bare => match message.first()? {
                b'e' | b'j' => Some(Incoming::Ack),
                _ => Some(Incoming::Event),
            },
        }
    }
}

/// Engine.IO packet digit, then for messages the Socket.IO packet digit.
fn classify_socket_io(message: &[u8]) -> Option<Incoming> {
    match (message.first()?, message.get(1)) {
        (b'4', Some(b'2')) => Some(Incoming::Event),
        (b'4', Some(b'3')) => Some(Incoming::Ack),
        (b'2', None) => Some(Incoming::EnginePing),
        (b'0', _) => Some(Incoming::EngineOpen),
        (b'4', Some(b'0')) => Some(Incoming::Connected),
        (b'4', Some(b'4')) => Some(Incoming::Refused),
        _ => None,
    }
}

fn write_event(out: &mut Vec<u8>, id: Option<u32>, name: &str, argument: &[u8]) {
    out.extend_from_slice(b"42");
    if let Some(id) = id {
        write_decimal(out, id);
    }
    out.extend_from_slice(b"[\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\",\"");
    out.extend_from_slice(argument);
    out.extend_from_slice(b"\"]");
}

fn write_lettered(out: &mut Vec<u8>, letter: u8, payload: &[u8]) {
    out.push(letter);
    out.extend_from_slice(payload);
}

fn write_decimal(out: &mut Vec<u8>, value: u32) {
    if value >= 10 {
        write_decimal(out, value / 10);
    }
    out.push(b'0' + (value % 10) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(protocol: Protocol) -> Target {
        Target::new("127.0.0.1:1".parse().unwrap(), protocol)
    }

    #[test]
    fn socket_io_messages_have_their_wire_form() {
        let target = target(Protocol::SocketIo);
        let mut out = Vec::new();
        target.write_join(&mut out, 0, "bench");
        assert_eq!(out, br#"420["join","bench"]"#);
        out.clear();
        target.write_echo(&mut out, 1203, b"~x");
        assert_eq!(out, br#"421203["echo","~x"]"#);
        out.clear();
        target.write_publish(&mut out, false, b"~x");
        assert_eq!(out, br#"42["pub","~x"]"#);
    }

    #[test]
    fn socket_io_messages_are_told_apart() {
        let classify = |text: &str| Protocol::SocketIo.classify(text.as_bytes());
        assert_eq!(classify(r#"0{"sid":"a"}"#), Some(Incoming::EngineOpen));
        assert_eq!(classify("2"), Some(Incoming::EnginePing));
        assert_eq!(classify(r#"40{"sid":"b"}"#), Some(Incoming::Connected));
        assert_eq!(classify(r#"44{"message":"no"}"#), Some(Incoming::Refused));
        assert_eq!(classify(r#"430[]"#), Some(Incoming::Ack));
        assert_eq!(classify(r#"42["pub","x"]"#), Some(Incoming::Event));
        assert_eq!(classify("6"), None);
        assert_eq!(classify(""), None);
    }
}
