//! What shards are asked, and what they answer, when one process hands over to another.

use hub::{Crossing, Stays};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender};

/// What would go, and what would stay for which reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Sessions that go.
    pub goes: u64,
    /// Those of them that are event streams.
    pub streams: u64,
    /// Those of them that are on their way up from long-polling.
    pub upgrading: u64,
    /// Those of them that poll on, and whose way up is cut off.
    pub without_probe: u64,
    /// Sockets whose clients can come back to what they missed, some of them without a connection.
    pub windows: u64,
    /// Questions about what clients said that others answer: programs, stores.
    pub outside: u64,
    /// Sessions that stay, in the order of [`Stays::ALL`].
    pub stays: [u64; Stays::ALL.len()],
    /// Sockets without a connection that somebody claims just now.
    pub claimed: u64,
    /// Rooms that keep events for those who join, and these events.
    pub kept: (u64, u64),
}

impl Census {
    pub(crate) fn count(&mut self, goes: Result<Crossing, Stays>) {
        self.goes += u64::from(goes.is_ok());
        match goes {
            Ok(Crossing::Plainly | Crossing::Posting) => {}
            Ok(Crossing::Streaming) => self.streams += 1,
            Ok(Crossing::Upgrading) => self.upgrading += 1,
            Ok(Crossing::WithoutProbe) => self.without_probe += 1,
            Err(why) => {
                let at = Stays::ALL.iter().position(|one| *one == why);
                self.stays[at.unwrap_or_default()] += 1;
            }
        }
    }

    /// Sessions about which somebody is being asked, those whose rooms other nodes are told of, and sockets that somebody claims.
    pub fn undecided(&self) -> u64 {
        let stays = Stays::ALL.iter().zip(self.stays);
        let passing = stays.filter(|(why, _)| matches!(why, Stays::Question | Stays::Joining));
        passing.map(|(_, count)| count).sum::<u64>() + self.claimed
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.goes += other.goes;
        self.streams += other.streams;
        self.upgrading += other.upgrading;
        self.without_probe += other.without_probe;
        self.windows += other.windows;
        self.outside += other.outside;
        self.claimed += other.claimed;
        self.kept.0 += other.kept.0;
        self.kept.1 += other.kept.1;
        for (sum, more) in self.stays.iter_mut().zip(other.stays) {
            *sum += more;
        }
    }
}

/// A listening socket of a shard.
#[derive(Debug)]
pub struct Listening {
    /// Its shard, and its place among the listeners of its kind there.
    pub shard: u16,
    pub place: usize,
    pub unix: bool,
    pub socket: OwnedFd,
}

/// Some sessions of a shard, each with the socket of its connection.
#[derive(Debug, Default)]
pub struct Sessions {
    pub records: Vec<handoff::Session>,
    /// Connections without a session.
    pub visitors: Vec<handoff::Visitor>,
    /// Of all connections of the sessions, and behind them of the visitors.
    pub sockets: Vec<OwnedFd>,
    /// Of sessions that do not come.
    pub stays: Vec<handoff::backend::Stay>,
    /// What the shard has carried out of buses.
    pub marks: Vec<handoff::Marks>,
    /// What it keeps for those who come.
    pub keepsakes: Vec<handoff::Keepsakes>,
    /// Sockets without a connection, and rooms with their events, that cannot go.
    pub left_behind: u64,
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.records.len() + self.visitors.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let beside = self.stays.is_empty() && self.marks.is_empty();
        self.len() == 0 && beside && self.keepsakes.is_empty() && self.left_behind == 0
    }
}

/// Why shards cannot be frozen, or do not go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unquiet(pub String);

impl std::fmt::Display for Unquiet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unquiet {}

/// What a shard is asked while it lives as ever.
#[derive(Debug)]
pub(crate) enum Wish {
    /// For a successor that takes these ([`handoff::takes`]).
    Count(u64, Sender<Census>),
    Listeners(Sender<io::Result<Vec<Listening>>>),
    /// Some of its journal behind a place.
    Journal(u64, Sender<Option<handoff::Keepsakes>>),
    /// Reads nobody and lets nobody in.
    Pause,
    /// Answers with the messages that it worked on since it was asked last.
    Round(Sender<u64>),
    Resume,
    /// For such a successor.
    Freeze(u64, Receiver<Order>, Sender<Report>),
}

/// What a frozen shard is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// More sessions. The next process has the journal up to this place; `None`: it takes nothing of what is kept for those who come.
    More(Option<u64>),
    Commit,
}

/// What a frozen shard answers.
#[derive(Debug)]
pub(crate) enum Report {
    /// It is frozen; what it goes on with beside sessions.
    Frozen(handoff::ShardWord),
    /// `None`: that were all.
    Sessions(Result<Option<Sessions>, Unquiet>),
}

/// What a shard that has not begun is told.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// The answer says how much of what is kept for those who come has no place here.
    Sessions(Sessions, Sender<Result<u64, String>>),
    /// All have come. What it goes on with beside them.
    All(handoff::ShardWord, Sender<Result<(), String>>),
    Begin,
}

pub(crate) fn copy(socket: &impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(socket, 0)?)
}
