//! The engine between nodes: it publishes bytes to named channels, hears a wanted set of channels, and keeps leases. Messages may
//! get lost while it is in trouble; what must arrive is numbered and asked for again by the layer above.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, channel};

/// A channel's name.
pub type Name = Arc<[u8]>;

/// How a channel is carried. The same name is another channel in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `PUBLISH`: a Redis Cluster carries it to all its nodes.
    Classic,
    /// `SPUBLISH`: only the node that owns the channel's slot carries it.
    Sharded,
}

/// What one wants to hear.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// One channel.
    Channel(Kind, Name),
    /// All classic channels whose names match, as in `PSUBSCRIBE`.
    Pattern(Name),
}

/// A message to publish.
#[derive(Clone, Debug)]
pub struct Publish {
    pub kind: Kind,
    pub channel: Name,
    pub body: Arc<[u8]>,
}

/// A message that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    /// The pattern that it came by; `None` = the channel itself was subscribed.
    pub pattern: Option<Name>,
    pub channel: Vec<u8>,
    pub body: Vec<u8>,
}

/// Keys and values of an entry of a stream, in order.
pub type Entry = Vec<(Vec<u8>, Vec<u8>)>;

/// A reading of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamNews {
    Entries(Vec<Entry>),
    /// Entries were cut off, or the stream was lost, before everything was read.
    Missed,
    /// It cannot be read now; that is tried again for ever.
    Down(Trouble),
}

/// What the engine reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Message(Message),
    /// The server answers and all wanted topics are heard.
    Up,
    /// It is not so any more.
    Down(Trouble),
    /// From now on messages of these topics come.
    Heard(Vec<Topic>),
    /// Messages of these topics do not come any more; the engine subscribes again on its own.
    Unheard(Vec<Topic>),
    /// Messages were thrown away because nobody took them for too long.
    Dropped(u64),
}

/// Why something did not work: what, where, and what the other side said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    text: Arc<str>,
    lasts: bool,
    names_script: bool,
}

impl Trouble {
    /// Something that may pass.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            lasts: false,
            names_script: false,
        }
    }

    /// Something that waiting does not mend: wrong credentials, missing rights, a server that is too old.
    pub fn lasting(text: impl Into<Arc<str>>) -> Self {
        Self {
            lasts: true,
            ..Self::new(text)
        }
    }

    /// From what a server said instead of an answer, with its code as first word.
    pub(super) fn refused(text: String, why: &str) -> Self {
        let code = why.split([' ', ':']).next().unwrap_or_default();
        let names_script = code == "NOSCRIPT" || code == "NOPERM" && why.contains("evalsha");
        let trouble = match code {
            "NOAUTH" | "WRONGPASS" | "NOPERM" => Self::lasting(text),
            _ => Self::new(text),
        };
        Self {
            names_script,
            ..trouble
        }
    }

    /// The server wants the whole script: it knows none of that name, or (this lasts) takes none by name.
    pub(super) fn names_script(&self) -> bool {
        self.names_script
    }

    /// Whether waiting does not mend it.
    pub fn lasts(&self) -> bool {
        self.lasts
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Trouble {}

/// How a batch ended.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// For each message in its turn: how many subscribers the server sent it to, which in a cluster are only those of one node.
    /// `None` = it was not taken, or nobody knows.
    pub receivers: Vec<Option<u64>>,
    /// Why the first of them was not taken.
    pub trouble: Option<Trouble>,
}

impl Published {
    /// All messages failed for one reason.
    pub fn failed(messages: usize, trouble: Trouble) -> Self {
        Self {
            receivers: vec![None; messages],
            trouble: Some(trouble),
        }
    }

    /// Whether the server took every message.
    pub fn is_complete(&self) -> bool {
        self.receivers.iter().all(Option::is_some)
    }
}

/// A key that one holder keeps alive.
#[derive(Clone, Debug)]
pub struct Lease {
    pub key: Name,
    /// Where the last epoch stands that was given to anybody; of the same slot.
    pub counter: Name,
    /// Names this life of the holder.
    pub epoch: u64,
    /// What others may read of the holder.
    pub payload: String,
    /// What stands under the key and is nobody's: it may be replaced.
    pub over: Option<Vec<u8>>,
    /// It ends so long after it was held last.
    pub time: Duration,
}

impl Lease {
    /// What stands under the key.
    pub(super) fn value(&self) -> String {
        format!("{} {}", self.epoch, self.payload)
    }
}

/// The place where each node shows a value to all others.
#[derive(Clone, Debug)]
pub struct Board {
    /// The key of the list of numbers that have a value.
    pub list: Name,
    /// Beginning of the keys of the values; the number is the rest. Of the same slot.
    pub stem: Name,
    /// One's own number.
    pub number: u16,
    /// A value is forgotten so long after it was shown.
    pub time: Duration,
    /// Of a value no more is read.
    pub bytes_max: usize,
}

impl Board {
    /// The key of a number's value.
    pub fn key(&self, number: u16) -> Vec<u8> {
        [&self.stem[..], number.to_string().as_bytes()].concat()
    }
}

/// Whose a lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// The asker's, for another [`Lease::time`].
    Mine,
    /// Another's.
    Other(Holder),
}

/// How taking a lease ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is the asker's, in this epoch.
    Mine(u64),
    /// Another's.
    Other(Holder),
}

/// Of what stands under a key no more than this is read: a card is shorter.
pub const VALUE_BYTES_MAX: usize = 2_048;

/// A holder of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// 0 if what stands there is no lease of ours.
    pub epoch: u64,
    pub payload: String,
    /// What stands there, or its beginning.
    pub value: Vec<u8>,
}

impl Holder {
    /// From what stands under a key.
    pub fn read(value: &[u8]) -> Self {
        let text = String::from_utf8_lossy(value);
        let (epoch, payload) = text.split_once(' ').unwrap_or((&text, ""));
        Self {
            epoch: epoch.parse().unwrap_or_default(),
            payload: payload.to_owned(),
            value: value.to_vec(),
        }
    }
}

/// What the server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `redis`, `valkey`, `memory`, or what else it calls itself.
    pub name: String,
    pub version: String,
    /// `single`, `sentinel` or `cluster`.
    pub mode: &'static str,
    /// How much may wait for a subscriber; `None` = it is not told.
    pub pubsub_buffer: Option<Buffer>,
    /// A master of a cluster that is silent for so long is replaced.
    pub node_timeout: Option<Duration>,
}

/// A subscriber with more than this waiting is thrown out; 0 = no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    pub hard_bytes: u64,
    /// More than this, for longer than `soft_time`.
    pub soft_bytes: u64,
    pub soft_time: Duration,
}

/// A handle on an engine; clones are of the same one. It ends with the last of them.
pub type Engine = Arc<dyn Port>;

/// Something that takes a while.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What numbers show on a board.
pub type Shown = Vec<(u16, Vec<u8>)>;

const NODES_ONLY: &str = "this engine carries messages between nodes only: Redis does this";

/// What an engine does. Streams and counts are for other servers: an engine for nodes alone has neither.
pub trait Port: fmt::Debug + Send + Sync {
    /// As people call it.
    fn name(&self) -> &'static str;

    /// How channels between nodes are to be carried, so that a cluster of Redis spreads them.
    fn native(&self) -> Kind {
        Kind::Classic
    }

    /// Publishes a batch in order. It is handed over at once, so calls keep their order; several batches may be under way. The
    /// future ends within seconds, whatever happens to the server.
    fn publish(&self, batch: &[Publish]) -> Pending<'static, Published>;

    /// Appends an entry to a stream that keeps about `kept` of them. Calls keep their order.
    fn append(
        &self,
        _stream: &[u8],
        _fields: &[(&str, String)],
        _kept: usize,
    ) -> Pending<'static, Published> {
        let why = Trouble::new("only Redis has streams of other servers");
        Box::pin(ready(Published::failed(1, why)))
    }

    /// Reads what is appended to a stream from now on, until the receiver goes. Nothing comes of an engine without streams.
    fn read(&self, _stream: Name) -> Receiver<StreamNews> {
        channel(1).1
    }

    /// Wants to hear topics, until [`Self::unsubscribe`]. [`News::Heard`] tells of each when it is so.
    fn subscribe(&self, topics: Vec<Topic>);

    /// Does not want to hear topics any more. Messages that are on their way may still come.
    fn unsubscribe(&self, topics: Vec<Topic>);

    /// Subscribes to everything anew on new connections: for a caller whose own probes do not come back.
    fn doubt(&self);

    /// How many connections are subscribed to each channel, patterns aside. `Err`: the server did not answer.
    fn subscribers<'a>(
        &'a self,
        _kind: Kind,
        _channels: &'a [Name],
    ) -> Pending<'a, Result<Vec<u64>, Trouble>> {
        Box::pin(ready(Err(Trouble::lasting(NODES_ONLY))))
    }

    /// Takes a lease that is free, in an epoch above its own and above all that anybody was given. A lease of the same payload is
    /// the asker's. `Err`: nobody knows whose the lease is.
    fn take<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<Taken, Trouble>>;

    /// Keeps a lease, also if it is gone since. Later epochs are above its own. `Err`: nobody knows whose the lease is.
    fn hold<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<Held, Trouble>>;

    /// Gives a lease back, if it is one's own. `Err`: the lease ends by itself.
    fn release<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<(), Trouble>>;

    /// Reads leases. In a cluster of Redis all keys must be of one slot: give them the same `{tag}`.
    fn holders<'a>(&'a self, keys: &'a [Name])
    -> Pending<'a, Result<Vec<Option<Holder>>, Trouble>>;

    /// Shows a value on a board, and returns those of all numbers, in one step. `Err`: nobody knows whether the value was shown.
    fn show<'a>(&'a self, board: &'a Board, value: &'a [u8])
    -> Pending<'a, Result<Shown, Trouble>>;

    /// What the server says of itself.
    fn server(&self) -> Pending<'_, Result<Server, Trouble>>;
}
