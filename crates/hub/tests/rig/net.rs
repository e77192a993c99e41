//! Several hubs of one process. Their letters to each other wait until the test carries them, so a test chooses the order.

use super::{WALL_MS, dice, frames, masked};
use client::OpCode;
use handoff::{Keepsakes, Ledger};
use hub::config::Config;
use hub::metrics::Cells;
use hub::{
    ConnId, Effect, Handed, Handler, Hub, Identity, Letter, Notice, Now, Parcel, Process, Sink,
    Spent, Turn, Unable, World, Writes, Written,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// A kernel that takes everything.
#[derive(Default)]
struct Taken(HashMap<ConnId, Vec<u8>>);

impl Sink for Taken {
    fn write(&mut self, writes: Writes<'_>) {
        writes.one_by_one(|conn, slices| {
            let out = self.0.entry(conn).or_default();
            slices.iter().for_each(|slice| out.extend_from_slice(slice));
            Written::Bytes(slices.iter().map(|slice| slice.len()).sum())
        });
    }
}

/// What a hub acts on: its clients' ends, and what it sends to the other hubs.
#[derive(Default)]
struct Desk {
    taken: Taken,
    sent: Vec<(u16, Arc<Letter>)>,
    parcels: Vec<Parcel>,
    /// Connections that the hub ended, and whether it is done with them.
    ended: Vec<(ConnId, bool)>,
    /// Why clients did not get their sockets back.
    refused: Vec<&'static str>,
}

impl Sink for Desk {
    fn write(&mut self, writes: Writes<'_>) {
        self.taken.write(writes);
    }
}

impl World for Desk {
    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send { shard, letter } => self.sent.push((shard, letter)),
            Effect::Pass { .. } => panic!("nobody passes words on"),
            Effect::Away(parcel) => self.parcels.push(parcel),
            Effect::Shutdown { conn } => self.ended.push((conn, false)),
            Effect::Close { conn } => self.ended.push((conn, true)),
            Effect::Log(Notice::NotRecovered { cause, .. }) => self.refused.push(cause),
            _ => {}
        }
    }
}

struct Node {
    hub: Hub,
    desk: Desk,
}

/// A client: the hub it is connected to and its connection there.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub at: usize,
    conn: ConnId,
    /// Later connections of the same place have larger ones.
    opened: u64,
}

/// A connection, from the hub's side.
#[derive(Clone, Copy, Debug)]
struct Opened {
    number: u64,
    /// The hub says nothing more.
    is_shut: bool,
    is_closed: bool,
}

pub struct Net {
    nodes: Vec<Node>,
    /// By sender and receiver, each in order.
    mail: BTreeMap<(usize, usize), VecDeque<Arc<Letter>>>,
    conns: HashMap<(usize, ConnId), Opened>,
    opens: u64,
    now: Now,
    /// Walk all tables after every turn.
    pub checks: bool,
    /// What hubs showed last.
    pub cells: Vec<Arc<Cells>>,
}

impl Net {
    pub fn new(hubs: usize, config: &Config, build: impl Fn(u16) -> Box<dyn Handler>) -> Net {
        Self::after(0, hubs, config, build)
    }

    /// The process that comes after so many others: its dice are its own.
    pub fn after(
        life: u64,
        hubs: usize,
        config: &Config,
        build: impl Fn(u16) -> Box<dyn Handler>,
    ) -> Net {
        let process = Process::new(&config.rates);
        Self::with_dice(life * 1_000_000, hubs, config, (1, &process), build)
    }

    /// A process of that number.
    pub fn in_cluster(
        hubs: usize,
        config: &Config,
        number: u16,
        process: &Process,
        build: impl Fn(u16) -> Box<dyn Handler>,
    ) -> Net {
        let first = (u64::from(number) - 1) * 1_000;
        Self::with_dice(first, hubs, config, (number, process), build)
    }

    /// The process that goes on as that one.
    pub fn heirs(
        hubs: usize,
        config: &Config,
        number: u16,
        process: &Process,
        build: impl Fn(u16) -> Box<dyn Handler>,
    ) -> Net {
        let first = 1_000_000 + u64::from(number) * 1_000;
        Self::with_dice(first, hubs, config, (number, process), build)
    }

    fn with_dice(
        first: u64,
        hubs: usize,
        config: &Config,
        (number, process): (u16, &Process),
        build: impl Fn(u16) -> Box<dyn Handler>,
    ) -> Net {
        let now = Now {
            mono_ms: 1_000,
            wall_ms: WALL_MS,
        };
        let cells: Vec<Arc<Cells>> = (0..hubs).map(|_| Arc::default()).collect();
        let node = |shard: u16| {
            let me = Identity {
                node: number,
                shard,
                shards: hubs as u16,
            };
            let cells = Arc::clone(&cells[usize::from(shard)]);
            let config = Arc::new(config.clone());
            let entropy = dice(u64::from(shard) + 1 + first);
            let hub = Hub::in_process(config, me, build(shard), cells, entropy, process);
            Node {
                hub,
                desk: Desk::default(),
            }
        };
        Net {
            nodes: (0..hubs as u16).map(node).collect(),
            mail: BTreeMap::new(),
            conns: HashMap::new(),
            opens: 0,
            now,
            checks: true,
            cells,
        }
    }

    /// A client that has joined the main namespace; what it was told so far is thrown away.
    pub fn client(&mut self, at: usize) -> Client {
        let client = self.websocket(at, "");
        self.say(client, "40");
        self.texts(client);
        client
    }

    /// A WebSocket; with a session's id one that is to take over from its polls.
    pub fn websocket(&mut self, at: usize, sid: &str) -> Client {
        let head = format!(
            "GET /socket.io/?EIO=4&transport=websocket{sid} HTTP/1.1\r\nHost: x\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        let client = self.request(at, &head);
        self.raw(client);
        client
    }

    /// A WebSocket of the plain protocol, with this query.
    pub fn plain(&mut self, at: usize, query: &str) -> Client {
        let head = format!(
            "GET /ws?{query} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        let client = self.request(at, &head);
        let head = self.raw(client);
        let end = head.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let rest = &head[end.expect("the end of a head") + 4..];
        let desk = &mut self.nodes[at].desk;
        desk.taken.0.insert(client.conn, rest.to_vec());
        client
    }

    /// A connection with this request.
    pub fn request(&mut self, at: usize, request: &str) -> Client {
        let conn = self.turn(at, |turn| turn.opened([127, 0, 0, 1].into(), |_, _| true));
        self.opens += 1;
        let opened = self.opens;
        self.nodes[at].desk.taken.0.remove(&conn);
        let fresh = Opened {
            number: opened,
            is_shut: false,
            is_closed: false,
        };
        self.conns.insert((at, conn), fresh);
        let client = Client { at, conn, opened };
        self.bytes(client, request.as_bytes());
        client
    }

    /// One packet of a client, and the turn that it makes.
    pub fn say(&mut self, client: Client, text: &str) {
        self.bytes(client, &masked(text.as_bytes()));
    }

    /// Many packets in one read.
    pub fn say_all(&mut self, client: Client, texts: impl Iterator<Item = String>) {
        let bytes: Vec<u8> = texts.flat_map(|text| masked(text.as_bytes())).collect();
        self.bytes(client, &bytes);
    }

    pub fn bytes(&mut self, client: Client, bytes: &[u8]) {
        self.turn(client.at, |turn| {
            turn.bytes(client.conn, &mut bytes.to_vec())
        });
        self.end_turn(client.at);
    }

    /// Another turn, with what earlier ones left.
    pub fn resume(&mut self, at: usize) {
        self.turn(at, |turn| turn.resume());
        self.end_turn(at);
    }

    /// Somebody outside has a word for a hub's handler.
    pub fn outside(&mut self, at: usize, word: Box<dyn std::any::Any + Send>) {
        self.turn(at, |turn| turn.outside(word));
        self.end_turn(at);
    }

    /// The connection breaks.
    pub fn break_off(&mut self, client: Client) {
        self.turn(client.at, |turn| turn.broken(client.conn));
        self.nodes[client.at].desk.ended.push((client.conn, true));
        self.end_turn(client.at);
    }

    fn conn(&self, client: Client) -> Option<Opened> {
        let opened = self.conns.get(&(client.at, client.conn));
        opened.filter(|conn| conn.number == client.opened).copied()
    }

    /// The hub has this connection.
    pub fn is_open(&self, client: Client) -> bool {
        self.conn(client).is_some_and(|conn| !conn.is_closed)
    }

    /// The hub ended it, whether the client did or not.
    pub fn has_ended(&self, client: Client) -> bool {
        self.conn(client)
            .is_none_or(|conn| conn.is_shut || conn.is_closed)
    }

    pub fn hub(&self, at: usize) -> &Hub {
        &self.nodes[at].hub
    }

    /// Pairs of hubs between which something is on its way.
    pub fn routes(&self) -> Vec<(usize, usize)> {
        self.mail.keys().copied().collect()
    }

    /// The next letter of this route arrives.
    pub fn carry_one(&mut self, (from, to): (usize, usize)) {
        let Some(queue) = self.mail.get_mut(&(from, to)) else {
            return;
        };
        let letter = queue.pop_front().expect("no empty queue is kept");
        if queue.is_empty() {
            self.mail.remove(&(from, to));
        }
        self.turn(to, |turn| turn.letter(&letter));
        self.end_turn(to);
    }

    /// Letters of this route arrive until the turn that takes them in is full.
    pub fn carry_share(&mut self, (from, to): (usize, usize)) {
        let mut queue = self.mail.remove(&(from, to)).unwrap_or_default();
        self.turn(to, |turn| {
            while !turn.is_full()
                && let Some(letter) = queue.pop_front()
            {
                turn.letter(&letter);
            }
        });
        if !queue.is_empty() {
            self.mail.insert((from, to), queue);
        }
        self.end_turn(to);
    }

    /// What hubs have for other processes.
    pub fn parcels(&mut self) -> Vec<Parcel> {
        let desks = self.nodes.iter_mut().map(|node| &mut node.desk);
        desks.flat_map(|desk| desk.parcels.drain(..)).collect()
    }

    /// Why clients did not get their sockets back, since the last call.
    pub fn refusals(&mut self) -> Vec<&'static str> {
        let desks = self.nodes.iter_mut().map(|node| &mut node.desk);
        desks.flat_map(|desk| desk.refused.drain(..)).collect()
    }

    /// A letter of another process.
    pub fn deliver(&mut self, at: u16, letter: &Letter) {
        let at = usize::from(at);
        self.turn(at, |turn| turn.letter(letter));
        self.end_turn(at);
    }

    /// Everything arrives.
    pub fn settle(&mut self) {
        while let Some(route) = self.mail.keys().next().copied() {
            self.carry_one(route);
        }
    }

    /// Another process takes over, of which these are the hubs. These clients go with their sessions, unless these stay; all others are gone.
    /// Pieces of what was kept for those who come are shown first.
    pub fn hand_over(
        &mut self,
        mut heirs: Self,
        clients: &mut [&mut Client],
        mut look: impl FnMut(&mut Keepsakes),
    ) -> Result<(), Unable> {
        self.settle();
        let mut ledger = Ledger::default();
        let mut keep = |heirs: &mut Self, at: usize, mut piece: Keepsakes| -> Result<(), Unable> {
            look(&mut piece);
            assert_eq!(ledger.admit_keepsakes(&piece), Ok(()));
            let left_out = heirs.turn(at, |turn| turn.keepsakes_arrived(&piece))?;
            assert_eq!(left_out, 0);
            Ok(())
        };
        for at in 0..self.nodes.len() {
            let mut handing = self.nodes[at].hub.handing(handoff::takes::ALL);
            handing.keep_from(0);
            if let Some(piece) = self.nodes[at].hub.journal_behind(0) {
                handing.keep_from(piece.first + piece.entries.len() as u64 - 1);
                keep(&mut heirs, at, piece)?;
            }
            while let Some(handed) = self.nodes[at].hub.hand(&mut handing, |_| false) {
                match handed {
                    Handed::Keeps(piece) => keep(&mut heirs, at, *piece)?,
                    Handed::Goes(conns, _, record) => {
                        let name = *conns.first().expect("nobody polls");
                        let own =
                            |client: &&mut &mut Client| (client.at, client.conn) == (at, name);
                        let client = clients.iter_mut().find(own);
                        heirs.arrives(at, &record, client.map(|client| &mut **client))?;
                    }
                    Handed::Marks(_) | Handed::Visits(..) => {}
                }
            }
        }
        for at in 0..heirs.nodes.len() {
            let onward = self.nodes[at].hub.onward();
            heirs.turn(at, |turn| turn.all_arrived(onward));
            heirs.end_turn(at);
        }
        *self = heirs;
        Ok(())
    }

    fn arrives(
        &mut self,
        at: usize,
        record: &handoff::Session,
        client: Option<&mut Client>,
    ) -> Result<(), Unable> {
        let mut adopted = None;
        self.turn(at, |turn| {
            turn.arrived(record, |_, conn| adopted = Some(conn))
        })?;
        let conn = adopted.expect("a connection");
        self.opens += 1;
        let opened = self.opens;
        let fresh = Opened {
            number: opened,
            is_shut: false,
            is_closed: false,
        };
        self.conns.insert((at, conn), fresh);
        if let Some(client) = client {
            *client = Client { at, conn, opened };
        }
        Ok(())
    }

    /// Time passes for all hubs.
    pub fn pass(&mut self, ms: u64) {
        self.now.mono_ms += ms;
        self.now.wall_ms += ms;
        for at in 0..self.nodes.len() {
            self.end_turn(at);
        }
    }

    fn turn<R>(&mut self, at: usize, f: impl FnOnce(&mut Turn<'_, Desk>) -> R) -> R {
        let Node { hub, desk } = &mut self.nodes[at];
        f(&mut hub.turn(self.now, desk))
    }

    fn end_turn(&mut self, at: usize) {
        let Node { hub, desk } = &mut self.nodes[at];
        hub.turn(self.now, desk).end(false, |_| Spent::default());
        if self.checks {
            hub.check_invariants();
        }
        for (conn, is_closed) in self.nodes[at].desk.ended.drain(..) {
            if let Some(opened) = self.conns.get_mut(&(at, conn)) {
                (opened.is_shut, opened.is_closed) = (true, opened.is_closed || is_closed);
            }
        }
        for (shard, letter) in self.nodes[at].desk.sent.drain(..) {
            let queue = self.mail.entry((at, usize::from(shard))).or_default();
            queue.push_back(letter);
        }
    }

    /// Bytes that a client got since the last call.
    pub fn raw(&mut self, client: Client) -> Vec<u8> {
        let bytes = self.nodes[client.at].desk.taken.0.remove(&client.conn);
        bytes.unwrap_or_default()
    }

    /// Texts that a client got since the last call.
    pub fn texts(&mut self, client: Client) -> Vec<String> {
        let frames = frames(&self.raw(client), false);
        frames.iter().map(|frame| frame.text().to_owned()).collect()
    }

    /// The same of a connection that the hub may end or has ended.
    pub fn texts_before_end(&mut self, client: Client) -> Vec<String> {
        if self.conn(client).is_none() {
            return Vec::new();
        }
        let frames = frames(&self.raw(client), false);
        let texts = frames.iter().filter(|frame| frame.opcode == OpCode::Text);
        texts.map(|frame| frame.text().to_owned()).collect()
    }
}
