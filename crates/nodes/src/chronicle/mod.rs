//! Namespaces of level `cluster`: all that is said there stands in one stream of Redis before anybody gets it, and so does what is known of
//! their sockets. Clients whose node died come back by it. ADR 62.

mod adopting;
mod course;
pub mod health;
mod reading;
mod standing;
#[cfg(test)]
mod tests;
mod writing;

use crate::engine::Trouble;
use crate::redis::{self, settings::Settings};
use course::{Course, Ports};
use health::Health;
use history::{Receipt, Receipts};
use hub::{Chronicle, ChronicleMail, Letter, Read};
pub use standing::{Stand, Still, Streams};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedMutexGuard, Semaphore, oneshot};

/// Brings a letter to a shard.
pub type Postman = Box<dyn Fn(u16, Arc<Letter>) + Send + Sync>;

/// What the process knows of its streams: programs that wait until what they said stands there, and how each does.
#[derive(Debug)]
pub struct Acks {
    chronicle: Arc<Chronicle>,
    receipts: Receipts,
    health: BTreeMap<String, Arc<Health>>,
    /// Who reads and writes, from the start on.
    streams: OnceLock<Streams>,
}

impl Acks {
    /// Of these streams.
    pub fn new(chronicle: &Arc<Chronicle>) -> Self {
        let names = chronicle.namespaces();
        Self {
            chronicle: Arc::clone(chronicle),
            receipts: Receipts::default(),
            health: names
                .map(|name| (name.to_owned(), Arc::default()))
                .collect(),
            streams: OnceLock::new(),
        }
    }

    /// The streams, once they are read and written.
    pub fn streams(&self) -> Option<&Streams> {
        self.streams.get()
    }

    /// By namespace.
    pub fn health(&self) -> impl Iterator<Item = (&str, &Health)> {
        let all = self.health.iter();
        all.map(|(namespace, health)| (&**namespace, &**health))
    }

    /// What hubs write.
    pub fn chronicle(&self) -> &Arc<Chronicle> {
        &self.chronicle
    }

    /// For a program that says something there; `None`: the namespace has no stream.
    pub fn receipt(&self, namespace: &str) -> Option<Receipt<'_>> {
        let mut own = self.chronicle.namespaces();
        own.any(|name| name == namespace)
            .then(|| self.receipts.open())
    }
}

/// A namespace's.
#[derive(Clone, Debug)]
pub struct Stream {
    pub namespace: String,
    /// For so long it keeps what was said.
    pub window: Duration,
    /// What is written counts as stored when so many replicas have it.
    pub replicas: u16,
}

/// What it needs.
pub struct Plan {
    pub redis: Settings,
    /// Of all keys.
    pub prefix: String,
    pub streams: Vec<Stream>,
    /// Bytes of events that a namespace's stream keeps.
    pub stream_bytes_max: u64,
    pub acks: Arc<Acks>,
    pub mail: ChronicleMail,
    pub postman: Postman,
    /// Some shard has more letters than it may.
    pub are_behind: Box<dyn Fn() -> bool + Send + Sync>,
    /// Nothing is read before another process has said how far it was ([`Streams::go_on_from`]).
    pub goes_on: bool,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").finish_non_exhaustive()
    }
}

/// Claims that read the stream at once: what they read waits in memory.
const CLAIMS_MAX: usize = 16;

/// One namespace.
struct Desk {
    course: Course,
    health: Arc<Health>,
    /// Whoever has it passes on what is read: the reader, or one for whom it stands still.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// What the tasks share.
struct Office {
    desks: BTreeMap<String, Desk>,
    chronicle: Arc<Chronicle>,
    acks: Arc<Acks>,
    mail: ChronicleMail,
    postman: Postman,
    are_behind: Box<dyn Fn() -> bool + Send + Sync>,
    /// Names this process.
    writer: String,
    stream_bytes_max: u64,
    /// Claims that wait until their shard is listed.
    listings: Mutex<HashMap<(u16, u64), oneshot::Sender<()>>>,
    claims: Semaphore,
    /// Turns of readers that never come again: another process reads.
    given: Mutex<Vec<OwnedMutexGuard<()>>>,
}

impl Office {
    fn deliver(&self, read: &Read) {
        for shard in read.shards() {
            (self.postman)(shard, Arc::clone(&read.letter));
        }
    }

    fn note_state(&self, desk: &Desk) {
        let is_away = desk.health.is_away();
        self.chronicle.is_away(&desk.course.namespace, is_away);
    }

    fn listing(&self, asker: (u16, u64)) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let listings = self.listings.lock();
        listings
            .unwrap_or_else(PoisonError::into_inner)
            .insert(asker, sender);
        receiver
    }

    fn listed(&self, shard: u16, number: u64) {
        if let Some(sender) = self.forget_listing((shard, number)) {
            // It may have given up.
            let _ = sender.send(());
        }
    }

    fn forget_listing(&self, asker: (u16, u64)) -> Option<oneshot::Sender<()>> {
        let listings = self.listings.lock();
        listings
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&asker)
    }
}

/// Connects, and begins to read and to write, on a thread that does nothing else: what is said there waits for Redis and back, and for no other
/// work of the process. Blocks until it is connected.
///
/// # Errors
/// Redis cannot be found within this time: why, and what to do.
pub fn start(plan: Plan, within: Duration) -> Result<(), Trouble> {
    let start = |error| Trouble::new(format!("cannot start the thread of streams: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(start)?;
    runtime.block_on(async {
        let opened = tokio::time::timeout(within, open(plan)).await;
        opened.unwrap_or_else(|_| Err(Trouble::new(format!("it did not answer in {within:?}"))))
    })?;
    let thread = std::thread::Builder::new().name("streams".to_owned());
    let run = move || runtime.block_on(std::future::pending::<()>());
    thread.spawn(run).map(drop).map_err(start)
}

async fn open(plan: Plan) -> Result<(), Trouble> {
    let mut desks = BTreeMap::new();
    for stream in &plan.streams {
        let ports = Ports {
            writer: redis::connect(plan.redis.clone()).await?,
            reader: redis::connect(plan.redis.clone()).await?,
            claims: redis::connect(plan.redis.clone()).await?,
        };
        let health = plan.acks.health.get(&stream.namespace);
        let desk = Desk {
            course: Course::new(stream, &plan.prefix, ports),
            health: health.map(Arc::clone).unwrap_or_default(),
            turn: Arc::default(),
        };
        desks.insert(stream.namespace.clone(), desk);
    }
    let mut random = [0; 8];
    // Without randomness no process gets so far.
    let _ = aws_lc_rs::rand::fill(&mut random);
    let office = Arc::new(Office {
        desks,
        chronicle: Arc::clone(plan.acks.chronicle()),
        acks: plan.acks,
        mail: plan.mail,
        postman: plan.postman,
        are_behind: plan.are_behind,
        writer: format!("{:016x}", u64::from_be_bytes(random)),
        stream_bytes_max: plan.stream_bytes_max,
        listings: Mutex::default(),
        claims: Semaphore::new(CLAIMS_MAX),
        given: Mutex::default(),
    });
    let streams = Streams::of(&office);
    if plan.goes_on {
        streams.wait();
    }
    // Nobody else sets it.
    let _ = office.acks.streams.set(streams);
    tokio::spawn(writing::answer(Arc::clone(&office)));
    for Stream { namespace, .. } in plan.streams {
        tokio::spawn(writing::run(Arc::clone(&office), namespace.clone()));
        tokio::spawn(reading::run(Arc::clone(&office), namespace));
    }
    Ok(())
}

/// Waits until all that hubs had for the streams is there, but no longer than that.
pub async fn close(acks: &Acks, within: Duration) {
    const LOOK: Duration = Duration::from_millis(10);
    let chronicle = acks.chronicle();
    let emptied = async {
        while chronicle.unwritten() > 0 {
            tokio::time::sleep(LOOK).await;
        }
    };
    if tokio::time::timeout(within, emptied).await.is_err() {
        tracing::error!(
            words = chronicle.unwritten(),
            ?within,
            "cannot write the last that clients may come back to: Redis takes nothing. What was said last is lost"
        );
    }
}
