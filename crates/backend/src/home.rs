//! One socket as its backend knows it.

use crate::calls::Turn;
use crate::name::Name;
use crate::proto;
use crate::proto::item::What;
use prost::Message;
use std::collections::{BTreeSet, VecDeque};

/// Bytes that an entry costs beside its message.
const ENTRY_BYTES: usize = 160;
/// Bytes that a text or a header line costs beside its own.
const PART_BYTES: usize = 48;

/// An item on its way to a worker.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The socket that it is about; `None` = the answer to a worker's query.
    pub(crate) about: Option<Name>,
    pub(crate) item: proto::Item,
    pub(crate) bytes: usize,
    /// When it came from the shard.
    pub(crate) came_ms: u64,
    /// Workers that ended while they had it.
    pub(crate) deaths: u8,
}

impl Entry {
    /// What one costs beyond the bytes that are counted for those that workers take at once: queues grow by halves.
    pub(crate) const KEPT_BYTES: usize = (size_of::<Self>() * 3 / 2).saturating_sub(ENTRY_BYTES);

    pub(crate) fn new(about: Option<Name>, what: What, now_ms: u64) -> Self {
        let item = proto::Item {
            what: Some(what),
            ..proto::Item::default()
        };
        Self {
            about,
            bytes: ENTRY_BYTES + item.encoded_len() + parts(&item),
            item,
            came_ms: now_ms,
            deaths: 0,
        }
    }

    /// The number under which a client waits for its answer.
    pub(crate) fn ack(&self) -> Option<u64> {
        match &self.item.what {
            Some(What::Event(event)) if event.ack != 0 => Some(event.ack),
            _ => None,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.item.what, Some(What::Gone(_) | What::NodeGone(_)))
    }

    pub(crate) fn is_event(&self) -> bool {
        matches!(self.item.what, Some(What::Event(_)))
    }

    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.item.what, Some(What::Failed(_)))
    }

    /// A client waits for what an endpoint makes of it: it has a call of its own.
    pub(crate) fn stands_alone(&self, decides: bool) -> bool {
        self.ack().is_some() || (decides && self.introduces())
    }

    /// A socket comes into a worker's hands by it.
    pub(crate) fn introduces(&self) -> bool {
        matches!(self.item.what, Some(What::Connect(_) | What::Resume(_)))
    }
}

/// Memory of its own that its texts and lists have, beside their bytes. Events have few of them.
fn parts(item: &proto::Item) -> usize {
    match &item.what {
        Some(What::Connect(connect)) => {
            size_of::<proto::Connect>() + 2 * connect.headers.len() * PART_BYTES
        }
        Some(What::Opening(opening)) => 2 * opening.headers.len() * PART_BYTES,
        Some(What::Gone(gone)) => gone.rooms.len() * PART_BYTES,
        _ => 0,
    }
}

/// How far a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its worker decides whether it is let in.
    Deciding,
    In,
    /// It ended; its worker has not heard of it yet.
    Gone,
}

/// What a client said when it connected. It is kept as it is on the wire: one block of memory for as long as the socket lives.
#[derive(Debug, Default)]
pub(crate) struct Introduction(Box<[u8]>);

impl Introduction {
    pub(crate) fn of(connect: &proto::Connect) -> Self {
        Self(connect.encode_to_vec().into())
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
    /// Since when it has its worker, or none.
    pub(crate) since_ms: u64,
    /// Events that wait while it has no worker.
    pub(crate) held: VecDeque<Entry>,
    /// Handled items whose clients still wait for the answer: they come again if the worker is lost.
    pub(crate) owed: Vec<Entry>,
    /// Numbers of the answers that its client waits for.
    pub(crate) open: BTreeSet<u64>,
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

    pub(crate) fn new(introduction: Introduction, now_ms: u64) -> Self {
        Self {
            introduction,
            phase: Phase::Deciding,
            admitted: false,
            worker: None,
            opener: None,
            describing: false,
            closing: false,
            since_ms: now_ms,
            held: VecDeque::new(),
            owed: Vec::new(),
            open: BTreeSet::new(),
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
        decides || entry.ack().is_some_and(|ack| self.open.contains(&ack))
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
        if !self.open.remove(&ack) {
            return None;
        }
        Some(self.pay(|entry| entry.ack() == Some(ack)))
    }

    /// Rooms at its end.
    pub(crate) fn last_rooms(&self) -> Vec<String> {
        let last = self
            .held
            .iter()
            .rev()
            .find_map(|entry| match &entry.item.what {
                Some(What::Gone(gone)) => Some(gone.rooms.clone()),
                _ => None,
            });
        last.unwrap_or_default()
    }
}
