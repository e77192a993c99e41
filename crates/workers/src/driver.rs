//! One backend at work: news of shards and frames of workers go in, one after the other.

use super::caller::Caller;
use super::figures::Figures;
use super::glance::{Glance, Seen};
use super::letter::{Called, Letter, Outbox};
use super::pipe::{Pipe, shard_of};
use super::queue::Inlet;
use super::shards::{Served, ToShards};
use super::wishes::Wishes;
use backend::proto::command::What;
use backend::proto::{Hello, ToWorker, Welcome};
use backend::{Backend, Deadly, Frame, Link, Outcome, SeenWorker, Stray, Up};
use bridge::{Failures, Said};
use prost::Message;
use prost::bytes::Bytes;
use rules::{Bags, Doing, Span, TraceParent, Tracer};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tonic::Status;

/// Messages under way to a worker that has not begun what it got: it handles one, and the next is there. Its answers are the clock:
/// what comes meanwhile goes with the next message, and wakes nobody before.
const UNDER_WAY_MAX: u32 = 2;
/// A worker that answers nothing is told more after so long.
const GATHER: Duration = Duration::from_millis(1);
/// Clocks of drivers begin with this: what came before the process began has a time as well.
pub(super) const CLOCK_MS: u64 = 24 * 60 * 60 * 1_000;

/// A link's way to its worker.
struct Way {
    outbox: Outbox,
    /// Open, it is the way of messages; what ends the link goes by the outbox all the same.
    pipe: Option<Arc<Pipe>>,
    under_way: u32,
    /// Since when it has enough under way.
    full_since: Option<Instant>,
}

impl Way {
    fn new(outbox: Outbox, pipe: Option<Arc<Pipe>>) -> Self {
        Self {
            outbox,
            pipe,
            under_way: 0,
            full_since: None,
        }
    }

    fn has_room(&self) -> bool {
        let pipe = self.pipe.as_ref().and_then(|pipe| pipe.has_room());
        pipe.unwrap_or_else(|| self.outbox.capacity() > 0)
    }

    /// To be called when there is room.
    fn send(&self, message: Bytes) {
        let piped = match &self.pipe {
            Some(pipe) => pipe.write(message),
            None => Err(message),
        };
        if let Err(message) = piped {
            // A pipe that was closed meanwhile left the outbox empty. One whose other end has gone is told so by it.
            let _ = self.outbox.try_send(Ok(message));
        }
    }

    fn is_full(&self) -> bool {
        self.full_since.is_some()
    }

    /// So many messages are under way now.
    fn set(&mut self, under_way: u32) {
        self.under_way = under_way;
        self.full_since = match under_way < UNDER_WAY_MAX {
            true => None,
            false => self.full_since.or_else(|| Some(Instant::now())),
        };
    }
}

pub(super) struct Driver {
    backend: Backend,
    /// If its logic is called.
    caller: Option<Caller>,
    served: Served,
    figures: Arc<Figures>,
    shards: Arc<dyn ToShards>,
    bags: Bags,
    started: Instant,
    links: HashMap<Link, Way>,
    links_made: u64,
    tracer: Option<Arc<dyn Tracer>>,
    /// Commands that are taken in and not handed on yet.
    spans: Vec<Span>,
    wishes: Wishes,
    failures: Failures,
    /// `None`: nobody has attached.
    runtime: Option<Handle>,
}

impl Driver {
    pub(super) fn new(
        (name, backend): (String, Backend),
        caller: Option<Caller>,
        served: Served,
        inlet: Arc<Inlet>,
        wishes: Wishes,
        shards: Arc<dyn ToShards>,
        tracer: Option<Arc<dyn Tracer>>,
    ) -> Self {
        Self {
            served: served.of(backend.scope()),
            backend,
            caller,
            figures: Arc::clone(inlet.figures()),
            bags: Bags::new(name, inlet, shards.shards()),
            shards,
            started: Instant::now(),
            links: HashMap::new(),
            links_made: 0,
            tracer,
            spans: Vec::new(),
            wishes,
            failures: Failures::default(),
            runtime: None,
        }
    }

    /// The task that lives with it runs here.
    pub(super) fn open(&mut self, runtime: Handle) {
        self.runtime = Some(runtime);
    }

    pub(super) fn hear(&mut self, news: impl Iterator<Item = Up>) {
        let now_ms = self.now_ms();
        for up in news {
            self.backend.up(now_ms, up);
        }
    }

    /// What is due takes seconds.
    pub(super) fn is_quiet(&self) -> bool {
        self.backend.is_quiet()
    }

    pub(super) fn pass_time(&mut self) {
        let now_ms = self.now_ms();
        self.backend.tick(now_ms);
        self.figures.publish(&self.backend);
        self.wishes.look(now_ms, &self.backend);
        self.caller.iter_mut().for_each(Caller::pass_time);
        self.failures.pass_time();
        let now = Instant::now();
        let pipes = self.links.values().filter_map(|way| way.pipe.as_ref());
        let open = pipes.map(|pipe| {
            pipe.end_if_stuck(now);
            u64::from(pipe.is_open())
        });
        let links = &self.figures.links_of_shards;
        links.store(open.sum(), Ordering::Relaxed);
    }

    /// A record of the backend's state for the process that goes on with it.
    pub(super) fn record(&mut self) -> Vec<u8> {
        let now_ms = self.now_ms();
        self.backend.record(now_ms)
    }

    /// Workers find the process that goes on.
    pub(super) fn cut_links(&mut self) {
        let ways = self.links.drain();
        ways.filter_map(|(_, way)| way.pipe)
            .for_each(|pipe| pipe.cut());
    }

    pub(super) fn send_bags(&mut self) {
        self.bags.send_all();
        self.send_words();
    }

    fn send_words(&mut self) {
        let words = self.bags.words();
        words.for_each(|(by, word)| self.shards.send(by, word));
    }

    /// The link's connection takes more.
    pub(super) fn look_at(&mut self, link: Link) {
        self.backend.look_at(link);
    }

    pub(super) fn look_at_all(&mut self) {
        let links = self.links.keys();
        links.for_each(|link| self.backend.look_at(*link));
    }

    /// Each worker has enough under way: news wait for the first answer.
    pub(super) fn gathers(&self) -> bool {
        !self.links.is_empty() && self.links.values().all(Way::is_full)
    }

    /// When the first worker is told more, although it has answered nothing.
    pub(super) fn patience_ends(&self) -> Option<Instant> {
        let since = self.links.values().filter_map(|way| way.full_since);
        since.min().map(|since| since + GATHER)
    }

    pub(super) fn tell_more(&mut self) {
        if self.patience_ends().is_none() {
            return;
        }
        let now = Instant::now();
        for (link, way) in &mut self.links {
            if way.full_since.is_some_and(|since| now >= since + GATHER) {
                way.set(0);
                self.backend.look_at(*link);
            }
        }
    }

    fn now_ms(&self) -> u64 {
        CLOCK_MS + self.started.elapsed().as_millis() as u64
    }

    pub(super) fn take(&mut self, letter: Letter) {
        let now_ms = self.now_ms();
        match letter {
            Letter::Attach {
                hello,
                outbox,
                pipe,
                answer,
            } => {
                self.links_made += 1;
                let link = Link(self.links_made);
                let welcome = self.backend.attach(now_ms, link, &hello);
                let way = Way::new(outbox, pipe);
                let welcomed = welcome.map(|welcome| self.welcome(&hello, link, welcome, way));
                // The worker may be gone again: then its stream says so.
                let _ = answer.send(welcomed.map(|()| link));
            }
            Letter::Frame(link, frame, share) => {
                self.trace_frame(&frame);
                if let Err(stray) = self.backend.received(now_ms, link, frame) {
                    self.end(link, Status::failed_precondition(stray.message()));
                    self.backend.detached(now_ms, link);
                }
                if share.is_some() {
                    self.backend.confirm(link);
                }
                self.note_answer(link);
            }
            Letter::Heard(link) => self.backend.heard(now_ms, link),
            Letter::Detached(link, fault) => {
                if let Some(fault) = fault {
                    self.end(link, fault);
                    self.backend.garbled(now_ms, link);
                }
                self.links.remove(&link);
                self.backend.detached(now_ms, link);
            }
            Letter::Expelled(link) => self.backend.expel(now_ms, link),
            Letter::Glance(glance) => self.show(now_ms, glance),
            Letter::Called(called) => {
                if let Some(caller) = &mut self.caller {
                    caller.note(now_ms, &called, &self.failures);
                }
                self.trace_answer(&called);
                let (number, outcome) = (called.number, called.outcome);
                let ended = self.backend.call_ended(now_ms, number, outcome);
                if let Some(caller) = &mut self.caller {
                    if let Err(why) = ended {
                        caller.note_refused(&why);
                        self.failures.note("call refused", &why);
                    }
                    caller.note_health(self.backend.endpoint_is_well() == Some(true));
                }
            }
        }
    }

    fn show(&mut self, now_ms: u64, glance: Glance) {
        let mut holder = |socket| self.backend.worker_of(now_ms, socket).map(str::to_owned);
        let holders = glance.sockets.iter().map(&mut holder).collect();
        let seen = Seen {
            holders,
            workers: self.seen_workers(now_ms),
            calls: self.caller.as_mut().map(|caller| caller.figures(now_ms)),
            is_well: self.backend.endpoint_is_well(),
            failures: self.failures.newest(),
        };
        // The one who asked may have gone.
        let _ = glance.answer.send(seen);
    }

    /// The workers, and the shards that serve their links.
    fn seen_workers(&mut self, now_ms: u64) -> Vec<(SeenWorker, Option<u16>)> {
        let workers = self.backend.seen_workers(now_ms).into_iter();
        let served = |worker: SeenWorker| {
            let way = worker.link.and_then(|link| self.links.get(&link));
            let pipe = way.and_then(|way| way.pipe.as_ref());
            let is_served = pipe.is_some_and(|pipe| pipe.is_open());
            let link = worker.link.filter(|_| is_served);
            let shard = link.map(|link| shard_of(link, self.shards.shards()));
            (worker, shard)
        };
        workers.map(served).collect()
    }

    /// A worker said something.
    fn note_answer(&mut self, link: Link) {
        if let Some(way) = self.links.get_mut(&link) {
            way.set(match self.backend.is_busy(link) {
                true => way.under_way.saturating_sub(1),
                false => 0,
            });
        }
    }

    fn welcome(&mut self, hello: &Hello, link: Link, welcome: Welcome, way: Way) {
        let (backend, instance) = (&hello.backend, &hello.instance);
        tracing::info!(
            backend,
            instance,
            resumed = welcome.resumed,
            "worker attached"
        );
        let message = ToWorker {
            welcome: Some(Welcome {
                node: u32::from(self.served.node),
                manners: Some(self.served.manners.clone()),
                ..welcome
            }),
            ..ToWorker::default()
        };
        // It is new and has room.
        way.send(message.encode_to_vec().into());
        self.links.insert(link, way);
    }

    /// Tells a worker why its link ends.
    fn end(&mut self, link: Link, why: Status) {
        if let Some(way) = self.links.remove(&link) {
            tracing::warn!(cause = why.message(), "worker sent away");
            self.failures.note("worker sent away", why.message());
            let _ = way.outbox.try_send(Err(why));
        }
    }

    fn trace_frame(&mut self, frame: &Frame) {
        if self.tracer.is_none() {
            return;
        }
        for (parent, what) in frame.traced() {
            self.trace(TraceParent::parse(parent), what);
        }
    }

    fn trace_answer(&mut self, called: &Called) {
        if let (Some(context), Outcome::Taken(commands)) = (called.context, &called.outcome) {
            for what in commands {
                self.trace(Some(context), Some(what));
            }
        }
    }

    fn trace(&mut self, parent: Option<TraceParent>, what: Option<&What>) {
        let name = match what {
            Some(What::Decision(_)) => "decision",
            Some(What::Ack(_)) => "ack",
            Some(What::Emit(_)) => "emit",
            Some(What::Join(_)) => "join",
            Some(What::Leave(_)) => "leave",
            Some(What::Disconnect(_)) => "disconnect",
            _ => "other",
        };
        let tracer = self.tracer.as_ref();
        let span = tracer.and_then(|tracer| tracer.begin(Some(parent?), Doing::Command, name));
        self.spans.extend(span);
    }

    pub(super) fn deliver(&mut self) {
        self.send_bags();
        if let Some(tracer) = &self.tracer {
            self.spans.drain(..).for_each(|span| tracer.end(span));
        }
        self.serve_links();
    }

    pub(super) fn hand_on(&mut self) {
        let said = self.backend.take_out();
        let shard_of = |socket: &str| self.shards.shard_of(socket);
        self.bags.take(said, &self.shards.keeping(), shard_of);
        self.send_words();
        self.part();
    }

    /// Links that end. Behind each letter: the next may be from a link that has ended by now.
    fn part(&mut self) {
        for (link, why) in self.backend.take_ended() {
            let why = match why {
                Stray::Expelled => Status::unauthenticated(why.message()),
                _ => Status::failed_precondition(why.message()),
            };
            self.end(link, why);
        }
        for Deadly { socket, event } in self.backend.take_deadly() {
            let socket = socket.as_str();
            let what = event.as_ref().map_or("its CONNECT", |(name, _)| name);
            let detail = format!("{what} of socket {socket}");
            self.failures.note_said("poison event", &detail, || {
                let said = |(name, args): &(String, Bytes)| Said::new("event", name, args);
                event.iter().map(said).collect()
            });
            match event {
                Some((event, _)) => tracing::warn!(
                    socket,
                    event,
                    "event refused: worker after worker ended while it handled this event alone"
                ),
                None => tracing::warn!(
                    socket,
                    "client refused: worker after worker ended while it decided about this client alone"
                ),
            }
        }
        for link in self.backend.take_farewells() {
            if let Some(Way { outbox, .. }) = self.links.remove(&link) {
                let message = ToWorker {
                    goodbye: true,
                    ..ToWorker::default()
                };
                let message = message.encode_to_vec().into();
                if let Some(runtime) = &self.runtime {
                    runtime.spawn(async move { outbox.send(Ok(message)).await });
                }
            }
        }
    }

    fn serve_links(&mut self) {
        let now_ms = self.now_ms();
        if let Some(caller) = &self.caller {
            let backend = &mut self.backend;
            caller.call_all(|| backend.next_call(now_ms));
        }
        for link in self.backend.take_ready() {
            let Some(way) = self.links.get_mut(&link) else {
                continue;
            };
            while !way.is_full() && way.has_room() {
                let Some(message) = self.backend.poll(now_ms, link) else {
                    break;
                };
                way.send(message);
                way.set(way.under_way + u32::from(self.backend.is_busy(link)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::letter::outbox;
    use crate::queue;
    use crate::state::{Core, Desk};
    use backend::Settings;
    use backend::proto::{FromWorker, Manners};
    use hub::Keeping;
    use hub::config::Recovery;
    use identity::keys::Keyring;
    use rules::Word;
    use tokio::sync::{Notify, mpsc, oneshot};

    struct Nowhere;

    impl ToShards for Nowhere {
        fn shards(&self) -> u16 {
            1
        }

        fn send(&self, _: u16, _: Word) {}

        fn keeping(&self) -> Arc<Keeping> {
            Arc::default()
        }

        fn shard_of(&self, _: &str) -> Option<u16> {
            None
        }

        fn are_behind(&self) -> bool {
            false
        }
    }

    /// Both frames came in one round: the second one was answered by an error, and that was all that the worker got.
    #[tokio::test]
    async fn a_worker_that_spoke_behind_its_leaving_got_an_error_for_a_goodbye() {
        let settings = Settings::default();
        let figures = Arc::<Figures>::default();
        let (inlet, news) = queue::open(&settings, figures);
        let served = Served {
            node: 1,
            manners: Manners::default(),
            recovery: Recovery::default(),
        };
        let backend = Backend::new(settings);
        let (inlet, shards) = (Arc::new(inlet), Arc::new(Nowhere));
        let named = ("kitchen".to_owned(), backend);
        let wishes = Wishes::default();
        let bell = Arc::clone(inlet.bell());
        let to = Arc::clone(&shards) as Arc<dyn ToShards>;
        let driver = Driver::new(named, None, served, inlet, wishes, shards, None);
        let core = Core::new(driver, (news, bell), to, true);
        let room = Arc::<Notify>::default();
        let (desk, letters) = Desk::new(Keyring::default(), Arc::clone(&room));
        let (outbox, mut sent) = outbox();
        let hello = Hello {
            instance: "a".to_owned(),
            ..Hello::default()
        };
        let leaves = FromWorker {
            leaving: true,
            ..FromWorker::default()
        };
        let (answer, _welcomed) = oneshot::channel();
        for letter in [
            Letter::Attach {
                hello,
                outbox,
                pipe: None,
                answer,
            },
            Letter::Frame(Link(1), leaves.into(), None),
            Letter::Frame(Link(1), Frame::default(), None),
        ] {
            assert!(desk.letters.send(letter).await.is_ok());
        }
        let (_door, holds) = mpsc::unbounded_channel();
        tokio::spawn(Arc::new(core).live(letters, holds, room));
        let mut last = ToWorker::default();
        while let Some(message) = sent.recv().await {
            let message = message.expect("no error");
            last = ToWorker::decode(message).expect("a message");
        }
        assert!(last.goodbye);
    }
}
