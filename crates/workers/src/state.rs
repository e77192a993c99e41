//! The state of one backend, and who works on it: whichever thread has something for it. Shards do so at the ends of their turns, so
//! that an event goes to its worker, and the worker's answer to the client, without a thread between. What else there is (gRPC, TLS,
//! large messages, time) is done by a task.
//!
//! No shard waits for another thread: it leaves what it has, and who works on the state looks again before it is done.

use super::driver::Driver;
use super::letter::Letter;
use super::lodger::{Saying, Work};
use super::queue::{Bell, Outlet};
use super::shards::ToShards;
use super::standstill::{Order, Orders};
use backend::Up;
use identity::keys::Keyring;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver};

/// News that are taken in before workers get something.
const BATCH: usize = 1_024;
/// Frames of all workers that wait for the driver: beyond them the workers' streams are not read. Large ones are bounded by bytes,
/// too.
const FRAMES: usize = 64;
/// Time passes for a backend in such steps.
const TICK: Duration = Duration::from_millis(20);
/// The same while nothing is under way. A backend thinks that the process stood still if it is more than a second.
const LONG_TICK: Duration = Duration::from_millis(250);
/// How often it looks whether shards have caught up.
const PAUSE: Duration = Duration::from_millis(1);
/// Messages of links that shards serve, on their way to the state. Beyond them these links are not read.
const SAYINGS: usize = 64;
/// A shard does not work on the state more often than that in one turn.
const ROUNDS: usize = 2;

/// Where the service leaves letters for a backend.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) keys: Keyring,
    /// `None`: calls of an endpoint come here.
    pub(super) core: Option<Arc<Core>>,
    pub(super) letters: Sender<Letter>,
    /// A link's connection took a message.
    pub(super) room: Arc<Notify>,
}

impl Desk {
    pub(super) fn new(keys: Keyring, room: Arc<Notify>) -> (Self, Receiver<Letter>) {
        let (letters, receiver) = mpsc::channel(FRAMES);
        let desk = Self {
            keys,
            core: None,
            letters,
            room,
        };
        (desk, receiver)
    }
}

pub(super) struct Core {
    state: Mutex<State>,
    sayings: Mutex<Vec<Saying>>,
    bell: Arc<Bell>,
    pub(super) shards: Arc<dyn ToShards>,
    /// Calls of endpoints need the task.
    by_shards: bool,
    started: Instant,
    /// When a worker that answers nothing is told more, in microseconds, and the shard that looks for it.
    patience: AtomicU64,
    /// Another process is to go on with the state, or does: shards leave it alone. It changes while the state is locked.
    is_still: AtomicBool,
}

struct State {
    driver: Driver,
    news: Outlet,
    words: Vec<(Up, usize)>,
    /// When time is to pass next.
    tick_due: Instant,
    /// There was something to do since it passed.
    was_busy: bool,
}

impl Core {
    pub(super) fn new(
        driver: Driver,
        (news, bell): (Outlet, Arc<Bell>),
        shards: Arc<dyn ToShards>,
        by_shards: bool,
    ) -> Self {
        let state = State {
            driver,
            news,
            words: Vec::with_capacity(BATCH),
            tick_due: Instant::now(),
            was_busy: false,
        };
        Self {
            state: Mutex::new(state),
            sayings: Mutex::default(),
            bell,
            shards,
            by_shards,
            started: Instant::now(),
            patience: AtomicU64::new(0),
            is_still: AtomicBool::new(false),
        }
    }

    // ---- by shards ------------------------------------------------------------------------------------------------------------

    fn sayings(&self) -> MutexGuard<'_, Vec<Saying>> {
        self.sayings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_still(&self) -> bool {
        self.is_still.load(Ordering::SeqCst)
    }

    /// A turn of a shard has ended. Returns when it wants to hear of another.
    fn turn_ended(&self, shard: u16) -> Option<Duration> {
        if self.is_still() {
            return None;
        }
        if !self.by_shards {
            if self.bell.is_wanted() {
                self.bell.ring();
            }
            return None;
        }
        let waits = self.patience_of(shard);
        match self.bell.is_wanted() || waits == Some(Duration::ZERO) {
            true => self.work(shard),
            false => waits,
        }
    }

    fn note_patience(&self, shard: u16, ends: Option<Instant>) {
        let ends = ends.map(|ends| ends.saturating_duration_since(self.started));
        let micros = ends.map_or(0, |ends| 1 + ends.as_micros() as u64);
        let patience = if micros == 0 {
            0
        } else {
            micros << 16 | u64::from(shard)
        };
        self.patience.store(patience, Ordering::Relaxed);
    }

    /// How long this shard still waits for a worker that answers nothing.
    fn patience_of(&self, shard: u16) -> Option<Duration> {
        let patience = self.patience.load(Ordering::Relaxed);
        if patience == 0 || patience as u16 != shard {
            return None;
        }
        let ends = Duration::from_micros(patience >> 16);
        Some(ends.saturating_sub(self.started.elapsed()))
    }

    // ---- by the task ----------------------------------------------------------------------------------------------------------

    /// Until the process ends, or another one goes on with the state.
    pub(super) async fn live(
        self: Arc<Self>,
        mut letters: Receiver<Letter>,
        mut holds: UnboundedReceiver<Orders>,
        room: Arc<Notify>,
    ) {
        self.lock().driver.open(tokio::runtime::Handle::current());
        let (mut patience_ends, mut tick_due) = self.respond(Cause::News, &mut letters);
        loop {
            let cause = tokio::select! {
                () = self.bell.rung() => Cause::News,
                letter = letters.recv() => match letter {
                    Some(letter) => Cause::Letter(letter),
                    None => return,
                },
                () = until(Some(tick_due)) => Cause::Tick,
                () = room.notified() => Cause::Room,
                () = until(patience_ends), if patience_ends.is_some() => Cause::News,
                Some(orders) = holds.recv() => match self.stand_still(orders).await {
                    true => Cause::News,
                    false => return,
                },
            };
            (patience_ends, tick_due) = self.respond(cause, &mut letters);
            while self.shards.are_behind() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Until it is let go. `false`: another process goes on with the state.
    #[cold]
    async fn stand_still(&self, mut orders: Orders) -> bool {
        self.keep_still(true);
        while let Some(order) = orders.recv().await {
            if !self.lock().obey(order) {
                return false;
            }
        }
        self.keep_still(false);
        true
    }

    fn keep_still(&self, is_still: bool) {
        let _state = self.lock();
        self.is_still.store(is_still, Ordering::SeqCst);
    }

    /// Returns when a worker that answers nothing is told more, and when time is to pass.
    fn respond(&self, cause: Cause, letters: &mut Receiver<Letter>) -> (Option<Instant>, Instant) {
        let mut state = self.lock();
        self.bell.answer();
        let sayings = std::mem::take(&mut *self.sayings());
        let is_tick = matches!(cause, Cause::Tick);
        if state.work(sayings, Some(cause)) {
            self.bell.want();
        }
        // What came meanwhile, as long as shards keep up.
        while !self.shards.are_behind()
            && let Ok(letter) = letters.try_recv()
        {
            state.driver.take(letter);
            state.driver.hand_on();
        }
        state.driver.deliver();
        if is_tick {
            state.wind_up();
        } else if !state.driver.is_quiet() {
            state.hurry();
        }
        let due = (state.driver.patience_ends(), state.tick_due);
        drop(state);
        // A shard that came meanwhile has left it to this one.
        if self.bell.is_wanted() {
            self.bell.ring();
        }
        due
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work for Core {
    fn leave(&self, saying: Saying) {
        self.sayings().push(saying);
        self.bell.want();
    }

    fn is_crowded(&self) -> bool {
        self.is_still() || self.sayings().len() >= SAYINGS || self.shards.are_behind()
    }

    fn work(&self, shard: u16) -> Option<Duration> {
        if !self.bell.is_wanted() && self.patience_of(shard) != Some(Duration::ZERO) {
            return self.patience_of(shard);
        }
        for _ in 0..ROUNDS {
            self.bell.want();
            // One that is poisoned has ended the process.
            let mut state = self.state.try_lock().ok()?;
            if self.is_still() {
                return None;
            }
            if self.shards.are_behind() {
                return Some(PAUSE);
            }
            self.bell.answer();
            let sayings = std::mem::take(&mut *self.sayings());
            if state.work(sayings, None) {
                self.bell.want();
            }
            self.note_patience(shard, state.driver.patience_ends());
            // The task sleeps until then, and longer while nothing is under way.
            if !state.driver.is_quiet() && state.hurry() {
                self.bell.ring();
            }
            drop(state);
            if !self.bell.is_wanted() {
                return self.patience_of(shard);
            }
        }
        Some(Duration::ZERO)
    }
}

/// Why the task works on the state.
#[expect(clippy::large_enum_variant, reason = "one lives at a time")]
enum Cause {
    News,
    Letter(Letter),
    Tick,
    Room,
}

impl State {
    /// Time passed.
    fn wind_up(&mut self) {
        let rests = !std::mem::take(&mut self.was_busy) && self.driver.is_quiet();
        self.tick_due = Instant::now() + if rests { LONG_TICK } else { TICK };
    }

    /// There is something to do. Returns whether time is to pass earlier than it was.
    fn hurry(&mut self) -> bool {
        self.was_busy = true;
        let due = Instant::now() + TICK;
        let sooner = due < self.tick_due;
        self.tick_due = self.tick_due.min(due);
        sooner
    }

    /// Returns whether it stays with this process. No worker is heard and none is told anything.
    fn obey(&mut self, order: Order) -> bool {
        let Self {
            driver,
            news,
            words,
            ..
        } = self;
        // Whoever asked may have given up.
        match order {
            Order::Round(answer) => {
                let mut worked = 0;
                loop {
                    let taken = news.take(words, BATCH);
                    driver.hear(words.drain(..).map(|(up, _)| up));
                    worked += taken as u64;
                    if taken < BATCH {
                        break;
                    }
                }
                driver.hand_on();
                driver.send_bags();
                let _ = answer.send(worked);
            }
            Order::Record(answer) => {
                let _ = answer.send(driver.record());
            }
            Order::Commit => {
                driver.cut_links();
                return false;
            }
        }
        true
    }

    /// Returns whether there are more news than it took.
    fn work(&mut self, sayings: Vec<Saying>, cause: Option<Cause>) -> bool {
        let Self {
            driver,
            news,
            words,
            ..
        } = self;
        let mut answered = !sayings.is_empty();
        // Of a link that is the task's again, these are older than its letters.
        for saying in sayings {
            match saying {
                Saying::Frame(link, frame, share) => driver.take(Letter::Frame(link, frame, share)),
                Saying::Heard(link) => driver.take(Letter::Heard(link)),
                Saying::Room(link) => driver.look_at(link),
            }
            driver.hand_on();
        }
        match cause {
            Some(Cause::Letter(letter)) => {
                driver.take(letter);
                answered = true;
            }
            Some(Cause::Tick) => driver.pass_time(),
            Some(Cause::Room) => driver.look_at_all(),
            Some(Cause::News) | None => {}
        }
        driver.tell_more();
        let mut more = false;
        if answered || !driver.gathers() {
            more = news.take(words, BATCH) == BATCH;
            driver.hear(words.drain(..).map(|(up, _)| up));
        }
        driver.hand_on();
        driver.deliver();
        more
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// What backends do at the ends of shards' turns.
#[derive(Default)]
pub struct Turns(OnceLock<Vec<Arc<Core>>>);

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Turns")
            .field(&self.0.get().map(Vec::len))
            .finish()
    }
}

impl Turns {
    pub(super) fn set(&self, cores: Vec<Arc<Core>>) {
        // Nobody else sets it.
        let _ = self.0.set(cores);
    }

    /// Called on a shard's thread, behind each of its turns. Returns after how long it is to be called again, at the latest.
    pub fn ended(&self, shard: u16) -> Option<Duration> {
        let cores = self.0.get()?;
        Bell::hear_shard();
        let due = cores.iter().filter_map(|core| core.turn_ended(shard));
        due.min()
    }
}
