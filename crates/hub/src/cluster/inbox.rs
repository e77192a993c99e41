//! Letters of other nodes on their way to the shards. Each is read once, and handed to the shards that have a receiver.

use crate::cluster::letter::{Address, ByHome, Letter, Order, Reply, Return, RoomNews};
use crate::cluster::shared::Process;
use crate::cluster::wire::{self, Post, Unreadable};
use crate::recovery::circle::Door;
use crate::rooms::directory::RoomName;
use crate::rooms::room::RoomKind;
use crate::tables::id::{self, Place};
use crate::tables::shards::ShardSet;
use ::wire::base64url::Id20;
use std::sync::Arc;

/// Reads letters for the shards of a process.
#[derive(Debug)]
pub struct Inbox {
    process: Process,
    node: u16,
    shards: u16,
}

/// A letter, and the shards that it is for.
#[derive(Debug)]
pub struct Read {
    /// What the letter says.
    pub letter: Arc<Letter>,
    pub(crate) shards: ShardSet,
}

impl Read {
    /// None, if its last member left while it was on its way.
    pub fn shards(&self) -> impl Iterator<Item = u16> + use<> {
        self.shards.iter()
    }
}

impl Inbox {
    /// The inbox of a node with so many shards.
    pub fn new(process: &Process, node: u16, shards: u16) -> Self {
        Self {
            process: process.clone(),
            node,
            shards,
        }
    }

    /// Reads a letter of a node.
    ///
    /// # Errors
    /// The letter is for nobody then.
    pub fn read(&self, from: u16, letter: &[u8]) -> Result<Read, Unreadable> {
        Ok(match wire::read(letter, from)? {
            Post::Order(order) => self.order(order),
            Post::Count {
                to,
                shard,
                members,
                asks,
            } => {
                let shards = self.shards_of(&to);
                let from = Place { node: from, shard };
                let news = RoomNews::Elsewhere {
                    to,
                    from,
                    members,
                    asks,
                };
                let letter = Arc::new(Letter::Room(news));
                Read { letter, shards }
            }
            Post::Present { to, shard, word } => {
                let shards = self.shards_of(&to);
                let from = Place { node: from, shard };
                let letter = Arc::new(Letter::Room(RoomNews::Present { to, from, word }));
                Read { letter, shards }
            }
            Post::Forget { of, rooms } => {
                let keeping = self.process.keeping.get();
                // Only the home keeps events.
                let home = keeping.and_then(|all| all.home_of(of.namespace(), self.shards));
                let mut shards = ShardSet::default();
                home.into_iter().for_each(|home| shards.insert(home));
                let namespace = of.namespace().to_owned();
                let letter = Arc::new(Letter::Room(RoomNews::Forget { namespace, rooms }));
                Read { letter, shards }
            }
            Post::Response {
                shard,
                round,
                parts,
                response,
            } => {
                let reply = Reply {
                    number: round,
                    node: from,
                    parts,
                    response,
                };
                self.reply(shard, reply)
            }
            Post::More { shard, more } => self.one(shard, Letter::More(more)),
            Post::Return { door, step } => self.step(door, step),
        })
    }

    /// A step about a socket that comes back. Where no home is known, the first shard says that this node does not take part.
    fn step(&self, door: Door, step: Return) -> Read {
        let keeping = self.process.keeping.get();
        let namespace = step.namespace.as_deref();
        let home = keeping.zip(namespace);
        let home = home.and_then(|(all, name)| all.home_of(name, self.shards));
        let letter = Letter::Return(step);
        let one = |shard| {
            let mut shards = ShardSet::default();
            if shard < self.shards {
                shards.insert(shard);
            }
            shards
        };
        let (letter, shards) = match (door, home) {
            (Door::All, _) => (letter, ShardSet::first(self.shards)),
            (Door::Shard(shard), _) | (Door::ByHome(shard), None) => (letter, one(shard)),
            (Door::Home, home) => (letter, one(home.unwrap_or(0))),
            (Door::ByHome(shard), Some(home)) if shard == home => (letter, one(home)),
            (Door::ByHome(shard), Some(home)) => {
                let (letter, shards) = (Arc::new(letter), one(shard));
                (Letter::ByHome(ByHome { shards, letter }), one(home))
            }
        };
        let letter = Arc::new(letter);
        Read { letter, shards }
    }

    /// An order for the shards that have a receiver. In a namespace that keeps events it goes by their home.
    pub(crate) fn order(&self, order: Order) -> Read {
        let keeping = self.process.keeping.get();
        let home = keeping.and_then(|keeping| {
            let namespace = order.of().namespace();
            keeping.home_of(namespace, self.shards)
        });
        // A word for the node's handler has no place among events.
        let Some(home) = home.filter(|_| !matches!(order, Order::Server(..))) else {
            return self.direct(order);
        };
        let mut shards = ShardSet::default();
        shards.insert(home);
        let letter = match order {
            // An event gets its place from the home; all else passes by it only to come after events.
            Order::Broadcast(event, None) => Letter::Room(RoomNews::Publish(event)),
            order => {
                let Read { letter, shards } = self.direct(order);
                Letter::ByHome(ByHome { shards, letter })
            }
        };
        let letter = Arc::new(letter);
        Read { letter, shards }
    }

    fn direct(&self, mut order: Order) -> Read {
        let mut shards = match &order {
            // One shard speaks for the node.
            Order::Server(..) => ShardSet::first(1),
            order => self.shards_of(order.of()),
        };
        if let Some(round) = order.round_mut() {
            // One shard must answer that nobody is asked: the round waits for it.
            if shards.is_empty() {
                shards = ShardSet::first(1);
            }
            round.parts = shards.len() as u16;
        }
        self.expect(&mut order);
        let letter = Arc::new(Letter::Order(order));
        Read { letter, shards }
    }

    /// An answer for the shard that asked.
    pub(crate) fn reply(&self, shard: u16, reply: Reply) -> Read {
        self.one(shard, Letter::Response(reply))
    }

    /// A letter for one shard, if it is there.
    fn one(&self, shard: u16, letter: Letter) -> Read {
        let mut shards = ShardSet::default();
        if shard < self.shards {
            shards.insert(shard);
        }
        let letter = Arc::new(letter);
        Read { letter, shards }
    }

    /// So many servers of other kinds are in a namespace now.
    pub fn counts_foreign(&self, namespace: &str, servers: u64) {
        if let Some(uplink) = &self.process.uplink {
            uplink.counts_foreign(namespace, servers);
        }
    }

    fn shards_of(&self, of: &Address) -> ShardSet {
        // A process of one shard has no cards (ADR 13).
        if self.shards == 1 {
            return ShardSet::first(1);
        }
        of.with(|to| {
            // Cards tell where rooms are, and not where users are (`send::shards_of`).
            if !to.users.is_empty() {
                return ShardSet::first(self.shards);
            }
            if to.rooms.is_empty() {
                return self.holders(to.namespace, RoomKind::All, "");
            }
            let rooms = to.rooms.iter().map(|name| {
                let mut shards = self.holders(to.namespace, RoomKind::Named, name);
                let owner = Id20::decode(name.as_bytes()).map(|id| id::socket_owner(&id));
                if let Some(owner) = owner
                    && owner.node == self.node
                    // An id comes from outside and may name any shard.
                    && owner.shard < self.shards
                {
                    shards.insert(owner.shard);
                }
                shards
            });
            rooms.fold(ShardSet::default(), ShardSet::union)
        })
    }

    fn holders(&self, namespace: &str, kind: RoomKind, name: &str) -> ShardSet {
        let room = RoomName {
            namespace,
            kind,
            name,
        };
        let directory = &self.process.directory;
        let shards = directory.read(room, |card| card.shards(self.shards));
        shards.unwrap_or_default()
    }

    /// Until all shards have carried out a join, members of its rooms may be anywhere.
    fn expect(&self, order: &mut Order) {
        if let Order::Join {
            of,
            rooms,
            expected,
        } = order
            && self.shards > 1
        {
            let directory = &self.process.directory;
            let rooms = rooms.iter();
            *expected = of.with(|to| {
                rooms
                    .map(|room| directory.expect(to.namespace, room))
                    .collect()
            });
        }
    }
}
