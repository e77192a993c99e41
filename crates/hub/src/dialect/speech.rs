//! What can be said to a client, and the forms in which clients understand it: the words of a dialect, in frames or polling packets.

use crate::tables::repeats::Spot;
use crate::tables::slot::SocketKey;
use wire::engineio::{payload, payload3};
use wire::plain::raw;
use wire::socketio::{self, Packet, PacketType, msgpack};
use wire::websocket::frame::{self, OpCode};
use wire::{json, plain};

/// Whether an attachment has no byte: not every transport has a frame for that.
#[inline]
pub(crate) fn has_empty(attachments: &[Vec<u8>]) -> bool {
    attachments.iter().any(Vec::is_empty)
}

/// The words that a client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Socket.IO packets as text, attachments after them.
    SocketIo,
    /// Socket.IO packets as MessagePack.
    SocketIoMsgpack,
    PlainJson,
    PlainMsgpack,
    /// No words, only the arguments of events.
    PlainRaw,
    /// Socket.IO packets as text for clients of Engine.IO 3.
    SocketIo3,
}

/// How words travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    WebSocket,
    /// Frames of a WebSocket whose client takes no binary (`b64=1`).
    Base64,
    /// Packets of a polling payload. They wait as protocol 4 has them; those of protocol 3 get their form with the answer to a poll.
    Polling,
    /// Events of a `text/event-stream`, which only plain JSON clients have.
    EventStream,
}

/// The form in which a client is told things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) dialect: Dialect,
    pub(crate) framing: Framing,
    /// Events say their offset: those of Socket.IO at their end, those of the plain protocol as a member.
    pub(crate) offsets: bool,
}

/// An event to send. `args` are raw JSON elements separated by commas. `attachments` are what placeholders in them stand for, one each:
/// where an attachment is referred to again, plain clients get null. Names that only the libraries may emit
/// ([`socketio::is_reserved`]) are not sent, but logged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Emit<'a> {
    /// Its name.
    pub name: &'a str,
    /// Raw JSON elements after the name.
    pub args: &'a str,
    /// The binary that their placeholders stand for.
    pub attachments: &'a [Vec<u8>],
    /// Dropped, not queued, for clients that cannot take it this instant.
    pub volatile: bool,
    /// The one who says it.
    pub author: Author<'a>,
    /// Where it stands on a bus, if it is a command of one: each shard sends it once.
    pub spot: Option<&'a Spot>,
}

/// The author of an event. Stores of history ask for it; receivers are not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Author<'a> {
    /// The gateway's own, or that of logic outside.
    #[default]
    Program,
    /// A program's that waits until the event is stored, under this number.
    Waiting(u64),
    /// A client's.
    Client(SocketKey),
    /// A client's, by the name of its user.
    User(&'a str),
    /// Another node's, which has stored it.
    Elsewhere,
}

impl<'a> Emit<'a> {
    /// An event without binary.
    pub const fn new(name: &'a str, args: &'a str) -> Self {
        Self {
            name,
            args,
            attachments: &[],
            volatile: false,
            author: Author::Program,
            spot: None,
        }
    }
}

/// Something to say to a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    /// One of the five kinds without binary. Clients of the plain protocol hear of events and acks only.
    pub(crate) kind: PacketType,
    pub(crate) namespace: &'a str,
    /// Ack id.
    pub(crate) id: Option<u64>,
    /// Name of an event.
    pub(crate) name: &'a str,
    /// The one room that an event is for; plain clients are told.
    pub(crate) room: Option<&'a str>,
    /// Raw elements after the name or in an ack; the raw object of CONNECT and CONNECT_ERROR.
    pub(crate) data: &'a str,
    pub(crate) attachments: &'a [Vec<u8>],
    /// The offset that a plain client has after this packet, if it can come back. Other clients get theirs among the elements.
    pub(crate) offset: Option<&'a str>,
}

impl<'a> Word<'a> {
    /// A word about a membership in a namespace.
    pub(crate) fn control(kind: PacketType, namespace: &'a str, data: &'a str) -> Self {
        Self {
            kind,
            namespace,
            id: None,
            name: "",
            room: None,
            data,
            attachments: &[],
            offset: None,
        }
    }

    pub(crate) fn ack(
        namespace: &'a str,
        id: u64,
        args: &'a str,
        attachments: &'a [Vec<u8>],
    ) -> Self {
        Self {
            id: Some(id),
            attachments,
            ..Self::control(PacketType::Ack, namespace, args)
        }
    }
}

impl Dialect {
    /// Whether its messages are maps with members.
    pub(crate) fn is_plain(self) -> bool {
        matches!(self, Self::PlainJson | Self::PlainMsgpack)
    }

    /// Whether a message is one binary message of the transport.
    fn is_binary(self) -> bool {
        matches!(self, Self::SocketIoMsgpack | Self::PlainMsgpack)
    }

    /// Whether attachments follow the message.
    pub(crate) fn attaches(self) -> bool {
        matches!(self, Self::SocketIo | Self::SocketIo3)
    }

    /// Appends the message; attachments that do not stand in it follow it ([`Variant::wrap`]).
    pub(crate) fn write(self, out: &mut Vec<u8>, word: &Word<'_>) {
        match self {
            Self::SocketIo => return write_text(out, word),
            Self::SocketIo3 => return write_text(out, &in_words_of_3(word)),
            Self::PlainRaw => return write_raw(out, word),
            _ => {}
        }
        let attachments: Vec<&[u8]> = word.attachments.iter().map(Vec::as_slice).collect();
        let is_event = word.kind == PacketType::Event;
        let plain = plain::Outgoing {
            name: if is_event { word.name } else { "ack" },
            room: word.room,
            args: word.data,
            attachments: &attachments,
            id: word.id,
            offset: word.offset,
        };
        match self {
            Self::PlainJson => plain::write_json(out, &plain),
            Self::PlainMsgpack => plain::write_msgpack(out, &plain),
            _ => msgpack::write(
                out,
                &msgpack::Outgoing {
                    kind: word.kind,
                    namespace: word.namespace,
                    id: word.id,
                    name: word.name,
                    data: word.data,
                    attachments: &attachments,
                },
            ),
        }
    }
}

/// The word as clients of protocol 3 take it. They know the id of their socket already. Of a refusal they take the message alone, or
/// the data if there are some.
fn in_words_of_3<'a>(word: &Word<'a>) -> Word<'a> {
    let data = match word.kind {
        PacketType::Connect => "",
        PacketType::ConnectError => {
            let members = || json::members(word.data);
            let named = |name| members().find(|(key, _)| *key == name);
            let reason = named("\"data\"").or_else(|| named("\"message\""));
            reason.map_or(word.data, |(_, value)| value)
        }
        _ => word.data,
    };
    Word { data, ..*word }
}

/// Text of a Socket.IO packet with the Engine.IO `4` before it.
fn write_text(out: &mut Vec<u8>, word: &Word<'_>) {
    let attachments = word.attachments.len();
    let (kind, elements) = match word.kind {
        PacketType::Event if attachments > 0 => (PacketType::BinaryEvent, true),
        PacketType::Ack if attachments > 0 => (PacketType::BinaryAck, true),
        kind => (kind, matches!(kind, PacketType::Event | PacketType::Ack)),
    };
    let packet = Packet {
        kind,
        attachments,
        namespace: word.namespace,
        id: word.id,
        data: if elements { "" } else { word.data },
    };
    out.push(b'4');
    socketio::write(out, &packet);
    if !elements {
        return;
    }
    out.push(b'[');
    if word.kind == PacketType::Event {
        json::quote(out, word.name);
        if !word.data.is_empty() {
            out.push(b',');
        }
    }
    out.extend_from_slice(word.data.as_bytes());
    out.push(b']');
}

/// Appends the content of a frame after its kind, which [`wrap_raw`] reads.
fn write_raw(out: &mut Vec<u8>, word: &Word<'_>) {
    match raw::frame(word.data, word.attachments) {
        raw::Frame::Text(text) => {
            out.push(OpCode::Text as u8);
            out.extend_from_slice(text.as_bytes());
        }
        raw::Frame::Binary(bytes) => {
            out.push(OpCode::Binary as u8);
            out.extend_from_slice(bytes);
        }
    }
}

fn wrap_raw(out: &mut Vec<u8>, message: &[u8]) {
    let (kind, content) = message.split_first().unwrap_or((&0, &[]));
    let opcode = match *kind == OpCode::Binary as u8 {
        true => OpCode::Binary,
        false => OpCode::Text,
    };
    frame::write_frame(out, opcode, content);
}

impl Variant {
    /// Forms in which a message stands in frames: an event is encoded once for each.
    pub(crate) const FRAMED: usize = 18;
    /// Forms in which it stands in a polling payload.
    pub(crate) const POLLED: usize = 4;

    /// The number of the form in frames. No dialect has both base64 and event streams.
    pub(crate) fn number(self) -> usize {
        debug_assert_ne!(self.framing, Framing::Polling);
        let second = usize::from(self.framing != Framing::WebSocket);
        let form = self.dialect as usize * 2 + second;
        match (self.offsets, self.dialect) {
            (false, _) => form,
            (true, Dialect::PlainJson) => 16,
            (true, Dialect::PlainMsgpack) => 17,
            // Beside the plain dialects only the two of Socket.IO 4 have offsets, in two framings each.
            (true, _) => 12 + form % 4,
        }
    }

    /// The number of the form in polling payloads. Events wait in one form for clients of both protocols (ADR 43).
    pub(crate) fn polled(self) -> usize {
        usize::from(self.dialect == Dialect::SocketIoMsgpack) + 2 * usize::from(self.offsets)
    }

    /// Its name in metrics, by place in `books::metrics::VARIANTS`.
    pub(crate) fn metric(self) -> usize {
        match (self.dialect, self.framing) {
            (Dialect::SocketIo, Framing::Base64) => 1,
            (Dialect::SocketIo, Framing::Polling) => 2,
            (Dialect::SocketIo, _) => 0,
            (Dialect::SocketIo3, Framing::Polling) => 10,
            (Dialect::SocketIo3, _) => 9,
            (Dialect::PlainJson, Framing::EventStream) => 7,
            (Dialect::PlainJson, _) => 3,
            (Dialect::PlainMsgpack, _) => 4,
            (Dialect::PlainRaw, _) => 8,
            (Dialect::SocketIoMsgpack, Framing::Polling) => 6,
            (Dialect::SocketIoMsgpack, _) => 5,
        }
    }

    /// Appends a message and the attachments that follow it, as frames or as packets of a polling payload.
    pub(crate) fn wrap(self, out: &mut Vec<u8>, message: &[u8], attachments: &[Vec<u8>]) {
        if self.dialect == Dialect::PlainRaw {
            return wrap_raw(out, message);
        }
        self.wrap_one(out, message, self.dialect.is_binary());
        if !self.dialect.attaches() {
            return;
        }
        for attachment in attachments {
            if self.framing == Framing::Polling {
                out.push(payload::SEPARATOR);
            }
            self.wrap_one(out, attachment, true);
        }
    }

    fn wrap_one(self, out: &mut Vec<u8>, message: &[u8], binary: bool) {
        match (self.framing, binary) {
            (Framing::WebSocket | Framing::Base64, true) if self.dialect == Dialect::SocketIo3 => {
                write_binary3(out, message, self.framing == Framing::Base64);
            }
            (Framing::WebSocket, true) => frame::write_frame(out, OpCode::Binary, message),
            (Framing::Base64, true) => {
                let mut encoded = Vec::new();
                payload::write_binary(&mut encoded, message);
                frame::write_frame(out, OpCode::Text, &encoded);
            }
            (Framing::Polling, true) => payload::write_binary(out, message),
            (Framing::Polling, false) => out.extend_from_slice(message),
            (Framing::EventStream, _) => write_data(out, message),
            (_, false) => frame::write_frame(out, OpCode::Text, message),
        }
    }

    /// Engine.IO packets that [`Variant::wrap`] makes.
    pub(crate) fn packets(self, attachments: usize) -> usize {
        match self.dialect.attaches() {
            true => 1 + attachments,
            false => 1,
        }
    }
}

/// Appends a frame with a binary message of protocol 3: the type stands before it.
pub(crate) fn write_binary3(out: &mut Vec<u8>, message: &[u8], base64: bool) {
    let mut content = Vec::with_capacity(message.len() + 1);
    if base64 {
        content.extend_from_slice(b"b4");
        payload::append_base64(&mut content, message);
        return frame::write_frame(out, OpCode::Text, &content);
    }
    content.push(payload3::MESSAGE);
    content.extend_from_slice(message);
    frame::write_frame(out, OpCode::Binary, &content);
}

/// The data of an event, and its end. A line end would end the data; JSON has them between tokens only, where a space means the
/// same.
fn write_data(out: &mut Vec<u8>, json: &[u8]) {
    out.extend_from_slice(b"data: ");
    let line = json.iter().map(|byte| match byte {
        b'\n' | b'\r' => b' ',
        byte => *byte,
    });
    out.extend(line);
    out.extend_from_slice(b"\n\n");
}
