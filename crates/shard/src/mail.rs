//! What a shard finds in its mailbox, and what it asks of the outside.

use crate::guests::Guest;
use crate::passing::Wish;
use crate::reactor::stream::{Detached, Stream};
use crate::tls::{SecureStream, Tls};
use crate::walks::Walk;
use hub::mailbox::{Sender, Weigh};
use hub::metrics::Limit;
use hub::{Ask, AskKey, Entered, Letter, LiveTrace, Notice, Parcel, Place, Reply};
use rustls::ServerConfig;
use std::any::Any;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What the data plane needs from outside. Called on shard threads: must not block.
pub trait Outside: Send + Sync {
    /// A connection whose request is not a realtime one.
    fn handover(&self, handover: Handover);
    /// A connection whose request is for a session of another node.
    fn relay(&self, relay: Relay);
    /// A question; whoever knows the answer gives it to the answerer.
    fn ask(&self, ask: Ask, answerer: Answerer);
    /// Something for other nodes.
    fn away(&self, parcel: Parcel);
    /// Something for the log.
    fn log(&self, notice: Notice);
    /// A turn of this shard has ended, and all that it said is out. Returns after how long there is to be another, if nothing else
    /// makes one.
    fn turn_ended(&self, shard: u16) -> Option<Duration>;
}

/// A guest on its way.
pub(crate) struct Coming(pub(crate) Box<dyn Guest>);

impl fmt::Debug for Coming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.stream().fmt(f)
    }
}

/// The way back to the hub that asked. Not answering is an answer too: the hub does not wait for ever.
#[derive(Debug)]
pub struct Answerer {
    pub(crate) mail: Sender<Mail>,
    pub(crate) key: AskKey,
}

impl Answerer {
    pub fn answer(self, reply: Reply) {
        let key = self.key;
        self.mail.send(Mail::Answer { key, reply });
    }
}

/// A connection for the control plane: non-blocking, with the bytes already read from it.
#[derive(Debug)]
pub struct Handover {
    pub stream: Detached,
    /// Where the plaintext is, if the connection speaks TLS.
    pub tls: Option<SecureStream>,
    pub read: Vec<u8>,
    /// The client, as far as it is known: behind a trusted proxy not the proxy.
    pub peer: IpAddr,
}

/// A connection to be passed on to another node.
#[derive(Debug)]
pub struct Relay {
    pub conn: Handover,
    pub owner: Place,
    /// The answer if that node cannot be reached.
    pub refusal: Vec<u8>,
}

/// What a shard finds in its mailbox.
#[derive(Debug)]
pub(crate) enum Mail {
    Letter(Arc<Letter>),
    /// A new connection that another shard accepted.
    Accepted {
        stream: Stream,
        peer: IpAddr,
    },
    /// A connection whose request belongs here.
    Conn {
        /// It counts while it is on its way.
        place: Entered,
        stream: Stream,
        tls: Option<Box<Tls>>,
        peer: IpAddr,
        read: Vec<u8>,
        beyond: Option<Limit>,
        relayed: bool,
        carried: bool,
        /// No shard has counted it.
        new: bool,
    },
    /// What the control plane was asked.
    Answer {
        key: AskKey,
        reply: Reply,
    },
    /// Something for the shard's handler, and what it costs while it waits.
    Outside {
        word: Box<dyn Any + Send>,
        bytes: usize,
    },
    /// Certificates for new handshakes.
    Tls(Arc<ServerConfig>),
    Drain {
        window_ms: u64,
        patience_ms: u64,
    },
    /// So many sessions are to go elsewhere.
    Thin {
        count: usize,
        window_ms: u64,
        patience_ms: u64,
    },
    /// The sessions of a shard have all been told to go.
    LetGo,
    /// A shard has nobody left.
    Drained,
    /// Something about a handover to another process.
    Handing(Wish),
    /// A question about a whole table.
    Walk(Walk),
    /// Somebody follows something.
    Trace(Arc<LiveTrace>),
    /// A stream that is served here from now on.
    Guest(Coming),
    /// Some guest has something to look at.
    CallGuests,
    Stop,
}

/// The mailboxes of all shards, and those whose owners are still to be woken.
pub(crate) struct Post {
    to: Vec<Sender<Mail>>,
    unwoken: Vec<bool>,
    /// Those that are unwoken, once each.
    to_wake: Vec<u16>,
}

impl Post {
    pub(crate) fn new(to: Vec<Sender<Mail>>) -> Self {
        Self {
            unwoken: vec![false; to.len()],
            to_wake: Vec::with_capacity(to.len()),
            to,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.to.len()
    }

    pub(crate) fn of(&self, shard: u16) -> &Sender<Mail> {
        &self.to[usize::from(shard)]
    }

    /// Leaves something for a shard, which is woken later.
    pub(crate) fn leave(&mut self, shard: u16, mail: Mail) {
        let at = usize::from(shard);
        let (Some(to), Some(unwoken)) = (self.to.get(at), self.unwoken.get_mut(at)) else {
            return;
        };
        to.put(mail);
        if !std::mem::replace(unwoken, true) {
            self.to_wake.push(shard);
        }
    }

    pub(crate) fn wake(&mut self) {
        for at in self.to_wake.drain(..).map(usize::from) {
            self.unwoken[at] = false;
            self.to[at].wake();
        }
    }

    pub(crate) fn send_all(&self, mail: impl Fn() -> Mail) {
        self.to.iter().for_each(|to| to.send(mail()));
    }
}

impl Weigh for Mail {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Letter(letter) => letter.bytes(),
                Self::Conn { read, .. } => read.len(),
                Self::Outside { bytes, .. } => *bytes,
                _ => 0,
            }
    }
}
