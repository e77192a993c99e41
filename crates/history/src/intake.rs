//! The one queue before a store. Publishers never wait for the store; it gets what they said in batches, in order, and again after a
//! failure.

use crate::bounds::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX};
use crate::event::{Batch, Event};
use crate::fault::{Fault, Kind};
use crate::figures::Figures;
use crate::position::Position;
use crate::store::Store;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Between attempts, doubled up to the longest.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LONGEST: Duration = Duration::from_secs(2);
/// One attempt.
const APPEND_TIME: Duration = Duration::from_secs(10);
/// How often the log is told of a store that is away.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// A deletion waits so long for what is before it in the queue.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Told what became of one event.
pub type Waiter = oneshot::Sender<Result<Position, Fault>>;

/// The queue. It ends with [`Intake::close`], or with the runtime.
pub struct Intake {
    shared: Arc<Shared>,
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intake").finish_non_exhaustive()
    }
}

struct Shared {
    store: Arc<dyn Store>,
    bytes_max: usize,
    state: Mutex<State>,
    /// Something waits, or the queue is closed.
    bell: Notify,
    /// A batch is done.
    done: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Event, Option<Waiter>)>,
    /// Of those that wait and those under way.
    bytes: usize,
    pushed: u64,
    /// Events that came to an end, whichever.
    ended: u64,
    closed: bool,
    figures: Figures,
    /// The store fails since then.
    away_since: Option<Instant>,
    told: Option<Instant>,
}

/// Events on their way to the store.
struct UnderWay {
    batch: Batch,
    waiters: Vec<Option<Waiter>>,
    bytes: usize,
}

impl UnderWay {
    /// Its number is given when it is tried.
    fn new(writer: u64, events: Vec<Event>, waiters: Vec<Option<Waiter>>) -> Self {
        let bytes = events.iter().map(Event::bytes).sum();
        let batch = Batch {
            writer,
            number: 0,
            events,
        };
        Self {
            batch,
            waiters,
            bytes,
        }
    }
}

impl Intake {
    /// Begins to store what it is given, within a runtime. Above `bytes_max` events are dropped, and counted.
    pub fn new(store: Arc<dyn Store>, bytes_max: usize, writer: u64) -> Self {
        let shared = Arc::new(Shared {
            store,
            bytes_max,
            state: Mutex::default(),
            bell: Notify::new(),
            done: Notify::new(),
        });
        tokio::spawn(run(Arc::clone(&shared), writer));
        Self { shared }
    }

    /// Gives it an event. Never waits.
    pub fn push(&self, event: Event, waiter: Option<Waiter>) {
        let bytes = event.bytes();
        let refusal = self.shared.with(|state| {
            if state.closed {
                return Some((waiter, Fault::closed()));
            }
            if state.bytes + bytes > self.shared.bytes_max {
                state.figures.dropped += 1;
                let text = format!(
                    "{} bytes of events wait for the store of history already",
                    state.bytes
                );
                return Some((waiter, Fault::new(Kind::Full, text)));
            }
            state.bytes += bytes;
            state.pushed += 1;
            state.waiting.push_back((event, waiter));
            None
        });
        match refusal {
            None => self.shared.bell.notify_one(),
            Some((waiter, fault)) => tell(waiter, Err(fault)),
        }
    }

    /// Waits for what was given so far, some seconds at most; `false`: some of it still waits.
    pub async fn settle(&self) -> bool {
        tokio::time::timeout(SETTLE_TIME, self.settled())
            .await
            .is_ok()
    }

    async fn settled(&self) {
        let pushed = self.shared.with(|state| state.pushed);
        loop {
            let done = self.shared.done.notified();
            if self.shared.with(|state| state.ended >= pushed) {
                return;
            }
            done.await;
        }
    }

    /// Takes nothing more, and waits for what was given so far.
    pub async fn close(&self, within: Duration) {
        self.shared.with(|state| state.closed = true);
        let _ = tokio::time::timeout(within, self.settled()).await;
        self.shared.bell.notify_one();
        let left = self.shared.with(|state| state.pushed - state.ended);
        if left > 0 {
            tracing::error!(
                events = left,
                "the store of history did not take them in time: they are lost"
            );
        }
    }

    /// What became of events so far.
    pub fn figures(&self) -> Figures {
        self.shared.with(|state| Figures {
            waiting_bytes: state.bytes as u64,
            away_seconds: state
                .away_since
                .map_or(0, |since| since.elapsed().as_secs()),
            ..state.figures
        })
    }
}

fn tell(waiter: Option<Waiter>, answer: Result<Position, Fault>) {
    if let Some(waiter) = waiter {
        // It may have left.
        let _ = waiter.send(answer);
    }
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next batch; `None`: nothing waits.
    fn take(&self, writer: u64) -> Option<UnderWay> {
        self.with(|state| {
            let (mut events, mut waiters, mut bytes) = (Vec::new(), Vec::new(), 0);
            while let Some((event, _)) = state.waiting.front()
                && events.len() < BATCH_EVENTS_MAX
                && (events.is_empty() || bytes + event.bytes() <= BATCH_BYTES_MAX)
                && let Some((event, waiter)) = state.waiting.pop_front()
            {
                bytes += event.bytes();
                events.push(event);
                waiters.push(waiter);
            }
            (!waiters.is_empty()).then(|| UnderWay::new(writer, events, waiters))
        })
    }

    fn failed(&self, fault: &Fault) {
        let tells = self.with(|state| {
            state.figures.failures += 1;
            state.away_since.get_or_insert_with(Instant::now);
            let tells = state.told.is_none_or(|told| told.elapsed() >= TELL_AGAIN);
            if tells {
                state.told = Some(Instant::now());
            }
            tells
        });
        if tells {
            tracing::error!(%fault, "the store of history takes nothing: events wait, and are tried again");
        }
    }

    fn ended(&self, events: u64, bytes: usize, count: impl FnOnce(&mut Figures)) {
        self.with(|state| {
            state.bytes -= bytes;
            state.ended += events;
            state.away_since = None;
            if state.told.take().is_some() {
                tracing::info!("the store of history takes events again");
            }
            count(&mut state.figures);
        });
        self.done.notify_waiters();
    }
}

async fn run(shared: Arc<Shared>, writer: u64) {
    let mut number = 0;
    loop {
        if let Some(under_way) = shared.take(writer) {
            store(&shared, under_way, &mut number).await;
            continue;
        }
        if shared.with(|state| state.closed && state.waiting.is_empty()) {
            return;
        }
        shared.bell.notified().await;
    }
}

/// Stores a batch, however long it takes. `number`: that of the last batch, which only grows.
async fn store(shared: &Shared, under_way: UnderWay, number: &mut u64) {
    *number += 1;
    let UnderWay {
        mut batch,
        mut waiters,
        bytes,
    } = under_way;
    batch.number = *number;
    match persist(shared, &batch).await {
        Ok(places) => {
            let count = waiters.len() as u64;
            shared.ended(count, bytes, |figures| figures.stored += count);
            for (waiter, at) in waiters.into_iter().zip(places) {
                tell(waiter, Ok(at));
            }
        }
        // One event of it may be at fault: it is found by halves, and the others are stored without it.
        Err(_) if batch.events.len() > 1 => {
            let half = batch.events.len() / 2;
            let events = batch.events.split_off(half);
            let later = UnderWay::new(batch.writer, events, waiters.split_off(half));
            let first = UnderWay::new(batch.writer, batch.events, waiters);
            Box::pin(store(shared, first, number)).await;
            Box::pin(store(shared, later, number)).await;
        }
        Err(fault) => {
            tracing::error!(%fault, "the store of history refuses an event");
            shared.ended(1, bytes, |figures| figures.refused += 1);
            for waiter in waiters {
                tell(waiter, Err(fault.clone()));
            }
        }
    }
}

/// Tries until the store takes it or refuses it for good.
async fn persist(shared: &Shared, batch: &Batch) -> Result<Vec<Position>, Fault> {
    let mut pause = RETRY_FIRST;
    loop {
        let tried = tokio::time::timeout(APPEND_TIME, shared.store.append(batch)).await;
        let fault = match tried {
            Ok(Ok(places)) => return Ok(places),
            Ok(Err(fault)) if fault.kind() == Kind::Refused => return Err(fault),
            Ok(Err(fault)) => fault,
            Err(_) => Fault::slow(APPEND_TIME),
        };
        shared.failed(&fault);
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(RETRY_LONGEST);
    }
}
