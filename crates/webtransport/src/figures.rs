//! What the carrier counts.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Figures {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counts {
            $(pub(crate) $name: Count,)*
        }

        impl Counts {
            pub(crate) fn read(&self) -> Figures {
                Figures { $($name: self.$name.get(),)* }
            }
        }
    };
}

figures! {
    /// Streams that a shard has now.
    open,
    /// Connections now that have no session yet.
    opening,
    /// Streams brought to a shard.
    opened,
    /// Clients refused because too many were opening sessions, all in all or from their address.
    refused_busy,
    /// Connections that ended before they had a session: they were too slow.
    too_slow,
    /// The same: no handshake, no request of WebTransport, another path, no opening.
    wrong,
    /// Streams closed because the process was full.
    full,
    /// Requests that a shard refused: an origin, a limit, an unknown session.
    refused,
    /// Streams of sessions that have one already.
    second_streams,
    /// Streams that ended because their clients took nothing for too long.
    stalled,
    /// Bytes of packets from clients, headers of frames included.
    received_bytes,
    /// The same to clients.
    sent_bytes,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// One more, until this is dropped.
    pub(crate) fn while_held(&self) -> Held<'_> {
        self.one();
        Held(self)
    }
}

#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Count);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
