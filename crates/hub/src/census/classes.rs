//! Sessions counted by what a drain means for their clients.

use crate::clients::session::{Protocol, Session};
use crate::parts::Parts;

/// So many sessions of each kind. A session is of one transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// All.
    pub all: u64,
    /// Socket.IO by WebSocket.
    pub websocket: u64,
    /// Socket.IO by WebTransport.
    pub webtransport: u64,
    /// Socket.IO by long-polling.
    pub polling: u64,
    /// The plain protocol by WebSocket, and WebSockets without one.
    pub plain: u64,
    /// Event streams.
    pub streams: u64,
    /// Sessions whose messages may be compressed.
    pub compressed: u64,
    /// Sessions whose clients can come back to what they missed.
    pub recoverable: u64,
    /// Sessions whose connection another node passes on.
    pub relayed: u64,
}

impl Classes {
    pub(super) fn count(&mut self, parts: &Parts, session: &Session) {
        let conn = parts.line.conns.get(session.conn);
        let of = |is_so: bool| u64::from(is_so);
        self.all += 1;
        self.compressed += of(conn.is_some_and(|conn| conn.handshake.inflates()));
        self.recoverable += of(parts.people.is_recoverable(session));
        self.relayed += of(conn.is_some_and(|conn| conn.origin.is_relayed()));
        let transport = match session.language.protocol() {
            Protocol::EventStream => &mut self.streams,
            _ if session.polling.is_some() => &mut self.polling,
            _ if session.flags.carried => &mut self.webtransport,
            Protocol::SocketIo | Protocol::EngineIo => &mut self.websocket,
            Protocol::PlainJson | Protocol::PlainMsgpack | Protocol::PlainRaw | Protocol::Raw => {
                &mut self.plain
            }
        };
        *transport += 1;
    }

    /// The sum of two shards.
    pub fn and(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            websocket: self.websocket + other.websocket,
            webtransport: self.webtransport + other.webtransport,
            polling: self.polling + other.polling,
            plain: self.plain + other.plain,
            streams: self.streams + other.streams,
            compressed: self.compressed + other.compressed,
            recoverable: self.recoverable + other.recoverable,
            relayed: self.relayed + other.relayed,
        }
    }
}
