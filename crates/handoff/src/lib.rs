//! What a process tells its successor on the same host: the sessions of its clients as records, and the messages between the two.
//!
//! Pure: no I/O, no clock. Each record is input from a stranger until [`Ledger::admit`] has looked at it. Fields that a process does
//! not know are skipped, so that a record may grow within a version.
#![forbid(unsafe_code)]

pub mod backend;
pub mod bounds;
mod calls;
mod check;
pub mod cluster;
mod counting;
pub mod history;
pub mod keepsakes;
mod marks;
mod message;
mod record;
mod unfit;

pub use calls::{Called, Caller};
pub use check::{Ledger, is_taken};
pub use counting::{Counter, Dues, Limiters, Onset, Rest, Share, Spent};
pub use keepsakes::Keepsakes;
pub use marks::Marks;
pub use message::{Batch, Fit, Hello, Kind, Listener, Order, Said, ShardWord, Tally, Welcome};
pub use record::{
    Asked, Attached, Claims, Conn, Grants, Heart, Lifeline, Owed, Polling, Post, Probe, Reached,
    Reading, Round, Session, Socket, Unit, Visitor,
};
pub use unfit::Unfit;

/// The version of the record that this build writes, and the oldest one that it reads.
pub const VERSION: u32 = 1;
/// See [`VERSION`].
pub const OLDEST: u32 = 1;

/// What a successor can go on with that the first builds sent away; it says so in its [`Hello`], a bit each.
pub mod takes {
    /// Event streams.
    pub const STREAMS: u64 = 1;
    /// Sessions on their way up from long-polling, with the WebSocket that probes.
    pub const PROBES: u64 = 2;
    /// Sessions that poll, with a POST whose rest is still to come.
    pub const POSTS: u64 = 4;
    /// What shards keep for those who come: events of rooms, journals, sockets that are away.
    pub const KEEPSAKES: u64 = 8;
    /// What this build takes.
    pub const ALL: u64 = STREAMS | PROBES | POSTS | KEEPSAKES;
}

/// The version that two processes both know, which is the newest such; `None`: there is none.
pub fn agree(own: (u32, u32), other: (u32, u32)) -> Option<u32> {
    let (oldest, newest) = (own.0.max(other.0), own.1.min(other.1));
    (oldest <= newest && newest > 0).then_some(newest)
}

#[cfg(test)]
mod tests {
    use super::agree;

    #[test]
    fn two_processes_speak_the_newest_version_that_both_know() {
        assert_eq!(agree((1, 1), (1, 1)), Some(1));
        assert_eq!(agree((1, 3), (2, 5)), Some(3));
        assert_eq!(agree((2, 5), (1, 3)), Some(3));
        for strange in [(2, 9), (0, 0), (9, 2)] {
            assert_eq!(agree((1, 1), strange), None, "{strange:?}");
        }
    }
}
