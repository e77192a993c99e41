//! What the store of chronicles has for the shards of a process, as letters. What must come after events goes by the home of its namespace.

use crate::cluster::adoption::Adoption;
use crate::cluster::inbox::Read;
use crate::cluster::letter::{ByHome, ChronicleNews, Letter, OfChronicle, Order, RoomNews};
use crate::cluster::shared::Process;
use crate::cluster::wire::{self, Post};
use crate::recovery::messages::NotRecovered;
use crate::recovery::pid::Pid;
use crate::tables::shards::ShardSet;
use std::sync::Arc;

/// Why a client does not get its socket from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unadopted {
    /// The store does not know it.
    Unknown,
    /// Its token names somebody else.
    OtherUser,
    /// The store lost something that may have been for it.
    Trimmed,
    /// The store does not answer.
    Late,
}

impl From<Unadopted> for NotRecovered {
    fn from(why: Unadopted) -> Self {
        match why {
            Unadopted::Unknown => Self::Unknown,
            Unadopted::OtherUser => Self::OtherUser,
            Unadopted::Trimmed => Self::Trimmed,
            Unadopted::Late => Self::Late,
        }
    }
}

/// Makes letters for the shards of a process.
#[derive(Clone, Debug)]
pub struct ChronicleMail {
    process: Process,
    shards: u16,
}

impl ChronicleMail {
    /// For a node with so many shards.
    pub fn new(process: &Process, shards: u16) -> Self {
        Self {
            process: process.clone(),
            shards,
        }
    }

    /// An event of the stream; `None`: it is none that this version knows.
    pub fn said(&self, namespace: &str, number: u64, letter: &[u8]) -> Option<Read> {
        let Ok(Post::Order(Order::Broadcast(mut event, None))) = wire::read(letter, 0) else {
            return None;
        };
        let chronicle = self.process.outlets.chronicle.as_ref()?;
        // The stream's numbers order the events of its own namespace only.
        if event.to.namespace() != namespace {
            return None;
        }
        event.stamp = Some(chronicle.stamp(namespace, number)?);
        let letter = Arc::new(Letter::Room(RoomNews::Publish(event)));
        let shards = one(self.home(namespace));
        Some(Read { letter, shards })
    }

    /// All up to this number was sent.
    pub fn passed(&self, namespace: &str, number: u64) -> Read {
        let news = ChronicleNews::Passed {
            namespace: namespace.to_owned(),
            number,
        };
        self.by_home(namespace, ShardSet::first(self.shards), news)
    }

    /// Somebody took a socket.
    pub fn taken(&self, namespace: &str, pid: &str, fence: u64) -> Option<Read> {
        let news = ChronicleNews::Taken {
            namespace: namespace.to_owned(),
            pid: Pid::read(pid)?,
            fence,
        };
        Some(self.by_home(namespace, ShardSet::first(self.shards), news))
    }

    /// The same for the one shard that takes itself for the owner.
    pub fn taken_from(&self, shard: u16, namespace: &str, pid: &str, fence: u64) -> Option<Read> {
        let news = ChronicleNews::Taken {
            namespace: namespace.to_owned(),
            pid: Pid::read(pid)?,
            fence,
        };
        Some(direct(shard, news))
    }

    /// What the store had up to this number may be lost.
    pub fn lost(&self, namespace: &str, upto: u64, era: u64) -> Read {
        let news = ChronicleNews::Lost {
            namespace: namespace.to_owned(),
            upto,
            era,
        };
        self.by_home(namespace, ShardSet::first(self.shards), news)
    }

    /// Something up to this number is lost and was not sent: clients that may have missed it are to know.
    pub fn missed(&self, namespace: &str, upto: u64) -> Read {
        let news = ChronicleNews::Missed {
            namespace: namespace.to_owned(),
            upto,
        };
        self.by_home(namespace, ShardSet::first(self.shards), news)
    }

    /// A shard need not wait any longer.
    pub fn saved(&self, shard: u16, namespace: &str, ticket: u64) -> Read {
        let namespace = namespace.to_owned();
        direct(shard, ChronicleNews::Saved { namespace, ticket })
    }

    /// A claim got nothing.
    pub fn refused(&self, shard: u16, number: u64, why: Unadopted) -> Read {
        let why = why.into();
        direct(shard, ChronicleNews::Refused { number, why })
    }

    /// The claimer is to be listed for all that its socket is a member of.
    pub fn offered(&self, shard: u16, number: u64, adoption: &Adoption) -> Read {
        let record = Box::new(adoption.record());
        direct(shard, ChronicleNews::Offered { number, record })
    }

    /// All up to a number of the stream was read for it, and sent to the shards.
    pub fn adopted(
        &self,
        namespace: &str,
        (shard, number): (u16, u64),
        adoption: Adoption,
        upto: u64,
    ) -> Read {
        let chronicle = self.process.outlets.chronicle.as_ref();
        let stamp = chronicle.and_then(|chronicle| chronicle.stamp(namespace, upto));
        let stamp = stamp.ok_or(NotRecovered::Unknown);
        let news = match stamp.and_then(|upto| adoption.finish(upto)) {
            Ok(handover) => ChronicleNews::Adopted {
                number,
                handover: Box::new(handover),
            },
            Err(why) => ChronicleNews::Refused { number, why },
        };
        // The handover comes after all events that the home passes on.
        self.by_home(namespace, one(shard), news)
    }

    fn home(&self, namespace: &str) -> u16 {
        let keeping = self.process.keeping.get();
        let home = keeping.and_then(|keeping| keeping.home_of(namespace, self.shards));
        home.unwrap_or_default()
    }

    fn by_home(&self, namespace: &str, shards: ShardSet, news: ChronicleNews) -> Read {
        let letter = Arc::new(Letter::Chronicle(OfChronicle(news)));
        let letter = Arc::new(Letter::ByHome(ByHome { shards, letter }));
        let shards = one(self.home(namespace));
        Read { letter, shards }
    }
}

fn one(shard: u16) -> ShardSet {
    let mut shards = ShardSet::default();
    shards.insert(shard);
    shards
}

fn direct(shard: u16, news: ChronicleNews) -> Read {
    let letter = Arc::new(Letter::Chronicle(OfChronicle(news)));
    let shards = one(shard);
    Read { letter, shards }
}
