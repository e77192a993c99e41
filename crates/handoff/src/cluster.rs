//! The record of a node's place in its cluster: how far the others have heard it, what it keeps for them, and how far it has heard them.
//! Moments are those of the clock of the process that wrote it, which goes on in the next one.

use prost::Message;

/// Which life of which node this is. The next process goes on as the same.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Membership {
    #[prost(uint32, tag = "1")]
    pub node: u32,
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// The random number by which other nodes know the process.
    #[prost(uint64, tag = "3")]
    pub life: u64,
    /// Seconds since 1970.
    #[prost(uint64, tag = "4")]
    pub started_s: u64,
    /// Where other nodes bring connections for sessions of this one; empty: nowhere.
    #[prost(string, tag = "5")]
    pub relay: String,
}

/// What a node knows of itself and the others.
#[derive(Clone, PartialEq, Message)]
pub struct Place {
    #[prost(uint64, tag = "1")]
    pub now_us: u64,
    /// Heartbeats so far.
    #[prost(uint64, tag = "2")]
    pub beats: u64,
    /// Position in the flood of the last changes of own keys.
    #[prost(uint64, tag = "3")]
    pub changes_at: u64,
    #[prost(message, optional, tag = "4")]
    pub sent: Option<Sent>,
    #[prost(message, repeated, tag = "5")]
    pub peers: Vec<Peer>,
    /// Keys that the others were told.
    #[prost(fixed64, repeated, tag = "6")]
    pub announced: Vec<u64>,
    /// Joins that other nodes were asked for.
    #[prost(message, repeated, tag = "7")]
    pub expected: Vec<Expected>,
}

impl Place {
    /// `None`: these bytes are no record.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes).ok()
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// A node may hold a key soon.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Expected {
    #[prost(uint32, tag = "1")]
    pub node: u32,
    #[prost(fixed64, tag = "2")]
    pub key: u64,
    #[prost(uint64, tag = "3")]
    pub until_us: u64,
}

/// What was sent.
#[derive(Clone, PartialEq, Message)]
pub struct Sent {
    /// Letters for all.
    #[prost(message, optional, tag = "1")]
    pub flood: Option<Lane>,
    /// Letters for one each.
    #[prost(message, repeated, tag = "2")]
    pub lanes: Vec<Lane>,
    #[prost(uint32, tag = "3")]
    pub last_lane: u32,
    /// Nodes that were given up and may come back, the longest ago first.
    #[prost(uint32, repeated, tag = "4")]
    pub resting: Vec<u32>,
    /// Frames that the engine has not taken, in order.
    #[prost(message, repeated, tag = "5")]
    pub queue: Vec<Queued>,
}

/// One sequence of letters.
#[derive(Clone, PartialEq, Message)]
pub struct Lane {
    /// 0 for the flood.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(uint32, tag = "2")]
    pub node: u32,
    #[prost(uint64, tag = "3")]
    pub epoch: u64,
    /// Position of the flood where it began.
    #[prost(uint64, tag = "4")]
    pub base: u64,
    /// Position of the last letter in a frame.
    #[prost(uint64, tag = "5")]
    pub closed: u64,
    /// Letters that are in no frame yet, each behind its length.
    #[prost(bytes = "vec", tag = "6")]
    pub open: Vec<u8>,
    #[prost(uint32, tag = "7")]
    pub open_count: u32,
    #[prost(uint64, tag = "8")]
    pub opened_us: u64,
    #[prost(message, repeated, tag = "9")]
    pub kept: Vec<Kept>,
    /// 0 its peer is there, 1 frames are kept for it since `rests_us`, 2 letters are only counted.
    #[prost(uint32, tag = "10")]
    pub rest: u32,
    #[prost(uint64, tag = "11")]
    pub rests_us: u64,
}

/// A frame that can be sent again.
#[derive(Clone, PartialEq, Message)]
pub struct Kept {
    #[prost(uint64, tag = "1")]
    pub first: u64,
    #[prost(uint64, tag = "2")]
    pub last: u64,
    #[prost(uint64, tag = "3")]
    pub sent_us: u64,
    #[prost(bytes = "vec", tag = "4")]
    pub frame: Vec<u8>,
}

/// A frame that waits for the engine.
#[derive(Clone, PartialEq, Message)]
pub struct Queued {
    /// The node whose channel it is for; none: the channel of all.
    #[prost(uint32, optional, tag = "1")]
    pub node: Option<u32>,
    #[prost(bytes = "vec", tag = "2")]
    pub frame: Vec<u8>,
}

/// One other node.
#[derive(Clone, PartialEq, Message)]
pub struct Peer {
    #[prost(uint32, tag = "1")]
    pub node: u32,
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    #[prost(bool, tag = "3")]
    pub up: bool,
    #[prost(bool, tag = "4")]
    pub leaving: bool,
    /// The last of its heartbeats.
    #[prost(uint64, tag = "5")]
    pub beat: u64,
    /// Epochs of its earlier lives.
    #[prost(uint64, repeated, tag = "6")]
    pub past: Vec<u64>,
    #[prost(uint64, tag = "7")]
    pub silent_us: u64,
    /// The position of this node's flood that it has.
    #[prost(uint64, tag = "8")]
    pub confirmed: u64,
    /// This node's lane there.
    #[prost(uint32, optional, tag = "9")]
    pub lane: Option<u32>,
    #[prost(message, optional, tag = "10")]
    pub inbox: Option<Track>,
    #[prost(message, optional, tag = "11")]
    pub flood: Option<Track>,
    /// Until then it may hold any key soon.
    #[prost(uint64, tag = "12")]
    pub expected_us: u64,
}

/// One sequence of another node, as far as it was heard.
#[derive(Clone, PartialEq, Message)]
pub struct Track {
    /// All letters up to here were handed on.
    #[prost(uint64, tag = "1")]
    pub got: u64,
    /// There are letters up to here.
    #[prost(uint64, tag = "2")]
    pub top: u64,
    /// Frames that wait for earlier ones.
    #[prost(message, repeated, tag = "3")]
    pub held: Vec<Held>,
}

/// A frame that waits.
#[derive(Clone, PartialEq, Message)]
pub struct Held {
    /// Position of its first letter.
    #[prost(uint64, tag = "1")]
    pub first: u64,
    /// Position of the other sequence that must be there before.
    #[prost(uint64, tag = "2")]
    pub other_before: u64,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub letters: Vec<Vec<u8>>,
}

/// How far the streams of namespaces were passed on (recovery of level `cluster`).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Streams {
    #[prost(message, repeated, tag = "1")]
    pub streams: Vec<Stream>,
}

/// One namespace's.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Stream {
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// The number of the last entry that the shards have.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// The name of the Redis that has it: another one may lack what this one had last.
    #[prost(string, tag = "3")]
    pub generation: String,
}
