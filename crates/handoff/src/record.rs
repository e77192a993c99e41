//! The record of one session and of the connection that carries it, version 1. Times are lengths: two processes have no clock in common.

use crate::counting::Dues;
use crate::keepsakes::Return;
use prost::Message;

impl Session {
    /// Its bytes in a message.
    pub fn size(&self) -> usize {
        self.encoded_len()
    }
}

impl Visitor {
    /// Its bytes in a message.
    pub fn size(&self) -> usize {
        self.encoded_len()
    }
}

/// One client's session.
#[derive(Clone, PartialEq, Message)]
pub struct Session {
    /// Its id, 15 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub sid: Vec<u8>,
    /// 1 Socket.IO, 2 Engine.IO alone, 3 plain JSON, 4 plain MessagePack, 5 raw frames, 6 event stream, 7 raw.
    #[prost(uint32, tag = "2")]
    pub protocol: u32,
    /// Of Engine.IO: 3 or 4.
    #[prost(uint32, tag = "3")]
    pub revision: u32,
    /// Four or sixteen bytes.
    #[prost(bytes = "vec", tag = "4")]
    pub peer: Vec<u8>,
    /// Binary goes to it as base64.
    #[prost(bool, tag = "5")]
    pub base64: bool,
    /// It asked for offsets.
    #[prost(bool, tag = "6")]
    pub asks_offsets: bool,
    /// A first packet came, so that its parser is known.
    #[prost(bool, tag = "7")]
    pub heard_packet: bool,
    /// Its packets are MessagePack.
    #[prost(bool, tag = "8")]
    pub msgpack: bool,
    /// It was in a namespace once.
    #[prost(bool, tag = "9")]
    pub joined: bool,
    #[prost(message, optional, tag = "10")]
    pub heart: Option<Heart>,
    #[prost(message, repeated, tag = "11")]
    pub sockets: Vec<Socket>,
    /// A binary packet whose attachments are still coming.
    #[prost(message, optional, tag = "12")]
    pub partial: Option<Attached>,
    /// Query of the opening request, where it is kept.
    #[prost(string, tag = "13")]
    pub query: String,
    /// Header lines of the opening request, where they are kept.
    #[prost(bytes = "vec", tag = "14")]
    pub headers: Vec<u8>,
    /// Hashes of namespaces that it left.
    #[prost(fixed64, repeated, tag = "15")]
    pub parted: Vec<u64>,
    /// Namespaces that it was not let into.
    #[prost(uint32, tag = "16")]
    pub refusals: u32,
    /// The token of its opening request, which nobody has looked at.
    #[prost(string, optional, tag = "17")]
    pub token: Option<String>,
    /// What that token says, once it was looked at.
    #[prost(message, optional, tag = "18")]
    pub claims: Option<Claims>,
    #[prost(message, optional, tag = "19")]
    pub conn: Option<Conn>,
    /// In the place of a connection: it polls, and no poll of it waits.
    #[prost(message, optional, tag = "20")]
    pub polling: Option<Polling>,
    /// The name of its program, for operators.
    #[prost(string, tag = "21")]
    pub agent: String,
    /// Names and kinds of its token's claims, for operators.
    #[prost(string, tag = "22")]
    pub claim_kinds: String,
    /// How far it has come, if it is an event stream.
    #[prost(message, optional, tag = "24")]
    pub reading: Option<Reading>,
    /// What it has used of rates.
    #[prost(message, optional, tag = "30")]
    pub dues: Option<Dues>,
}

/// How far an event stream has come in the rooms that it asked for.
#[derive(Clone, PartialEq, Message)]
pub struct Reading {
    /// The log of which all offsets are.
    #[prost(fixed64, tag = "1")]
    pub log: u64,
    /// Each once.
    #[prost(message, repeated, tag = "2")]
    pub rooms: Vec<Reached>,
    /// Its client said where it had stopped.
    #[prost(bool, tag = "3")]
    pub returns: bool,
}

/// Where an event stream stands in a room.
#[derive(Clone, PartialEq, Message)]
pub struct Reached {
    #[prost(string, tag = "1")]
    pub room: String,
    /// The client has all that the room keeps up to here.
    #[prost(uint64, optional, tag = "2")]
    pub offset: Option<u64>,
    /// What the room keeps: 0 was not asked for, 1 is awaited, 2 was told.
    #[prost(uint32, tag = "3")]
    pub told: u32,
}

/// What a session has that polls.
#[derive(Clone, PartialEq, Message)]
pub struct Polling {
    /// What its next poll gets, in order.
    #[prost(message, repeated, tag = "1")]
    pub queue: Vec<Unit>,
    /// A hash of what its last request was called.
    #[prost(fixed64, tag = "2")]
    pub last: u64,
    /// The WebSocket by which it is on its way up.
    #[prost(message, optional, tag = "3")]
    pub probe: Option<Probe>,
    /// A request of it whose rest is still to come.
    #[prost(message, optional, tag = "4")]
    pub post: Option<Post>,
}

/// A POST whose head was read.
#[derive(Clone, PartialEq, Message)]
pub struct Post {
    /// Its descriptor comes beside the record of the session.
    #[prost(message, optional, tag = "1")]
    pub conn: Option<Conn>,
    /// Four or sixteen bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub peer: Vec<u8>,
    /// Bytes of its body that were not worked on, those among what was read included.
    #[prost(uint32, tag = "3")]
    pub left: u32,
    /// Its body is a form.
    #[prost(bool, tag = "4")]
    pub form: bool,
    /// The packets of its body were counted.
    #[prost(bool, tag = "5")]
    pub counted: bool,
    /// Header lines of its answer.
    #[prost(bytes = "vec", tag = "6")]
    pub cors: Vec<u8>,
    /// Another request may follow.
    #[prost(bool, tag = "7")]
    pub keep_alive: bool,
}

/// A WebSocket that is about to carry a session that polls.
#[derive(Clone, PartialEq, Message)]
pub struct Probe {
    /// Its descriptor comes beside the record of the session.
    #[prost(message, optional, tag = "1")]
    pub conn: Option<Conn>,
    /// Four or sixteen bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub peer: Vec<u8>,
    /// Since its handshake.
    #[prost(uint32, tag = "3")]
    pub waited_ms: u32,
    /// Its client takes no binary there.
    #[prost(bool, tag = "4")]
    pub base64: bool,
    /// It asked whether it is heard, and was answered.
    #[prost(bool, tag = "5")]
    pub answered: bool,
}

impl Session {
    /// Its connections, whose descriptors come beside the record in this order: the one that carries it, or the one that is about to and
    /// the one that brings a POST.
    pub fn conns(&self) -> impl Iterator<Item = &Conn> {
        let polling = self.polling.as_ref();
        let probe = polling.and_then(|own| own.probe.as_ref()?.conn.as_ref());
        let post = polling.and_then(|own| own.post.as_ref()?.conn.as_ref());
        [self.conn.as_ref(), probe, post].into_iter().flatten()
    }

    /// The same, for the one who knows their sockets.
    pub fn conns_mut(&mut self) -> impl Iterator<Item = &mut Conn> {
        let (probe, post) = match &mut self.polling {
            Some(own) => (own.probe.as_mut(), own.post.as_mut()),
            None => (None, None),
        };
        let probe = probe.and_then(|probe| probe.conn.as_mut());
        let post = post.and_then(|post| post.conn.as_mut());
        [self.conn.as_mut(), probe, post].into_iter().flatten()
    }

    /// `None`: these bytes are no record.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes).ok()
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// Pings and what answers them.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Heart {
    /// Since the last ping.
    #[prost(uint32, tag = "1")]
    pub silent_ms: u32,
    #[prost(bool, tag = "2")]
    pub awaiting_pong: bool,
    #[prost(bool, tag = "3")]
    pub heard: bool,
    #[prost(bool, tag = "4")]
    pub extended: bool,
    /// Number of the length of its interval.
    #[prost(uint32, tag = "5")]
    pub step: u32,
}

/// One session's membership in one namespace.
#[derive(Clone, PartialEq, Message)]
pub struct Socket {
    /// 15 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// Without the room of its own id.
    #[prost(string, repeated, tag = "3")]
    pub rooms: Vec<String>,
    /// It left the room of its own id.
    #[prost(bool, tag = "4")]
    pub nameless: bool,
    #[prost(string, optional, tag = "5")]
    pub user: Option<String>,
    /// Raw JSON that a handler attached.
    #[prost(string, optional, tag = "6")]
    pub data: Option<String>,
    /// Raw JSON of its CONNECT, where it is kept.
    #[prost(string, optional, tag = "7")]
    pub auth: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub grants: Option<Grants>,
    #[prost(string, optional, tag = "9")]
    pub label: Option<String>,
    /// Unix time at which its token ends; 0: never.
    #[prost(uint32, tag = "10")]
    pub expires_s: u32,
    /// Answers that its client waits for.
    #[prost(uint32, tag = "11")]
    pub owed: u32,
    /// Those of them that its backend owes.
    #[prost(message, repeated, tag = "12")]
    pub acks: Vec<Owed>,
    /// Questions of its backend that its client has not answered.
    #[prost(message, repeated, tag = "13")]
    pub asked: Vec<Asked>,
    /// Questions of other nodes to many that its client has not answered.
    #[prost(message, repeated, tag = "14")]
    pub rounds: Vec<Round>,
    /// Numbers of its handler: of its last record for each bridge.
    #[prost(uint64, repeated, tag = "15")]
    pub numbers: Vec<u64>,
    /// Where its client comes back by the store that all nodes read.
    #[prost(message, optional, tag = "16")]
    pub lifeline: Option<Lifeline>,
    /// Where its client comes back by the journal of its shard.
    #[prost(message, optional, tag = "20")]
    pub returns: Option<Return>,
}

/// By which the client of a socket comes back.
#[derive(Clone, PartialEq, Message)]
pub struct Lifeline {
    /// The client's secret.
    #[prost(string, tag = "1")]
    pub pid: String,
    /// The user of its token.
    #[prost(string, optional, tag = "2")]
    pub uid: Option<String>,
    /// Whoever takes it next has a larger one.
    #[prost(uint64, tag = "3")]
    pub fence: u64,
    /// From which entry of the stream to which it was a member of what, as it is stored.
    #[prost(bytes = "vec", tag = "4")]
    pub deed: Vec<u8>,
    /// Its client was told that something is missing, and has not proved that it knows.
    #[prost(bool, tag = "5")]
    pub gap: bool,
}

/// A question of another node to many, as one client was asked.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Round {
    /// The id by which it was asked.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Who waits for the answer.
    #[prost(uint32, tag = "2")]
    pub node: u32,
    #[prost(uint32, tag = "3")]
    pub shard: u32,
    /// The number under which that one knows the question.
    #[prost(uint64, tag = "4")]
    pub number: u64,
    /// How long it waits in all.
    #[prost(uint64, tag = "5")]
    pub timeout_ms: u64,
}

/// A question that a client has not answered.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Asked {
    /// The id by which it was asked.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The number under which the backend knows it.
    #[prost(uint64, tag = "2")]
    pub query: u64,
    /// For so long it is waited for.
    #[prost(uint64, tag = "3")]
    pub left_ms: u64,
}

/// An answer that a backend owes to a client.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Owed {
    /// The number under which the backend knows it.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// The id by which the client asked.
    #[prost(uint64, tag = "2")]
    pub id: u64,
}

/// What a token allows with rooms.
#[derive(Clone, PartialEq, Message)]
pub struct Grants {
    #[prost(string, repeated, tag = "1")]
    pub join: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub publish: Vec<String>,
}

/// What a token says.
#[derive(Clone, PartialEq, Message)]
pub struct Claims {
    #[prost(string, tag = "1")]
    pub uid: String,
    #[prost(uint64, optional, tag = "2")]
    pub expires_s: Option<u64>,
    #[prost(string, repeated, tag = "3")]
    pub rooms: Vec<String>,
    #[prost(message, optional, tag = "4")]
    pub grants: Option<Grants>,
    #[prost(string, optional, tag = "5")]
    pub label: Option<String>,
    /// Names and kinds of all that the token says, for operators.
    #[prost(string, optional, tag = "6")]
    pub kinds: Option<String>,
}

/// A binary packet, as far as it has come.
#[derive(Clone, PartialEq, Message)]
pub struct Attached {
    #[prost(string, tag = "1")]
    pub text: String,
    #[prost(uint32, tag = "2")]
    pub wanted: u32,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub attachments: Vec<Vec<u8>>,
    /// Since it was announced.
    #[prost(uint32, tag = "4")]
    pub waited_ms: u32,
}

/// The connection that carries a session. Its descriptor comes beside the record.
#[derive(Clone, PartialEq, Message)]
pub struct Conn {
    /// A Unix socket and not TCP.
    #[prost(bool, tag = "1")]
    pub unix: bool,
    /// Read and not understood yet.
    #[prost(bytes = "vec", tag = "2")]
    pub input: Vec<u8>,
    /// To be written, in order.
    #[prost(message, repeated, tag = "3")]
    pub output: Vec<Unit>,
    /// Bytes of the first of them that are out.
    #[prost(uint32, tag = "4")]
    pub sent: u32,
    /// How messages to it are compressed: 0 not, 1 each by itself, 2 the same in a small window.
    #[prost(uint32, tag = "5")]
    pub deflate: u32,
    /// Compression was agreed on.
    #[prost(bool, tag = "6")]
    pub inflates: bool,
}

/// A connection without a session: its request is still to come, or another one.
#[derive(Clone, PartialEq, Message)]
pub struct Visitor {
    /// Four or sixteen bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub peer: Vec<u8>,
    /// A Unix socket and not TCP.
    #[prost(bool, tag = "2")]
    pub unix: bool,
    /// Read and not understood yet.
    #[prost(bytes = "vec", tag = "3")]
    pub input: Vec<u8>,
    /// It made a request before.
    #[prost(bool, tag = "4")]
    pub served: bool,
    /// It may begin with a header of the PROXY protocol.
    #[prost(bool, tag = "5")]
    pub preface: bool,
    /// The proxy that made the connection, if that is not its peer.
    #[prost(bytes = "vec", tag = "6")]
    pub proxy: Vec<u8>,
}

/// What is sent or dropped as a whole.
#[derive(Clone, PartialEq, Message)]
pub struct Unit {
    #[prost(bytes = "vec", tag = "1")]
    pub bytes: Vec<u8>,
    /// What becomes of it if its client is slow: 0 it stays, 1 disconnect, 2 drop the oldest, 3 drop the newest.
    #[prost(uint32, tag = "2")]
    pub fate: u32,
    /// Packets in it, for those who poll.
    #[prost(uint32, tag = "3")]
    pub packets: u32,
    /// Never compressed, for those who poll.
    #[prost(bool, tag = "4")]
    pub exempt: bool,
}
