//! Several processes with several hubs each. Parcels go to the processes that hold one of their keys, at once and in order.

use super::net::{Client, Net};
use hub::config::Config;
use hub::{Handler, Inbox, Letter, Parcel, Piece, Process, Tidings, Uplink};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Shards of each process.
const SHARDS: u16 = 2;
/// What may wait for other nodes.
pub const UPLINK_BYTES_MAX: usize = 10_000;
pub const JOIN_WAIT_MS: u64 = 50;

struct Process_ {
    net: Net,
    inbox: Inbox,
    uplink: Arc<Uplink>,
    /// Keys that it has members of, and how many of its hubs say so.
    held: HashMap<u64, usize>,
    /// Parcels stay where they are.
    cut_off: bool,
    /// Its own do.
    muted: bool,
    /// What becomes of the letters that it reads.
    reads_as: fn(&[u8]) -> Vec<u8>,
}

pub struct Nodes(Vec<Process_>);

impl Nodes {
    pub fn new(count: u16, config: &Config, build: impl Fn() -> Box<dyn Handler>) -> Self {
        Self::with_room(UPLINK_BYTES_MAX, count, config, build)
    }

    /// So many bytes may wait for other nodes.
    pub fn with_room(
        bytes_max: usize,
        count: u16,
        config: &Config,
        build: impl Fn() -> Box<dyn Handler>,
    ) -> Self {
        let one = |number: u16| {
            let mut process = Process::new(&config.rates);
            let join_wait = Duration::from_millis(JOIN_WAIT_MS);
            let uplink = Arc::new(Uplink::new(bytes_max, join_wait));
            (1..=count).for_each(|node| uplink.meets(node));
            let others = (1..=count).filter(|node| *node != number);
            others.for_each(|node| uplink.is_here(node, true));
            uplink.recovers(true, true);
            uplink.reads_spots(true);
            process.uplink = Some(Arc::clone(&uplink));
            let shards = usize::from(SHARDS);
            Process_ {
                net: Net::in_cluster(shards, config, number, &process, |_| build()),
                inbox: Inbox::new(&process, number, SHARDS),
                uplink,
                held: HashMap::new(),
                cut_off: false,
                muted: false,
                reads_as: <[u8]>::to_vec,
            }
        };
        Self((1..=count).map(one).collect())
    }

    /// The hubs of a process; nodes count from 0 here, their numbers from 1.
    pub fn net(&mut self, node: usize) -> &mut Net {
        &mut self.0[node].net
    }

    pub fn cut_off(&mut self, node: usize, cut_off: bool) {
        self.0[node].cut_off = cut_off;
    }

    /// What it has for others waits; what others have for it comes.
    pub fn mute(&mut self, node: usize, muted: bool) {
        self.0[node].muted = muted;
    }

    /// Reads letters of other nodes and servers for the hubs of a node.
    pub fn inbox(&self, node: usize) -> &Inbox {
        &self.0[node].inbox
    }

    /// So many bytes of a node wait for the engine.
    pub fn engine_holds(&mut self, node: usize, bytes: usize) {
        self.0[node].uplink.engine_holds(bytes);
    }

    /// A node gets all letters in this form, as one of another version would have them.
    pub fn reads_as(&mut self, node: usize, form: fn(&[u8]) -> Vec<u8>) {
        self.0[node].reads_as = form;
    }

    /// All hubs of a node have another turn.
    pub fn resume(&mut self, node: usize) {
        (0..usize::from(SHARDS)).for_each(|shard| self.net(node).resume(shard));
    }

    /// What a node has for others now arrives. Nobody has a turn without it.
    pub fn carry_from(&mut self, node: usize) {
        if self.0[node].cut_off {
            return;
        }
        let parcels = self.net(node).parcels();
        for parcel in &parcels {
            self.0[node].uplink.took(parcel);
            self.carry(node, parcel);
        }
    }

    /// Whether sockets go from node to node, as a node takes it.
    pub fn recovers(&mut self, node: usize, returns: bool) {
        self.0[node].uplink.recovers(returns, returns);
    }

    /// Whether the others read where events stand on a bus, as a node takes it.
    pub fn reads_spots(&mut self, node: usize, all: bool) {
        self.0[node].uplink.reads_spots(all);
    }

    /// Bytes that wait for other nodes.
    pub fn waiting(&self, node: usize) -> usize {
        self.0[node].uplink.waiting()
    }

    /// The letters that a node has for others now reach nobody.
    pub fn loses(&mut self, node: usize) {
        self.net(node).settle();
        let others: Vec<usize> = (0..self.0.len()).filter(|other| *other != node).collect();
        let before: Vec<bool> = others.iter().map(|other| self.0[*other].cut_off).collect();
        others.iter().for_each(|other| self.cut_off(*other, true));
        for parcel in self.net(node).parcels() {
            self.0[node].uplink.took(&parcel);
            self.carry(node, &parcel);
        }
        for (other, before) in others.into_iter().zip(before) {
            self.cut_off(other, before);
        }
    }

    /// A client of a hub of a node, and all that its coming brings.
    pub fn client(&mut self, node: usize, at: usize) -> Client {
        let client = self.net(node).client(at);
        self.settle();
        // It hears that it is in when other nodes know.
        self.net(node).texts(client);
        client
    }

    /// The same for one that only asks to be let in: what it hears is the test's business.
    pub fn comer(&mut self, node: usize, at: usize) -> Client {
        let client = self.net(node).websocket(at, "");
        self.say(node, client, "40");
        client
    }

    /// A connection with this request.
    pub fn request(&mut self, node: usize, at: usize, request: &str) -> Client {
        let client = self.net(node).request(at, request);
        self.settle();
        client
    }

    pub fn say(&mut self, node: usize, client: Client, text: &str) {
        self.net(node).say(client, text);
        self.settle();
    }

    pub fn texts(&mut self, node: usize, client: Client) -> Vec<String> {
        self.net(node).texts(client)
    }

    pub fn pass(&mut self, ms: u64) {
        self.0.iter_mut().for_each(|process| process.net.pass(ms));
        self.settle();
    }

    /// Another process goes on as a node, without clients. What waited there for other nodes is gone, if it is muted.
    pub fn upgrade(&mut self, node: usize, config: &Config, build: impl Fn() -> Box<dyn Handler>) {
        let number = node as u16 + 1;
        let own = &mut self.0[node];
        let mut process = Process::new(&config.rates);
        process.uplink = Some(Arc::clone(&own.uplink));
        let shards = usize::from(SHARDS);
        let heirs = Net::heirs(shards, config, number, &process, |_| build());
        assert_eq!(own.net.hand_over(heirs, &mut [], |_| {}), Ok(()));
        own.inbox = Inbox::new(&process, number, SHARDS);
        self.settle();
    }

    /// The others take a node for dead.
    pub fn dies(&mut self, node: usize) {
        self.cut_off(node, true);
        let number = node as u16 + 1;
        for other in (0..self.0.len()).filter(|other| *other != node) {
            self.0[other].uplink.is_here(number, false);
            let down = Letter::from(Tidings::Down { node: number });
            (0..SHARDS).for_each(|shard| self.net(other).deliver(shard, &down));
        }
        self.settle();
    }

    /// The others hear it again.
    pub fn comes_back(&mut self, node: usize) {
        self.cut_off(node, false);
        for other in (0..self.0.len()).filter(|other| *other != node) {
            let number = node as u16 + 1;
            let missed = Letter::from(Tidings::Missed {
                node: number,
                lost: false,
            });
            (0..SHARDS).for_each(|shard| self.net(other).deliver(shard, &missed));
        }
        self.settle();
    }

    /// One node missed something of another.
    pub fn missed(&mut self, node: usize, other: usize) {
        let number = other as u16 + 1;
        let missed = Letter::from(Tidings::Missed {
            node: number,
            lost: true,
        });
        (0..SHARDS).for_each(|shard| self.net(node).deliver(shard, &missed));
        self.settle();
    }

    /// Everything arrives that can.
    pub fn settle(&mut self) {
        loop {
            let mut any = false;
            for node in 0..self.0.len() {
                self.net(node).settle();
                if self.0[node].cut_off || self.0[node].muted {
                    continue;
                }
                for parcel in self.net(node).parcels() {
                    any = true;
                    self.0[node].uplink.took(&parcel);
                    self.carry(node, &parcel);
                }
            }
            if !any {
                return;
            }
        }
    }

    fn carry(&mut self, node: usize, parcel: &Parcel) {
        for piece in parcel.pieces() {
            match piece {
                Piece::Hold { key, ticket } => {
                    *self.0[node].held.entry(key).or_default() += 1;
                    let confirmed = Letter::from(Tidings::Confirmed { ticket });
                    self.net(node).deliver(parcel.shard(), &confirmed);
                }
                Piece::Room { .. } => {}
                Piece::Release { key } => {
                    let held = self.0[node].held.get_mut(&key).expect("it was held");
                    *held = held.checked_sub(1).expect("it was held");
                }
                Piece::Letter {
                    keys,
                    nodes,
                    without,
                    round,
                    bytes,
                    ..
                } => {
                    let holds = |other: &usize| {
                        let (held, number) = (&self.0[*other].held, *other as u64 + 1);
                        if without.contains(&number) {
                            return false;
                        }
                        nodes.contains(&number)
                            || keys.iter().any(|key| held.get(key).is_some_and(|n| *n > 0))
                    };
                    let others = (0..self.0.len()).filter(|other| *other != node);
                    let to: Vec<usize> = others.filter(holds).collect();
                    if let Some(round) = round {
                        let nodes = to.iter().map(|other| *other as u16 + 1).collect();
                        let posted = Letter::from(Tidings::Posted { round, nodes });
                        self.net(node).deliver(parcel.shard(), &posted);
                    }
                    to.into_iter().for_each(|to| self.arrives(node, to, bytes));
                }
            }
        }
    }

    fn arrives(&mut self, from: usize, to: usize, bytes: &[u8]) {
        if self.0[to].cut_off {
            return;
        }
        let bytes = (self.0[to].reads_as)(bytes);
        let read = self.0[to].inbox.read(from as u16 + 1, &bytes);
        let read = read.expect("a letter");
        read.shards()
            .for_each(|shard| self.net(to).deliver(shard, &read.letter));
    }
}
