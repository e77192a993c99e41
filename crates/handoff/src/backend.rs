//! The record of one backend: its workers, its sockets, and what is between them. Its parts of the protocol of workers stay as they are there.

use prost::Message;

/// What one backend knows.
#[derive(Clone, PartialEq, Message)]
pub struct Backend {
    #[prost(message, repeated, tag = "1")]
    pub workers: Vec<Worker>,
    #[prost(message, repeated, tag = "2")]
    pub homes: Vec<Home>,
    /// Answers that clients wait for, the oldest first.
    #[prost(message, repeated, tag = "3")]
    pub waits: Vec<Wait>,
    /// Newcomers about whom somebody is to decide, the oldest first.
    #[prost(message, repeated, tag = "4")]
    pub decisions: Vec<Due>,
    /// Workers that were given up, the oldest first.
    #[prost(message, repeated, tag = "5")]
    pub past: Vec<Past>,
    /// Ends of nodes of which no worker has heard.
    #[prost(message, repeated, tag = "6")]
    pub nodes_gone: Vec<NodeGone>,
    /// Number of the next worker.
    #[prost(uint64, tag = "7")]
    pub hired: u64,
    /// Questions so far.
    #[prost(uint64, tag = "8")]
    pub asked: u64,
    /// Those that are open.
    #[prost(message, repeated, tag = "9")]
    pub questions: Vec<Question>,
    /// If it is called: calls that failed in a row.
    #[prost(uint32, tag = "10")]
    pub failures: u32,
    /// For so long only one call at a time finds out whether the endpoint is well again.
    #[prost(uint64, tag = "11")]
    pub rests_ms: u64,
    /// Lives of `homes` that clients began when they came back, and that wait for the end of the one before: of each socket in their order.
    #[prost(message, repeated, tag = "12")]
    pub later: Vec<Home>,
    /// Lives so far.
    #[prost(uint64, tag = "13")]
    pub lives: u64,
}

impl Backend {
    /// `None`: these bytes are no record.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes).ok()
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// One worker. It comes back by a link of its own, and both sides go on with the numbers that they had.
#[derive(Clone, PartialEq, Message)]
pub struct Worker {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub instance: String,
    #[prost(uint64, tag = "3")]
    pub weight: u64,
    /// Another node is its first.
    #[prost(bool, tag = "4")]
    pub away: bool,
    #[prost(bool, tag = "5")]
    pub announces: bool,
    /// Whether it wants to decide about requests for sessions, if it has said so.
    #[prost(bool, optional, tag = "6")]
    pub openings: Option<bool>,
    #[prost(uint64, tag = "7")]
    pub overdue: u64,
    #[prost(bool, tag = "8")]
    pub leaving: bool,
    /// Sockets that move next.
    #[prost(string, repeated, tag = "9")]
    pub parting: Vec<String>,
    /// Number of the first of `sent`.
    #[prost(uint64, tag = "10")]
    pub first: u64,
    /// All up to this number have begun, by its own word.
    #[prost(uint64, tag = "11")]
    pub begun_told: u64,
    /// What it was sent and has not begun.
    #[prost(message, repeated, tag = "12")]
    pub sent: Vec<Item>,
    /// What it has begun.
    #[prost(message, repeated, tag = "13")]
    pub begun: Vec<Item>,
    /// What waits for it.
    #[prost(message, repeated, tag = "14")]
    pub waiting: Vec<Item>,
    /// Number of the item that is the only one under way; 0: none is.
    #[prost(uint64, tag = "15")]
    pub sole: u64,
    /// Number of the last of its commands that was taken in.
    #[prost(uint64, tag = "16")]
    pub taken: u64,
    /// It was told to begin anew, and nobody knows whether it has read that.
    #[prost(bool, tag = "17")]
    pub in_doubt: bool,
    /// Commands of its last life that were taken in.
    #[prost(uint64, optional, tag = "18")]
    pub before: Option<u64>,
}

/// An item that is kept for a worker.
#[derive(Clone, PartialEq, Message)]
pub struct Item {
    /// As the protocol has it.
    #[prost(bytes = "vec", tag = "1")]
    pub item: Vec<u8>,
    /// The socket that it is about; empty: none.
    #[prost(string, tag = "2")]
    pub about: String,
    /// Since it came.
    #[prost(uint64, tag = "3")]
    pub age_ms: u64,
    /// Ends of workers at which it was under way, and those at which it was alone.
    #[prost(uint32, tag = "4")]
    pub met: u32,
    #[prost(uint32, tag = "5")]
    pub alone: u32,
    /// Its number for its worker, where that is not known by its place.
    #[prost(uint64, tag = "6")]
    pub number: u64,
    /// The life of the socket that it is about.
    #[prost(uint64, tag = "7")]
    pub life: u64,
}

/// One socket as its backend knows it.
#[derive(Clone, PartialEq, Message)]
pub struct Home {
    #[prost(string, tag = "1")]
    pub socket: String,
    /// Its `Connect`, as the protocol has it.
    #[prost(bytes = "vec", tag = "2")]
    pub introduction: Vec<u8>,
    /// 0 its worker decides, 1 it is in, 2 it is gone and its worker has not heard of that.
    #[prost(uint32, tag = "3")]
    pub phase: u32,
    #[prost(bool, tag = "4")]
    pub admitted: bool,
    #[prost(uint64, optional, tag = "5")]
    pub worker: Option<u64>,
    /// Its shard was told to close it.
    #[prost(bool, tag = "6")]
    pub closing: bool,
    /// 0 its worker gets all news of it, 1 the worker ended it, 2 it was told to part from it, 3 its handlers had heard of the end.
    #[prost(uint32, tag = "7")]
    pub bond: u32,
    /// Since it has its worker, or none.
    #[prost(uint64, tag = "8")]
    pub age_ms: u64,
    /// Number of its last item.
    #[prost(uint64, tag = "9")]
    pub sequence: u64,
    /// Items that wait for a worker.
    #[prost(message, repeated, tag = "10")]
    pub held: Vec<Item>,
    /// Handled ones whose clients wait for the answer.
    #[prost(message, repeated, tag = "11")]
    pub owed: Vec<Item>,
    /// Calls about it that failed in a row.
    #[prost(uint32, tag = "12")]
    pub attempts: u32,
    /// It is not called for before.
    #[prost(uint64, tag = "13")]
    pub pause_ms: u64,
    /// The number of its life: a client that comes back to its id begins another.
    #[prost(uint64, tag = "14")]
    pub life: u64,
    /// The number of the CONNECT about which its worker decides.
    #[prost(uint64, tag = "15")]
    pub number: u64,
}

/// An answer that a client waits for.
#[derive(Clone, PartialEq, Message)]
pub struct Wait {
    #[prost(string, tag = "1")]
    pub socket: String,
    #[prost(uint64, tag = "2")]
    pub ack: u64,
    #[prost(uint64, tag = "3")]
    pub age_ms: u64,
}

/// Something is done about a socket after so long.
#[derive(Clone, PartialEq, Message)]
pub struct Due {
    #[prost(string, tag = "1")]
    pub socket: String,
    #[prost(uint64, tag = "2")]
    pub left_ms: u64,
}

/// A worker that was given up, and the number of its last command.
#[derive(Clone, PartialEq, Message)]
pub struct Past {
    #[prost(string, tag = "1")]
    pub instance: String,
    #[prost(uint64, tag = "2")]
    pub commands: u64,
}

/// A question of a worker that is open.
#[derive(Clone, PartialEq, Message)]
pub struct Question {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(uint64, tag = "2")]
    pub worker: u64,
    /// The worker's own number.
    #[prost(uint64, tag = "3")]
    pub query: u64,
    /// The answer, if nobody else answers.
    #[prost(message, optional, tag = "4")]
    pub item: Option<Item>,
}

/// Another node that is gone.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct NodeGone {
    #[prost(uint32, tag = "1")]
    pub node: u32,
    #[prost(uint64, tag = "2")]
    pub life: u64,
}

/// A piece of a backend's record.
#[derive(Clone, PartialEq, Message)]
pub struct Piece {
    /// Of the backend.
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub bytes: Vec<u8>,
    /// It is the last.
    #[prost(bool, tag = "3")]
    pub ends: bool,
}

/// A socket that its process keeps, to send it away.
#[derive(Clone, PartialEq, Message)]
pub struct Stay {
    #[prost(string, tag = "1")]
    pub socket: String,
    #[prost(string, repeated, tag = "2")]
    pub rooms: Vec<String>,
}

/// Some of these.
#[derive(Clone, PartialEq, Message)]
pub struct Stays {
    #[prost(message, repeated, tag = "1")]
    pub sockets: Vec<Stay>,
}
