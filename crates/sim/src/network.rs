//! What is between the hubs and their clients: connections that take some bytes or none, connections on their way to another hub,
//! messages that wait, questions that nobody has answered.

use fastrand::Rng;
use hub::mailbox::{Receiver, Sender, Weigh};
use hub::metrics::Cells;
use hub::{AskKey, ConnId, Effect, Hub, Letter, Sink, Slices, Writes, Written};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

/// One client's connection, wherever it is.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: usize,
    pub(crate) node: usize,
    /// Its slot there; `None` on its way or when it is over.
    pub(crate) conn: Option<ConnId>,
    /// What the client can read.
    pub(crate) out: Vec<u8>,
    /// What the client sent to a hub that stands still, and the step in which the first of it was sent.
    pub(crate) input: Vec<u8>,
    pub(crate) since: u64,
    /// Bytes that the kernel still takes for a client that reads slowly, and the step since which it does.
    pub(crate) room: Option<usize>,
    pub(crate) slow_since: u64,
}

impl Link {
    pub(crate) fn new(client: usize, node: usize) -> Link {
        Link {
            client,
            node,
            conn: None,
            out: Vec::new(),
            input: Vec::new(),
            since: u64::MAX,
            room: None,
            slow_since: u64::MAX,
        }
    }
}

/// A connection on its way to the hub that owns its session.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) link: usize,
    pub(crate) to: usize,
    pub(crate) read: Vec<u8>,
    /// When its client sent what was read.
    pub(crate) step: u64,
}

/// A hub asked about a token: which hub, what, and the step in which the cause was sent.
pub(crate) type Question = (usize, AskKey, u64);

/// Messages from one hub to another that have not arrived, with the step in which their cause was sent.
pub(crate) type Mail = VecDeque<(u64, Arc<Letter>)>;

pub(crate) struct Node {
    pub(crate) hub: Hub,
    pub(crate) links: BTreeMap<ConnId, usize>,
    pub(crate) cells: Arc<Cells>,
    /// The real mailbox: the hubs look at how long it is.
    pub(crate) sender: Sender<Post>,
    pub(crate) receiver: Receiver<Post>,
    /// It stands still until this step.
    pub(crate) still_until: u64,
    /// The step in which the oldest of what is in its mailbox was sent, and of what it has read and not worked on.
    pub(crate) unread_since: u64,
    pub(crate) held_since: u64,
    pub(crate) spending: Spending,
}

/// A message that arrived, with the step in which its cause was sent.
#[derive(Debug)]
pub(crate) struct Post(pub(crate) u64, pub(crate) Arc<Letter>);

impl Weigh for Post {
    fn bytes(&self) -> usize {
        self.1.bytes()
    }
}

/// The spending of a turn.
#[derive(Debug, Default)]
pub(crate) struct Spending {
    /// Bytes written in the turn.
    pub(crate) written: usize,
    /// Messages to other hubs in the turn.
    pub(crate) letters: usize,
    /// A flush has begun: what is written before it are backlogs of slow readers, which no turn bounds.
    flushes: bool,
    /// Bytes of answers to polls in this flush, and of the longest of them.
    answers: usize,
    longest: usize,
    /// The most that a flush of the turn wrote beside its longest answer.
    pub(crate) answers_max: usize,
}

impl Spending {
    fn answer(&mut self, bytes: usize) {
        if !self.flushes {
            return;
        }
        self.answers += bytes;
        self.longest = self.longest.max(bytes);
        self.answers_max = self.answers_max.max(self.answers - self.longest);
    }
}

/// What one hub acts on: its links, and the ways to the other hubs.
pub(crate) struct Wires<'a> {
    pub(crate) node: usize,
    pub(crate) seed: u64,
    pub(crate) origin: u64,
    pub(crate) by_conn: &'a mut BTreeMap<ConnId, usize>,
    pub(crate) links: &'a mut Vec<Link>,
    pub(crate) mail: &'a mut BTreeMap<(usize, usize), Mail>,
    pub(crate) moves: &'a mut Vec<Move>,
    pub(crate) mailbox: &'a Receiver<Post>,
    pub(crate) questions: &'a mut Vec<Question>,
    /// In which order writes are done.
    pub(crate) completions: &'a mut Rng,
    /// The spending of the turn.
    pub(crate) spending: &'a mut Spending,
    /// Links whose answers are bounded by the turn's share: those of waiting polls.
    pub(crate) polls: &'a BTreeSet<usize>,
}

impl Wires<'_> {
    pub(crate) fn adopt(&mut self, link: usize, conn: ConnId) -> bool {
        self.by_conn.insert(conn, link);
        self.links[link].node = self.node;
        self.links[link].conn = Some(conn);
        true
    }
}

impl Wires<'_> {
    /// What the kernel takes for one connection.
    fn take(&mut self, conn: ConnId, slices: &[IoSlice<'_>]) -> Written {
        let link = &mut self.links[self.by_conn[&conn]];
        let mut room = link.room.unwrap_or(usize::MAX);
        let before = link.out.len();
        for slice in slices {
            let taken = slice.len().min(room);
            link.out.extend_from_slice(&slice[..taken]);
            room -= taken;
        }
        link.room = link.room.map(|_| room);
        self.spending.written += link.out.len() - before;
        if self.polls.contains(&self.by_conn[&conn]) {
            let taken = link.out.len() - before;
            self.spending.answer(taken);
        }
        match link.out.len() - before {
            0 => Written::WouldBlock,
            taken => Written::Bytes(taken),
        }
    }
}

impl Sink for Wires<'_> {
    /// As a ring of completions: all is submitted before the first byte moves, and it is done in any order.
    fn write(&mut self, writes: Writes<'_>) {
        let mut room: Slices<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        let mut submitted: Vec<_> = writes
            .map(|write| (write.slices(&mut room).to_vec(), write))
            .collect();
        self.completions.shuffle(&mut submitted);
        for (slices, write) in submitted {
            let written = self.take(write.conn(), &slices);
            write.done(written);
        }
    }
}

impl hub::World for Wires<'_> {
    /// A flush begins.
    fn wake(&mut self) {
        self.spending.flushes = true;
        (self.spending.answers, self.spending.longest) = (0, 0);
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Close { conn } => {
                if let Some(link) = self.by_conn.remove(&conn) {
                    self.links[link].conn = None;
                }
            }
            Effect::Move {
                conn, shard, read, ..
            } => {
                let link = self.by_conn.remove(&conn);
                let link = link.expect("a connection of this hub");
                self.links[link].conn = None;
                let (to, step) = (usize::from(shard), self.origin);
                self.moves.push(Move {
                    link,
                    to,
                    read,
                    step,
                });
            }
            Effect::Send { shard, letter } => {
                self.spending.letters += 1;
                let way = (self.node, usize::from(shard));
                let queue = self.mail.entry(way).or_default();
                queue.push_back((self.origin, letter));
            }
            Effect::Pass { .. } => panic!("seed {}: nobody is outside", self.seed),
            Effect::Away(_) => panic!("seed {}: there is no other node", self.seed),
            Effect::Relay { .. } => panic!("seed {}: no session is elsewhere", self.seed),
            Effect::Handover { .. } => panic!("seed {}: nobody asks for a page", self.seed),
            Effect::Ask { key, .. } => self.questions.push((self.node, key, self.origin)),
            Effect::Shutdown { .. } | Effect::Log(_) => {}
        }
    }
}
