//! Subscriptions: which topics are wanted, and on which connection each is held.
//!
//! What the server *confirms* counts, by name: a client library that counts answers is misled by a server that unsubscribes on its
//! own when a slot moves. Topics are subscribed at masters only, since a replica that changes its master says nothing, and one
//! command each, since a command with channels of several slots is refused. A classic channel stays where it is held while that
//! server belongs to the whole, so that no message comes twice.

use super::conn::Conn;
use super::ear::{Call, Ear, Hearing, Link};
use super::event::{EarId, Event};
use super::settings::{Addr, Settings};
use super::topology::Topology;
use crate::engine::{Kind, News, Topic, Trouble};
use crate::feed::Source;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// A confirmation that is not there after so long does not come.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(3);
/// Between two tries where a slot is.
const MOVED_PAUSE: Duration = Duration::from_millis(20);
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Topics that are not heard for so long are a trouble.
const UNHEARD_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nowhere.
    Idle,
    /// The command is sent.
    Asked(EarId),
    Bound(EarId),
    /// The command to end it is sent.
    Leaving(EarId),
}

#[derive(Debug)]
struct Entry {
    wanted: bool,
    state: State,
    /// Bound, or not bound, since then.
    since: Instant,
    /// The state is this one since then.
    changed: Instant,
    /// It is not asked for before: a server refused it.
    not_before: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Ears {
    settings: Arc<Settings>,
    source: Source,
    events: UnboundedSender<Event>,
    topics: HashMap<Topic, Entry>,
    /// Those of them that are wanted and not bound: few, however many topics there are.
    missing: HashSet<Topic>,
    ears: HashMap<Addr, Ear>,
    last: EarId,
    calls: HashMap<Addr, Vec<Call>>,
    heard: Vec<Topic>,
    unheard: Vec<Topic>,
    /// Why topics were refused last.
    refusal: Option<Trouble>,
}

impl Ears {
    pub(super) fn new(
        settings: Arc<Settings>,
        source: Source,
        events: UnboundedSender<Event>,
    ) -> Self {
        Self {
            settings,
            source,
            events,
            topics: HashMap::new(),
            missing: HashSet::new(),
            ears: HashMap::new(),
            last: EarId::default(),
            calls: HashMap::new(),
            heard: Vec::new(),
            unheard: Vec::new(),
            refusal: None,
        }
    }

    pub(super) fn subscribe(&mut self, topics: Vec<Topic>, topology: &Topology) {
        for topic in topics {
            let entry = self.topics.entry(topic.clone());
            let entry = entry.or_insert_with(|| Entry {
                wanted: true,
                state: State::Idle,
                since: Instant::now(),
                changed: Instant::now(),
                not_before: None,
            });
            entry.wanted = true;
            if !matches!(entry.state, State::Bound(_)) {
                self.missing.insert(topic.clone());
            }
            self.review(&topic, topology);
        }
    }

    pub(super) fn unsubscribe(&mut self, topics: &[Topic], topology: &Topology) {
        for topic in topics {
            if let Some(entry) = self.topics.get_mut(topic) {
                entry.wanted = false;
                self.missing.remove(topic);
                self.review(topic, topology);
            }
        }
    }

    /// Does for a topic what is to be done next.
    fn review(&mut self, topic: &Topic, topology: &Topology) {
        let Some(entry) = self.topics.get(topic) else {
            return;
        };
        let now = Instant::now();
        match (entry.wanted, entry.state) {
            (true, State::Idle) if entry.not_before.is_some_and(|then| then > now) => {}
            (true, State::Idle) => self.ask(topic, topology),
            (false, State::Idle) => drop(self.topics.remove(topic)),
            (false, State::Bound(id)) => {
                if let Some(addr) = self.addr_of(id) {
                    self.call(addr, Call::Unsubscribe(topic.clone()));
                    self.set(topic, State::Leaving(id));
                }
            }
            (true, State::Bound(id)) => self.move_home(topic, id, topology),
            _ => {}
        }
    }

    /// Tries those that are not heard.
    pub(super) fn review_missing(&mut self, topology: &Topology) {
        let topics: Vec<Topic> = self.missing.iter().cloned().collect();
        topics.iter().for_each(|topic| self.review(topic, topology));
    }

    /// Looks at all topics: the topology has changed.
    pub(super) fn review_all(&mut self, topology: &Topology) {
        let topics: Vec<Topic> = self.topics.keys().cloned().collect();
        topics.iter().for_each(|topic| self.review(topic, topology));
    }

    fn ask(&mut self, topic: &Topic, topology: &Topology) {
        let Some(addr) = topology.home(topic).cloned() else {
            return;
        };
        self.open(&addr);
        if let Some(ear) = self.ears.get(&addr)
            && matches!(ear.link, Link::Open(_))
        {
            let id = ear.id;
            self.call(addr, Call::Subscribe(topic.clone()));
            self.set(topic, State::Asked(id));
        }
    }

    /// Opens a connection to a server, unless there is one or it is too early.
    fn open(&mut self, addr: &Addr) {
        let ear = self.ears.entry(addr.clone()).or_default();
        if !ear.may_open() {
            return;
        }
        self.last = self.last.next();
        ear.id = self.last;
        ear.link = Link::Opening;
        let hearing = Hearing {
            addr: addr.clone(),
            id: self.last,
            source: self.source.clone(),
            events: self.events.clone(),
        };
        tokio::spawn(hearing.open(Arc::clone(&self.settings)));
    }

    /// A topic whose slot has another owner now, or whose server is gone.
    fn move_home(&mut self, topic: &Topic, id: EarId, topology: &Topology) {
        let Some(addr) = self.addr_of(id) else { return };
        let sharded = matches!(topic, Topic::Channel(Kind::Sharded, _));
        let stays = match sharded {
            true => topology.home(topic).is_none_or(|home| *home == addr),
            false => topology.servers.contains(&addr),
        };
        if stays {
            return;
        }
        self.call(addr, Call::Unsubscribe(topic.clone()));
        self.set(topic, State::Idle);
        self.ask(topic, topology);
    }

    fn addr_of(&self, id: EarId) -> Option<Addr> {
        let found = self.ears.iter().find(|(_, ear)| ear.id == id);
        found.map(|(addr, _)| addr.clone())
    }

    fn call(&mut self, addr: Addr, call: Call) {
        self.calls.entry(addr).or_default().push(call);
    }

    fn set(&mut self, topic: &Topic, state: State) {
        let Some(entry) = self.topics.get_mut(topic) else {
            return;
        };
        let was = matches!(entry.state, State::Bound(_));
        let is = matches!(state, State::Bound(_));
        entry.changed = Instant::now();
        if was != is {
            entry.since = entry.changed;
        }
        entry.state = state;
        if is {
            entry.not_before = None;
        }
        match (was, is) {
            _ if !entry.wanted => {}
            (false, true) => {
                self.missing.remove(topic);
                self.heard.push(topic.clone());
            }
            (true, false) => {
                self.missing.insert(topic.clone());
                self.unheard.push(topic.clone());
            }
            _ => {}
        }
    }

    /// Sends what was gathered, in one write for each server, and tells what changed.
    pub(super) fn flush(&mut self) {
        for (addr, calls) in self.calls.drain() {
            if let Some(ear) = self.ears.get(&addr) {
                ear.send(&addr, calls, &self.events);
            }
        }
        if !self.unheard.is_empty() {
            let topics = std::mem::take(&mut self.unheard);
            self.source.tell(News::Unheard(topics));
        }
        if !self.heard.is_empty() {
            let topics = std::mem::take(&mut self.heard);
            self.source.tell(News::Heard(topics));
        }
    }

    // ---- what happens on connections ------------------------------------------------------------------------------------

    pub(super) fn opened(
        &mut self,
        addr: &Addr,
        id: EarId,
        conn: Result<Conn, Trouble>,
        topology: &Topology,
    ) {
        let Some(ear) = self.ears.get_mut(addr).filter(|ear| ear.id == id) else {
            return;
        };
        match conn {
            Ok(conn) => {
                ear.is_open(conn);
                self.review_all(topology);
            }
            Err(trouble) => ear.is_closed(trouble),
        }
    }

    /// A connection is lost, with all that was subscribed on it.
    pub(super) fn lost(&mut self, addr: &Addr, id: EarId, trouble: Trouble, topology: &Topology) {
        let Some(ear) = self.ears.get_mut(addr).filter(|ear| ear.id == id) else {
            return;
        };
        ear.is_closed(trouble);
        let mut held = Vec::new();
        for (topic, entry) in &self.topics {
            match entry.state {
                State::Asked(on) | State::Bound(on) | State::Leaving(on) if on == id => {
                    held.push(topic.clone());
                }
                _ => {}
            }
        }
        held.iter().for_each(|topic| self.set(topic, State::Idle));
        held.iter().for_each(|topic| self.review(topic, topology));
    }

    /// A topic is subscribed on this connection now.
    pub(super) fn confirmed(&mut self, id: EarId, topic: &Topic, topology: &Topology) {
        let asked = |entry: &&Entry| matches!(entry.state, State::Asked(on) if on == id);
        if self.topics.get(topic).filter(asked).is_some() {
            self.set(topic, State::Bound(id));
            self.review(topic, topology);
        }
    }

    /// A topic is not subscribed on this connection any more. Returns whether the server did so on its own: then its slot has
    /// another owner.
    pub(super) fn ended(&mut self, id: EarId, topic: &Topic, topology: &Topology) -> bool {
        match self.topics.get(topic).map(|entry| entry.state) {
            Some(State::Leaving(on)) if on == id => {
                self.set(topic, State::Idle);
                self.review(topic, topology);
                false
            }
            Some(State::Bound(on)) if on == id => {
                self.set(topic, State::Idle);
                true
            }
            _ => false,
        }
    }

    /// Some of these were refused. Those that are not confirmed are tried again, once it is known where; if a slot did not move,
    /// not before a second is over.
    pub(super) fn refused(&mut self, id: EarId, topics: &[Topic], moved: bool, why: Trouble) {
        let pause = if moved { MOVED_PAUSE } else { REFUSED_PAUSE };
        self.refusal = Some(why);
        for topic in topics {
            let Some(entry) = self.topics.get_mut(topic) else {
                continue;
            };
            if entry.state == State::Asked(id) {
                entry.not_before = Some(Instant::now() + pause);
                self.set(topic, State::Idle);
            }
        }
    }

    /// Takes all connections for lost.
    pub(super) fn doubt(&mut self, topology: &Topology) {
        let ears = self.ears.iter().map(|(addr, ear)| (addr.clone(), ear.id));
        for (addr, id) in ears.collect::<Vec<_>>() {
            let why = "messages do not come back, though the connection stands";
            let trouble = Trouble::new(format!("cannot hear Redis at {addr}: {why}"));
            self.lost(&addr, id, trouble, topology);
        }
    }

    /// Looks after everything, once a second.
    pub(super) fn tick(&mut self, topology: &Topology) {
        self.leave_strangers(topology);
        let now = Instant::now();
        let late = |entry: &Entry| match entry.state {
            State::Asked(_) | State::Leaving(_) => now - entry.changed > CONFIRM_TIMEOUT,
            _ => false,
        };
        let overdue = self.topics.iter().filter(|(_, entry)| late(entry));
        let overdue: Vec<Topic> = overdue.map(|(topic, _)| topic.clone()).collect();
        for topic in &overdue {
            self.set(topic, State::Idle);
            self.review(topic, topology);
        }
        for (addr, ear) in &self.ears {
            ear.probe(addr, &self.events);
        }
        self.review_missing(topology);
    }

    /// Closes connections to servers that are not masters any more.
    fn leave_strangers(&mut self, topology: &Topology) {
        let strange = |addr: &&Addr| !topology.servers.contains(addr);
        let strangers: Vec<Addr> = self.ears.keys().filter(strange).cloned().collect();
        for addr in strangers {
            let id = self.ears[&addr].id;
            let trouble = Trouble::new(format!("Redis at {addr} is no master any more"));
            self.lost(&addr, id, trouble, topology);
            self.ears.remove(&addr);
        }
    }

    /// Why not everything is heard; `None` = it is, or will be shortly.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        if self.is_whole() {
            return None;
        }
        let now = Instant::now();
        let mut missing = self
            .missing
            .iter()
            .filter_map(|topic| self.topics.get(topic));
        let closed = self.ears.values().find_map(Ear::trouble);
        let late = missing.any(|entry| now - entry.since > UNHEARD_TIMEOUT);
        let silent = || Trouble::new("cannot subscribe: Redis does not confirm it");
        let refusal = || self.refusal.clone().unwrap_or_else(silent);
        closed.or_else(|| late.then(refusal))
    }

    /// Whether every wanted topic is heard.
    pub(super) fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }
}
