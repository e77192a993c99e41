//! Why the other side of a bridge did not do what it was asked for.

use std::fmt;

/// What the one who asks can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nobody took it in time: try again. It may be stored all the same.
    Away,
    /// Too much waits already: try again later.
    Full,
    /// It is not taken, and will not be later.
    Refused,
    /// The bridge is closed.
    Closed,
    /// A setting is wrong.
    Settings,
    /// The client has failed for good: it must be made again.
    Broken,
}

/// A failure: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    kind: Kind,
    text: String,
}

impl Fault {
    /// In words.
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { kind, text }
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
