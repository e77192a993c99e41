//! Socket.IO servers of Node and Python in the same cluster: the task between Redis, what `compat` knows of them, and the shards.
//! It has an engine of its own, so that their traffic and that between nodes do not wait for each other.

use super::engine::{self, Engine, Kind, Message, Name, News, Opened, StreamNews};
use super::feed::Feed;
use compat::classic;
use compat::plane::{
    Counted, Counters, Dialect, Membership, Part, Plane, Reply, Round, Settings, Tally, Task, Told,
    Topic, Way,
};
use compat::verb::{self, Args, Letter, Selection, Verb};
use hub::foreign::{Deed, ELSEWHERE, Event, Overheard, What, overhear};
use hub::{Answer, Fetched, Found, Inbox, Read, Response};
use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};

/// Bytes of letters that may wait for this task.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What a letter costs besides its bytes.
const OVERHEAD_BYTES: usize = 64;
/// Letters handled before what they cause is published.
const BATCH_MAX: usize = 256;
/// As many as the streams adapter keeps.
const ENTRIES_KEPT: usize = 10_000;
const TICK: Duration = Duration::from_millis(100);
/// While a node of ours comes or goes, one of its two subscriptions is counted without the other. After this time both are.
const DOUBT: Duration = Duration::from_millis(200);
/// Namespaces that are taken part in; clients may make them by connecting.
const NAMESPACES_MAX: usize = 1_000;
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
    Room {
        came: bool,
        namespace: Box<str>,
        room: Box<str>,
    },
}

/// Where letters to other nodes pass by.
#[derive(Clone, Debug)]
pub struct Ear {
    letters: UnboundedSender<Heard>,
    bell: Arc<Bell>,
    gauges: Arc<Gauges>,
}

/// Wakes the task. Letters wait for its next tick while no other server is there: nobody waits for them, and a wake costs more than a
/// letter.
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

/// What happened, for metrics.
#[derive(Debug, Default)]
pub struct Gauges {
    waiting_bytes: AtomicUsize,
    /// Letters that were not written because too much waited.
    dropped: AtomicU64,
    /// Messages that Redis did not take.
    unpublished: AtomicU64,
    /// Times that entries of the stream were cut off before they were read.
    missed: AtomicU64,
    tally: Mutex<Tally>,
}

impl Gauges {
    /// Messages read, written and refused.
    pub fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Letters that were not written because too much waited.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Times that entries of the stream were cut off before they were read.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Messages that Redis did not take.
    pub fn unpublished(&self) -> u64 {
        self.unpublished.load(Ordering::Relaxed)
    }
}

impl Ear {
    /// What happened.
    pub fn gauges(&self) -> &Arc<Gauges> {
        &self.gauges
    }

    /// A letter passes by, with the keys and nodes that it is for. Returns whether [`ELSEWHERE`] is one of the nodes that its round
    /// waits for.
    pub fn hear(
        &self,
        shard: u16,
        keys: &[u64],
        nodes: &[u64],
        is_question: bool,
        bytes: &[u8],
    ) -> bool {
        // Without keys it is an answer to one node.
        if keys.is_empty() && !nodes.contains(&u64::from(ELSEWHERE)) {
            return false;
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
            return false;
        }
        self.bell.ring(is_question);
        is_question
    }

    /// A shard has its first member of a room, or had its last. That is never dropped: it would not come again.
    pub fn room(&self, came: bool, namespace: &str, room: &str) {
        let (namespace, room) = (namespace.into(), room.into());
        // An error means that the process ends.
        let _ = self.letters.send(Heard::Room {
            came,
            namespace,
            room,
        });
        self.bell.ring(false);
    }
}

/// Brings a letter to a shard.
pub type Postman = Box<dyn Fn(u16, Arc<hub::Letter>) + Send + Sync>;

/// What the task is made of.
pub struct Plan {
    /// What an operator decides.
    pub settings: Settings,
    /// Namespaces that clients may join.
    pub namespaces: Vec<String>,
    /// The stream of servers with the streams adapter.
    pub stream: String,
    /// For which shards letters are.
    pub inbox: Inbox,
    /// How they come there.
    pub postman: Postman,
    /// Where to tell what happens.
    pub gauges: Arc<Gauges>,
}

/// Starts the task on the runtime that is entered; it ends with the engine, or when the last [`Ear`] goes.
pub async fn start((engine, feed): Opened, plan: Plan) -> Ear {
    let (letters, heard) = unbounded_channel();
    let (counts, counted) = unbounded_channel();
    let bell = Arc::<Bell>::default();
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
        plane: Plane::new(settings),
        entered: HashSet::new(),
        engine,
        inbox: plan.inbox,
        postman: plan.postman,
        counts,
        bell: Arc::clone(&bell),
        gauges: Arc::clone(&gauges),
        began: Instant::now(),
        stream: name(&plan.stream),
        stream_is_down: false,
    };
    plan.namespaces.iter().for_each(|name| bridge.enter(name));
    tokio::spawn(bridge.run(heard, (feed, entries), counted));
    Ear {
        letters,
        bell,
        gauges,
    }
}

/// Redis has them from 7.0. Where it does not answer now, it is asked for them in vain at worst.
async fn has_sharded_channels(engine: &Engine) -> bool {
    let Ok(server) = engine.server().await else {
        return true;
    };
    let major = server.version.split('.').next();
    let major = major.and_then(|major| major.parse::<u32>().ok());
    server.name != "redis" || major.is_none_or(|major| major >= 7)
}

struct Bridge {
    plane: Plane,
    entered: HashSet<String>,
    engine: Engine,
    inbox: Inbox,
    postman: Postman,
    counts: UnboundedSender<(String, Option<Counted>)>,
    bell: Arc<Bell>,
    gauges: Arc<Gauges>,
    began: Instant,
    /// Of servers with the streams adapter.
    stream: Name,
    stream_is_down: bool,
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
        self.carry_out();
        loop {
            tokio::select! {
                () = bell.rung.notified() => {
                    if self.overheard_some(&mut heard).is_break() {
                        return;
                    }
                }
                news = feed.next() => match news {
                    Some(news) => self.news(news),
                    None => return,
                },
                Some(news) = entries.recv() => self.stream_news(news),
                Some((namespace, counted)) = counted.recv() => {
                    let now_ms = self.now_ms();
                    self.plane.counted(&namespace, counted, now_ms);
                    self.inbox.counts_foreign(&namespace, self.plane.others(&namespace));
                }
                _ = ticks.tick() => {
                    bell.rung.notify_one();
                    let now_ms = self.now_ms();
                    self.plane.tick(now_ms);
                    bell.is_awake.store(self.plane.has_others(), Ordering::Relaxed);
                }
            }
            self.carry_out();
        }
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn enter(&mut self, namespace: &str) {
        if self.entered.len() < NAMESPACES_MAX && self.entered.insert(namespace.to_owned()) {
            let now_ms = self.now_ms();
            self.plane.enter(namespace, now_ms);
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
                self.enter(&namespace);
                return self.plane.room(&namespace, &room, came);
            }
        };
        let weight = bytes.len() + OVERHEAD_BYTES;
        self.gauges
            .waiting_bytes
            .fetch_sub(weight, Ordering::Relaxed);
        match overhear(&bytes) {
            Ok(Overheard::Deed(deed)) => self.said(shard, deed),
            Ok(Overheard::Ours) => {}
            Ok(Overheard::Response {
                round,
                parts,
                response,
            }) => self.plane.answered(round, part(parts, response)),
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
        let (verb, question) = said(to, deed.what);
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
            News::Up | News::Heard(_) | News::Unheard(_) => {}
        }
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
        let tally = self.gauges.tally.lock();
        *tally.unwrap_or_else(PoisonError::into_inner) = self.plane.tally();
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
        let is_news = !self.plane.has_others();
        tokio::spawn(async move {
            let mut counted = count_once(&engine, &counters).await;
            if is_news && let Some(first) = counted.filter(Counted::has_others) {
                tokio::time::sleep(DOUBT).await;
                let again = count_once(&engine, &counters).await;
                counted = again.map(|again| again.at_least(first));
            }
            let _ = counts.send((namespace, counted));
        });
    }

    fn carry(&self, letter: Letter, question: Option<u64>) {
        if let Some(deed) = deed(letter, question) {
            self.deliver(&self.inbox.deed(deed));
        }
    }

    fn reply(&self, reply: Reply) {
        let parts = u16::try_from(reply.servers).unwrap_or(u16::MAX);
        let Round { shard, number } = reply.round;
        let response = response(reply.told);
        self.deliver(&self.inbox.response(shard, number, parts, response));
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

/// Subscribers in the order of [`compat::plane::Counters`]; a Redis older than 7.0 has no sharded channels.
async fn count_once(engine: &Engine, counters: &Counters) -> Option<Counted> {
    let names = |names: &[String]| names.iter().map(|one| name(one)).collect::<Vec<_>>();
    let (classic, sharded) = (names(&counters.channels), names(&counters.sharded));
    let classic = engine.subscribers(Kind::Classic, &classic);
    let sharded = engine.subscribers(Kind::Sharded, &sharded);
    match tokio::join!(classic, sharded) {
        (Ok(classic), sharded) => Some(counted(&classic, &sharded.unwrap_or_default())),
        (Err(_), _) => None,
    }
}

fn counted(classic: &[u64], sharded: &[u64]) -> Counted {
    let pair = |counts: &[u64], at: usize| {
        let one = |at| counts.get(at).copied().unwrap_or(0);
        [one(at), one(at + 1)]
    };
    Counted([pair(classic, 0), pair(sharded, 0), pair(classic, 2)])
}

/// A deed of ours in the words of other servers; number and timeout in milliseconds of a question.
fn said(to: Selection, what: What) -> (Verb, Option<(u64, u64)>) {
    let of = to;
    match what {
        What::Event(event) => {
            let event = event_of(event);
            (Verb::Broadcast { to: of, event }, None)
        }
        What::Ask {
            event,
            round,
            timeout_ms,
        } => {
            let ask = Verb::Ask {
                request: String::new(),
                to: of,
                event: event_of(event),
                timeout_ms: Some(timeout_ms),
            };
            (ask, Some((round, timeout_ms)))
        }
        What::Join(rooms) => (Verb::Join { of, rooms }, None),
        What::Leave(rooms) => (Verb::Leave { of, rooms }, None),
        What::Disconnect { close } => (Verb::Disconnect { of, close }, None),
        What::Fetch { round, timeout_ms } => {
            let request = String::new();
            (Verb::Fetch { request, of }, Some((round, timeout_ms)))
        }
        What::Server { event, round } => {
            let request = None;
            let args = args(event.content).named(&event.name);
            (Verb::ServerEmit { request, args }, round)
        }
    }
}

fn event_of(event: Event) -> verb::Event {
    verb::Event {
        name: event.name,
        args: args(event.content),
        volatile: event.volatile,
    }
}

fn args(answer: Answer) -> Args {
    let Answer { args, attachments } = answer;
    Args {
        json: args,
        attachments,
    }
}

fn answer(args: Args) -> Answer {
    Answer {
        args: args.json,
        attachments: args.attachments,
    }
}

/// What a shard of ours says to a question of other servers. Sockets that could not be asked count: the asker must not take the
/// answers for all.
fn part(parts: u16, response: Response) -> Part {
    let parts = u64::from(parts);
    match response {
        Response::Delivered { asked, undelivered } => Part::Asked {
            sockets: asked.saturating_add(undelivered),
            parts,
        },
        Response::Ack(answer) => Part::Ack(args(answer)),
        Response::Gone => Part::Gone,
        Response::Sockets(found) => {
            let socket = |socket: Fetched| verb::Fetched {
                id: socket.id,
                rooms: socket.rooms,
                data: socket.data,
            };
            let sockets = found.sockets.into_iter().map(socket).collect();
            Part::Found { sockets, parts }
        }
    }
}

/// What other servers say to a question of ours.
fn response(told: Told) -> Response {
    match told {
        Told::Count(asked) => Response::Delivered {
            asked: asked.unwrap_or(0),
            undelivered: u64::from(asked.is_none()),
        },
        Told::Ack(args) => Response::Ack(answer(args)),
        Told::Sockets(found) => {
            let complete = found.is_some();
            let socket = |socket: verb::Fetched| Fetched {
                id: socket.id,
                rooms: socket.rooms,
                data: socket.data,
            };
            let sockets = found.unwrap_or_default().into_iter().map(socket).collect();
            Response::Sockets(Found { sockets, complete })
        }
    }
}

/// What other servers want, in the hubs' words.
fn deed(letter: Letter, question: Option<u64>) -> Option<Deed> {
    let round = question.unwrap_or(0);
    let (of, what) = match letter.verb {
        Verb::Broadcast { to, event } => (to, What::Event(event_for(event))),
        Verb::Ask {
            to,
            event,
            timeout_ms,
            ..
        } => {
            let ask = What::Ask {
                event: event_for(event),
                round,
                timeout_ms: timeout_ms.unwrap_or(ASK_MS),
            };
            (to, ask)
        }
        Verb::Join { of, rooms } => (of, What::Join(rooms)),
        Verb::Leave { of, rooms } => (of, What::Leave(rooms)),
        Verb::Disconnect { of, close } => (of, What::Disconnect { close }),
        Verb::Fetch { of, .. } => {
            let fetch = What::Fetch {
                round,
                timeout_ms: FETCH_MS,
            };
            (of, fetch)
        }
        Verb::ServerEmit { args, .. } => {
            let (name, args) = args.split_name()?;
            let event = Event {
                name,
                content: answer(args),
                volatile: false,
            };
            let round = question.map(|round| (round, ASK_MS));
            (Selection::default(), What::Server { event, round })
        }
        _ => return None,
    };
    Some(Deed {
        namespace: letter.namespace,
        rooms: of.rooms,
        users: Vec::new(),
        except: of.except,
        what,
    })
}

fn event_for(event: verb::Event) -> Event {
    Event {
        name: event.name,
        content: answer(event.args),
        volatile: event.volatile,
    }
}
