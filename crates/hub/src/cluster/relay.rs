//! Messages between hubs: the set and the names of Socket.IO's cluster adapter, so that other shards and, through an adapter,
//! other nodes are asked in the same words.

use crate::cluster::rounds::Found;
use crate::core::Core;
use crate::rooms::directory::{Expected, RoomName};
use crate::rooms::log::Position;
use crate::rooms::room::RoomKind;
use crate::seam::context::Emit;
use crate::seam::effect::Effect;
use crate::tables::id::{self, Place};
use crate::tables::shards::ShardSet;
use std::sync::Arc;
use wire::base64url::Id20;

/// Who a message is for: the union of `rooms` and `users`, or everyone in the namespace when both are empty, less `except`.
/// A socket's id is the name of a room that holds just that socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target<'a> {
    pub namespace: &'a str,
    pub rooms: &'a [&'a str],
    pub users: &'a [&'a str],
    /// Rooms (or socket ids) whose members are left out.
    pub except: &'a [&'a str],
}

/// `Target` on its way to another shard.
#[derive(Clone, Debug)]
pub struct Address {
    namespace: String,
    rooms: Vec<String>,
    users: Vec<String>,
    except: Vec<String>,
}

impl From<&Target<'_>> for Address {
    fn from(target: &Target<'_>) -> Self {
        Self {
            namespace: target.namespace.to_owned(),
            rooms: owned(target.rooms),
            users: owned(target.users),
            except: owned(target.except),
        }
    }
}

impl Address {
    fn bytes(&self) -> usize {
        let lists = [&self.rooms, &self.users, &self.except];
        let names = lists.into_iter().flatten();
        self.namespace.len()
            + names
                .map(|name| size_of::<String>() + name.len())
                .sum::<usize>()
    }

    pub(crate) fn with<R>(&self, use_it: impl FnOnce(&Target<'_>) -> R) -> R {
        let (rooms, users) = (borrowed(&self.rooms), borrowed(&self.users));
        let except = borrowed(&self.except);
        use_it(&Target {
            namespace: &self.namespace,
            rooms: &rooms,
            users: &users,
            except: &except,
        })
    }
}

pub(crate) fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(crate) fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Names a round: whose it is, and which of its own.
#[derive(Clone, Copy, Debug)]
pub struct RoundId {
    pub asker: Place,
    pub number: u64,
    /// How long the asker waits, milliseconds.
    pub timeout_ms: u64,
}

/// An answer to an event that asked for an ack: raw JSON elements and attachments.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub args: String,
    pub attachments: Vec<Vec<u8>>,
}

impl Answer {
    pub(crate) fn bytes(&self) -> usize {
        let attachments: usize = self.attachments.iter().map(Vec::len).sum();
        size_of::<Self>() + self.args.len() + attachments
    }
}

/// A socket as `fetch` reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    pub id: String,
    pub rooms: Vec<String>,
    /// Raw JSON; `{}` when a handler attached nothing.
    pub data: String,
}

impl Fetched {
    pub(crate) fn bytes(&self) -> usize {
        let room = |room: &String| size_of::<String>() + room.len();
        let rooms: usize = self.rooms.iter().map(room).sum();
        size_of::<Self>() + self.id.len() + rooms + self.data.len()
    }
}

/// An event for sockets of another shard.
#[derive(Debug)]
pub struct Broadcast {
    pub(crate) to: Address,
    pub(crate) name: String,
    pub(crate) args: String,
    pub(crate) attachments: Vec<Vec<u8>>,
    pub(crate) volatile: bool,
    /// Its place among the events that its room keeps.
    pub(crate) at: Option<Position>,
}

/// What the asker of a round is told.
#[derive(Debug)]
pub enum Response {
    /// So many sockets of a shard were asked, and so many got nothing.
    Delivered { asked: u64, undelivered: u64 },
    /// One of them answered.
    Ack(Answer),
    /// One of them left without an answer.
    Gone,
    /// What a shard has to say to a fetch.
    Sockets(Found),
}

impl Response {
    fn bytes(&self) -> usize {
        match self {
            Self::Ack(answer) => answer.bytes(),
            Self::Sockets(found) => found.sockets.iter().map(Fetched::bytes).sum(),
            Self::Delivered { .. } | Self::Gone => 0,
        }
    }
}

impl Broadcast {
    pub(crate) fn event(&self) -> Emit<'_> {
        Emit {
            name: &self.name,
            args: &self.args,
            attachments: &self.attachments,
            volatile: self.volatile,
        }
    }

    fn bytes(&self) -> usize {
        let attached: usize = self.attachments.iter().map(Vec::len).sum();
        self.to.bytes() + self.name.len() + self.args.len() + attached
    }
}

#[derive(Debug)]
pub enum Relay {
    Broadcast(Broadcast),
    /// The same, and the asker waits for the receivers' acks.
    Ask(Broadcast, RoundId),
    Join {
        of: Address,
        rooms: Vec<String>,
        /// Until all receivers have carried it out, members of these rooms may be anywhere.
        expected: Vec<Expected>,
    },
    Leave {
        of: Address,
        rooms: Vec<String>,
    },
    Disconnect {
        of: Address,
        close: bool,
    },
    Fetch {
        of: Address,
        round: RoundId,
    },
    /// To the asker of the round with this number.
    Response(u64, Response),
    /// To the home of the one room that it is for: an event, and what is kept of it.
    Append(Broadcast, Option<String>),
    /// To the home: a socket of that shard joined and wants what is kept.
    Replay {
        namespace: String,
        room: String,
        shard: u16,
        socket: Id20,
        ticket: u64,
    },
    /// To the socket's shard.
    Replayed {
        room: String,
        socket: Id20,
        ticket: u64,
        /// Raw JSON, separated by commas.
        events: String,
    },
    /// To the shards that have members of a room: their number changed.
    RoomChanged {
        namespace: Arc<str>,
        room: Arc<str>,
    },
}

impl Relay {
    /// Memory it takes while it waits. Shards that share a message count it each: better too early than too late.
    pub fn bytes(&self) -> usize {
        let list = |items: &[String]| -> usize {
            let items = items.iter();
            items.map(|item| size_of::<String>() + item.len()).sum()
        };
        let args = match self {
            Self::Broadcast(broadcast) | Self::Ask(broadcast, _) => broadcast.bytes(),
            Self::Join { of, rooms, .. } | Self::Leave { of, rooms } => of.bytes() + list(rooms),
            Self::Disconnect { of, .. } | Self::Fetch { of, .. } => of.bytes(),
            Self::Response(_, response) => response.bytes(),
            Self::Append(broadcast, kept) => {
                broadcast.bytes() + kept.as_ref().map_or(0, String::len)
            }
            Self::Replayed { events, .. } => events.len(),
            Self::Replay { .. } | Self::RoomChanged { .. } => 0,
        };
        size_of::<Self>() + args
    }
}

impl Core {
    /// Other shards that hold somebody the target may mean.
    pub(crate) fn shards_of(&self, target: &Target<'_>) -> ShardSet {
        let mut set = ShardSet::default();
        if self.ids.me.shards == 1 {
            return set;
        }
        if target.rooms.is_empty() && target.users.is_empty() {
            set = self.members_elsewhere(target.namespace, RoomKind::All, "");
        }
        for name in target.rooms {
            set = set.union(self.members_elsewhere(target.namespace, RoomKind::Named, name));
            if let Some(id) = Id20::decode(name.as_bytes()) {
                let owner = id::socket_owner(&id);
                if owner.node == self.ids.me.node && owner.shard < self.ids.me.shards {
                    set.insert(owner.shard);
                }
            }
        }
        if !target.users.is_empty() {
            // A user's few sockets may be anywhere, and their shards tell nobody: asking all costs less than knowing.
            return self.other_shards();
        }
        set.remove(self.ids.me.shard);
        set
    }

    fn members_elsewhere(&self, namespace: &str, kind: RoomKind, name: &str) -> ShardSet {
        let room = RoomName {
            namespace,
            kind,
            name,
        };
        self.rooms.shards_of(self.find_namespace(namespace), room)
    }

    pub(crate) fn send(&mut self, shard: u16, relay: Relay) {
        let mut one = ShardSet::default();
        one.insert(shard);
        self.send_all(one, relay);
    }

    /// Every message to another shard goes through here: it is charged to the turn, and its sender waits for long mailboxes.
    pub(crate) fn send_all(&mut self, shards: ShardSet, relay: Relay) {
        let bytes = relay.bytes();
        let relay = Arc::new(relay);
        for shard in shards.iter() {
            self.counts.relayed += 1;
            self.output.budget.post(bytes);
            if self.loads.is_long(shard, &self.config.limits) {
                self.intake.wait_for(shard);
            }
            self.outbound.effects.push(Effect::Send {
                shard,
                relay: Arc::clone(&relay),
            });
        }
    }

    pub(crate) fn other_shards(&self) -> ShardSet {
        let mut set = ShardSet::first(self.ids.me.shards);
        set.remove(self.ids.me.shard);
        set
    }
}
