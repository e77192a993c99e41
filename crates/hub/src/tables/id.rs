//! The place of a hub, and the ids that it gives out.

use crate::bounds::{CLOCK_DRIFT_MS, EPOCH_MS};
use wire::base64url::Id20;

/// Place of a hub in the process and cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// 0..=1023
    pub node: u16,
    /// 0..shards
    pub shard: u16,
    /// 1..=256
    pub shards: u16,
}

/// A shard of a node: where an id was given out, or a letter goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// See [`Identity`].
    pub node: u16,
    /// See [`Identity`].
    pub shard: u16,
}

impl Place {
    /// Stands for the home of a namespace on a node, in words that name the namespace.
    pub(crate) fn home_of(node: u16) -> Self {
        let shard = u16::MAX;
        Self { node, shard }
    }

    /// Where the socket with this id is; `None` = it is no socket's id.
    pub fn of_socket(id: &str) -> Option<Self> {
        Id20::decode(id.as_bytes()).map(|id| socket_owner(&id))
    }
}

impl Identity {
    /// Where it stands.
    pub fn place(self) -> Place {
        Place {
            node: self.node,
            shard: self.shard,
        }
    }
}

/// Session id (secret): 12 random bytes, then 10 bits node, 8 bits shard and 6 more random bits.
pub(crate) fn session_id(me: Identity, random: [u8; 13]) -> Id20 {
    let mut bytes = [0; 15];
    bytes[..12].copy_from_slice(&random[..12]);
    let tail = (u32::from(me.node & 0x3ff) << 14)
        | (u32::from(me.shard & 0xff) << 6)
        | u32::from(random[12] & 0x3f);
    bytes[12..].copy_from_slice(&tail.to_be_bytes()[1..]);
    Id20(bytes)
}

pub(crate) fn session_owner(id: &Id20) -> Place {
    let tail = u32::from_be_bytes([0, id.0[12], id.0[13], id.0[14]]);
    Place {
        node: (tail >> 14) as u16 & 0x3ff,
        shard: (tail >> 6) as u16 & 0xff,
    }
}

/// Snowflake: 41 bits of milliseconds since 2024, 10 bits node, 13 bits sequence (8 shard + 5 counter).
#[derive(Debug)]
pub(crate) struct Snowflake {
    me: Identity,
    last_ms: u64,
    count: u64,
}

const COUNT_BITS: u32 = 5;

impl Snowflake {
    pub(crate) fn new(me: Identity) -> Self {
        Self {
            me,
            last_ms: 0,
            count: 0,
        }
    }

    /// Unique and increasing on this shard, also when the clock steps back: then time is borrowed from the future.
    pub(crate) fn next(&mut self, wall_ms: u64) -> u64 {
        let now = wall_ms.saturating_sub(EPOCH_MS);
        if now > self.last_ms {
            self.last_ms = now;
            self.count = 0;
        } else {
            self.count += 1;
            if self.count >> COUNT_BITS != 0 {
                // A millisecond has 32 ids; the next ones are of the millisecond after it.
                self.last_ms += 1;
                self.count = 0;
            }
        }
        (self.last_ms << 23)
            | (u64::from(self.me.node & 0x3ff) << 13)
            | (u64::from(self.me.shard & 0xff) << COUNT_BITS)
            | self.count
    }
}

/// Socket id (public): snowflake and 7 random bytes; 20 characters, as sharded Node peers demand.
fn socket_id(snowflake: u64, random: [u8; 7]) -> Id20 {
    let mut bytes = [0; 15];
    bytes[..8].copy_from_slice(&snowflake.to_be_bytes());
    bytes[8..].copy_from_slice(&random);
    Id20(bytes)
}

/// When a socket id was made, Unix milliseconds.
pub(crate) fn socket_made_ms(id: &Id20) -> u64 {
    let mut snowflake = [0; 8];
    snowflake.copy_from_slice(&id.0[..8]);
    EPOCH_MS + (u64::from_be_bytes(snowflake) >> 23)
}

pub(crate) fn socket_owner(id: &Id20) -> Place {
    let mut snowflake = [0; 8];
    snowflake.copy_from_slice(&id.0[..8]);
    let snowflake = u64::from_be_bytes(snowflake);
    Place {
        node: (snowflake >> 13) as u16 & 0x3ff,
        shard: (snowflake >> COUNT_BITS) as u16 & 0xff,
    }
}

/// Whether this may be the id of a socket that is there now, by the time it was made.
pub(crate) fn may_be_socket(id: &Id20, wall_ms: u64) -> bool {
    socket_made_ms(id) < wall_ms.saturating_add(CLOCK_DRIFT_MS)
}

/// Source of unguessable bytes.
pub type Entropy = Box<dyn FnMut(&mut [u8]) + Send>;

/// Where the ids of a hub come from.
pub(crate) struct Ids {
    pub(crate) me: Identity,
    pub(crate) entropy: Entropy,
    sockets: Snowflake,
    /// A sequence of their own: a flood of messages borrows time, and must not put it into the ids of sockets.
    messages: Snowflake,
}

impl Ids {
    pub(crate) fn random<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.entropy)(&mut bytes);
        bytes
    }

    pub(crate) fn new(me: Identity, entropy: Entropy) -> Self {
        Self {
            me,
            entropy,
            sockets: Snowflake::new(me),
            messages: Snowflake::new(me),
        }
    }

    pub(crate) fn message(&mut self, wall_ms: u64) -> u64 {
        self.messages.next(wall_ms)
    }

    pub(crate) fn socket(&mut self, wall_ms: u64) -> Id20 {
        let mut random = [0; 7];
        (self.entropy)(&mut random);
        socket_id(self.sockets.next(wall_ms), random)
    }

    /// The id has our node, a shard of ours, and a time that has come, by the clock or before it was set back.
    pub(crate) fn is_socket(&self, id: &Id20, wall_ms: u64) -> bool {
        let owner = socket_owner(id);
        let latest_ms = wall_ms.max(EPOCH_MS + self.sockets.last_ms);
        owner.node == self.me.node
            && owner.shard < self.me.shards
            && socket_made_ms(id) < latest_ms + CLOCK_DRIFT_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Identity = Identity {
        node: 777,
        shard: 200,
        shards: 256,
    };
    const OWNER: Place = Place {
        node: 777,
        shard: 200,
    };

    #[test]
    fn ids_name_their_owner() {
        assert_eq!(session_owner(&session_id(ME, [0xff; 13])), OWNER);
        let mut snowflake = Snowflake::new(ME);
        let id = socket_id(snowflake.next(EPOCH_MS + 5), [9; 7]);
        assert_eq!(socket_owner(&id), OWNER);
    }

    /// After half an hour of a hundred thousand messages a second, sockets got ids that nobody took for ids.
    #[test]
    fn messages_do_not_put_the_time_of_sockets_ahead() {
        let now_ms = EPOCH_MS + 86_400_000;
        let mut ids = Ids::new(ME, Box::new(|bytes| bytes.fill(3)));
        let last = (0..1_000_000).map(|_| ids.message(now_ms)).last();
        assert!(last.is_some_and(|id| EPOCH_MS + (id >> 23) > now_ms + 30_000));
        assert_eq!(socket_made_ms(&ids.socket(now_ms)), now_ms);
    }

    /// The clock is set back by more than an hour: ids from before are ids all the same.
    #[test]
    fn an_id_is_known_after_the_clock_was_set_back() {
        let now_ms = EPOCH_MS + 86_400_000;
        let mut ids = Ids::new(ME, Box::new(|bytes| bytes.fill(3)));
        let id = ids.socket(now_ms);
        assert!(ids.is_socket(&id, now_ms - 4 * 3_600_000));
        let far = socket_id((86_400_000 + 8 * 3_600_000) << 23 | 777 << 13, [3; 7]);
        assert!(
            !ids.is_socket(&far, now_ms),
            "a name that somebody thought of"
        );
    }

    #[test]
    fn snowflakes_increase_even_when_the_clock_steps_back() {
        let mut snowflake = Snowflake::new(ME);
        let mut last = 0;
        for n in 0..10_000u64 {
            let wall = EPOCH_MS + if n % 3 == 0 { 1_000 } else { 10 };
            let next = snowflake.next(wall);
            assert!(next > last);
            last = next;
        }
    }
}
