//! Names of links to workers, and why one is not made or ends.

/// A connection of a worker. Its driver numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u64);

/// Why a worker is not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// `Hello.instance` is empty or too long.
    Instance,
    /// `Hello.received` is no item that it can have got last.
    Received,
    /// There are too many workers.
    Crowd,
}

impl Denied {
    /// For the worker's log.
    pub fn message(self) -> &'static str {
        match self {
            Self::Instance => "cannot attach: hello.instance must have 1 to 64 bytes",
            Self::Received => {
                "cannot attach: hello.received is not the number of the last item that this instance got; send 0 to begin anew"
            }
            Self::Crowd => "cannot attach: this backend has 1024 workers already",
        }
    }
}

/// Why a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// It is not attached any more.
    Unknown,
    /// Its worker introduced itself once more.
    Hello,
    /// It handled what it has not got.
    Handled,
    /// Commands are missing.
    Gap,
    /// Commands have no number.
    Number,
    /// Too many of its commands failed, and it has not handled the news of it.
    Failures,
    /// A message is none, or has more bytes than one may have.
    Garbled,
    /// Its worker's key is one no more.
    Expelled,
    /// Its worker attached by another one.
    Replaced,
    /// Its worker said nothing for too long.
    Silent,
    /// Its worker handled nothing for too long, although more waited for it.
    Stalled,
}

impl Stray {
    pub fn message(self) -> &'static str {
        match self {
            Self::Unknown => "cannot go on: this link was given up; attach again",
            Self::Hello => {
                "cannot go on: `hello` stands in the first message of a link, and in no other; attach by another link"
            }
            Self::Handled => {
                "cannot go on: `handled`, `begun` or `beside` is above the number of the last item sent, or the rows of `beside` are not in order"
            }
            Self::Gap => {
                "cannot go on: commands are missing; attach again and repeat those behind welcome.commands"
            }
            Self::Number => {
                "cannot go on: `first` must be the number of the first command in the message; numbers begin at 1"
            }
            Self::Failures => {
                "cannot go on: 16384 commands failed (64, while `queue_max` is used up), and `handled` does not cover these `Failed` items; attach again and begin anew"
            }
            Self::Garbled => "cannot go on: a message cannot be read; begin anew",
            Self::Expelled => {
                "cannot go on: the key of this worker was taken out of the gateway's configuration (backends.NAME.api_keys)"
            }
            Self::Replaced => "cannot go on: this worker attached again, by another link",
            Self::Silent => {
                "cannot go on: this worker said nothing for `silent_after`; send a message once a second"
            }
            Self::Stalled => {
                "cannot go on: this worker handled nothing for `stalled_after`, while more waited for it; its sockets have moved"
            }
        }
    }
}
