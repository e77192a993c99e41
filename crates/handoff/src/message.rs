//! The messages between two processes. Each is a byte that says what it is, its length in four bytes, and itself.

use crate::calls::{Called, Caller};
use crate::cluster::Membership;
use crate::counting::{Counter, Limiters, Onset, Rest, Share};
use crate::keepsakes::Keepsakes;
use crate::marks::Marks;
use crate::record::{Session, Visitor};
use prost::Message;

/// What a message is. A peer that sends something else is no gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// [`Hello`]: who comes, and what for.
    Hello = 1,
    /// [`Welcome`]: the version that is spoken.
    Welcome = 2,
    /// [`Said`]: the other side is refused, or the handoff is given up; nothing follows.
    Refused = 3,
    /// [`Order`]: an operator wants an upgrade.
    Order = 4,
    /// [`Said`]: a line for the operator.
    Line = 5,
    /// [`Said`]: the last line for the operator: it went well.
    Done = 6,
    /// [`Batch`] without sessions: listeners, whose descriptors follow.
    Listeners = 7,
    /// The successor could serve.
    Ready = 8,
    /// [`ShardWord`]: what a shard goes on with.
    Shard = 9,
    /// [`Batch`]: sessions, whose descriptors follow.
    Sessions = 10,
    /// The batch was taken in.
    Taken = 11,
    /// There is no more.
    Complete = 12,
    /// The successor has built all of it.
    Built = 13,
    /// [`Tally`]: from now on it is the successor's.
    Commit = 14,
    /// The successor serves.
    Serving = 15,
    /// [`Piece`](crate::backend::Piece): a part of what a backend knows.
    Backend = 16,
    /// [`Stays`](crate::backend::Stays): sockets that do not come.
    Stays = 17,
    /// [`Piece`](crate::backend::Piece): a part of the [`Place`](crate::cluster::Place) in the cluster.
    Place = 18,
    /// [`Streams`](crate::cluster::Streams): how far it has passed streams on.
    Streams = 19,
    /// [`Events`](crate::history::Events): what rooms said.
    Kept = 20,
}

impl Kind {
    /// `None`: nothing is said by this byte.
    pub fn of(byte: u8) -> Option<Self> {
        const ALL: [Kind; 20] = [
            Kind::Hello,
            Kind::Welcome,
            Kind::Refused,
            Kind::Order,
            Kind::Line,
            Kind::Done,
            Kind::Listeners,
            Kind::Ready,
            Kind::Shard,
            Kind::Sessions,
            Kind::Taken,
            Kind::Complete,
            Kind::Built,
            Kind::Commit,
            Kind::Serving,
            Kind::Backend,
            Kind::Stays,
            Kind::Place,
            Kind::Streams,
            Kind::Kept,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The first word of a peer.
#[derive(Clone, PartialEq, Message)]
pub struct Hello {
    /// Versions of the record that it knows.
    #[prost(uint32, tag = "1")]
    pub oldest: u32,
    #[prost(uint32, tag = "2")]
    pub newest: u32,
    #[prost(uint32, tag = "3")]
    pub pid: u32,
    /// Of the program, for the log.
    #[prost(string, tag = "4")]
    pub program: String,
    /// What it is going to be; an operator's command has none.
    #[prost(message, optional, tag = "5")]
    pub fit: Option<Fit>,
    /// What it can go on with ([`takes`](crate::takes)).
    #[prost(uint64, tag = "6")]
    pub takes: u64,
}

/// The configuration as far as both processes must have the same.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Fit {
    #[prost(uint32, tag = "1")]
    pub node: u32,
    #[prost(uint32, tag = "2")]
    pub shards: u32,
    /// Addresses as configured: public ones, those with TLS, Unix sockets, the operators' listener.
    #[prost(string, repeated, tag = "3")]
    pub listen: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub secure: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub unix: Vec<String>,
    #[prost(string, tag = "6")]
    pub admin: String,
    /// The workers' listener.
    #[prost(string, tag = "7")]
    pub workers: String,
    /// Backends, each with its namespaces.
    #[prost(string, repeated, tag = "8")]
    pub backends: Vec<String>,
    /// The engine between nodes, and its prefix; empty: a node by itself.
    #[prost(string, tag = "9")]
    pub cluster: String,
}

impl Fit {
    /// What differs, in the operator's words; `None`: it fits.
    pub fn differs(&self, other: &Self) -> Option<String> {
        let numbers = [
            ("server.node", self.node, other.node),
            ("server.shards", self.shards, other.shards),
        ];
        let number = numbers.into_iter().find(|(_, own, other)| own != other);
        if let Some((key, own, other)) = number {
            return Some(format!("{key} is {own} here and {other} there"));
        }
        let admin = [self.admin.clone()];
        let others = [other.admin.clone()];
        let (workers, their_workers) = ([self.workers.clone()], [other.workers.clone()]);
        let (cluster, their_cluster) = ([self.cluster.clone()], [other.cluster.clone()]);
        let lists = [
            ("server.listen", &*self.listen, &*other.listen),
            ("tls.listen", &*self.secure, &*other.secure),
            ("server.listen (unix)", &*self.unix, &*other.unix),
            ("server.admin", &admin, &others),
            ("workers.listen", &workers, &their_workers),
            ("namespaces.NAME.backend", &*self.backends, &*other.backends),
            ("cluster", &cluster, &their_cluster),
        ];
        let list = lists.into_iter().find(|(_, own, other)| own != other)?;
        let (key, own, other) = (list.0, list.1.join(", "), list.2.join(", "));
        Some(format!("{key} is \"{own}\" here and \"{other}\" there"))
    }
}

/// The answer to [`Hello`].
#[derive(Clone, PartialEq, Message)]
pub struct Welcome {
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Sessions about to come.
    #[prost(uint64, tag = "2")]
    pub sessions: u64,
    /// The node as which the successor goes on, if it is one of a cluster.
    #[prost(message, optional, tag = "3")]
    pub member: Option<Membership>,
    /// With what its shards begin.
    #[prost(message, optional, tag = "10")]
    pub onset: Option<Onset>,
}

/// What became of upgrades, the one that ends now included. Processes before it was told say nothing: all is 0.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Tally {
    #[prost(uint64, tag = "1")]
    pub done: u64,
    #[prost(uint64, tag = "2")]
    pub refused: u64,
    #[prost(uint64, tag = "3")]
    pub failed: u64,
    /// Sessions of those before.
    #[prost(uint64, tag = "4")]
    pub sessions: u64,
    /// Connections of those before.
    #[prost(uint64, tag = "5")]
    pub connections: u64,
    /// Nobody is read for so long, microseconds.
    #[prost(uint64, tag = "6")]
    pub pause_us: u64,
}

/// A sentence for people.
#[derive(Clone, PartialEq, Message)]
pub struct Said {
    #[prost(string, tag = "1")]
    pub text: String,
}

/// What an operator wants.
#[derive(Clone, PartialEq, Message)]
pub struct Order {
    /// The program of the successor; empty: the one that runs now, as it is on the disk.
    #[prost(string, tag = "1")]
    pub binary: String,
    /// Nothing is done; it is told what would be.
    #[prost(bool, tag = "2")]
    pub dry_run: bool,
}

/// One listening socket.
#[derive(Clone, PartialEq, Message)]
pub struct Listener {
    /// 1 public, 2 Unix, 3 the operators', 4 the workers', 5 that for other nodes.
    #[prost(uint32, tag = "1")]
    pub role: u32,
    /// The shard that accepts from it.
    #[prost(uint32, tag = "2")]
    pub shard: u32,
    /// Its place among the listeners of its shard.
    #[prost(uint32, tag = "3")]
    pub place: u32,
}

/// What one shard goes on with, beside its sessions.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ShardWord {
    #[prost(uint32, tag = "1")]
    pub shard: u32,
    /// The next id of an ack that a client is asked for.
    #[prost(uint64, tag = "2")]
    pub next_ack: u64,
    /// The last number that its handler gave to anything.
    #[prost(uint64, tag = "3")]
    pub numbers: u64,
}

/// Things whose descriptors follow, one for each, in this order.
#[derive(Clone, PartialEq, Message)]
pub struct Batch {
    /// Of these sessions.
    #[prost(uint32, tag = "1")]
    pub shard: u32,
    #[prost(message, repeated, tag = "2")]
    pub sessions: Vec<Session>,
    #[prost(message, repeated, tag = "3")]
    pub listeners: Vec<Listener>,
    /// Behind those of the sessions.
    #[prost(message, repeated, tag = "4")]
    pub visitors: Vec<Visitor>,
    /// What this shard has carried out of buses. No descriptors follow.
    #[prost(message, repeated, tag = "5")]
    pub marks: Vec<Marks>,
    /// What users and addresses have used of rates, in the whole process. No descriptors follow.
    #[prost(message, repeated, tag = "10")]
    pub limiters: Vec<Limiters>,
    /// Counters of metrics, of the whole process. No descriptors follow.
    #[prost(message, repeated, tag = "11")]
    pub counters: Vec<Counter>,
    /// What this node has of limits that nodes share. No descriptors follow.
    #[prost(message, repeated, tag = "12")]
    pub shares: Vec<Share>,
    /// Of those that have no share of their own. No descriptors follow.
    #[prost(message, repeated, tag = "13")]
    pub rests: Vec<Rest>,
    /// What this shard keeps for those who come. No descriptors follow.
    #[prost(message, repeated, tag = "14")]
    pub keepsakes: Vec<Keepsakes>,
    /// Calls of the server API, of the whole process. No descriptors follow.
    #[prost(message, repeated, tag = "15")]
    pub calls: Vec<Called>,
    /// What its callers have used of their rates. No descriptors follow.
    #[prost(message, repeated, tag = "16")]
    pub callers: Vec<Caller>,
}

impl Batch {
    /// `None`: these bytes are none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_byte_of_its_own() {
        let known: Vec<u8> = (0..=u8::MAX)
            .filter(|byte| Kind::of(*byte).is_some())
            .collect();
        assert_eq!(known, (1..=20).collect::<Vec<u8>>());
        assert!(
            known
                .iter()
                .all(|byte| Kind::of(*byte).map(|kind| kind as u8) == Some(*byte))
        );
    }

    #[test]
    fn what_differs_is_named_with_both_values() {
        let fit = |shards, listen: &str| Fit {
            shards,
            listen: vec![listen.to_owned()],
            ..Fit::default()
        };
        assert_eq!(fit(2, ":1").differs(&fit(2, ":1")), None);
        let text = fit(2, ":1").differs(&fit(4, ":1")).expect("they differ");
        assert_eq!(text, "server.shards is 2 here and 4 there");
        let text = fit(2, ":1").differs(&fit(2, ":2")).expect("they differ");
        assert_eq!(text, "server.listen is \":1\" here and \":2\" there");
    }
}
