//! Subscriptions: which topics are wanted, and on which connection each is held.
//!
//! What the server *confirms* counts, by name: a client library that counts answers is misled by a server that unsubscribes on its
//! own when a slot moves. Topics are subscribed at masters only, since a replica that changes its master says nothing, and one
//! command each, since a command with channels of several slots is refused. A classic channel stays where it is held while that
//! server belongs to the whole, so that no message comes twice.

use super::conn::Conn;
use super::ear::{Call, Ear, EarId, Hearing, Link};
use super::keeper::Event;
use super::settings::{Addr, Settings};
use super::topology::Topology;
use crate::cluster::engine::{Kind, News, Topic, Trouble};
use crate::cluster::feed::Source;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// A confirmation that is not there after so long does not come.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(3);
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
    since: Instant,
}

#[derive(Debug)]
pub(super) struct Ears {
    settings: Arc<Settings>,
    source: Source,
    events: UnboundedSender<Event>,
    topics: HashMap<Topic, Entry>,
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
            });
            entry.wanted = true;
            self.review(&topic, topology);
        }
    }

    pub(super) fn unsubscribe(&mut self, topics: &[Topic], topology: &Topology) {
        for topic in topics {
            if let Some(entry) = self.topics.get_mut(topic) {
                entry.wanted = false;
                self.review(topic, topology);
            }
        }
    }

    /// Does for a topic what is to be done next.
    fn review(&mut self, topic: &Topic, topology: &Topology) {
        let Some(entry) = self.topics.get(topic) else {
            return;
        };
        match (entry.wanted, entry.state) {
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
        if was != is {
            entry.since = Instant::now();
        }
        entry.state = state;
        match (was, is && entry.wanted) {
            (false, true) => self.heard.push(topic.clone()),
            (true, false) if entry.wanted => self.unheard.push(topic.clone()),
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

    /// Some of these were refused. Those that are not confirmed are tried again, once it is known where.
    pub(super) fn refused(&mut self, id: EarId, topics: &[Topic], why: Trouble) {
        self.refusal = Some(why);
        for topic in topics {
            let state = self.topics.get(topic).map(|entry| entry.state);
            if state == Some(State::Asked(id)) {
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
        let now = Instant::now();
        let late = |entry: &Entry| match entry.state {
            State::Asked(_) | State::Leaving(_) => now - entry.since > CONFIRM_TIMEOUT,
            _ => false,
        };
        let overdue = self.topics.iter().filter(|(_, entry)| late(entry));
        let overdue: Vec<Topic> = overdue.map(|(topic, _)| topic.clone()).collect();
        overdue
            .iter()
            .for_each(|topic| self.set(topic, State::Idle));
        self.ears.retain(|addr, ear| {
            let needed = topology.servers.contains(addr);
            needed || ear.is_quiet(now)
        });
        for (addr, ear) in &self.ears {
            ear.probe(addr, &self.events);
        }
        self.review_all(topology);
    }

    /// Why not everything is heard; `None` = it is, or will be shortly.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let now = Instant::now();
        let missing = |entry: &&Entry| entry.wanted && !matches!(entry.state, State::Bound(_));
        let mut missing = self.topics.values().filter(missing).peekable();
        missing.peek()?;
        let closed = self.ears.values().find_map(|ear| ear.trouble());
        let late = missing.any(|entry| now - entry.since > UNHEARD_TIMEOUT);
        let silent = || Trouble::new("cannot subscribe: Redis does not confirm it");
        let refusal = || self.refusal.clone().unwrap_or_else(silent);
        closed.or_else(|| late.then(refusal))
    }

    /// Whether every wanted topic is heard.
    pub(super) fn is_whole(&self) -> bool {
        let whole = |entry: &Entry| !entry.wanted || matches!(entry.state, State::Bound(_));
        self.topics.values().all(whole)
    }
}
