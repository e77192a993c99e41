//! The workers of one life of a node, and what is between them and its hubs.

use super::books::Books;
use super::deeds::Deeds;
use super::worker::{BACKEND, Voice, Worker};
use backend::proto::{FromWorker, ToWorker};
use backend::{Backend, Frame, Link, Out, Settings, Up};
use fastrand::Rng;
use hub::{Keeping, Process, Whereabouts};
use prost::Message;
use rules::{Bags, Line, Word};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const WORKERS: usize = 2;
/// The first publisher in the books that is a worker.
pub(crate) const PUBLISHERS: usize = 1_000_000;

/// What hubs say to the backend, until it is read.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Said>);

#[derive(Default)]
struct Said {
    ups: Vec<Up>,
    /// Bytes of the lists of this turn, and of its last one.
    lists: (usize, usize),
    /// A letter of another hub is read: lists that it ends come in one piece, as the end of a node ends all that wait for it.
    letter: Option<Ended>,
}

/// Whether the letter has ended a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Nothing,
    Lists,
}

impl Queue {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<Up> {
        std::mem::take(&mut self.said().ups)
    }

    pub(crate) fn begin_letter(&self) {
        self.said().letter = Some(Ended::Nothing);
    }

    pub(crate) fn end_letter(&self) {
        self.said().letter = None;
    }

    /// Bytes of the lists of sockets that a turn made before its last one. The next turn begins.
    pub(crate) fn end_turn(&self) -> usize {
        let (all, last) = std::mem::take(&mut self.said().lists);
        all - last
    }
}

impl Line for Queue {
    fn up(&self, up: Up) -> bool {
        let mut said = self.said();
        // A list of nobody costs a turn nothing.
        if let Up::Found(found) = &up
            && !found.sockets.is_empty()
        {
            let bytes = found
                .sockets
                .iter()
                .map(Message::encoded_len)
                .sum::<usize>();
            let (all, last) = said.lists;
            let goes_on = said.letter == Some(Ended::Lists);
            said.lists = (all + bytes, if goes_on { last + bytes } else { bytes });
            said.letter = said.letter.map(|_| Ended::Lists);
        }
        said.ups.push(up);
        true
    }

    fn decides_openings(&self) -> bool {
        false
    }

    fn connect_timeout(&self) -> Duration {
        Duration::from_millis(Settings::default().connect_timeout_ms)
    }
}

/// What workers meet.
pub(crate) struct Around<'a> {
    pub(crate) now_ms: u64,
    pub(crate) dice: &'a mut Rng,
    pub(crate) books: &'a mut Books,
    pub(crate) deeds: &'a mut Deeds,
    /// The life of their node, and the room of all sockets of the namespace.
    pub(crate) life: usize,
    pub(crate) room: usize,
    /// Workers have news for all.
    pub(crate) speaks: bool,
}

/// The way of what a backend says to the hubs, as its driver has it.
struct Way {
    bags: Bags,
    keeping: Arc<Keeping>,
    whereabouts: Arc<Whereabouts>,
}

impl Way {
    fn hand_on(&mut self, said: Vec<Out>) {
        let shard_of = |socket: &str| self.whereabouts.shard_of(socket);
        self.bags.take(said, &self.keeping, shard_of);
    }
}

pub(crate) struct Office {
    backend: Backend,
    queue: Arc<Queue>,
    way: Way,
    workers: Vec<Worker>,
    /// Lists of sockets that a worker asks for when a client comes.
    lists: usize,
    instances: u64,
    links: u64,
}

/// As the gateway reads it from the stream.
fn read(message: &FromWorker) -> Frame {
    Frame::decode(message.encode_to_vec().into()).expect("a message")
}

impl Office {
    /// Of a process whose hubs are there.
    pub(crate) fn new(queue: Arc<Queue>, process: &Process, shards: u16, lists: usize) -> Self {
        let settings = Settings {
            window_bytes: 2_000,
            silent_after_ms: 1_000,
            stalled_after_ms: 1_500,
            shards,
            ..Settings::default()
        };
        let keeping = process.keeping.get().expect("hubs");
        let line = Arc::clone(&queue) as Arc<dyn Line>;
        let way = Way {
            bags: Bags::new(BACKEND, line, shards),
            keeping: Arc::clone(keeping),
            whereabouts: Arc::clone(&process.whereabouts),
        };
        Self {
            backend: Backend::new(settings),
            queue,
            way,
            workers: Vec::new(),
            lists,
            instances: 0,
            links: 0,
        }
    }

    /// All links are cut. What came by them is carried out.
    pub(crate) fn cut_all(&mut self, around: &mut Around<'_>) {
        for at in 0..self.workers.len() {
            self.cut_one(at, around);
        }
    }

    /// Another process goes on with what this one knows: workers come back to it by new links.
    pub(crate) fn bequeath(&mut self, heir: &mut Self, around: &mut Around<'_>) {
        self.hear(around.now_ms);
        let record = self.backend.record(around.now_ms);
        let arrived = heir.backend.arrive(around.now_ms, &record, &HashSet::new());
        arrived.expect("a record of a backend");
        heir.workers = std::mem::take(&mut self.workers);
        (heir.instances, heir.links) = (self.instances, self.links);
    }

    /// Sockets that the backend believes in, and bytes that it keeps.
    pub(crate) fn kept(&self) -> (usize, usize) {
        (self.backend.sockets(), self.backend.bytes())
    }

    /// All that is due; words for handlers, by their hub.
    pub(crate) fn step(&mut self, around: &mut Around<'_>) -> Vec<(usize, Word)> {
        let now_ms = around.now_ms;
        self.backend.tick(now_ms);
        self.hear(now_ms);
        while self.workers.len() < WORKERS {
            self.instances += 1;
            let publisher = around.books.newcomer(PUBLISHERS);
            let worker = Worker::new(self.instances, publisher, self.lists);
            self.workers.push(worker);
        }
        for at in 0..self.workers.len() {
            self.attach(at, around);
            self.talk(at, around);
        }
        for (link, _) in self.backend.take_ended() {
            let mut workers = self.workers.iter_mut();
            if let Some(worker) = workers.find(|worker| worker.link == Some(link)) {
                (worker.link, worker.back_at) = (None, now_ms + 50);
            }
        }
        self.carry_out()
    }

    fn hear(&mut self, now_ms: u64) {
        for up in self.queue.take() {
            self.backend.up(now_ms, up);
        }
    }

    /// What hubs have said is heard, and what follows is said to them. Workers wait.
    pub(crate) fn come_to_rest(&mut self, around: &mut Around<'_>) -> Vec<(usize, Word)> {
        self.hear(around.now_ms);
        self.carry_out()
    }

    /// Lists that workers wait for.
    pub(crate) fn lists(&self) -> usize {
        self.workers.iter().map(Worker::waits_for).sum()
    }

    /// The queue by which its hubs speak to it.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    /// Nothing of what was said waits any more: each word, with the hub by which it goes.
    fn carry_out(&mut self) -> Vec<(usize, Word)> {
        self.way.hand_on(self.backend.take_out());
        self.way.bags.send_all();
        let words = self.way.bags.words();
        words.map(|(by, word)| (usize::from(by), word)).collect()
    }

    fn attach(&mut self, at: usize, around: &mut Around<'_>) {
        let (now_ms, worker) = (around.now_ms, &mut self.workers[at]);
        if worker.link.is_some() || now_ms < worker.back_at.max(worker.frozen_until) {
            return;
        }
        self.links += 1;
        let link = Link(self.links);
        let welcome = self.backend.attach(now_ms, link, &worker.hello());
        let welcome = welcome.expect("it may come");
        if worker.is_forgotten(&welcome) {
            around.books.end_publisher(worker.publisher);
            worker.begin_anew(around.books.newcomer(PUBLISHERS));
        }
        worker.is_welcomed(link, &welcome, now_ms);
    }

    fn talk(&mut self, at: usize, around: &mut Around<'_>) {
        let (now_ms, worker) = (around.now_ms, &mut self.workers[at]);
        let Some(link) = worker.link else { return };
        while let Some(message) = self.backend.poll(now_ms, link) {
            let message = ToWorker::decode(message).expect("a message");
            let at_ms = now_ms + around.dice.u64(..10);
            worker.down.push_back((at_ms, message));
        }
        while let Some((_, frame)) = worker.up.pop_front_if(|up| up.0 <= now_ms) {
            if self.backend.received(now_ms, link, read(&frame)).is_err() {
                // It was given up meanwhile.
                self.backend.detached(now_ms, link);
                (worker.link, worker.back_at) = (None, now_ms + 50);
                return;
            }
            self.way.hand_on(self.backend.take_out());
        }
        if now_ms < worker.frozen_until {
            return;
        }
        while let Some((_, message)) = worker.down.pop_front_if(|down| down.0 <= now_ms) {
            worker.get(message);
        }
        let has_news = around.speaks && around.dice.u8(..) < 12;
        let most = around.dice.usize(..6);
        let at_ms = now_ms + around.dice.u64(..10);
        let mut voice = Voice {
            books: around.books,
            deeds: around.deeds,
            life: around.life,
            room: around.room,
        };
        worker.work(most, has_news, &mut voice, at_ms);
    }

    // ---- trouble ----------------------------------------------------------------------------------------------------------

    /// What is under way in either direction is lost from some point on.
    pub(crate) fn cut(&mut self, around: &mut Around<'_>) {
        let at = around.dice.usize(..WORKERS);
        self.cut_one(at, around);
    }

    fn cut_one(&mut self, at: usize, around: &mut Around<'_>) {
        let Some(worker) = self.workers.get_mut(at) else {
            return;
        };
        let Some(link) = worker.link.take() else {
            return;
        };
        let (down, up) = (worker.down.len(), worker.up.len());
        worker.down.truncate(around.dice.usize(..=down));
        worker.up.truncate(around.dice.usize(..=up));
        while let Some((_, message)) = worker.down.pop_front() {
            worker.get(message);
        }
        for (_, frame) in worker.up.drain(..) {
            // The node may have given it up.
            let _ = self.backend.received(around.now_ms, link, read(&frame));
        }
        self.backend.detached(around.now_ms, link);
        worker.back_at = around.now_ms + around.dice.u64(..900);
    }

    pub(crate) fn freeze(&mut self, around: &mut Around<'_>) {
        let at = around.dice.usize(..WORKERS);
        if let Some(worker) = self.workers.get_mut(at) {
            worker.frozen_until = around.now_ms + around.dice.u64(100..2_500);
        }
    }

    pub(crate) fn kill(&mut self, around: &mut Around<'_>) {
        let at = around.dice.usize(..WORKERS);
        self.cut_one(at, around);
        if at < self.workers.len() {
            let worker = self.workers.remove(at);
            around.books.end_publisher(worker.publisher);
        }
    }

    pub(crate) fn heal(&mut self) {
        for worker in &mut self.workers {
            (worker.frozen_until, worker.back_at) = (0, 0);
        }
    }
}
