//! The way of a process into the cluster: it waits for the engine, listens until it knows who is there, and takes a number.

use super::card::Card;
use super::engine::{Engine, News, Topic, Trouble};
use super::feed::{Feed, Opened};
use super::number::{Entry, Number, RENEWAL, Register};
use super::seal::Seal;
use cluster::frame::{NodeId, Peer};
use cluster::numbers::{Choice, Claim, KEY_US, NUMBERS, Newcomer};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::{sleep, timeout};

/// An engine that was not there is tried again so late.
const RETRY: Duration = Duration::from_millis(500);
/// While it listens, it looks at the clock so often.
const STEP: Duration = Duration::from_millis(100);
/// The log repeats itself after so long.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// A key that an engine has lost is there again within this time.
const KEY_LOST: Duration = RENEWAL.saturating_add(Duration::from_secs(1));
/// A process that goes on with a place has so long to hear.
const SUCCESSION: Duration = Duration::from_secs(10);
/// A given number may still be its last life's for so long.
const GIVEN_WAIT: Duration = Duration::from_micros(KEY_US).saturating_add(RENEWAL);

/// What to do while the engine cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// To end.
    Fail,
    /// To try again for so long. What waiting does not mend ends it at once.
    Wait(Duration),
}

/// A process that asks to come in.
pub(super) struct Arrival<'a> {
    pub(super) prefix: &'a str,
    pub(super) given: Option<u16>,
    pub(super) card: &'a Card,
    pub(super) seal: &'a Seal,
    pub(super) start: Start,
}

/// A process that has a number.
pub(super) struct Arrived {
    pub(super) engine: Engine,
    pub(super) feed: Feed,
    pub(super) number: Number,
    /// The nodes that were heard before.
    pub(super) expected: Vec<Peer>,
    /// All numbers, if the nodes were not waited for.
    pub(super) leases: Vec<Entry>,
}

/// What the log was told.
struct Waiting {
    began: Instant,
    told: Option<(Instant, Trouble)>,
}

impl Waiting {
    /// `Err`: there is nothing to wait for any more.
    fn goes_on(&mut self, start: Start, trouble: Trouble) -> Result<(), Trouble> {
        let Start::Wait(limit) = start else {
            return Err(trouble);
        };
        if trouble.lasts() {
            return Err(trouble);
        }
        if self.began.elapsed() >= limit {
            let seconds = limit.as_secs();
            return Err(Trouble::new(format!(
                "cannot join the cluster within {seconds} s (cluster.start_timeout): {trouble}"
            )));
        }
        let is_told =
            |(at, last): &(Instant, Trouble)| *last == trouble && at.elapsed() < TELL_AGAIN;
        if !self.told.as_ref().is_some_and(is_told) {
            tracing::warn!(
                %trouble,
                seconds_left = (limit - self.began.elapsed()).as_secs(),
                "waiting for the cluster: clients are told to come again"
            );
            self.told = Some((Instant::now(), trouble));
        }
        Ok(())
    }
}

impl Arrival<'_> {
    /// Comes in. `open` connects to the engine.
    pub(super) async fn arrive<F>(&self, open: impl Fn() -> F) -> Result<Arrived, Trouble>
    where
        F: Future<Output = Result<Opened, Trouble>>,
    {
        let mut waiting = Waiting {
            began: Instant::now(),
            told: None,
        };
        let (engine, feed) = loop {
            match open().await {
                Ok(opened) => break opened,
                Err(trouble) => waiting.goes_on(self.start, trouble)?,
            }
            sleep(RETRY).await;
        };
        let kind = engine.native();
        engine.subscribe(vec![Topic::Channel(kind, flood(self.prefix))]);
        let listener = Listener {
            arrival: self,
            register: Register::new(self.prefix, self.seal),
            newcomer: Newcomer::new(self.given.map(NodeId)),
            engine,
            feed,
            waiting,
            up: false,
            taken_since: None,
            began: Instant::now(),
        };
        listener.listen().await
    }
}

/// A process that goes on as a life of a node that another one is.
pub(super) struct Succession<'a> {
    pub(super) prefix: &'a str,
    pub(super) life: Peer,
    pub(super) card: &'a Card,
    pub(super) seal: &'a Seal,
}

impl Succession<'_> {
    /// Hears all that the process before hears, and says nothing. It is not waited for an engine that is away: that process serves.
    pub(super) async fn arrive<F>(&self, open: impl Fn() -> F) -> Result<Arrived, Trouble>
    where
        F: Future<Output = Result<Opened, Trouble>>,
    {
        let silent = || {
            Trouble::new(
                "cannot go on with the place in the cluster: its engine does not answer; try again when it does",
            )
        };
        let arrive = timeout(SUCCESSION, self.listen(open)).await;
        arrive.map_err(|_| silent())?
    }

    async fn listen<F>(&self, open: impl Fn() -> F) -> Result<Arrived, Trouble>
    where
        F: Future<Output = Result<Opened, Trouble>>,
    {
        let (engine, mut feed) = open().await?;
        let kind = engine.native();
        let channels = [flood(self.prefix), inbox(self.prefix, self.life.node)];
        let topics = channels.map(|channel| Topic::Channel(kind, channel));
        engine.subscribe(topics.to_vec());
        // What comes before that the process before has heard, for it hears until this one is ready.
        let mut unheard = topics.to_vec();
        while !unheard.is_empty() {
            match feed.next().await {
                Some(News::Heard(heard)) => unheard.retain(|topic| !heard.contains(topic)),
                Some(News::Unheard(topics)) => unheard.extend(topics),
                Some(_) => {}
                None => return Err(Trouble::new("the engine was closed by this process")),
            }
        }
        let entries = self.find_life(&engine).await?;
        Ok(Arrived {
            engine,
            feed,
            number: Number::go_on(self.prefix, self.life, (self.card, self.seal)),
            expected: Vec::new(),
            leases: entries,
        })
    }
}

impl Succession<'_> {
    /// All numbers, once the own key is there. An engine that has lost it gets it again from the process before.
    async fn find_life(&self, engine: &Engine) -> Result<Vec<Entry>, Trouble> {
        let (register, NodeId(number)) = (Register::new(self.prefix, self.seal), self.life.node);
        let began = Instant::now();
        loop {
            let entries = register.read(engine).await?;
            let own = entries.get(usize::from(number)).map(|own| own.claim);
            match own {
                Some(Claim::Held(epoch)) if epoch == self.life.epoch => return Ok(entries),
                Some(Claim::Free) if began.elapsed() < KEY_LOST => sleep(STEP).await,
                Some(Claim::Free) => {
                    return Err(Trouble::new(format!(
                        "cannot go on as node {number}: the engine of the cluster does not have its key; try again when it does"
                    )));
                }
                _ => {
                    return Err(Trouble::lasting(format!(
                        "cannot go on as node {number}: the engine of the cluster does not know it by this cluster.prefix and cluster.secret; take the change back, or restart"
                    )));
                }
            }
        }
    }
}

/// The channel of one node.
pub(super) fn inbox(prefix: &str, node: NodeId) -> super::engine::Name {
    format!("{prefix}{{n{}}}", node.0).into_bytes().into()
}

/// The channel that all nodes read.
pub(super) fn flood(prefix: &str) -> super::engine::Name {
    format!("{prefix}{{all}}").into_bytes().into()
}

/// It hears the others, and says nothing.
struct Listener<'a> {
    arrival: &'a Arrival<'a>,
    register: Register,
    newcomer: Newcomer,
    engine: Engine,
    feed: Feed,
    waiting: Waiting,
    /// The engine answers, and the channel is heard.
    up: bool,
    /// The given number is another's since then.
    taken_since: Option<Instant>,
    began: Instant,
}

impl Listener<'_> {
    fn now_us(&self) -> u64 {
        // The clock of a newcomer does not begin with 0.
        1 + self.began.elapsed().as_micros() as u64
    }

    async fn listen(mut self) -> Result<Arrived, Trouble> {
        loop {
            let news = timeout(STEP, self.feed.next()).await;
            if let Ok(news) = news {
                let closed = || Trouble::new("the engine was closed by this process");
                self.hear(news.ok_or_else(closed)?)?;
            }
            self.newcomer.hears(self.up, self.now_us());
            let is_due = |due_us| due_us <= self.now_us();
            if !self.newcomer.due_us().is_some_and(is_due) {
                continue;
            }
            if let Some(number) = self.choose().await? {
                let expected = self.newcomer.others(self.now_us());
                let expected = expected.collect();
                return Ok(Arrived {
                    engine: self.engine,
                    feed: self.feed,
                    number,
                    expected,
                    leases: Vec::new(),
                });
            }
        }
    }

    fn hear(&mut self, news: News) -> Result<(), Trouble> {
        match news {
            News::Message(message) => {
                if let Some(frame) = self.arrival.seal.open(&message.body) {
                    self.newcomer.reads(frame, self.now_us());
                }
            }
            News::Up => self.up = true,
            News::Down(trouble) => {
                self.up = false;
                self.waiting.goes_on(self.arrival.start, trouble)?;
            }
            // Some were not heard.
            News::Dropped(_) => self.newcomer.hears(false, self.now_us()),
            News::Heard(_) | News::Unheard(_) => {}
        }
        Ok(())
    }

    /// Takes a number, if it can be known by now which one is free.
    async fn choose(&mut self) -> Result<Option<Number>, Trouble> {
        let entries = match self.register.read(&self.engine).await {
            Ok(entries) => entries,
            Err(trouble) => {
                self.waiting.goes_on(self.arrival.start, trouble)?;
                return Ok(None);
            }
        };
        let claims: Vec<_> = entries.iter().map(|entry| entry.claim).collect();
        let node = match self.newcomer.choose(&claims, self.now_us(), dice()) {
            Choice::Take(node) => node,
            Choice::Listen => return Ok(None),
            Choice::Taken(node) => {
                let card = entries[usize::from(node.0)].card.as_ref();
                self.wait_for_given(node, card)?;
                return Ok(None);
            }
            Choice::Full => {
                return Err(Trouble::new(format!(
                    "cannot join the cluster: all {NUMBERS} node numbers are held"
                )));
            }
        };
        let (arrival, entry) = (self.arrival, &entries[usize::from(node.0)]);
        let taken = Number::take(
            &self.engine,
            arrival.prefix,
            (node, entry),
            (self.newcomer.first_epoch(clock()), arrival.card),
            arrival.seal,
        );
        taken.await.or_else(|trouble| {
            self.waiting.goes_on(arrival.start, trouble)?;
            Ok(None)
        })
    }

    fn wait_for_given(&mut self, node: NodeId, holder: Option<&Card>) -> Result<(), Trouble> {
        let since = *self.taken_since.get_or_insert_with(Instant::now);
        if since.elapsed() < GIVEN_WAIT {
            return Ok(());
        }
        let holder = holder.map_or("a node that is heard, and whose key was lost", |card| {
            &card.name
        });
        let NodeId(number) = node;
        Err(Trouble::new(format!(
            "cannot join the cluster: node number {number} is held by {holder}; give each node a server.node of its own, or \"auto\""
        )))
    }
}

/// A random number; without randomness nodes meet at one number and take others.
fn dice() -> u64 {
    let mut bytes = [0; 8];
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Where epochs begin if the engine knows of none: above those that it may have forgotten.
pub(super) fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| since.as_micros() as u64)
}
