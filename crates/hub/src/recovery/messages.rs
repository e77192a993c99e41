//! The messages between shards when one of them takes a socket that another has.

use crate::books::metrics::Returned;
use crate::recovery::journal::Said;
use crate::recovery::pid::Pid;
use crate::recovery::record::Record;
use crate::recovery::stamp::Vector;
use crate::tables::id::Place;
use crate::tables::position::Position;
use std::sync::Arc;

/// Names a claim by the shard that has it and that shard's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) by: Place,
    pub(crate) number: u64,
}

/// Why a socket did not come back: a reason for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRecovered {
    /// No shard has such a record: its window is over, it was disconnected, or the client made the `pid` up.
    Unknown,
    /// Another connection is about to take it, or took it.
    Claimed,
    /// Its token names somebody else.
    OtherUser,
    /// Part of what it missed is in no journal any more.
    Trimmed,
    /// It missed more than may wait for one client.
    TooMuch,
    /// It was disconnected while it was on its way.
    Disconnected,
    /// The shards did not answer in time.
    Late,
    /// It may be on another node, and not all nodes can take part. One is of an older version or has no recovery in the namespace, or a
    /// node came or went meanwhile.
    Nodes,
}

impl NotRecovered {
    /// Its name in metrics.
    pub(crate) fn outcome(self) -> Returned {
        match self {
            Self::Unknown => Returned::Unknown,
            Self::Claimed => Returned::Claimed,
            Self::OtherUser => Returned::OtherUser,
            Self::Trimmed => Returned::Trimmed,
            Self::TooMuch => Returned::TooMuch,
            Self::Disconnected => Returned::Disconnected,
            Self::Late => Returned::Late,
            Self::Nodes => Returned::Nodes,
        }
    }
}

/// All that the claimer needs to go on where the owner stopped.
#[derive(Clone, Debug)]
pub(crate) struct Handover {
    pub(crate) record: Record,
    /// The events that it missed, with their places in the owner's journal.
    pub(crate) missed: Vec<(u64, Arc<Said>)>,
    /// The name of that journal.
    pub(crate) log: u64,
    /// All that the owner had seen by then.
    pub(crate) seen: Vector,
}

impl Handover {
    pub(crate) fn bytes(&self) -> usize {
        let missed = self.missed.iter();
        let missed: usize = missed
            .map(|(_, said)| size_of::<u64>() + said.bytes())
            .sum();
        self.record.bytes() + missed + self.seen.bytes()
    }
}

/// One message about a claim. Messages arrive in the order in which they were sent, and after all that the sender published before.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// To everybody: who has this socket?
    Claim {
        pid: Pid,
        claim: Claim,
        shown: Option<Position>,
        uid: Option<Box<str>>,
        /// The nodes that it goes around; `None`: other nodes are not asked.
        nodes: Option<Arc<[u16]>>,
    },
    /// To the claimer: the sender does not give the socket, and why.
    Refused { claim: Claim, why: NotRecovered },
    /// To the claimer: the socket is here, and is kept for you. A later round has memberships that an earlier one did not have.
    Offer {
        claim: Claim,
        round: u32,
        record: Box<Record>,
    },
    /// To everybody: the claimer is listed for all that was offered. `last`: what the claimer gave out so far.
    Fence {
        pid: Pid,
        claim: Claim,
        round: u32,
        owner: Place,
        last: Vector,
    },
    /// To the owner: the claimer gets all that this shard gives out after these.
    Fenced {
        pid: Pid,
        claim: Claim,
        round: u32,
        last: Vector,
    },
    /// To the claimer: the socket, with all that it missed.
    Handed {
        claim: Claim,
        handover: Box<Handover>,
    },
    /// To everybody but the claimer: what the owner had seen has left you, so tell the claimer.
    Flush { claim: Claim },
    /// To the claimer: it got all that the sender published before the handover.
    Flushed { claim: Claim },
    /// To the owner: the socket is mine.
    Confirmed { pid: Pid, claim: Claim },
    /// To all shards that were asked: the socket is not mine, and its client was told nothing.
    Released { pid: Pid, claim: Claim },
}

impl Message {
    /// Memory it takes while it waits.
    pub(crate) fn bytes(&self) -> usize {
        let content = match self {
            Self::Claim { uid, .. } => uid.as_ref().map_or(0, |uid| uid.len()),
            Self::Offer { record, .. } => record.bytes(),
            Self::Handed { handover, .. } => handover.bytes(),
            Self::Fence { last, .. } | Self::Fenced { last, .. } => last.bytes(),
            _ => 0,
        };
        size_of::<Self>() + content
    }
}
