//! Redis or Valkey as engine: alone, watched by Sentinels, or as a cluster.

mod board;
mod command;
mod conn;
mod ear;
mod ears;
mod event;
pub mod inspect;
mod item;
mod keeper;
mod lane;
mod resolver;
mod routes;
pub mod settings;
mod slot;
mod stream;
pub mod tls;
mod topology;
mod wait;

use super::engine::{
    self, Board, Held, Holder, Kind, Lease, Name, Pending, Publish, Published, Server, Shown,
    StreamNews, Taken, Topic, Trouble,
};
use super::feed::{Feed, Opened, feed};
use arc_swap::ArcSwap;
pub(super) use command::{Command, is_stranger};
use event::Event;
use item::{Item, Place, Queue, Tally, ended};
use keeper::Keeper;
use redis::{Cmd, Value};
use resolver::Resolver;
use routes::Routes;
use settings::{Mode, Settings};
use slot::slot;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, UnboundedSender, unbounded_channel};

/// The rights that a user of ours needs, as words of `ACL SETUSER`, with the default prefix of channels and keys. `HELLO` and `AUTH`
/// need none.
pub const ACL: &str = "~sockeye:* &sockeye:* +ping +info +publish +spublish +subscribe +unsubscribe +psubscribe +punsubscribe \
    +ssubscribe +sunsubscribe +pubsub +eval +get +getrange +set +del +cluster|slots +cluster|info";
/// For [`inspect`]; without it `sockeye doctor` says less.
pub const ACL_DOCTOR: &str = "+config|get";
/// Also beside Node servers: a pattern may be subscribed only by a user that may use all channels, or that very pattern; and there is the
/// stream of the streams adapter.
pub const ACL_BESIDE_NODE: &str = "&* ~socket.io +xadd +xread +xrange +xrevrange";

const FULL: &str = "cannot publish: too much waits for Redis, which is slow or away";
/// A command is tried for so long.
const TRY_FOR: Duration = Duration::from_millis(1_500);

/// Sets a key unless one stands there, which is answered then. The epoch is above all that were given: clocks differ, and one life
/// of a node must be known from the next. The answer to a script that ran twice is the same.
const TAKE: &str = "local held = redis.pcall('GET', KEYS[1]) \
    if type(held) == 'string' and string.sub(held, 1, 2048) ~= ARGV[4] then return string.sub(held, 1, 2048) end \
    local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0 \
    local epoch = string.format('%.0f', math.max(last + 1, tonumber(ARGV[1]))) \
    redis.call('SET', KEYS[2], epoch) \
    redis.call('SET', KEYS[1], epoch .. ' ' .. ARGV[2], 'PX', ARGV[3]) \
    return epoch .. ' ' .. ARGV[2]";
/// Sets a key unless another life of a holder stands under it, which is answered then. A Redis that lost everything knows from this
/// which epochs were given.
const HOLD: &str = "local held = redis.pcall('GET', KEYS[1]) \
    if type(held) == 'string' and string.sub(held, 1, #ARGV[1] + 1) ~= ARGV[1] .. ' ' \
    and string.sub(held, 1, 2048) ~= ARGV[4] then return string.sub(held, 1, 2048) end \
    local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0 \
    if last < tonumber(ARGV[1]) then redis.call('SET', KEYS[2], ARGV[1]) end \
    redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3]) return false";
/// Reads the beginnings of many keys. What is no text is nothing.
const READ: &str = "local values = {} for at, key in ipairs(KEYS) do \
    local value = redis.pcall('GETRANGE', key, 0, 2047) \
    values[at] = type(value) == 'string' and value or '' end return values";
const RELEASE: &str = "local held = redis.call('GET', KEYS[1]) \
    if held and string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ' ' then \
    redis.call('DEL', KEYS[1]) end return false";

/// A handle on the connections to Redis.
#[derive(Clone, Debug)]
pub struct Port(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Arc<Settings>,
    routes: Arc<ArcSwap<Routes>>,
    events: UnboundedSender<Event>,
    queue: Queue,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Close);
    }
}

/// Finds Redis and begins to connect. From then on everything is tried again for ever.
///
/// # Errors
/// Redis cannot be found now: why, and what to do.
pub async fn open(settings: Settings) -> Result<Opened, Trouble> {
    let (port, feed) = begin(settings).await?;
    Ok((Arc::new(port), feed))
}

/// The same for a part of this process that has commands of its own: it sees by what becomes of them how the connections are.
pub async fn connect(settings: Settings) -> Result<Port, Trouble> {
    Ok(begin(settings).await?.0)
}

async fn begin(settings: Settings) -> Result<(Port, Feed), Trouble> {
    let settings = Arc::new(settings);
    let mut resolver = Resolver::new(Arc::clone(&settings));
    let topology = resolver.resolve().await?;
    let (events, received) = unbounded_channel();
    let (source, feed) = feed(settings.feed_bytes);
    let (keeper, routes) = Keeper::new(
        Arc::clone(&settings),
        source,
        events.clone(),
        (resolver, topology),
    );
    tokio::spawn(keeper.run(received));
    let shared = Shared {
        queue: Queue::new(settings.queue_bytes),
        settings,
        routes,
        events,
    };
    Ok((Port(Arc::new(shared)), feed))
}

impl Port {
    async fn ask(&self, command: Cmd, place: Place) -> Result<Value, Trouble> {
        let (item, answer) = Item::new(command, place, Instant::now() + TRY_FOR);
        self.0.routes.load().send(item);
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Lets `send` hand over the commands of so many messages, unless too much waits.
    fn hand_over(
        &self,
        messages: usize,
        bytes: usize,
        send: impl FnOnce(&Routes, &Arc<Tally>),
    ) -> Pending<'static, Published> {
        let (tally, published) = Tally::new(messages);
        if self.0.queue.fits(bytes) {
            send(&self.0.routes.load(), &tally);
            tally.is_handed_over();
        } else {
            tally.fail(Trouble::new(FULL));
        }
        Box::pin(async move {
            let published = published.await;
            published.unwrap_or_else(|_| Published::failed(messages, ended()))
        })
    }

    async fn count(&self, kind: Kind, channels: &[Name]) -> Result<Vec<u64>, Trouble> {
        let mut counts = vec![0; channels.len()];
        let routes = self.0.routes.load_full();
        for server in 0..routes.lanes().len() {
            // A classic channel has subscribers at every server, a sharded one only at its owner.
            let here =
                |channel: &Name| kind == Kind::Classic || routes.owner(slot(channel)) == server;
            let asked: Vec<usize> = (0..channels.len())
                .filter(|&index| here(&channels[index]))
                .collect();
            if asked.is_empty() {
                continue;
            }
            let mut command = Cmd::new();
            command.arg("PUBSUB").arg(match kind {
                Kind::Classic => "NUMSUB",
                Kind::Sharded => "SHARDNUMSUB",
            });
            for &index in &asked {
                command.arg(&channels[index][..]);
            }
            let answer = self.ask(command, Place::Server(server)).await?;
            let found = answer.as_map_iter().into_iter().flatten();
            for (&index, (_, count)) in asked.iter().zip(found) {
                if let Value::Int(count) = count {
                    counts[index] += u64::try_from(*count).unwrap_or(0);
                }
            }
        }
        Ok(counts)
    }

    async fn set(&self, text: &str, lease: &Lease) -> Result<Value, Trouble> {
        let mut command = script(text, lease);
        let ms = u64::try_from(lease.time.as_millis()).unwrap_or(u64::MAX);
        command.arg(&lease.payload).arg(ms);
        // No value is empty.
        command.arg(lease.over.as_deref().unwrap_or_default());
        self.ask(command, Place::Slot(slot(&lease.key))).await
    }

    async fn take_lease(&self, lease: &Lease) -> Result<Taken, Trouble> {
        match self.set(TAKE, lease).await? {
            Value::BulkString(value) => {
                let holder = Holder::read(&value);
                Ok(match holder.payload == lease.payload {
                    true => Taken::Mine(holder.epoch),
                    false => Taken::Other(holder),
                })
            }
            other => Err(odd(&other, "a lease was taken")),
        }
    }

    async fn hold_lease(&self, lease: &Lease) -> Result<Held, Trouble> {
        match self.set(HOLD, lease).await? {
            Value::Nil | Value::Boolean(false) => Ok(Held::Mine),
            Value::BulkString(value) => Ok(Held::Other(Holder::read(&value))),
            other => Err(odd(&other, "a lease was asked for")),
        }
    }

    async fn release_lease(&self, lease: &Lease) -> Result<(), Trouble> {
        let command = script(RELEASE, lease);
        self.ask(command, Place::Slot(slot(&lease.key))).await?;
        Ok(())
    }

    async fn holders_of(&self, keys: &[Name]) -> Result<Vec<Option<Holder>>, Trouble> {
        let Some(first) = keys.first() else {
            return Ok(Vec::new());
        };
        let mut command = Cmd::new();
        command.arg("EVAL").arg(READ).arg(keys.len());
        for key in keys {
            command.arg(&key[..]);
        }
        match self.ask(command, Place::Slot(slot(first))).await? {
            Value::Array(values) => Ok(values
                .iter()
                .map(|value| match value {
                    Value::BulkString(value) if !value.is_empty() => Some(Holder::read(value)),
                    _ => None,
                })
                .collect()),
            other => Err(odd(&other, "leases were read")),
        }
    }
}

/// An answer that no Redis gives.
pub(super) fn odd(answer: &Value, when: &str) -> Trouble {
    Trouble::new(format!("Redis answered {answer:?} when {when}"))
}

impl engine::Port for Port {
    fn name(&self) -> &'static str {
        "Redis"
    }

    fn native(&self) -> Kind {
        match self.0.settings.mode {
            Mode::Cluster => Kind::Sharded,
            Mode::Single | Mode::Sentinel(_) => Kind::Classic,
        }
    }

    fn publish(&self, batch: &[Publish]) -> Pending<'static, Published> {
        let bytes = batch.iter().map(|one| one.channel.len() + one.body.len());
        let until = Instant::now() + TRY_FOR;
        self.hand_over(batch.len(), bytes.sum(), |routes, tally| {
            for (index, publish) in batch.iter().enumerate() {
                let verb = match publish.kind {
                    Kind::Classic => "PUBLISH",
                    Kind::Sharded => "SPUBLISH",
                };
                let (channel, body) = (&publish.channel[..], &publish.body[..]);
                let size = channel.len() + body.len();
                let mut command = Cmd::with_capacity(3, size + verb.len());
                command.arg(verb).arg(channel).arg(body);
                let (place, room) = (Place::Slot(slot(channel)), self.0.queue.take(size));
                routes.send(Item::of_batch(command, place, until, (tally, index), room));
            }
        })
    }

    fn append(
        &self,
        stream: &[u8],
        fields: &[(&str, String)],
        kept: usize,
    ) -> Pending<'static, Published> {
        let size = fields.iter().map(|(key, value)| key.len() + value.len());
        let size = stream.len() + size.sum::<usize>();
        self.hand_over(1, size, |routes, tally| {
            let mut command = Cmd::with_capacity(6 + 2 * fields.len(), size + 32);
            command.arg("XADD").arg(stream);
            command.arg("MAXLEN").arg("~").arg(kept).arg("*");
            for (key, value) in fields {
                command.arg(*key).arg(value);
            }
            let (place, room) = (Place::Slot(slot(stream)), self.0.queue.take(size));
            let until = Instant::now() + TRY_FOR;
            routes.send(Item::of_batch(command, place, until, (tally, 0), room));
        })
    }

    fn read(&self, stream: Name) -> Receiver<StreamNews> {
        stream::read(stream, &self.0.settings, &self.0.routes)
    }

    fn subscribe(&self, topics: Vec<Topic>) {
        let _ = self.0.events.send(Event::Subscribe(topics));
    }

    fn unsubscribe(&self, topics: Vec<Topic>) {
        let _ = self.0.events.send(Event::Unsubscribe(topics));
    }

    fn doubt(&self) {
        let _ = self.0.events.send(Event::Doubt);
    }

    fn subscribers<'a>(
        &'a self,
        kind: Kind,
        channels: &'a [Name],
    ) -> Pending<'a, Result<Vec<u64>, Trouble>> {
        Box::pin(self.count(kind, channels))
    }

    fn take<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<Taken, Trouble>> {
        Box::pin(self.take_lease(lease))
    }

    fn hold<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<Held, Trouble>> {
        Box::pin(self.hold_lease(lease))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<(), Trouble>> {
        Box::pin(self.release_lease(lease))
    }

    fn holders<'a>(
        &'a self,
        keys: &'a [Name],
    ) -> Pending<'a, Result<Vec<Option<Holder>>, Trouble>> {
        Box::pin(self.holders_of(keys))
    }

    fn show<'a>(
        &'a self,
        board: &'a Board,
        value: &'a [u8],
    ) -> Pending<'a, Result<Shown, Trouble>> {
        Box::pin(self.show_on(board, value))
    }

    fn server(&self) -> Pending<'_, Result<Server, Trouble>> {
        Box::pin(self.describe())
    }
}

/// A script about a lease, with its epoch as first word.
fn script(text: &str, lease: &Lease) -> Cmd {
    let mut command = Cmd::new();
    command.arg("EVAL").arg(text).arg(2).arg(&lease.key[..]);
    command.arg(&lease.counter[..]).arg(lease.epoch);
    command
}
