//! What hubs write to each other. Orders and responses have the verbs of Socket.IO's cluster adapter, so that other nodes can be
//! asked in the same words as other shards; news of rooms stay within the process.

use crate::clients::people::People;
use crate::dialect::speech::{Author, Emit};
use crate::recovery;
use crate::recovery::stamp::Stamp;
use crate::rooms::directory::Expected;
use crate::rooms::log::Kept;
use crate::rooms::presence::Word;
pub use crate::rooms::target::{Scope, Target};
use crate::tables::id::Place;
use crate::tables::position::Position;
use crate::tables::repeats::Spot;
use crate::tables::shards::ShardSet;
use std::sync::Arc;
use wire::base64url::Id20;

/// `Target` on its way to another shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    namespace: String,
    rooms: Vec<String>,
    users: Vec<String>,
    except: Vec<String>,
    without: Vec<u16>,
    scope: Scope,
}

impl From<&Target<'_>> for Address {
    fn from(target: &Target<'_>) -> Self {
        Self {
            namespace: target.namespace.to_owned(),
            rooms: owned(target.rooms),
            users: owned(target.users),
            except: owned(target.except),
            without: target.without.to_vec(),
            scope: target.scope,
        }
    }
}

impl Address {
    /// Sockets of this node, as somebody outside names them.
    pub(crate) fn new(
        namespace: String,
        rooms: Vec<String>,
        users: Vec<String>,
        except: Vec<String>,
    ) -> Self {
        Self {
            namespace,
            rooms,
            users,
            except,
            without: Vec::new(),
            // The writer has told the other nodes itself.
            scope: Scope::Node,
        }
    }

    /// The namespace; rooms, users, and rooms whose members are left out.
    pub(crate) fn into_parts(self) -> (String, [Vec<String>; 3]) {
        (self.namespace, [self.rooms, self.users, self.except])
    }

    fn bytes(&self) -> usize {
        let lists = [&self.rooms, &self.users, &self.except];
        let names = lists.into_iter().flatten();
        self.namespace.len()
            + size_of_val(&*self.without)
            + names
                .map(|name| size_of::<String>() + name.len())
                .sum::<usize>()
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn with<R>(&self, use_it: impl FnOnce(&Target<'_>) -> R) -> R {
        let (rooms, users) = (borrowed(&self.rooms), borrowed(&self.users));
        let except = borrowed(&self.except);
        use_it(&Target {
            namespace: &self.namespace,
            rooms: &rooms,
            users: &users,
            except: &except,
            without: &self.without,
            scope: self.scope,
        })
    }
}

pub(crate) fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(crate) fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Names a round by its asker, and by the asker's number for it.
#[derive(Clone, Copy, Debug)]
pub struct RoundId {
    pub asker: Place,
    pub number: u64,
    /// Ack id under which all receivers on all shards are asked, as Socket.IO's servers do.
    pub ack: u64,
    /// How long the asker waits, milliseconds.
    pub timeout_ms: u64,
    /// Shards of the receivers' node that take part, if it is not the asker's.
    pub parts: u16,
    /// Whether the asker asks for each page of a long list. Nodes of earlier versions take it in one piece.
    pub pages: bool,
}

/// An answer to an event that asked for an ack: raw JSON elements and attachments.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Raw JSON elements, separated by commas.
    pub args: String,
    /// What placeholders in them stand for.
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
    /// The id of the socket.
    pub id: String,
    /// The rooms that it is in.
    pub rooms: Vec<String>,
    /// Raw JSON; `{}` when a handler attached nothing.
    pub data: String,
}

/// The sockets that a fetch found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The sockets, in no order.
    pub sockets: Vec<Fetched>,
    /// `false`: a shard did not answer in time or could not be asked, or the list was too long.
    pub complete: bool,
}

impl Found {
    pub(crate) fn bytes(&self) -> usize {
        bytes_of(&self.sockets)
    }
}

fn bytes_of(sockets: &[Fetched]) -> usize {
    sockets.iter().map(Fetched::bytes).sum()
}

/// Some of the sockets that a shard lists; [`Found`] ends its list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The sockets.
    pub sockets: Vec<Fetched>,
    /// How to ask for the next page; `None`: it comes by itself.
    pub(crate) next: Option<Next>,
}

/// A list of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) shard: u16,
    pub(crate) list: u64,
}

/// The asker of a round wants the next page of a list, or no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct More {
    pub(crate) asker: Place,
    pub(crate) round: u64,
    pub(crate) list: u64,
    /// Its round is over, or has no room.
    pub(crate) ends: bool,
}

impl Fetched {
    pub(crate) fn bytes(&self) -> usize {
        let room = |room: &String| size_of::<String>() + room.len();
        let rooms: usize = self.rooms.iter().map(room).sum();
        size_of::<Self>() + self.id.len() + rooms + self.data.len()
    }
}

/// An event for sockets of another shard.
#[derive(Clone, Debug)]
pub struct Broadcast {
    pub(crate) to: Address,
    pub(crate) name: String,
    pub(crate) args: String,
    pub(crate) attachments: Vec<Vec<u8>>,
    pub(crate) volatile: bool,
    pub(crate) author: OwnedAuthor,
    /// Its place among the events that its rooms keep.
    pub(crate) at: Option<Position>,
    /// Its number in the order of the shard that publishes it, where clients come back.
    pub(crate) stamp: Option<Stamp>,
    /// Its place on a bus.
    pub(crate) spot: Option<Spot>,
}

/// The author of an event on its way to its home. See [`Author`].
#[derive(Clone, Debug, Default)]
pub(crate) enum OwnedAuthor {
    #[default]
    Program,
    Waiting(u64),
    User(Box<str>),
    Elsewhere,
}

impl OwnedAuthor {
    fn as_author(&self) -> Author<'_> {
        match self {
            Self::Program => Author::Program,
            Self::Waiting(receipt) => Author::Waiting(*receipt),
            Self::User(user) => Author::User(user),
            Self::Elsewhere => Author::Elsewhere,
        }
    }
}

/// What the asker of a round is told.
#[derive(Debug)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum Response {
    /// So many sockets of a shard were asked, and so many got nothing.
    Delivered { asked: u64, undelivered: u64 },
    /// One of them answered.
    Ack(Answer),
    /// One of them left without an answer.
    Gone,
    /// The list with which a shard answers a fetch, or the end of it.
    Sockets(Found),
    /// A page of that list.
    Page(Page),
}

impl Response {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Ack(answer) => answer.bytes(),
            Self::Sockets(found) => found.bytes(),
            Self::Page(page) => bytes_of(&page.sockets),
            Self::Delivered { .. } | Self::Gone => 0,
        }
    }
}

impl Broadcast {
    pub(crate) fn new(to: &Target<'_>, event: &Emit<'_>) -> Self {
        Self {
            to: Address::from(to),
            name: event.name.to_owned(),
            args: event.args.to_owned(),
            attachments: event.attachments.to_vec(),
            volatile: event.volatile,
            author: OwnedAuthor::default(),
            at: None,
            stamp: None,
            spot: event.spot.cloned(),
        }
    }

    pub(crate) fn event(&self) -> Emit<'_> {
        Emit {
            name: &self.name,
            args: &self.args,
            attachments: &self.attachments,
            volatile: self.volatile,
            author: self.author.as_author(),
            spot: self.spot.as_ref(),
        }
    }

    /// The same for the home, which is told the author.
    pub(crate) fn said(mut self, people: &People, event: &Emit<'_>) -> Self {
        self.author = match event.author {
            Author::Waiting(receipt) => OwnedAuthor::Waiting(receipt),
            Author::Elsewhere => OwnedAuthor::Elsewhere,
            // A socket's key means nothing on another shard; its user does.
            author => people
                .user_behind(author)
                .map_or(OwnedAuthor::Program, |user| OwnedAuthor::User(user.into())),
        };
        self
    }

    fn bytes(&self) -> usize {
        let attached: usize = self.attachments.iter().map(Vec::len).sum();
        let author = match &self.author {
            OwnedAuthor::User(user) => user.len(),
            OwnedAuthor::Program | OwnedAuthor::Waiting(_) | OwnedAuthor::Elsewhere => 0,
        };
        let spot = self.spot.as_ref().map_or(0, Spot::bytes);
        self.to.bytes() + self.name.len() + self.args.len() + attached + author + spot
    }
}

/// What a shard is asked to do with its sockets, in the verbs of Socket.IO's cluster adapter.
#[derive(Debug)]
pub enum Order {
    /// If it has a round, the asker waits for the receivers' acks.
    Broadcast(Broadcast, Option<RoundId>),
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
    /// For the node's handler, not for sockets. With a round: the asker waits for its answer.
    Server(Broadcast, Option<RoundId>),
}

/// About rooms that keep events, between the home of their namespace and the shards of their members; and gossip about members.
#[derive(Debug)]
pub enum RoomNews {
    /// To the home of its namespace: an event that wants its place.
    Publish(Broadcast),
    /// To the home: a socket of that shard joined and wants what is kept.
    Replay {
        namespace: String,
        room: String,
        shard: u16,
        socket: Id20,
        ticket: u64,
        /// What the client has.
        after: Option<Position>,
    },
    /// To the socket's shard.
    Replayed {
        room: String,
        socket: Id20,
        ticket: u64,
        kept: Kept,
    },
    /// To the home: these rooms keep nothing of what was said; without any, no room of the namespace does.
    Forget {
        namespace: String,
        rooms: Vec<String>,
    },
    /// From another node: one of its shards has so many members of a room.
    Elsewhere {
        to: Address,
        from: Place,
        members: u32,
        asks: bool,
    },
    /// From another shard, of this node or another: the members of a room there.
    Present {
        to: Address,
        from: Place,
        word: Word,
    },
    /// To the shards that have members of a room: their number changed.
    Changed { namespace: Arc<str>, room: Arc<str> },
}

/// What one hub writes to others.
#[derive(Debug)]
pub enum Letter {
    /// Something to do with sockets.
    Order(Order),
    /// Something about a round.
    Response(Reply),
    /// To a shard that makes a list.
    More(More),
    /// Something about a room.
    Room(RoomNews),
    /// Something that the link to other nodes reports.
    Uplink(Tidings),
    /// To the home of a namespace: a letter of another node or server. So it stays after the events that came before it.
    ByHome(ByHome),
    /// About a client that comes back to another shard.
    Return(Return),
    /// News of the store in which namespaces have one stream for all nodes.
    Chronicle(OfChronicle),
}

/// What the store has for hubs.
#[derive(Debug)]
pub struct OfChronicle(pub(crate) ChronicleNews);

#[derive(Debug)]
pub(crate) enum ChronicleNews {
    /// All up to this number was sent to the shards.
    Passed { namespace: String, number: u64 },
    /// Somebody took a socket, on whichever node.
    Taken {
        namespace: String,
        pid: recovery::pid::Pid,
        fence: u64,
    },
    /// What the store had up to this number may be lost.
    Lost {
        namespace: String,
        upto: u64,
        /// How often that happened.
        era: u64,
    },
    /// Something up to this number was lost before this node had read it.
    Missed { namespace: String, upto: u64 },
    /// To the shard that waits: all of the namespace up to this ticket is stored.
    Saved { namespace: String, ticket: u64 },
    /// To the claimer: it does not get the socket.
    Refused {
        number: u64,
        why: recovery::messages::NotRecovered,
    },
    /// To the claimer: what its socket may be a member of.
    Offered {
        number: u64,
        record: Box<recovery::record::Record>,
    },
    /// To the claimer, after what was published before.
    Adopted {
        number: u64,
        handover: Box<recovery::messages::Handover>,
    },
}

impl ChronicleNews {
    fn bytes(&self) -> usize {
        match self {
            Self::Offered { record, .. } => record.bytes(),
            Self::Adopted { handover, .. } => handover.bytes(),
            _ => 0,
        }
    }
}

/// A step by which one shard takes a socket from another.
#[derive(Debug)]
pub struct Return {
    pub(crate) from: Place,
    /// Shards of that node.
    pub(crate) parts: u16,
    /// The namespace, where the claim is one between nodes.
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) message: recovery::messages::Message,
}

/// A letter that goes by the home of its namespace.
#[derive(Debug)]
pub struct ByHome {
    /// The shards to which it goes from there.
    pub(crate) shards: ShardSet,
    pub(crate) letter: Arc<Letter>,
}

/// To the asker of a round.
#[derive(Debug)]
pub struct Reply {
    /// The round's number.
    pub(crate) number: u64,
    pub(crate) node: u16,
    /// Shards of that node that take part.
    pub(crate) parts: u16,
    pub(crate) response: Response,
}

/// What the process's own way to other nodes reports.
#[derive(Debug)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum Tidings {
    /// To the asker of a round: it went to these nodes, which are all that it could reach.
    Posted { round: u64, nodes: Vec<u16> },
    /// To the asker of a round: it went nowhere.
    Refused { round: u64 },
    /// A node is gone.
    Down { node: u16 },
    /// Something that a node said was missed, or the node comes back: nobody knows which rooms it has members of. `lost`: letters are
    /// missing as well.
    Missed { node: u16, lost: bool },
    /// Other nodes know the keys up to this ticket.
    Confirmed { ticket: u64 },
}

impl From<Tidings> for Letter {
    fn from(tidings: Tidings) -> Self {
        Self::Uplink(tidings)
    }
}

impl From<Order> for Letter {
    fn from(order: Order) -> Self {
        Self::Order(order)
    }
}

impl From<More> for Letter {
    fn from(more: More) -> Self {
        Self::More(more)
    }
}

impl From<RoomNews> for Letter {
    fn from(gossip: RoomNews) -> Self {
        Self::Room(gossip)
    }
}

impl From<Return> for Letter {
    fn from(step: Return) -> Self {
        Self::Return(step)
    }
}

impl Letter {
    /// Memory it takes while it waits. Shards that share a letter count it each: better too early than too late.
    pub fn bytes(&self) -> usize {
        let content = match self {
            Self::Order(order) => order.bytes(),
            Self::Response(reply) => reply.response.bytes(),
            Self::Uplink(_) | Self::More(_) => 0,
            Self::ByHome(inner) => inner.letter.bytes(),
            Self::Return(step) => step.message.bytes(),
            Self::Chronicle(news) => news.0.bytes(),
            Self::Room(RoomNews::Publish(broadcast)) => broadcast.bytes(),
            Self::Room(RoomNews::Forget { rooms, .. }) => rooms.iter().map(String::len).sum(),
            Self::Room(RoomNews::Replayed { kept, .. }) => kept.events.len(),
            Self::Room(RoomNews::Elsewhere { to, .. }) => to.bytes(),
            Self::Room(RoomNews::Present { to, word, .. }) => to.bytes() + word.bytes(),
            Self::Room(RoomNews::Replay { .. } | RoomNews::Changed { .. }) => 0,
        };
        size_of::<Self>() + content
    }
}

impl Order {
    /// The sockets that are meant.
    pub(crate) fn of(&self) -> &Address {
        match self {
            Self::Broadcast(broadcast, _) | Self::Server(broadcast, _) => &broadcast.to,
            Self::Join { of, .. }
            | Self::Leave { of, .. }
            | Self::Disconnect { of, .. }
            | Self::Fetch { of, .. } => of,
        }
    }

    /// The round that it is part of.
    pub(crate) fn round_mut(&mut self) -> Option<&mut RoundId> {
        match self {
            Self::Broadcast(_, round) | Self::Server(_, round) => round.as_mut(),
            Self::Fetch { round, .. } => Some(round),
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        let list = |items: &[String]| -> usize {
            let items = items.iter();
            items.map(|item| size_of::<String>() + item.len()).sum()
        };
        match self {
            Self::Broadcast(broadcast, _) | Self::Server(broadcast, _) => broadcast.bytes(),
            Self::Join { of, rooms, .. } | Self::Leave { of, rooms } => of.bytes() + list(rooms),
            Self::Disconnect { of, .. } | Self::Fetch { of, .. } => of.bytes(),
        }
    }
}
