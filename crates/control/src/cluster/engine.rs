//! The engine between nodes: it publishes bytes to named channels, hears a wanted set of channels, and keeps leases. Messages may
//! get lost while it is in trouble; what must arrive is numbered and asked for again by the layer above.

use super::feed::Feed;
use super::{memory, redis};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::oneshot;

const CLOSED: &str = "the engine was closed by this process";

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
}

impl Trouble {
    /// Something that may pass.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            lasts: false,
        }
    }

    /// Something that waiting does not mend: wrong credentials, missing rights, a server that is too old.
    pub fn lasting(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            lasts: true,
        }
    }

    /// From what a server said instead of an answer, with its code as first word.
    pub(super) fn refused(text: String, why: &str) -> Self {
        let code = why.split([' ', ':']).next().unwrap_or_default();
        match code {
            "NOAUTH" | "WRONGPASS" | "NOPERM" => Self::lasting(text),
            _ => Self::new(text),
        }
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
#[derive(Clone, Debug)]
pub struct Engine(Carrier);

#[derive(Clone, Debug)]
enum Carrier {
    Memory(memory::Port),
    Redis(redis::Port),
    Port(Arc<dyn Port>),
}

/// What becomes of a batch.
enum Waits {
    For(oneshot::Receiver<Published>),
    On(Pending<Published>),
}

/// Something that takes a while.
pub(super) type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What numbers show on a board.
pub(super) type Shown = Vec<(u16, Vec<u8>)>;

/// An engine for nodes alone, behind [`Engine`], whose methods say what each of these does. It has no streams, and counts nobody.
pub(super) trait Port: fmt::Debug + Send + Sync {
    fn publish(&self, batch: &[Publish]) -> Pending<Published>;
    fn subscribe(&self, topics: &[Topic]);
    fn unsubscribe(&self, topics: &[Topic]);
    fn doubt(&self);
    fn take(&self, lease: Lease) -> Pending<Result<Taken, Trouble>>;
    fn hold(&self, lease: Lease) -> Pending<Result<Held, Trouble>>;
    fn release(&self, lease: Lease) -> Pending<Result<(), Trouble>>;
    fn holders(&self, keys: Vec<Name>) -> Pending<Result<Vec<Option<Holder>>, Trouble>>;
    fn show(&self, board: Board, value: Vec<u8>) -> Pending<Result<Shown, Trouble>>;
    fn server(&self) -> Pending<Result<Server, Trouble>>;
}

const NODES_ONLY: &str = "this engine carries messages between nodes only: Redis does this";

impl Engine {
    pub(super) fn memory(port: memory::Port) -> Self {
        Self(Carrier::Memory(port))
    }

    pub(super) fn redis(port: redis::Port) -> Self {
        Self(Carrier::Redis(port))
    }

    #[cfg_attr(
        not(feature = "nats"),
        expect(dead_code, reason = "NATS is the only one of its kind")
    )]
    pub(super) fn port(port: impl Port + 'static) -> Self {
        Self(Carrier::Port(Arc::new(port)))
    }

    /// As people call it.
    pub(super) fn name(&self) -> &'static str {
        match &self.0 {
            Carrier::Memory(_) => "memory",
            Carrier::Redis(_) => "Redis",
            Carrier::Port(_) => "NATS",
        }
    }

    /// How channels between nodes are to be carried, so that a cluster of Redis spreads them.
    pub fn native(&self) -> Kind {
        match &self.0 {
            Carrier::Memory(_) => Kind::Classic,
            Carrier::Redis(port) => port.native(),
            Carrier::Port(_) => Kind::Classic,
        }
    }

    /// Publishes a batch in order. It is handed over at once, so calls keep their order; several batches may be under way. The
    /// future ends within seconds, whatever happens to the server.
    pub fn publish(&self, batch: &[Publish]) -> impl Future<Output = Published> + Send + use<> {
        let messages = batch.len();
        let published = match &self.0 {
            Carrier::Memory(port) => Waits::For(port.publish(batch)),
            Carrier::Redis(port) => Waits::For(port.publish(batch)),
            Carrier::Port(port) => Waits::On(port.publish(batch)),
        };
        async move {
            match published {
                Waits::For(published) => published
                    .await
                    .unwrap_or_else(|_| Published::failed(messages, Trouble::new(CLOSED))),
                Waits::On(published) => published.await,
            }
        }
    }

    /// Appends an entry to a stream that keeps about `kept` of them. Calls keep their order.
    pub fn append(
        &self,
        stream: &[u8],
        fields: &[(&str, String)],
        kept: usize,
    ) -> impl Future<Output = Published> + Send + use<> {
        let appended = match &self.0 {
            Carrier::Memory(_) => None,
            Carrier::Redis(port) => Some(port.append(stream, fields, kept)),
            Carrier::Port(_) => None,
        };
        async move {
            let failed = |why: &str| Published::failed(1, Trouble::new(why));
            match appended {
                Some(appended) => appended.await.unwrap_or_else(|_| failed(CLOSED)),
                None => failed("only Redis has streams of other servers"),
            }
        }
    }

    /// Reads what is appended to a stream from now on, until the receiver goes. Nothing comes of an engine without streams.
    pub fn read(&self, stream: Name) -> Receiver<StreamNews> {
        match &self.0 {
            Carrier::Memory(_) => channel(1).1,
            Carrier::Redis(port) => port.read(stream),
            Carrier::Port(_) => channel(1).1,
        }
    }

    /// Wants to hear topics, until [`Self::unsubscribe`]. [`News::Heard`] tells of each when it is so.
    pub fn subscribe(&self, topics: Vec<Topic>) {
        match &self.0 {
            Carrier::Memory(port) => port.subscribe(topics),
            Carrier::Redis(port) => port.tell(redis::Order::Subscribe(topics)),
            Carrier::Port(port) => port.subscribe(&topics),
        }
    }

    /// Does not want to hear topics any more. Messages that are on their way may still come.
    pub fn unsubscribe(&self, topics: Vec<Topic>) {
        match &self.0 {
            Carrier::Memory(port) => port.unsubscribe(&topics),
            Carrier::Redis(port) => port.tell(redis::Order::Unsubscribe(topics)),
            Carrier::Port(port) => port.unsubscribe(&topics),
        }
    }

    /// Subscribes to everything anew on new connections: for a caller whose own probes do not come back.
    pub fn doubt(&self) {
        match &self.0 {
            Carrier::Memory(port) => port.doubt(),
            Carrier::Redis(port) => port.tell(redis::Order::Doubt),
            Carrier::Port(port) => port.doubt(),
        }
    }

    /// How many connections are subscribed to each channel, patterns aside.
    ///
    /// # Errors
    /// The server did not answer.
    pub async fn subscribers(&self, kind: Kind, channels: &[Name]) -> Result<Vec<u64>, Trouble> {
        match &self.0 {
            Carrier::Memory(port) => port.subscribers(kind, channels),
            Carrier::Redis(port) => port.subscribers(kind, channels).await,
            Carrier::Port(_) => Err(Trouble::lasting(NODES_ONLY)),
        }
    }

    /// Takes a lease that is free, in an epoch above its own and above all that anybody was given. A lease of the same payload is
    /// the asker's.
    ///
    /// # Errors
    /// The server did not answer: nobody knows whose the lease is.
    pub async fn take(&self, lease: &Lease) -> Result<Taken, Trouble> {
        match &self.0 {
            Carrier::Memory(port) => port.take(lease),
            Carrier::Redis(port) => port.take(lease).await,
            Carrier::Port(port) => port.take(lease.clone()).await,
        }
    }

    /// Keeps a lease, also if it is gone since. Later epochs are above its own.
    ///
    /// # Errors
    /// The server did not answer: nobody knows whose the lease is.
    pub async fn hold(&self, lease: &Lease) -> Result<Held, Trouble> {
        match &self.0 {
            Carrier::Memory(port) => port.hold(lease),
            Carrier::Redis(port) => port.hold(lease).await,
            Carrier::Port(port) => port.hold(lease.clone()).await,
        }
    }

    /// Gives a lease back, if it is one's own.
    ///
    /// # Errors
    /// The server did not answer; the lease ends by itself.
    pub async fn release(&self, lease: &Lease) -> Result<(), Trouble> {
        match &self.0 {
            Carrier::Memory(port) => port.release(lease),
            Carrier::Redis(port) => port.release(lease).await,
            Carrier::Port(port) => port.release(lease.clone()).await,
        }
    }

    /// Reads leases. In a cluster of Redis all keys must be of one slot: give them the same `{tag}`.
    ///
    /// # Errors
    /// The server did not answer.
    pub async fn holders(&self, keys: &[Name]) -> Result<Vec<Option<Holder>>, Trouble> {
        match &self.0 {
            Carrier::Memory(port) => port.holders(keys),
            Carrier::Redis(port) => port.holders(keys).await,
            Carrier::Port(port) => port.holders(keys.to_vec()).await,
        }
    }

    /// Shows a value on a board, and returns those of all numbers, in one step.
    ///
    /// # Errors
    /// The server did not answer: nobody knows whether the value was shown.
    pub async fn show(&self, board: &Board, value: &[u8]) -> Result<Vec<(u16, Vec<u8>)>, Trouble> {
        match &self.0 {
            Carrier::Memory(port) => port.show(board, value),
            Carrier::Redis(port) => port.show(board, value).await,
            Carrier::Port(port) => port.show(board.clone(), value.to_vec()).await,
        }
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// The server did not answer.
    pub async fn server(&self) -> Result<Server, Trouble> {
        match &self.0 {
            Carrier::Memory(port) => port.server(),
            Carrier::Redis(port) => port.server().await,
            Carrier::Port(port) => port.server().await,
        }
    }
}

/// An engine and what it reports.
pub type Opened = (Engine, Feed);
