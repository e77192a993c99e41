//! One socket as its backend knows it.

use crate::calls::Turn;
use crate::entry::Entry;
use crate::open::Open;
use crate::proto;
use crate::proto::item::What;
use prost::Message;
use std::collections::VecDeque;

/// How far a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its worker decides whether it is let in.
    Deciding,
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

    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn open(&self) -> proto::Connect {
        proto::Connect::decode(&*self.0).unwrap_or_default()
    }
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
    /// Events that wait while it has no worker.
    pub(crate) held: VecDeque<Entry>,
    /// Handled items whose clients still wait for the answer: they come again if the worker is lost.
    pub(crate) owed: Vec<Entry>,
    /// Numbers of the answers that its client waits for.
    pub(crate) open: Open,
    /// Bytes kept for it.
    pub(crate) bytes: usize,
    /// Number of its last item.
    pub(crate) sequence: u64,
    /// Where an endpoint is called: its place among those that wait.
    pub(crate) turn: Turn,
}

impl Home {
    /// What one costs that is here for the sake of an entry, with its places in tables and its names.
    pub(crate) const BYTES: usize = 2 * size_of::<Self>() + size_of::<proto::Connect>();

    /// It ended: only its names are wanted.
    pub(crate) fn strip(&mut self) {
        let connect = self.introduction.open();
        self.introduction = Introduction::of(&proto::Connect {
            namespace: connect.namespace,
            user: connect.user,
            ..proto::Connect::default()
        });
        // One entry comes still: its last.
        let last = self.held.len() + 1;
        self.held.reserve_exact(1);
        self.held.shrink_to(last);
    }

    /// Bytes that it takes while it waits for a worker after its end.
    pub(crate) fn kept_bytes(&self) -> usize {
        Self::BYTES + self.introduction.bytes()
    }

    /// Events wait with it for a worker.
    pub(crate) fn holds_events(&self) -> bool {
        self.held.iter().any(Entry::is_event)
    }

    pub(crate) fn new(introduction: Introduction, now_ms: u64) -> Self {
        Self {
            introduction,
            phase: Phase::Deciding,
            admitted: false,
            worker: None,
            opener: None,
            describing: false,
            closing: false,
            bond: Bond::Whole,
            since_ms: now_ms,
            look_ms: 0,
            held: VecDeque::new(),
            owed: Vec::new(),
            open: Open::default(),
            bytes: 0,
            sequence: 0,
            turn: Turn::default(),
        }
    }

    /// A handled item whose client waits. Most sockets have one at a time, and many have none for long.
    pub(crate) fn owe(&mut self, entry: Entry) {
        if self.owed.capacity() == 0 {
            self.owed.reserve_exact(1);
        }
        self.owed.push(entry);
    }

    /// Takes the item that is meant off the books. Returns its bytes.
    fn pay(&mut self, is_meant: impl Fn(&Entry) -> bool) -> usize {
        let at = self.owed.iter().position(is_meant);
        let freed = at.map_or(0, |at| self.owed.remove(at).bytes);
        if self.owed.is_empty() && self.owed.capacity() > 1 {
            self.owed = Vec::new();
        }
        self.bytes = self.bytes.saturating_sub(freed);
        freed
    }

    /// Its client waits for what the worker makes of a handled item.
    pub(crate) fn waits_for(&self, entry: &Entry) -> bool {
        let decides = self.phase == Phase::Deciding && entry.introduces();
        decides || entry.ack().is_some_and(|ack| self.open.contains(ack))
    }

    /// The decision came: nothing of the CONNECT is kept. Returns what that frees.
    pub(crate) fn admit(&mut self) -> usize {
        self.phase = Phase::In;
        self.admitted = true;
        let freed = self.pay(Entry::introduces);
        self.owed.shrink_to_fit();
        freed
    }

    /// An answer came or will not come: nothing of the event is kept. `None`: nobody waits for it.
    pub(crate) fn settle(&mut self, ack: u64) -> Option<usize> {
        if !self.open.remove(ack) {
            return None;
        }
        Some(self.pay(|entry| entry.ack() == Some(ack)))
    }

    /// Its client waits for what becomes of this handled item.
    pub(crate) fn owes(&self, sequence: u64) -> bool {
        self.owed.iter().any(|entry| entry.sequence == sequence)
    }

    /// A lost worker had handled its items in any order: the next one gets them in theirs.
    pub(crate) fn sort(&mut self) {
        self.held
            .make_contiguous()
            .sort_by_key(|entry| entry.sequence);
    }

    /// Takes such entries out of those that wait, wherever they stand among them.
    pub(crate) fn take_held(&mut self, is_meant: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        if !self.held.iter().any(&is_meant) {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.held).into_iter();
        let (taken, kept): (Vec<Entry>, Vec<Entry>) = held.partition(is_meant);
        self.held = kept.into();
        let bytes: usize = taken.iter().map(|entry| entry.bytes).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        taken
    }

    /// Rooms at its end.
    pub(crate) fn last_rooms(&self) -> Vec<String> {
        let last = self.held.iter().rev().find_map(|entry| match entry.what() {
            Some(What::Gone(gone)) => Some(gone.rooms.clone()),
            _ => None,
        });
        last.unwrap_or_default()
    }
}
