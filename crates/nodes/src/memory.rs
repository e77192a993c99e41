//! An engine in memory, for nodes of one process: tests of what stands on engines, with the troubles of real ones on demand.

use super::engine::{
    self, Board, Held, Holder, Kind, Lease, Message, Name, News, Pending, Publish, Published,
    Server, Shown, Taken, Topic, Trouble,
};
use super::feed::{Opened, Source, feed};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes of messages that may wait for a node.
const FEED_BYTES_MAX: usize = 64 << 20;

/// What carries the messages of all nodes that are connected to it.
#[derive(Clone, Debug, Default)]
pub struct Broker(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    ports: BTreeMap<usize, Conn>,
    last_port: usize,
    leases: HashMap<Name, (String, Instant)>,
    counters: HashMap<Name, u64>,
    shown: BTreeMap<(Name, u16), (Vec<u8>, Instant)>,
    stopped: bool,
    /// Deliveries to lose next.
    losing: u64,
}

#[derive(Debug)]
struct Conn {
    source: Source,
    topics: HashSet<Topic>,
    /// The network between this node and the broker is cut.
    cut: bool,
    up: bool,
}

/// One node's connection, which ends with it.
#[derive(Debug)]
struct Port {
    number: usize,
    broker: Broker,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.state().ports.remove(&self.number);
    }
}

impl Broker {
    /// Connects a node.
    pub fn open(&self) -> Opened {
        let (source, feed) = feed(FEED_BYTES_MAX);
        let mut state = self.state();
        state.last_port += 1;
        let number = state.last_port;
        let conn = Conn {
            source,
            topics: HashSet::new(),
            cut: false,
            up: false,
        };
        state.ports.insert(number, conn);
        state.settle();
        drop(state);
        let port = Port {
            number,
            broker: self.clone(),
        };
        (Arc::new(port), feed)
    }

    /// Stops, as a server that crashed. Leases are kept unless `forget`.
    pub fn stop(&self, forget: bool) {
        let mut state = self.state();
        state.stopped = true;
        if forget {
            state.leases.clear();
            state.counters.clear();
            state.shown.clear();
        }
        state.settle();
    }

    /// Starts again.
    pub fn start(&self) {
        let mut state = self.state();
        state.stopped = false;
        state.settle();
    }

    /// Cuts the nth node that was connected (from 1) off, or lets it back.
    pub fn cut(&self, port: usize, cut: bool) {
        let mut state = self.state();
        if let Some(conn) = state.ports.get_mut(&port) {
            conn.cut = cut;
        }
        state.settle();
    }

    /// Loses the next deliveries, in silence.
    pub fn lose(&self, deliveries: u64) {
        self.state().losing += deliveries;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn away() -> Trouble {
    Trouble::new("cannot reach the memory engine: it was stopped or cut off by a test")
}

impl State {
    fn reaches(&self, port: usize) -> Result<(), Trouble> {
        let conn = self.ports.get(&port);
        let reached = !self.stopped && conn.is_some_and(|conn| !conn.cut);
        if reached { Ok(()) } else { Err(away()) }
    }

    /// Tells each node what changed for it.
    fn settle(&mut self) {
        for conn in self.ports.values_mut() {
            let up = !self.stopped && !conn.cut;
            if conn.up == up {
                continue;
            }
            conn.up = up;
            let topics: Vec<Topic> = conn.topics.iter().cloned().collect();
            let (news, topics) = match up {
                true => (News::Up, News::Heard(topics)),
                false => (News::Down(away()), News::Unheard(topics)),
            };
            conn.source.tell(topics);
            conn.source.tell(news);
        }
    }

    fn deliver(&mut self, publish: &Publish) -> u64 {
        let mut receivers = 0;
        for conn in self.ports.values().filter(|conn| conn.up) {
            for pattern in conn.heard_by(publish) {
                receivers += 1;
                if self.losing > 0 {
                    self.losing -= 1;
                    continue;
                }
                conn.source.tell(News::Message(Message {
                    kind: publish.kind,
                    pattern,
                    channel: publish.channel.to_vec(),
                    body: publish.body.to_vec(),
                }));
            }
        }
        receivers
    }

    fn drop_ended_leases(&mut self) {
        let now = Instant::now();
        self.leases.retain(|_, (_, until)| *until > now);
    }
}

impl Conn {
    /// Once for the channel (`None`), and once for each pattern.
    fn heard_by(&self, publish: &Publish) -> Vec<Option<Name>> {
        let channel = Topic::Channel(publish.kind, Arc::clone(&publish.channel));
        let direct = self.topics.contains(&channel).then_some(None);
        let classic = publish.kind == Kind::Classic;
        let patterns = self.topics.iter().filter_map(|topic| match topic {
            Topic::Pattern(pattern) if classic && matches(pattern, &publish.channel) => {
                Some(Some(Arc::clone(pattern)))
            }
            _ => None,
        });
        direct.into_iter().chain(patterns).collect()
    }
}

/// Redis's glob: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a character that means itself.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let Some((&first, rest)) = pattern.split_first() else {
        return name.is_empty();
    };
    if first == b'*' {
        return (0..=name.len()).any(|skip| matches(rest, &name[skip..]));
    }
    let Some((&byte, after)) = name.split_first() else {
        return false;
    };
    match (first, rest) {
        (b'?', _) => matches(rest, after),
        (b'\\', [escaped, rest @ ..]) => *escaped == byte && matches(rest, after),
        (b'[', _) => {
            let end = rest.iter().position(|byte| *byte == b']');
            let (set, rest) = rest.split_at(end.unwrap_or(rest.len()));
            in_set(set, byte) && matches(rest.get(1..).unwrap_or_default(), after)
        }
        _ => first == byte && matches(rest, after),
    }
}

fn in_set(set: &[u8], byte: u8) -> bool {
    let (negated, mut set) = match set {
        [b'^', set @ ..] => (true, set),
        set => (false, set),
    };
    let mut found = false;
    while let Some((&low, rest)) = set.split_first() {
        let (high, rest) = match rest {
            [b'-', high, rest @ ..] => (*high, rest),
            rest => (low, rest),
        };
        found |= (low..=high).contains(&byte);
        set = rest;
    }
    found != negated
}

impl Port {
    fn state(&self) -> MutexGuard<'_, State> {
        self.broker.state()
    }

    fn count(&self, kind: Kind, channels: &[Name]) -> Result<Vec<u64>, Trouble> {
        let state = self.state();
        state.reaches(self.number)?;
        let count = |channel: &Name| {
            let topic = Topic::Channel(kind, Arc::clone(channel));
            let conns = state.ports.values().filter(|conn| conn.up);
            conns.filter(|conn| conn.topics.contains(&topic)).count() as u64
        };
        Ok(channels.iter().map(count).collect())
    }

    fn take_lease(&self, lease: &Lease) -> Result<Taken, Trouble> {
        let mut lease = lease.clone();
        let held = {
            let mut state = self.state();
            state.reaches(self.number)?;
            state.drop_ended_leases();
            let counted = state.counters.get(&lease.counter).copied();
            lease.epoch = lease.epoch.max(counted.unwrap_or_default() + 1);
            let held = state.leases.get(&lease.key);
            let held = held.map(|(value, _)| Holder::read(value.as_bytes()));
            held.filter(|held| lease.over.as_ref() != Some(&held.value))
        };
        match held {
            Some(holder) if holder.payload == lease.payload => Ok(Taken::Mine(holder.epoch)),
            Some(holder) => Ok(Taken::Other(holder)),
            // What stood there may be replaced.
            None => Ok(match self.hold_lease(&lease)? {
                Held::Mine => Taken::Mine(lease.epoch),
                Held::Other(holder) => Taken::Other(holder),
            }),
        }
    }

    fn hold_lease(&self, lease: &Lease) -> Result<Held, Trouble> {
        let mut state = self.state();
        state.reaches(self.number)?;
        state.drop_ended_leases();
        if let Some((value, _)) = state.leases.get(&lease.key) {
            let holder = Holder::read(value.as_bytes());
            if holder.epoch != lease.epoch && lease.over.as_ref() != Some(&holder.value) {
                return Ok(Held::Other(holder));
            }
        }
        let counter = Arc::clone(&lease.counter);
        let counted = state.counters.entry(counter).or_default();
        *counted = lease.epoch.max(*counted);
        let until = Instant::now() + lease.time;
        let value = (lease.value(), until);
        state.leases.insert(Arc::clone(&lease.key), value);
        Ok(Held::Mine)
    }

    fn release_lease(&self, lease: &Lease) -> Result<(), Trouble> {
        let mut state = self.state();
        state.reaches(self.number)?;
        let mine = |value: &str| Holder::read(value.as_bytes()).epoch == lease.epoch;
        if state
            .leases
            .get(&lease.key)
            .is_some_and(|(value, _)| mine(value))
        {
            state.leases.remove(&lease.key);
        }
        Ok(())
    }

    fn read(&self, keys: &[Name]) -> Result<Vec<Option<Holder>>, Trouble> {
        let mut state = self.state();
        state.reaches(self.number)?;
        state.drop_ended_leases();
        let read = |key: &Name| {
            let (value, _) = state.leases.get(key)?;
            Some(Holder::read(value.as_bytes()))
        };
        Ok(keys.iter().map(read).collect())
    }

    fn show_on(&self, board: &Board, value: &[u8]) -> Result<Shown, Trouble> {
        let mut state = self.state();
        state.reaches(self.number)?;
        let now = Instant::now();
        state.shown.retain(|_, (_, until)| *until > now);
        let stem = Arc::clone(&board.stem);
        let shown = (value.to_vec(), now + board.time);
        state.shown.insert((stem, board.number), shown);
        let all = state
            .shown
            .iter()
            .filter(|((stem, _), _)| *stem == board.stem);
        Ok(all
            .map(|((_, number), (value, _))| (*number, value.clone()))
            .collect())
    }

    fn describe(&self) -> Result<Server, Trouble> {
        self.state().reaches(self.number)?;
        Ok(Server {
            name: "memory".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: "single",
            pubsub_buffer: None,
            node_timeout: None,
        })
    }
}

impl engine::Port for Port {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn publish(&self, batch: &[Publish]) -> Pending<'static, Published> {
        let mut state = self.state();
        let published = match state.reaches(self.number) {
            Err(trouble) => Published::failed(batch.len(), trouble),
            Ok(()) => Published {
                receivers: batch.iter().map(|one| Some(state.deliver(one))).collect(),
                trouble: None,
            },
        };
        Box::pin(ready(published))
    }

    fn subscribe(&self, mut topics: Vec<Topic>) {
        let mut state = self.state();
        let Some(conn) = state.ports.get_mut(&self.number) else {
            return;
        };
        topics.retain(|topic| conn.topics.insert(topic.clone()));
        if conn.up {
            conn.source.tell(News::Heard(topics));
        }
    }

    fn unsubscribe(&self, topics: Vec<Topic>) {
        let mut state = self.state();
        if let Some(conn) = state.ports.get_mut(&self.number) {
            conn.topics.retain(|topic| !topics.contains(topic));
        }
    }

    fn doubt(&self) {
        let state = self.state();
        if let Some(conn) = state.ports.get(&self.number).filter(|conn| conn.up) {
            let topics: Vec<Topic> = conn.topics.iter().cloned().collect();
            conn.source.tell(News::Unheard(topics.clone()));
            conn.source.tell(News::Heard(topics));
        }
    }

    fn subscribers<'a>(
        &'a self,
        kind: Kind,
        channels: &'a [Name],
    ) -> Pending<'a, Result<Vec<u64>, Trouble>> {
        Box::pin(ready(self.count(kind, channels)))
    }

    fn take<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<Taken, Trouble>> {
        Box::pin(ready(self.take_lease(lease)))
    }

    fn hold<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<Held, Trouble>> {
        Box::pin(ready(self.hold_lease(lease)))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<(), Trouble>> {
        Box::pin(ready(self.release_lease(lease)))
    }

    fn holders<'a>(
        &'a self,
        keys: &'a [Name],
    ) -> Pending<'a, Result<Vec<Option<Holder>>, Trouble>> {
        Box::pin(ready(self.read(keys)))
    }

    fn show<'a>(
        &'a self,
        board: &'a Board,
        value: &'a [u8],
    ) -> Pending<'a, Result<Shown, Trouble>> {
        Box::pin(ready(self.show_on(board, value)))
    }

    fn server(&self) -> Pending<'_, Result<Server, Trouble>> {
        Box::pin(ready(self.describe()))
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
