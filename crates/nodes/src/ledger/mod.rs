//! The orders under Idempotency-Keys that all nodes of a cluster know: who carries one out, and what came of it.

mod answer;
mod entry;
mod gauges;
#[cfg(feature = "nats")]
mod nats;
mod own;
mod redis;
mod store;
mod token;
mod words;

pub use gauges::Gauges;

use super::engine::Trouble;
use super::way::Way;
use answer::Answered;
use entry::Entry;
use own::Own;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::Store;
use token::Token;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::sleep;

/// What this node has under way or carried out is looked after this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A node says this often that an order is still under way.
const BEAT_EVERY: Duration = Duration::from_secs(2);
/// A node that says nothing for so long does not carry it out any more, or nobody hears of it.
const SILENT_MAX: Duration = Duration::from_secs(8);
/// An order of another node is looked at this often.
const PEEK_EVERY: Duration = Duration::from_millis(100);
/// The server between nodes is looked for this often at the start.
const RETRY: Duration = Duration::from_secs(2);
/// The caller waits so long until other nodes know its answer; they are told all the same.
const TELLING_MAX: Duration = Duration::from_secs(1);
/// Calls that wait for other nodes. One more is refused.
pub const WAITS_MAX: usize = 256;
/// Answers that other nodes can give. A longer one stays with the node that has it.
pub const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Entries written at once, and their bytes.
const PIPELINE: usize = 256;
const PIPELINE_BYTES: usize = 1 << 20;

/// The plan of a ledger.
#[derive(Debug)]
pub struct Plan {
    /// To what nodes share.
    pub way: Way,
    pub prefix: String,
    /// The number of this process among all of the cluster.
    pub life: u64,
    /// How long an order is remembered.
    pub remembered: Duration,
    pub gauges: Arc<Gauges>,
}

/// A handle on it.
#[derive(Debug)]
pub struct Ledger {
    plan: Plan,
    store: OnceCell<Store>,
    own: Mutex<Own>,
    waits: Semaphore,
    tokens: AtomicU64,
}

/// What becomes of an order.
#[derive(Debug)]
pub enum Claim {
    /// This node carries it out.
    Mine(Page),
    /// It was carried out: the answer.
    Done(String),
    /// Nobody knows whether it was carried out: why.
    Lost(String),
}

/// Why an order is not begun.
#[derive(Debug)]
pub enum Refusal {
    /// The key stands for another order.
    Reused,
    /// As many calls wait for other nodes as may.
    Full,
    /// The server between nodes cannot be asked.
    Away(Trouble),
}

impl Ledger {
    /// Starts on the runtime that is entered. Nothing waits for a server.
    pub fn start(plan: Plan) -> Arc<Self> {
        let ledger = Arc::new(Self {
            own: Mutex::new(Own::new(plan.life)),
            store: OnceCell::new(),
            waits: Semaphore::new(WAITS_MAX),
            tokens: AtomicU64::new(0),
            plan,
        });
        let keeper = Arc::downgrade(&ledger);
        tokio::spawn(async move {
            // The generation stands before somebody asks, as a rule.
            while let Some(ledger) = keeper.upgrade() {
                if ledger.look().await.is_ok() {
                    break;
                }
                drop(ledger);
                sleep(RETRY).await;
            }
            while let Some(ledger) = keeper.upgrade() {
                ledger.keep().await;
                drop(ledger);
                sleep(LOOK_EVERY).await;
            }
        });
        ledger
    }

    /// Finds out who carries out an order, and waits while another node does. `name` stands for caller, namespace and key.
    pub async fn claim(self: &Arc<Self>, name: &str, digest: &str) -> Result<Claim, Refusal> {
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        let token = Token::new(self.plan.life, number);
        let mut place = None;
        let mut seen: Option<(String, Instant)> = None;
        loop {
            let asked = self.ask_for(name, digest, &token).await;
            let held = match asked.inspect_err(|_| self.withdraw(name, digest, &token))? {
                Answered::Mine => {
                    Gauges::add(&self.plan.gauges.claimed);
                    return Ok(Claim::Mine(self.begin(name, digest, token)));
                }
                Answered::Young | Answered::Another(_) => None,
                Answered::Held(held) => Some(held),
            };
            if let Some(held) = held {
                if let Some(claim) = self.read(name, digest, &token, &held).await? {
                    return Ok(claim);
                }
                let silent = seen.as_ref().filter(|(last, _)| *last == held);
                match silent {
                    Some((_, since)) if since.elapsed() >= SILENT_MAX => {
                        self.give_up(name, &held).await?;
                        seen = None;
                        continue;
                    }
                    Some(_) => {}
                    None => seen = Some((held, Instant::now())),
                }
            }
            if place.is_none() {
                place = Some(self.waits.try_acquire().map_err(|_| Refusal::Full)?);
                Gauges::add(&self.plan.gauges.waited);
            }
            sleep(PEEK_EVERY).await;
        }
    }

    /// `None`: it is under way.
    async fn read(
        self: &Arc<Self>,
        name: &str,
        digest: &str,
        token: &Token,
        held: &str,
    ) -> Result<Option<Claim>, Refusal> {
        let gauges = &self.plan.gauges;
        let Some(entry) = Entry::read(held) else {
            let root = self.store.get().map(Store::root).unwrap_or_default();
            let why = format!(
                "another program keeps something else under a key that begins with {root:?}: nobody else may"
            );
            return Err(Refusal::Away(Trouble::new(why)));
        };
        // A call of this process whose claim was not answered: it was not begun.
        if entry.is_running() && self.own().has_left(name, entry.token()) {
            let mine = Entry::running(digest, token, 0);
            if self.swap(name, held, &mine).await? {
                Gauges::add(&gauges.claimed);
                return Ok(Some(Claim::Mine(self.begin(name, digest, token.clone()))));
            }
            return Ok(None);
        }
        if entry.digest() != digest {
            return Err(Refusal::Reused);
        }
        if let Some(answer) = entry.answer() {
            Gauges::add(&gauges.repeated);
            return Ok(Some(Claim::Done(answer.to_owned())));
        }
        if entry.is_lost() {
            Gauges::add(&gauges.lost);
            let why = "the node that began with this call has ended, or is cut off: it may have carried it out; with a new key it is done anew";
            return Ok(Some(Claim::Lost(why.to_owned())));
        }
        Ok(None)
    }

    fn begin(self: &Arc<Self>, name: &str, digest: &str, token: Token) -> Page {
        self.own().begin(name, digest, &token, Instant::now());
        Page {
            ledger: Arc::clone(self),
            name: name.to_owned(),
            has_ended: false,
        }
    }

    /// Nobody hears of the node that has it.
    async fn give_up(&self, name: &str, held: &str) -> Result<(), Refusal> {
        let lost = Entry::read(held).map(|entry| entry.lost());
        if let Some(lost) = lost {
            self.swap(name, held, &lost).await?;
        }
        Ok(())
    }

    async fn swap(&self, name: &str, held: &str, entry: &str) -> Result<bool, Refusal> {
        let swapped = match self.store().await {
            Ok(store) => store.swap(name, held, entry).await,
            Err(trouble) => Err(trouble),
        };
        swapped.map_err(|trouble| self.away(trouble))
    }

    async fn ask_for(&self, name: &str, digest: &str, token: &Token) -> Result<Answered, Refusal> {
        let store = self.store().await;
        let store = store.map_err(|trouble| self.away(trouble))?;
        let entry = Entry::running(digest, token, 0);
        loop {
            let known = self.own().generation().to_owned();
            // Each try has a name of its own: what was lost twice would have the same one else.
            let number = self.tokens.fetch_add(1, Ordering::Relaxed);
            let fresh = Token::new(self.plan.life, number).generation();
            let answer = store.claim(name, &entry, &known, &fresh);
            match answer.await.map_err(|trouble| self.away(trouble))? {
                Answered::Another(generation) => self.adopt(&known, &generation),
                answered => return Ok(answered),
            }
        }
    }

    fn away(&self, trouble: Trouble) -> Refusal {
        Gauges::add(&self.plan.gauges.refused);
        Refusal::Away(trouble)
    }

    /// There is another generation than this node knows: everything was lost meanwhile, unless this node just came.
    fn adopt(&self, known: &str, generation: &str) {
        let mut own = self.own();
        if own.generation() != known {
            return;
        }
        own.adopt(generation);
        if !known.is_empty() {
            Gauges::add(&self.plan.gauges.repairs);
            tracing::warn!(
                orders = own.len(),
                "the server between nodes lost what it knew of Idempotency-Keys: this node tells it again what it carried out"
            );
        }
    }

    /// A claim without an answer may stand there, and nobody carries it out.
    fn withdraw(self: &Arc<Self>, name: &str, digest: &str, token: &Token) {
        self.own().withdraw(name, digest, token, Instant::now());
    }

    // ---- the keeper -------------------------------------------------------------------------------------------------------------

    async fn look(&self) -> Result<(), Trouble> {
        let known = self.own().generation().to_owned();
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        let fresh = Token::new(self.plan.life, number).generation();
        let found = self.store().await?.look(&fresh).await?;
        if found != known {
            self.adopt(&known, &found);
        }
        Ok(())
    }

    /// Says what is under way, and tells what the server does not know.
    async fn keep(&self) {
        let now = Instant::now();
        let is_idle = self.own().forget(now, self.plan.remembered);
        if is_idle || self.look().await.is_err() {
            return;
        }
        loop {
            let due = self.own().take(now, BEAT_EVERY, PIPELINE, PIPELINE_BYTES);
            if due.is_empty() || !self.write(due).await {
                return;
            }
        }
    }

    /// Whether all of it was taken.
    async fn write(&self, due: Vec<own::Due>) -> bool {
        let Ok(store) = self.store().await else {
            self.own().failed(&due);
            return false;
        };
        let mut is_whole = true;
        for (due, answer) in due.iter().zip(store.write(&due).await) {
            match answer {
                Ok(None) => {}
                Ok(Some(held)) => self.contradicted(due, &held),
                Err(_) => {
                    is_whole = false;
                    self.own().failed(std::slice::from_ref(due));
                }
            }
        }
        is_whole
    }

    /// What another node said of the same order stays.
    fn contradicted(&self, due: &own::Due, held: &str) {
        if due.is_told_as(held) {
            return;
        }
        Gauges::add(&self.plan.gauges.doubled);
        tracing::warn!(
            order = due.name(),
            "a call under one Idempotency-Key was carried out by two nodes: the server between them lost what it knew while this node could not reach it"
        );
    }

    async fn store(&self) -> Result<&Store, Trouble> {
        let Plan {
            way,
            prefix,
            remembered,
            ..
        } = &self.plan;
        let open = || Store::open(way, prefix, *remembered);
        self.store.get_or_try_init(open).await
    }

    fn own(&self) -> std::sync::MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An order that this node carries out. One that is dropped without an end is lost: nobody knows how far it came.
#[derive(Debug)]
pub struct Page {
    ledger: Arc<Ledger>,
    name: String,
    has_ended: bool,
}

impl Page {
    /// It was not carried out: another call under its key may try.
    pub async fn abandon(mut self) {
        self.end(|own, name| own.abandon(name)).await;
    }

    /// It was carried out.
    pub async fn done(mut self, answer: &str) {
        self.end(|own, name| own.done(name, answer)).await;
    }

    async fn end(&mut self, how: impl FnOnce(&mut Own, &str) -> Option<own::Due>) {
        self.has_ended = true;
        let due = how(&mut self.ledger.own(), &self.name);
        let Some(due) = due else {
            return;
        };
        let ledger = Arc::clone(&self.ledger);
        let telling = tokio::spawn(async move { ledger.write(vec![due]).await });
        let _ = tokio::time::timeout(TELLING_MAX, telling).await;
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if !self.has_ended {
            self.ledger.own().lose(&self.name);
        }
    }
}
