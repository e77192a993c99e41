//! What a session's client speaks, and so how it is told things.

use crate::dialect::speech::{Dialect, Framing};
use wire::engineio::Revision;

/// Protocol a session speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Engine.IO carrying Socket.IO.
    SocketIo,
    /// Engine.IO alone: messages go to the handler as they are.
    EngineIo,
    /// Plain protocol, JSON text.
    PlainJson,
    /// Plain protocol, MessagePack.
    PlainMsgpack,
    /// Plain WebSocket frames, which are not parsed: each is the argument of an event.
    PlainRaw,
    /// Plain protocol, JSON text, in Server-Sent Events: it hears and does not speak.
    EventStream,
    /// WebSocket messages go to the handler as they are.
    Raw,
}

impl Protocol {
    /// Name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::SocketIo => "socket.io",
            Self::EngineIo => "engine.io",
            Self::PlainJson => "plain.json",
            Self::PlainMsgpack => "plain.msgpack",
            Self::PlainRaw => "plain.raw",
            Self::EventStream => "plain.sse",
            Self::Raw => "raw",
        }
    }

    /// A plain WebSocket: its one socket is there from the start.
    pub(crate) fn is_plain_websocket(self) -> bool {
        matches!(self, Self::PlainJson | Self::PlainMsgpack | Self::PlainRaw)
    }

    /// Engine.IO carries it: it has a session id and may change its transport.
    pub fn is_engineio(self) -> bool {
        matches!(self, Self::SocketIo | Self::EngineIo)
    }
}

/// A protocol, and what is open in it: it is settled by the first request, by the first packet, and by a change of transport.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Language {
    protocol: Protocol,
    /// The revision of Engine.IO; that of today without Engine.IO.
    revision: Revision,
    /// The client asked for base64 in the place of binary (`b64=1`).
    base64: bool,
    /// It asked for offsets (`recovery=1`).
    offsets: bool,
    /// Its parser is known.
    has_parser: bool,
    /// Its packets are MessagePack.
    msgpack: bool,
}

impl Language {
    pub(crate) fn new(protocol: Protocol, revision: Revision) -> Self {
        Self {
            protocol,
            revision,
            base64: false,
            offsets: false,
            has_parser: false,
            msgpack: false,
        }
    }

    /// What its first request asks for.
    pub(crate) fn asking(self, base64: bool, offsets: bool) -> Self {
        Self {
            base64,
            offsets,
            ..self
        }
    }

    /// Its parser, once it is known, is that of MessagePack or that of JSON. Nobody changes it later.
    pub(crate) fn settle_parser(&mut self, msgpack: bool) {
        debug_assert!(!self.has_parser || self.msgpack == msgpack, "a second one");
        (self.has_parser, self.msgpack) = (true, msgpack);
    }

    /// In protocol 3 each transport says for itself whether it takes binary.
    pub(crate) fn change_transport(&mut self, base64: bool) {
        if self.is_three() {
            self.base64 = base64;
        }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Engine.IO of protocol 3: clients ping, and are in `/` without asking.
    pub(crate) fn is_three(&self) -> bool {
        self.revision == Revision::Three
    }

    /// Binary is said in base64.
    pub(crate) fn is_base64(&self) -> bool {
        self.base64
    }

    /// It wants to know the offsets of events.
    pub(crate) fn asks_offsets(&self) -> bool {
        self.offsets
    }

    /// A packet has shown which parser it has.
    pub(crate) fn has_parser(&self) -> bool {
        self.has_parser
    }

    /// Its packets are MessagePack.
    pub(crate) fn is_msgpack(&self) -> bool {
        self.msgpack
    }

    /// It speaks the plain protocol, and may come back: it says so first.
    pub(crate) fn resumes(&self) -> bool {
        let speaks = matches!(self.protocol, Protocol::PlainJson | Protocol::PlainMsgpack);
        speaks && self.offsets
    }

    /// In what it is told things.
    pub(crate) fn dialect(&self) -> Dialect {
        match self.protocol {
            Protocol::PlainJson | Protocol::EventStream => Dialect::PlainJson,
            Protocol::PlainMsgpack => Dialect::PlainMsgpack,
            Protocol::PlainRaw => Dialect::PlainRaw,
            _ if self.is_three() => Dialect::SocketIo3,
            _ if self.msgpack => Dialect::SocketIoMsgpack,
            _ => Dialect::SocketIo,
        }
    }

    /// In which frames.
    pub(crate) fn framing(&self, polls: bool) -> Framing {
        match self.base64 {
            _ if polls => Framing::Polling,
            true if self.protocol.is_engineio() => Framing::Base64,
            _ if self.protocol == Protocol::EventStream => Framing::EventStream,
            _ => Framing::WebSocket,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_of_protocol_3_say_anew_whether_they_take_binary() {
        for (revision, framing) in [
            (Revision::Three, Framing::WebSocket),
            (Revision::Four, Framing::Base64),
        ] {
            let mut language = Language::new(Protocol::SocketIo, revision).asking(true, false);
            assert_eq!(language.framing(true), Framing::Polling);
            assert_eq!(language.framing(false), Framing::Base64);
            language.change_transport(false);
            assert_eq!(language.framing(false), framing, "{revision:?}");
        }
    }

    #[test]
    fn a_parser_changes_how_a_client_is_told_things() {
        let mut language = Language::new(Protocol::SocketIo, Revision::Four);
        assert_eq!(language.dialect(), Dialect::SocketIo);
        assert!(!language.has_parser());
        language.settle_parser(true);
        assert!(language.has_parser());
        assert_eq!(language.dialect(), Dialect::SocketIoMsgpack);
    }
}
