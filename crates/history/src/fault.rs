//! Why a store did not do what it was asked for.

use std::fmt;
use std::time::Duration;

/// What the one who asks can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The store cannot be reached, or is not ready: try again.
    Away,
    /// It does not take this, and will not later.
    Refused,
    /// There is no room: on the disk, in the memory of the server, or in the queue.
    Full,
    /// What was stored cannot be read.
    Torn,
    /// The store is closed.
    Closed,
    /// Too much is asked for at once, or it took too long: try again.
    Busy,
}

/// A failure: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    kind: Kind,
    text: String,
}

impl Fault {
    /// A failure in words.
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { kind, text }
    }

    /// Nothing is taken any more.
    pub fn closed() -> Self {
        Self::new(Kind::Closed, "the store of history is closed")
    }

    /// So many requests are under way.
    pub fn busy(requests: usize) -> Self {
        Self::new(
            Kind::Busy,
            format!("{requests} requests for history are under way already: try again"),
        )
    }

    /// It took too long.
    pub fn slow(time: Duration) -> Self {
        Self::new(
            Kind::Busy,
            format!(
                "the store of history did not answer within {} s",
                time.as_secs()
            ),
        )
    }

    /// A batch of a writer that has gone on: it was given up, and another attempt stored it.
    pub fn late() -> Self {
        Self::new(
            Kind::Refused,
            "an attempt to store a batch came too late: a later one is stored",
        )
    }

    /// Events that are older than a deletion still wait for the store.
    pub fn unsettled() -> Self {
        let text = "events that were said before still wait for the store of history: try again when it has them";
        Self::new(Kind::Busy, text)
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}
