//! Socket.IO servers of Node and Python in the same cluster: the task between Redis, what `compat` knows of them, and the shards.
//! It has an engine of its own, so that their traffic and that between nodes do not wait for each other. While no other server is there,
//! it reads no letter.

mod counting;
mod gauges;
mod namespaces;
mod night;
mod watch;
mod words;

pub use gauges::Gauges;
pub use watch::watch;

use super::engine::{self, Engine, Kind, Message, Name, News, StreamNews};
use super::feed::{Feed, Opened};
use compat::classic;
use compat::plane::{
    Counted, Dialect, Membership, Plane, Reply, Round, Settings, Task, Told, Topic, Way,
};
use compat::verb::{Letter, Selection, Verb};
use counting::{count_once, has_sharded_channels};
use hub::foreign::{Deed, ELSEWHERE, Overheard, overhear};
use hub::{Inbox, Read};
use namespaces::{Entry, Namespaces};
use night::Night;
use process::vitals::Pulse;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};

/// Bytes of letters that may wait for this task.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Cost of a letter beside its bytes.
const OVERHEAD_BYTES: usize = 64;
/// Letters handled before what they cause is published.
const BATCH_MAX: usize = 256;
/// As many as the streams adapter keeps.
const ENTRIES_KEPT: usize = 10_000;
const TICK: Duration = Duration::from_millis(100);
/// While a shard has more letters than it may, it is looked at so often.
const BEHIND: Duration = Duration::from_millis(1);
/// While a node of ours comes or goes, one of its two subscriptions is counted without the other. After this time both are.
const DOUBT: Duration = Duration::from_millis(200);
/// The log repeats itself after so long.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// How long other servers are waited for if they do not say.
const ASK_MS: u64 = 5_000;
const FETCH_MS: u64 = 4_000;

/// What a shard has for other nodes, as far as it concerns us.
#[derive(Debug)]
enum Heard {
    Letter {
        shard: u16,
        bytes: Box<[u8]>,
    },
    /// `None`: the namespace itself.
    Room {
        came: bool,
        namespace: Box<str>,
        room: Option<Box<str>>,
    },
}

/// What a letter that passed by means for its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Nothing: other servers are not asked.
    By,
    /// [`ELSEWHERE`] is one of the nodes that it waits for.
    Asked,
    /// Too much waited: other servers were to be asked, and are not.
    Dropped,
}

/// Where letters to other nodes pass by.
#[derive(Clone, Debug)]
pub struct Ear {
    letters: UnboundedSender<Heard>,
    night: Arc<Night>,
    bell: Arc<Bell>,
    gauges: Arc<Gauges>,
}

/// Wakes the task. What is not urgent waits for its next tick while no other server is there.
#[derive(Debug, Default)]
struct Bell {
    rung: Notify,
    /// Somebody is there, so that every letter rings.
    is_awake: AtomicBool,
}

impl Bell {
    fn ring(&self, is_urgent: bool) {
        if is_urgent || self.is_awake.load(Ordering::Relaxed) {
            self.rung.notify_one();
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").finish_non_exhaustive()
    }
}

impl Ear {
    /// What happened.
    pub fn gauges(&self) -> &Arc<Gauges> {
        &self.gauges
    }

    /// A letter passes by, with the keys and nodes that it is for.
    pub fn hear(
        &self,
        shard: u16,
        keys: &[u64],
        nodes: &[u64],
        is_question: bool,
        bytes: &[u8],
    ) -> Passed {
        // Without keys it is an answer to one node.
        if keys.is_empty() && !nodes.contains(&u64::from(ELSEWHERE)) {
            return Passed::By;
        }
        // Their questions are answered whether they are known or not.
        if !keys.is_empty() && !is_question && self.night.keeps(shard, bytes) {
            return Passed::By;
        }
        let weight = bytes.len() + OVERHEAD_BYTES;
        let waiting = self
            .gauges
            .waiting_bytes
            .fetch_add(weight, Ordering::Relaxed);
        let bytes = bytes.into();
        let heard = Heard::Letter { shard, bytes };
        if waiting > WAITING_BYTES_MAX || self.letters.send(heard).is_err() {
            self.gauges
                .waiting_bytes
                .fetch_sub(weight, Ordering::Relaxed);
            self.gauges.dropped.fetch_add(1, Ordering::Relaxed);
            return Passed::Dropped;
        }
        self.bell.ring(is_question);
        match is_question {
            true => Passed::Asked,
            false => Passed::By,
        }
    }

    /// A shard has its first member of a room (`None`: of the namespace), or had its last. That is never dropped: it would not come
    /// again.
    pub fn room(&self, came: bool, namespace: &str, room: Option<&str>) {
        // A namespace is to be heard before somebody speaks there.
        let is_urgent = came && room.is_none();
        let (namespace, room) = (namespace.into(), room.map(Into::into));
        // An error means that the process ends.
        let _ = self.letters.send(Heard::Room {
            came,
            namespace,
            room,
        });
        self.bell.ring(is_urgent);
    }
}

/// Brings a letter to a shard.
pub type Postman = Box<dyn Fn(u16, Arc<hub::Letter>) + Send + Sync>;

/// Whether a shard's mailbox is too long.
pub type AreBehind = Box<dyn Fn() -> bool + Send + Sync>;

/// What the task is made of.
pub struct Plan {
    /// The operator's settings.
    pub settings: Settings,
    /// Namespaces that clients may join.
    pub namespaces: Vec<String>,
    /// The stream of servers with the streams adapter.
    pub stream: String,
    /// For which shards letters are.
    pub inbox: Inbox,
    /// How they come there.
    pub postman: Postman,
    /// Some shard has more letters than it may: what comes waits at the engine's end, which is bounded.
    pub are_behind: AreBehind,
    /// Where to tell what happens.
    pub gauges: Arc<Gauges>,
    pub pulse: Pulse,
}

/// Starts the task on the runtime that is entered; it ends with the engine, or when the last [`Ear`] goes.
pub async fn start((engine, feed): Opened, plan: Plan) -> Ear {
    let (letters, heard) = unbounded_channel();
    let (counts, counted) = unbounded_channel();
    let bell = Arc::<Bell>::default();
    let night = Arc::<Night>::default();
    let gauges = plan.gauges;
    let mut settings = plan.settings;
    if !has_sharded_channels(&engine).await {
        settings.membership[Dialect::Sharded as usize] = Membership::Never;
    }
    let entries = match settings.hears(Dialect::Streams) {
        true => engine.read(name(&plan.stream)),
        false => channel(1).1,
    };
    let mut bridge = Bridge {
        hears: Dialect::ALL.map(|dialect| settings.hears(dialect)),
        sleeps: settings.writes_to_servers_only(),
        night: Arc::clone(&night),
        plane: Plane::new(settings),
        namespaces: Namespaces::default(),
        engine,
        inbox: plan.inbox,
        postman: plan.postman,
        are_behind: plan.are_behind,
        counts,
        bell: Arc::clone(&bell),
        gauges: Arc::clone(&gauges),
        began: Instant::now(),
        stream: name(&plan.stream),
        stream_is_down: false,
        is_full: false,
        cut: Trouble::default(),
        unasked: Trouble::default(),
    };
    // As if they had a socket, always.
    let namespaces = plan.namespaces.iter();
    namespaces.for_each(|name| bridge.namespace(name, true));
    tokio::spawn(async move {
        bridge.run(heard, (feed, entries), counted).await;
        plan.pulse.rest();
    });
    Ear {
        letters,
        night,
        bell,
        gauges,
    }
}

/// What could not be done, as far as the log told of it.
#[derive(Debug, Default)]
struct Trouble {
    count: u64,
    told: Option<Instant>,
}

impl Trouble {
    fn is_worth_telling(&mut self, count: u64) -> bool {
        let is_new = count > std::mem::replace(&mut self.count, count);
        let is_due = self.told.is_none_or(|told| told.elapsed() >= TELL_AGAIN);
        if is_new && is_due {
            self.told = Some(Instant::now());
        }
        is_new && is_due
    }
}

struct Bridge {
    plane: Plane,
    /// Dialects that are listened to.
    hears: [bool; 3],
    /// Nothing is written while no other server is there.
    sleeps: bool,
    night: Arc<Night>,
    namespaces: Namespaces,
    /// The log was told that a namespace is not shared.
    is_full: bool,
    engine: Engine,
    inbox: Inbox,
    postman: Postman,
    are_behind: AreBehind,
    counts: UnboundedSender<(String, Option<Counted>)>,
    bell: Arc<Bell>,
    gauges: Arc<Gauges>,
    began: Instant,
    /// Of servers with the streams adapter.
    stream: Name,
    stream_is_down: bool,
    cut: Trouble,
    unasked: Trouble,
}

impl Bridge {
    async fn run(
        mut self,
        mut heard: UnboundedReceiver<Heard>,
        (mut feed, mut entries): (Feed, Receiver<StreamNews>),
        mut counted: UnboundedReceiver<(String, Option<Counted>)>,
    ) {
        let mut ticks = tokio::time::interval(TICK);
        let bell = Arc::clone(&self.bell);
        self.sleep_or_wake(&mut heard);
        self.carry_out();
        loop {
            let is_behind = (self.are_behind)();
            tokio::select! {
                () = bell.rung.notified() => {
                    if self.overheard_some(&mut heard).is_break() {
                        return;
                    }
                }
                () = tokio::time::sleep(BEHIND), if is_behind => continue,
                news = feed.next(), if !is_behind => match news {
                    Some(news) => {
                        if matches!(news, News::Message(_)) {
                            self.wake(&mut heard);
                        }
                        self.news(news);
                    }
                    None => return,
                },
                Some(news) = entries.recv(), if !is_behind => {
                    if matches!(news, StreamNews::Entries(_)) {
                        self.wake(&mut heard);
                    }
                    self.stream_news(news);
                }
                Some((namespace, counted)) = counted.recv() => {
                    if counted.is_some_and(|counted| counted.has_others(self.hears)) {
                        self.wake(&mut heard);
                    }
                    let now_ms = self.now_ms();
                    self.plane.counted(&namespace, counted, now_ms);
                    self.inbox.counts_foreign(&namespace, self.plane.others(&namespace));
                }
                _ = ticks.tick() => {
                    bell.rung.notify_one();
                    let now_ms = self.now_ms();
                    for namespace in self.night.tick() {
                        self.enter(&namespace);
                        self.plane.look_for_others(&namespace, now_ms);
                    }
                    self.plane.tick(now_ms);
                    self.leave_quiet();
                    bell.is_awake.store(self.plane.has_others(), Ordering::Relaxed);
                    self.sleep_or_wake(&mut heard);
                }
            }
            self.carry_out();
        }
    }

    /// Somebody may be there: what was said a moment ago is read, and all that is said from now on.
    fn wake(&mut self, heard: &mut UnboundedReceiver<Heard>) {
        // Letters that wait were said before the night.
        while let Ok(earlier) = heard.try_recv() {
            self.overheard(earlier);
        }
        for kept in self.night.end() {
            self.read(kept.shard, &kept.bytes);
        }
    }

    fn sleep_or_wake(&mut self, heard: &mut UnboundedReceiver<Heard>) {
        match self.sleeps && !self.plane.has_others() {
            true => self.night.begin(),
            false => self.wake(heard),
        }
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// A shard has its first socket in a namespace, or had its last.
    fn namespace(&mut self, namespace: &str, came: bool) {
        self.namespaces.count(namespace, came, self.now_ms());
        if came {
            self.enter(namespace);
        }
    }

    fn enter(&mut self, namespace: &str) {
        let now_ms = self.now_ms();
        match self.namespaces.enter(namespace, now_ms) {
            Entry::Shared => {}
            Entry::New => self.plane.enter(namespace, now_ms),
            Entry::Full => {
                if !std::mem::replace(&mut self.is_full, true) {
                    tracing::warn!(
                        namespace,
                        "a namespace is not shared with Node servers until others are left: 1000 are"
                    );
                }
            }
        }
    }

    /// Leaves namespaces in which nothing happens any more, for those that wait.
    fn leave_quiet(&mut self) {
        for namespace in self.namespaces.leave_quiet(self.now_ms()) {
            self.plane.leave(&namespace);
            self.inbox.counts_foreign(&namespace, 0);
        }
        if self.is_full {
            let late = self.namespaces.latecomers();
            late.iter().for_each(|namespace| self.enter(namespace));
        }
    }

    // ---- from the shards --------------------------------------------------------------------------------------------------

    /// Takes some of what waits, and rings again if there is more. Breaks when nobody is left to say anything.
    fn overheard_some(&mut self, heard: &mut UnboundedReceiver<Heard>) -> ControlFlow<()> {
        for _ in 0..BATCH_MAX {
            match heard.try_recv() {
                Ok(letter) => self.overheard(letter),
                Err(TryRecvError::Empty) => return ControlFlow::Continue(()),
                Err(TryRecvError::Disconnected) => return ControlFlow::Break(()),
            }
        }
        self.bell.rung.notify_one();
        ControlFlow::Continue(())
    }

    fn overheard(&mut self, heard: Heard) {
        let (shard, bytes) = match heard {
            Heard::Letter { shard, bytes } => (shard, bytes),
            Heard::Room {
                came,
                namespace,
                room,
            } => {
                let Some(room) = room else {
                    return self.namespace(&namespace, came);
                };
                self.enter(&namespace);
                return self.plane.room(&namespace, &room, came);
            }
        };
        let weight = bytes.len() + OVERHEAD_BYTES;
        self.gauges
            .waiting_bytes
            .fetch_sub(weight, Ordering::Relaxed);
        self.read(shard, &bytes);
    }

    fn read(&mut self, shard: u16, bytes: &[u8]) {
        self.gauges.read.fetch_add(1, Ordering::Relaxed);
        match overhear(bytes) {
            Ok(Overheard::Deed(deed)) => self.said(shard, deed),
            Ok(Overheard::Ours) => {}
            Ok(Overheard::Response {
                round,
                parts,
                response,
            }) => self.plane.answered(round, words::part(parts, response)),
            Err(error) => debug_assert!(false, "a shard of this version wrote it: {error:?}"),
        }
    }

    fn said(&mut self, shard: u16, deed: Deed) {
        self.enter(&deed.namespace);
        // Other servers know no users of ours.
        let is_for_users = deed.rooms.is_empty() && !deed.users.is_empty();
        let to = Selection {
            rooms: deed.rooms,
            except: deed.except,
        };
        let now_ms = self.now_ms();
        let namespace = deed.namespace;
        let (verb, question) = words::said(to, deed.what);
        match question {
            None if is_for_users => {}
            None => self.plane.say(&namespace, verb, now_ms),
            Some((number, _)) if is_for_users => {
                let told = match verb {
                    Verb::Fetch { .. } => Told::Sockets(Some(Vec::new())),
                    _ => Told::Count(Some(0)),
                };
                let round = Round { shard, number };
                self.reply(Reply {
                    round,
                    servers: 1,
                    told,
                });
            }
            Some((number, timeout_ms)) => {
                let round = Round { shard, number };
                self.plane.ask(&namespace, round, verb, timeout_ms, now_ms);
            }
        }
    }

    // ---- from Redis -------------------------------------------------------------------------------------------------------

    fn news(&mut self, news: News) {
        match news {
            News::Message(message) => self.message(&message),
            News::Dropped(count) => {
                self.gauges.dropped.fetch_add(count, Ordering::Relaxed);
            }
            News::Down(trouble) => {
                tracing::warn!(%trouble, "Node servers in the cluster cannot be reached");
            }
            News::Heard(topics) => self.hears(&topics, true),
            News::Unheard(topics) => self.hears(&topics, false),
            News::Up => {}
        }
    }

    fn hears(&mut self, topics: &[engine::Topic], heard: bool) {
        let text = |name: &Name| String::from_utf8_lossy(name).into_owned();
        let topics = topics.iter().map(|topic| match topic {
            engine::Topic::Pattern(name) => Topic::Pattern(text(name)),
            engine::Topic::Channel(Kind::Classic, name) => Topic::Channel(text(name)),
            engine::Topic::Channel(Kind::Sharded, name) => Topic::Sharded(text(name)),
        });
        let now_ms = self.now_ms();
        self.plane.hears(topics, heard, now_ms);
    }

    fn message(&mut self, message: &Message) {
        let way = match (&message.pattern, message.kind) {
            (Some(_), _) => Way::Pattern,
            (None, Kind::Classic) => Way::Channel,
            (None, Kind::Sharded) => Way::Sharded,
        };
        let channel = String::from_utf8_lossy(&message.channel);
        let now_ms = self.now_ms();
        self.plane.heard(way, &channel, &message.body, now_ms);
    }

    fn stream_news(&mut self, news: StreamNews) {
        match news {
            StreamNews::Entries(entries) => {
                let now_ms = self.now_ms();
                for entry in &entries {
                    let fields = entry.iter().map(|(key, value)| (&key[..], &value[..]));
                    self.plane.heard_entry(fields, now_ms);
                }
                self.stream_is_down = false;
            }
            StreamNews::Missed => {
                self.gauges.missed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    "entries of the stream of Node servers were cut off before they were read: their number is unknown"
                );
            }
            // Told once, though it is tried again and again.
            StreamNews::Down(trouble) if !self.stream_is_down => {
                self.stream_is_down = true;
                tracing::warn!(%trouble, "Node servers with the streams adapter are not heard (compat.streams)");
            }
            StreamNews::Down(_) => {}
        }
    }

    // ---- what follows -----------------------------------------------------------------------------------------------------

    fn carry_out(&mut self) {
        let mut batch = Vec::new();
        for task in self.plane.take() {
            match task {
                Task::Publish(message) => batch.push(publish(Kind::Classic, message)),
                Task::PublishSharded(message) => batch.push(publish(Kind::Sharded, message)),
                Task::Append(fields) => self.append(&fields),
                Task::Subscribe(topics) => self.engine.subscribe(topics_of(topics)),
                Task::Unsubscribe(topics) => self.engine.unsubscribe(topics_of(topics)),
                Task::Count(namespace) => self.count(namespace),
                Task::Carry { letter, question } => self.carry(letter, question),
                Task::Reply(reply) => self.reply(reply),
            }
        }
        if !batch.is_empty() {
            let (published, gauges) = (self.engine.publish(&batch), Arc::clone(&self.gauges));
            tokio::spawn(async move {
                let published = published.await;
                let lost = published.receivers.iter().filter(|one| one.is_none());
                let lost = lost.count() as u64;
                gauges.unpublished.fetch_add(lost, Ordering::Relaxed);
            });
        }
        let tally = self.plane.tally();
        if self.cut.is_worth_telling(tally.cut) {
            tracing::warn!(
                "a list of sockets or rooms for a Node server was too large and was not sent: the server that asked reports a timeout. \
                 Have it ask for smaller rooms, or raise compat.list_bytes_max, and in Redis client-output-buffer-limit pubsub"
            );
        }
        if self.unasked.is_worth_telling(tally.unasked.iter().sum()) {
            tracing::warn!(
                "a question was not put, because 65,536 questions between Node servers and this node are open: a broadcast with ack, or one \
                 for servers, did not reach all. Use shorter timeouts, or fewer broadcasts with ack"
            );
        }
        let last = self.gauges.tally.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = tally;
    }

    fn append(&self, fields: &[(&str, String)]) {
        let appended = self.engine.append(&self.stream, fields, ENTRIES_KEPT);
        let gauges = Arc::clone(&self.gauges);
        tokio::spawn(async move {
            let lost = u64::from(!appended.await.is_complete());
            gauges.unpublished.fetch_add(lost, Ordering::Relaxed);
        });
    }

    fn count(&self, namespace: String) {
        let counters = self.plane.counters(&namespace);
        let (engine, counts) = (self.engine.clone(), self.counts.clone());
        let known = self.plane.known(&namespace);
        tokio::spawn(async move {
            let mut counted = count_once(&engine, &counters).await;
            if let Some(first) = counted.filter(|first| first.has_more(known)) {
                tokio::time::sleep(DOUBT).await;
                let again = count_once(&engine, &counters).await;
                counted = again.map(|again| again.at_least(first));
            }
            let _ = counts.send((namespace, counted));
        });
    }

    fn carry(&self, letter: Letter, question: Option<u64>) {
        if let Some(deed) = words::deed(letter, question) {
            self.deliver(&self.inbox.deed(deed));
        }
    }

    fn reply(&self, reply: Reply) {
        let parts = u16::try_from(reply.servers).unwrap_or(u16::MAX);
        let Round { shard, number } = reply.round;
        let response = words::response(reply.told);
        for read in self.inbox.response(shard, number, parts, response) {
            self.deliver(&read);
        }
    }

    fn deliver(&self, read: &Read) {
        for shard in read.shards() {
            (self.postman)(shard, Arc::clone(&read.letter));
        }
    }
}

fn name(text: &str) -> Name {
    text.as_bytes().into()
}

fn publish(kind: Kind, message: classic::Publish) -> engine::Publish {
    engine::Publish {
        kind,
        channel: name(&message.channel),
        body: message.body.into(),
    }
}

fn topics_of(topics: Vec<Topic>) -> Vec<engine::Topic> {
    let topics = topics.into_iter().map(|topic| match topic {
        Topic::Pattern(pattern) => engine::Topic::Pattern(name(&pattern)),
        Topic::Channel(channel) => engine::Topic::Channel(Kind::Classic, name(&channel)),
        Topic::Sharded(channel) => engine::Topic::Channel(Kind::Sharded, name(&channel)),
    });
    topics.collect()
}
