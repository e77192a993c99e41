//! A member of clusters of Socket.IO servers: what it listens to, what it says there, and what its own hubs are to do.
//!
//! # Contract
//!
//! The driver owns the connection to Redis and the way to the hubs.
//!
//! 1. `enter` a namespace before anything else is done with it.
//! 2. `heard` and `heard_entry` for what comes from Redis; `counted` for a count that was asked for.
//! 3. `say` for what hubs do on all nodes, `ask` for what they ask, `answered` for what they answer.
//! 4. `tick` every 100 ms.
//! 5. After each of these, `take` the tasks and carry them out in order.

mod hearing;

use crate::clustered::{self, Post};
pub use crate::dialect::{Counted, Counters, Dialect, Membership, Settings, Topic};
use crate::names::Names;
use crate::others::{Asker, OtherQuestions};
use crate::ours::OurQuestions;
pub use crate::question::{Part, Reply, Round, Told};
use crate::refused::Refused;
use crate::space::{self, Pending, Space};
use crate::verb::{Answer, Letter, Verb};
use crate::{classic, python};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use wire::json;

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Listen.
    Subscribe(Vec<Topic>),
    /// Listen no longer.
    Unsubscribe(Vec<Topic>),
    /// PUBLISH.
    Publish(classic::Publish),
    /// SPUBLISH.
    PublishSharded(classic::Publish),
    /// XADD to the stream.
    Append([(&'static str, String); 4]),
    /// Count subscribers of [`Plane::counters`] and report them by [`Plane::counted`].
    Count(String),
    /// For the sockets of this node: an order, or a question if it has a number.
    Carry {
        /// What other servers want.
        letter: Letter,
        /// What [`Plane::answered`] is to name.
        question: Option<u64>,
    },
    /// For the hub that asked.
    Reply(Reply),
}

/// By which subscription a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// PSUBSCRIBE.
    Pattern,
    /// SUBSCRIBE.
    Channel,
    /// SSUBSCRIBE.
    Sharded,
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages taken, by dialect; the last is python-socketio's.
    pub taken: [u64; 4],
    /// Messages written, by dialect.
    pub written: [u64; 4],
    /// Messages refused, in the order of [`Refused::ALL`].
    pub refused: [u64; Refused::ALL.len()],
    /// Events and questions for servers that would have ended one of them.
    pub withheld: u64,
    /// Lists that were not sent because they were too large, or incomplete.
    pub cut: u64,
    /// Questions that were not put, because too many were open: of other servers, and of ours.
    pub unasked: [u64; 2],
}

const PYTHON: usize = 3;

/// A member of clusters.
#[derive(Debug)]
pub struct Plane {
    names: Names,
    settings: Settings,
    spaces: HashMap<String, Space>,
    ours: OurQuestions,
    others: OtherQuestions,
    /// Topics that are wanted and not heard now.
    unheard: HashSet<Topic>,
    tasks: Vec<Task>,
    tally: Tally,
}

impl Plane {
    /// A member that listens to nothing yet.
    pub fn new(settings: Settings) -> Self {
        let others = OtherQuestions::new(settings.list_bytes_max);
        let mut plane = Self {
            names: Names::new(&settings.prefix),
            settings,
            spaces: HashMap::new(),
            ours: OurQuestions::default(),
            others,
            unheard: HashSet::new(),
            tasks: Vec::new(),
            tally: Tally::default(),
        };
        if plane.settings.python {
            plane.listen(true, vec![Topic::Channel(python::CHANNEL.to_owned())]);
        }
        plane
    }

    /// Tasks since the last call.
    pub fn take(&mut self) -> Vec<Task> {
        let replies = self.ours.replies().into_iter().map(Task::Reply);
        self.tasks.extend(replies);
        std::mem::take(&mut self.tasks)
    }

    /// How often things happened.
    pub fn tally(&self) -> Tally {
        Tally {
            cut: self.others.cut,
            unasked: [self.others.refused, self.ours.refused],
            ..self.tally
        }
    }

    /// Takes part in a namespace from now on.
    pub fn enter(&mut self, namespace: &str, now_ms: u64) {
        if self.spaces.contains_key(namespace) {
            return;
        }
        self.listen(true, space::topics(&self.names, &self.settings, namespace));
        self.spaces.insert(namespace.to_owned(), Space::new());
        self.count(namespace, true, now_ms);
    }

    /// Takes part in a namespace no longer.
    pub fn leave(&mut self, namespace: &str) {
        let Some(space) = self.spaces.remove(namespace) else {
            return;
        };
        for question in &space.pending {
            self.ours.refuse(question.round, &question.verb);
        }
        let mut topics = space::topics(&self.names, &self.settings, namespace);
        if space.is_in_streams {
            topics.extend(space::streams_topics(
                &self.names,
                &self.settings,
                namespace,
            ));
        }
        if space.sides[Dialect::Sharded as usize].was_there {
            let rooms = space.rooms.keys();
            topics.extend(rooms.map(|room| Topic::Sharded(self.names.room(namespace, room))));
        }
        self.listen(false, topics);
    }

    /// What [`Task::Count`] is about.
    pub fn counters(&self, namespace: &str) -> Counters {
        let (requests, main) = (self.names.requests(namespace), self.names.main(namespace));
        let marker = |of, channel: &str| self.names.marker(of, channel);
        let sharded = || [main.clone(), marker("sharded", &main)];
        Counters {
            sharded: self.settings.hears(Dialect::Sharded).then(sharded),
            channels: [
                requests.clone(),
                marker("classic", &requests),
                main.clone(),
                marker("streams", &main),
            ],
        }
    }

    /// How many others were counted last, by dialect.
    pub fn known(&self, namespace: &str) -> [u64; 3] {
        let space = self.spaces.get(namespace);
        space.map_or([0; 3], |space| {
            space.sides.each_ref().map(|side| side.others)
        })
    }

    fn listen(&mut self, begins: bool, topics: Vec<Topic>) {
        if topics.is_empty() {
            return;
        }
        self.tasks.push(match begins {
            true => {
                self.unheard.extend(topics.iter().cloned());
                Task::Subscribe(topics)
            }
            false => {
                for topic in &topics {
                    self.unheard.remove(topic);
                }
                Task::Unsubscribe(topics)
            }
        });
    }

    /// Redis says that these are heard from now on, or not any more. Questions wait until their answers can be heard.
    pub fn hears(&mut self, topics: impl IntoIterator<Item = Topic>, heard: bool, now_ms: u64) {
        for topic in topics {
            match heard {
                true => self.unheard.remove(&topic),
                false => self.unheard.insert(topic),
            };
        }
        self.put_all(now_ms);
    }

    /// Whether a server is known in some namespace. Without one, nothing that is said leaves.
    pub fn has_others(&self) -> bool {
        let sides = self.spaces.values().flat_map(|space| &space.sides);
        sides.into_iter().any(|side| side.was_there)
    }

    fn count(&mut self, namespace: &str, busy: bool, now_ms: u64) {
        if let Some(space) = self.spaces.get_mut(namespace)
            && space.count(busy, now_ms)
        {
            self.tasks.push(Task::Count(namespace.to_owned()));
        }
    }

    /// A hub of ours has its first member of a room (`came`), or had its last. Servers with the sharded adapter say things to rooms in
    /// channels of their own, which are listened to while there is such a server.
    pub fn room(&mut self, namespace: &str, room: &str, came: bool) {
        let has_channel = clustered::has_channel(self.settings.mode, room);
        if !has_channel || !self.settings.hears(Dialect::Sharded) {
            return;
        }
        let Some(space) = self.spaces.get_mut(namespace) else {
            return;
        };
        let is_heard = space.sides[Dialect::Sharded as usize].was_there;
        if space.note_room(room, came) && is_heard {
            let topics = vec![Topic::Sharded(self.names.room(namespace, room))];
            self.listen(came, topics);
        }
    }

    /// Something is said there: a server that comes is to be known soon.
    pub fn look_for_others(&mut self, namespace: &str, now_ms: u64) {
        self.count(namespace, true, now_ms);
    }

    /// Servers in a namespace, without our own nodes.
    pub fn others(&self, namespace: &str) -> u64 {
        self.known(namespace).iter().sum()
    }

    /// Subscribers were counted; `None` = Redis did not answer.
    pub fn counted(&mut self, namespace: &str, counted: Option<Counted>, now_ms: u64) {
        let Some(space) = self.spaces.get_mut(namespace) else {
            return;
        };
        space.was_counted(now_ms);
        if let Some(mut counted) = counted {
            for dialect in Dialect::ALL {
                if !self.settings.hears(dialect) {
                    counted.0[dialect as usize] = [0, 0];
                }
            }
            space.note(&counted, now_ms);
        } else {
            for question in space.pending.drain(..) {
                self.ours.refuse(question.round, &question.verb);
            }
        }
        self.greet(namespace, now_ms);
        self.put(namespace, now_ms);
    }

    /// Tells servers that appeared what was said lately, and joins or leaves the streams adapter's questions.
    fn greet(&mut self, namespace: &str, now_ms: u64) {
        let Some(space) = self.spaces.get_mut(namespace) else {
            return;
        };
        let mut missed: Vec<(Dialect, Arc<Letter>)> = Vec::new();
        let mut listens: Vec<(bool, Vec<Topic>)> = Vec::new();
        for dialect in Dialect::ALL {
            let side = space.side(dialect);
            let is_there = side.presence.is_there(now_ms);
            if is_there && !side.was_there {
                let tail = side.tail.take(now_ms);
                missed.extend(tail.map(|letter| (dialect, letter)));
            }
            if is_there != side.was_there && dialect == Dialect::Sharded {
                let rooms = space.rooms.keys();
                let topics = rooms.map(|room| Topic::Sharded(self.names.room(namespace, room)));
                listens.push((is_there, topics.collect()));
            }
            space.side(dialect).was_there = is_there;
        }
        let streams = space.sides[Dialect::Streams as usize].was_there;
        if streams != space.is_in_streams {
            space.is_in_streams = streams;
            let topics = space::streams_topics(&self.names, &self.settings, namespace);
            listens.push((streams, topics));
        }
        for (begins, topics) in listens {
            self.listen(begins, topics);
        }
        for (dialect, letter) in missed {
            self.write(dialect, &letter);
        }
    }

    /// A hub does something on all nodes: a broadcast, a join, a leave, a disconnect.
    pub fn say(&mut self, namespace: &str, verb: Verb, now_ms: u64) {
        self.count(namespace, true, now_ms);
        let letter = Arc::new(Letter {
            from: self.settings.uid.clone(),
            namespace: namespace.to_owned(),
            verb,
        });
        if self.settings.python {
            self.write_python(&letter);
        }
        let for_servers = matches!(letter.verb, Verb::ServerEmit { .. });
        let ends_servers = ends_servers(&letter.verb);
        for dialect in Dialect::ALL {
            let Some(space) = self.spaces.get_mut(namespace) else {
                return;
            };
            if ends_servers || for_servers && !space.may_ask(dialect) {
                let is_there = space.sides[dialect as usize].others > 0;
                self.tally.withheld += u64::from(is_there);
                continue;
            }
            let side = space.side(dialect);
            match self.settings.membership[dialect as usize] {
                Membership::Never => {}
                Membership::Auto if !side.presence.is_there(now_ms) => {
                    let bytes = size(&letter.verb);
                    side.tail.push(Arc::clone(&letter), bytes, now_ms);
                }
                Membership::Auto | Membership::Always => self.write(dialect, &letter),
            }
        }
    }

    /// A hub asks the sockets of all servers ([`Verb::Ask`]) or for them ([`Verb::Fetch`]). At least one reply follows.
    pub fn ask(&mut self, namespace: &str, round: Round, verb: Verb, timeout_ms: u64, now_ms: u64) {
        let Some(space) = self.spaces.get_mut(namespace) else {
            self.ours.refuse(round, &verb);
            return;
        };
        space.pending.push(Pending {
            round,
            verb,
            deadline_ms: now_ms.saturating_add(timeout_ms),
        });
        self.count(namespace, true, now_ms);
        self.put(namespace, now_ms);
    }

    /// Puts the questions that wait, unless servers are being counted, or answers would not be heard.
    fn put(&mut self, namespace: &str, now_ms: u64) {
        let Some(space) = self.spaces.get_mut(namespace) else {
            return;
        };
        if space.pending.is_empty() {
            return;
        }
        let over = |question: &mut Pending| question.deadline_ms <= now_ms;
        for question in space.pending.extract_if(.., over) {
            self.ours.refuse(question.round, &question.verb);
        }
        let asked = Dialect::ALL.into_iter().zip(&space.sides);
        let mut asked = asked.filter(|(of, side)| side.others > 0 && space.may_ask(*of));
        let is_deaf = asked.any(|(dialect, _)| {
            let answers = space::answers(&self.names, &self.settings, namespace, dialect);
            answers.iter().any(|topic| self.unheard.contains(topic))
        });
        if is_deaf || space.is_counting() {
            return;
        }
        for question in std::mem::take(&mut space.pending) {
            self.open(namespace, &question, now_ms);
        }
    }

    fn put_all(&mut self, now_ms: u64) {
        let waits =
            |(name, space): (&String, &Space)| (!space.pending.is_empty()).then(|| name.clone());
        let waiting: Vec<String> = self.spaces.iter().filter_map(waits).collect();
        waiting.iter().for_each(|name| self.put(name, now_ms));
    }

    fn open(&mut self, namespace: &str, pending: &Pending, now_ms: u64) {
        let Some(space) = self.spaces.get(namespace) else {
            return;
        };
        let ends_servers = ends_servers(&pending.verb);
        let may = |dialect| !ends_servers && space.may_ask(dialect);
        let asked = Dialect::ALL.into_iter().zip(&space.sides);
        let withheld = asked.filter(|(dialect, side)| side.others > 0 && !may(*dialect));
        self.tally.withheld += withheld.count() as u64;
        let uid = self.settings.uid.clone();
        let letters = self.ours.open(pending, &uid, &space.sides, may, now_ms);
        for (dialect, verb) in letters {
            let letter = Letter {
                from: uid.clone(),
                namespace: namespace.to_owned(),
                verb,
            };
            self.write(dialect, &letter);
        }
    }

    /// A shard of ours says something to a question of [`Task::Carry`].
    pub fn answered(&mut self, question: u64, part: Part) {
        if let Some((to, answer)) = self.others.heard(question, part) {
            self.answer(&to, answer);
        }
    }

    fn answer(&mut self, to: &Asker, answer: Answer) {
        let letter = Letter {
            from: self.settings.uid.clone(),
            namespace: to.namespace.clone(),
            verb: Verb::Answer {
                request: to.request.clone(),
                to: to.uid.clone(),
                answer,
            },
        };
        match to.dialect {
            Some(dialect) => self.write(dialect, &letter),
            None => self.write_python(&letter),
        }
    }

    fn write(&mut self, dialect: Dialect, letter: &Letter) {
        let names = &self.names;
        let task = match dialect {
            Dialect::Classic => classic::encode(names, letter).map(Task::Publish),
            Dialect::Sharded => clustered::encode_sharded(names, letter).map(Task::PublishSharded),
            Dialect::Streams => clustered::encode_streams(names, letter).map(|post| match post {
                Post::Publish(publish) => Task::Publish(publish),
                Post::Entry(fields) => Task::Append(fields),
            }),
        };
        if let Some(task) = task {
            self.tally.written[dialect as usize] += 1;
            self.tasks.push(task);
        }
    }

    fn write_python(&mut self, letter: &Letter) {
        if let Some(body) = python::encode(letter) {
            self.tally.written[PYTHON] += 1;
            let channel = python::CHANNEL.to_owned();
            self.tasks
                .push(Task::Publish(classic::Publish { channel, body }));
        }
    }

    /// Time goes by.
    pub fn tick(&mut self, now_ms: u64) {
        self.ours.expire(now_ms);
        for (to, answer) in self.others.expire(now_ms) {
            self.answer(&to, answer);
        }
        self.put_all(now_ms);
        let namespaces: Vec<String> = self.spaces.keys().cloned().collect();
        for namespace in namespaces {
            self.greet(&namespace, now_ms);
            self.count(&namespace, false, now_ms);
            if let Some(space) = self.spaces.get_mut(&namespace) {
                space
                    .sides
                    .iter_mut()
                    .for_each(|side| side.tail.trim(now_ms));
            }
        }
    }
}

/// Node's servers end with an exception at an event `error` for servers that nobody listens to.
fn ends_servers(verb: &Verb) -> bool {
    match verb {
        Verb::ServerEmit { args, .. } => {
            let name = json::first(&args.json).and_then(json::unquote);
            name.is_some_and(|name| name == "error")
        }
        _ => false,
    }
}

/// About what a letter takes while it is kept.
fn size(verb: &Verb) -> usize {
    let names = |list: &[String]| -> usize { list.iter().map(|name| name.len() + 24).sum() };
    let (of, more) = match verb {
        Verb::Broadcast { to, event } => {
            let attached: usize = event.args.attachments.iter().map(Vec::len).sum();
            (to, event.args.json.len() + attached)
        }
        Verb::Join { of, rooms } | Verb::Leave { of, rooms } => (of, names(rooms)),
        Verb::Disconnect { of, .. } => (of, 0),
        Verb::ServerEmit { args, .. } => return size_of::<Letter>() + args.json.len(),
        _ => return size_of::<Letter>(),
    };
    size_of::<Letter>() + names(&of.rooms) + names(&of.except) + more
}
