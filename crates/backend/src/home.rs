//! One socket as its backend knows it.

use crate::entry::Entry;
use crate::items::Items;
use crate::name::Name;
use crate::proto;
use prost::Message;

/// How far a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its worker decides whether it is let in: about the CONNECT with this number.
    Deciding {
        number: u64,
    },
    In,
    /// It ended; its worker has not heard of it yet.
    Gone,
}

/// How far its worker and the socket are from each other. The end of a socket has one worker: this says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bond {
    /// The worker gets all news of it.
    Whole,
    /// The worker ended it: the news of its end is that worker's, and no other hears of it.
    Ending,
    /// The worker was told that it goes: the news of its end is the next worker's.
    Parting,
    /// The worker's handlers had heard of its end when they were told so: nobody else hears of it.
    Over,
}

/// The `Connect` of a socket. It is kept as it is on the wire: one block of memory for as long as the socket lives.
#[derive(Debug, Default)]
pub(crate) struct Introduction(Box<[u8]>);

impl Introduction {
    pub(crate) fn of(connect: &proto::Connect) -> Self {
        Self(connect.encode_to_vec().into())
    }

    /// As another process kept it; `None`: it is none.
    pub(crate) fn restored(bytes: &[u8]) -> Option<Self> {
        proto::Connect::decode(bytes).ok()?;
        Some(Self(bytes.into()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn open(&self) -> proto::Connect {
        proto::Connect::decode(&*self.0).unwrap_or_default()
    }
}

/// The place of a socket among those that wait for a call of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// Its place in the row: alone or with others, and when.
    pub(crate) due: Option<(bool, u64)>,
    pub(crate) flying: bool,
    /// Calls that failed in a row.
    pub(crate) attempts: u32,
    pub(crate) not_before_ms: u64,
}

#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) introduction: Introduction,
    pub(crate) phase: Phase,
    /// It was let in.
    pub(crate) admitted: bool,
    pub(crate) worker: Option<u64>,
    /// The worker that let its session open.
    pub(crate) opener: Option<u64>,
    /// Its shard was asked for rooms and data, because it is to move.
    pub(crate) describing: bool,
    /// Its shard was told to close it.
    pub(crate) closing: bool,
    pub(crate) bond: Bond,
    /// Since when it has its worker, or none.
    pub(crate) since_ms: u64,
    /// When it is looked at while it has no worker; 0 = not at all.
    pub(crate) look_ms: u64,
    pub(crate) items: Items,
    pub(crate) turn: Turn,
}

impl Home {
    /// What one costs that is here for the sake of an entry, with its places in tables and its names.
    pub(crate) const BYTES: usize =
        size_of::<Self>() + 2 * size_of::<(Name, Box<Self>)>() + size_of::<proto::Connect>();

    pub(crate) fn new(introduction: Introduction, phase: Phase, now_ms: u64) -> Self {
        Self {
            introduction,
            phase,
            admitted: false,
            worker: None,
            opener: None,
            describing: false,
            closing: false,
            bond: Bond::Whole,
            since_ms: now_ms,
            look_ms: 0,
            items: Items::default(),
            turn: Turn::default(),
        }
    }

    pub(crate) fn is_deciding(&self) -> bool {
        self.deciding().is_some()
    }

    /// The number of the CONNECT about which its worker decides.
    pub(crate) fn deciding(&self) -> Option<u64> {
        match self.phase {
            Phase::Deciding { number } => Some(number),
            Phase::In | Phase::Gone => None,
        }
    }

    /// It is let in. Returns the bytes that this frees.
    pub(crate) fn admit(&mut self) -> usize {
        self.phase = Phase::In;
        self.admitted = true;
        self.items.admit()
    }

    /// It has no worker any more.
    pub(crate) fn lose_worker(&mut self, now_ms: u64) {
        self.worker = None;
        self.since_ms = now_ms;
        self.describing = false;
        self.bond = Bond::Whole;
    }

    /// It ended: only its names are wanted.
    pub(crate) fn strip(&mut self) {
        let connect = self.introduction.open();
        self.introduction = Introduction::of(&proto::Connect {
            namespace: connect.namespace,
            user: connect.user,
            ..proto::Connect::default()
        });
        self.items.shrink();
    }

    /// Bytes that it takes while it waits for a worker after its end.
    pub(crate) fn kept_bytes(&self) -> usize {
        Self::BYTES + self.introduction.bytes()
    }

    /// Its client waits for what the worker makes of a handled item.
    pub(crate) fn waits_for(&self, entry: &Entry) -> bool {
        let decides = self.is_deciding() && entry.introduces();
        decides || entry.ack().is_some_and(|ack| self.items.awaits(ack))
    }
}
