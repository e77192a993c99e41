//! What shards say to each other of their people, and what members are told.

use std::sync::Arc;

/// A member of a room.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// All sockets of a user.
    User(Arc<str>),
    /// A socket without a user, by its id.
    Socket(Arc<str>),
}

impl Who {
    pub(crate) fn name(&self) -> &str {
        let (Self::User(name) | Self::Socket(name)) = self;
        name
    }
}

/// A member, and the raw JSON object that others may see of it; empty: there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The member.
    pub who: Who,
    /// What others may see of it.
    pub info: Arc<str>,
}

impl Person {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.who.name().len() + self.info.len()
    }
}

/// A member that went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaver {
    /// The member.
    pub who: Who,
    /// Its node is gone, or is not heard any more.
    pub lost: bool,
}

/// What a shard says of its own people in a room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The number of the word that it follows; 0: it is all that the shard has.
    pub(crate) since: u64,
    /// Its own number.
    pub(crate) version: u64,
    /// People of the shard.
    pub(crate) count: u32,
    /// There are too many people for names.
    pub(crate) nameless: bool,
    /// The hearers are to say all that they have.
    pub(crate) asks: bool,
    pub(crate) joined: Vec<Person>,
    pub(crate) left: Vec<Who>,
}

impl Word {
    pub(crate) fn bytes(&self) -> usize {
        let joined: usize = self.joined.iter().map(Person::bytes).sum();
        joined + self.left.len() * size_of::<Who>()
    }
}

/// What members of a room are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// Members of the room; where they have no names, users are counted once for each shard that they are on.
    pub count: u64,
    /// There are too many for names.
    pub nameless: bool,
    /// `false`: others were asked just now, or cannot be asked: the list may lack what they have.
    pub complete: bool,
    /// Members that came, or, in an answer, all of them.
    pub joined: Vec<Person>,
    /// Members that went.
    pub left: Vec<Leaver>,
}
