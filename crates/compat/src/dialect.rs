//! In which clusters we are a member, what we listen to there, and who else does.

use crate::clustered::Mode;

/// Adapters of Node servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `createAdapter`.
    Classic,
    /// `createShardedAdapter`.
    Sharded,
    /// The streams adapter.
    Streams,
}

impl Dialect {
    /// All of them, in the order of their numbers.
    pub const ALL: [Dialect; 3] = [Dialect::Classic, Dialect::Sharded, Dialect::Streams];
}

/// Whether we are a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// We listen, and write while there is a server.
    #[default]
    Auto,
    /// We listen and write.
    Always,
    /// Neither.
    Never,
}

/// The operator's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The key prefix of the adapters.
    pub prefix: String,
    /// Our name: [`crate::verb::own_uid`].
    pub uid: String,
    /// In clusters of each dialect.
    pub membership: [Membership; 3],
    /// Of the sharded adapter.
    pub mode: Mode,
    /// Whether python-socketio's channel is listened to and written to.
    pub python: bool,
    /// A larger list of sockets or rooms is not sent: Redis cuts subscribers off that have more waiting.
    pub list_bytes_max: usize,
}

impl Settings {
    /// Whether we listen in a dialect.
    pub fn hears(&self, dialect: Dialect) -> bool {
        self.membership[dialect as usize] != Membership::Never
    }

    /// Nothing is written while there is no server.
    pub fn writes_to_servers_only(&self) -> bool {
        !self.python && !self.membership.contains(&Membership::Always)
    }
}

/// The channels to listen to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// PSUBSCRIBE.
    Pattern(String),
    /// SUBSCRIBE.
    Channel(String),
    /// SSUBSCRIBE.
    Sharded(String),
}

/// Channels whose subscribers are to be counted: of each pair the second has only our own nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// By PUBSUB NUMSUB.
    pub channels: [String; 4],
    /// By PUBSUB SHARDNUMSUB; `None` where nobody listens there.
    pub sharded: Option<[String; 2]>,
}

/// Subscribers in the order of [`Dialect::ALL`]: all, and our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted(pub [[u64; 2]; 3]);

impl Counted {
    /// Others subscribe, in a dialect that is listened to.
    pub fn has_others(&self, hears: [bool; 3]) -> bool {
        let heard = self.0.iter().zip(hears).filter(|(_, hears)| *hears);
        heard.into_iter().any(|([all, own], _)| all > own)
    }

    /// More others subscribe than were known, in some dialect.
    pub fn has_more(&self, known: [u64; 3]) -> bool {
        let others = self.0.iter().map(|[all, own]| all.saturating_sub(*own));
        others.zip(known).any(|(others, known)| others > known)
    }

    /// Of each dialect, the count that has fewer others.
    #[must_use]
    pub fn at_least(mut self, earlier: Self) -> Self {
        for (ours, theirs) in self.0.iter_mut().zip(earlier.0) {
            let others = |[all, own]: [u64; 2]| all.saturating_sub(own);
            if others(theirs) < others(*ours) {
                *ours = theirs;
            }
        }
        self
    }
}
