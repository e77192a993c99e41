//! The directory for programs outside: which sockets there are, whose they are, and in which documents. One task writes it to Redis on
//! connections of its own, at most once a second. Nothing waits for it.

mod book;
mod entry;
mod gauges;
mod sweep;
mod words;

pub use gauges::Gauges;
pub use words::Documents;

use super::engine::Trouble;
use super::redis::settings::Settings as Redis;
use super::redis::{self, Command, Port, is_stranger};
use super::roster::Roster;
use super::standing::Handed;
use ::redis::Value;
use book::{Batch, Book};
use hub::RollCall;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use sweep::Sweeper;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, sleep};
use words::Words;

/// Batches are written this often, if there is something to write.
const EVERY: Duration = Duration::from_secs(1);
/// This node says this often that it writes here.
const SIGN_EVERY: Duration = Duration::from_secs(5);
/// Commands of one pipeline, and of one second.
const PIPELINE: usize = 4_096;
const COMMANDS_MAX: usize = 65_536;
/// Keys that nobody renews end after so many times the time of renewal.
const RENEWALS_KEPT: u32 = 3;
/// Redis is looked for this often at the start.
const RETRY: Duration = Duration::from_secs(2);
/// A process that goes on knows its sockets after so long: entries of others that its life listed are deleted then.
const SETTLED: Duration = Duration::from_secs(10);
/// Time for the last deletions when this node leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The plan of the task.
#[derive(Debug)]
pub struct Plan {
    pub redis: Redis,
    /// Of keys that are no program's but ours.
    pub prefix: String,
    pub node: u16,
    /// The number of this process among all lives of the node.
    pub life: u64,
    /// Another process was this life before, and some of its sockets may not be here.
    pub goes_on: bool,
    /// Another process is it now.
    pub handed: Handed,
    pub roster: Arc<Roster>,
    pub roll: Arc<RollCall>,
    pub documents: Documents,
    /// Entries are written again this often.
    pub renew: Duration,
    pub gauges: Arc<Gauges>,
}

/// The task.
#[derive(Debug)]
pub struct Directory {
    leave: Option<oneshot::Sender<()>>,
    left: mpsc::Receiver<()>,
}

impl Directory {
    /// Starts the task on the runtime that is entered. It looks for Redis as long as it takes.
    pub fn start(plan: Plan) -> Self {
        let (leave, leaves) = oneshot::channel();
        let (end, left) = mpsc::channel();
        tokio::spawn(async move {
            run(plan, leaves).await;
            let _ = end.send(());
        });
        Self {
            leave: Some(leave),
            left,
        }
    }

    /// Deletes what this node wrote. If Redis is away, the other nodes do it, or time does.
    pub fn leave(&mut self) {
        if let Some(leave) = self.leave.take()
            && leave.send(()).is_ok()
        {
            let _ = self.left.recv_timeout(LEAVE_TIMEOUT);
        }
    }
}

/// Until the node leaves.
async fn run(plan: Plan, mut leaves: oneshot::Receiver<()>) {
    let port = loop {
        tokio::select! {
            opened = redis::connect(plan.redis.clone()) => match opened {
                Ok(port) => break port,
                Err(trouble) => {
                    tracing::warn!(%trouble, "the directory waits for Redis");
                    sleep(RETRY).await;
                }
            },
            _ = &mut leaves => return,
        }
    };
    let mut writer = Writer::new(plan, port);
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => writer.step().await,
            _ = &mut leaves => return writer.leave().await,
        }
        if writer.plan.handed.is_so() {
            return;
        }
    }
}

struct Writer {
    plan: Plan,
    port: Port,
    book: Book,
    sweeper: Sweeper,
    began: Instant,
    signed: Option<Instant>,
    /// The last commands were not carried out.
    is_away: bool,
    /// Redis was away, and may have lost some of what it had taken.
    doubts: bool,
    /// The log was told of a key of another program.
    told: bool,
    /// What another process listed in this life was not looked at.
    inherits: bool,
}

impl Writer {
    fn new(plan: Plan, port: Port) -> Self {
        let renew_ms = u64::try_from(plan.renew.as_millis()).unwrap_or(u64::MAX);
        Self {
            book: Book::new(plan.documents.clone(), renew_ms),
            sweeper: Sweeper::new(&plan.prefix, plan.node, plan.life),
            inherits: plan.goes_on,
            plan,
            port,
            began: Instant::now(),
            signed: None,
            is_away: false,
            doubts: false,
            told: false,
        }
    }

    /// Takes in what hubs told, and writes what changed.
    async fn step(&mut self) {
        if self.plan.handed.is_so() {
            return;
        }
        if self.inherits && self.began.elapsed() >= SETTLED {
            self.inherits = false;
            self.sweeper.doubt_own();
        }
        while let Some(word) = self.plan.roll.next() {
            self.book.hear(word);
        }
        self.book.renew(self.mono_ms());
        if self.sign().await {
            self.write().await;
            // Not before: while one master of several is away, the others would get the same again and again.
            if !self.is_away && self.book.waiting() == 0 && std::mem::take(&mut self.doubts) {
                self.repair();
            }
            self.sweep().await;
        }
        self.count();
    }

    /// Says that this node writes here; `false`: Redis is away. If nothing was known of it, Redis lost everything, or others took this
    /// node for dead and cleaned up.
    async fn sign(&mut self) -> bool {
        let is_due = |at: &Instant| at.elapsed() >= SIGN_EVERY;
        if !self.is_away && self.signed.as_ref().is_some_and(|at| !is_due(at)) {
            return true;
        }
        let was_away = self.is_away;
        let is_first = self.signed.is_none();
        let answer = self.ask(self.sweeper.sign(now_ms())).await;
        let is_new = match answer {
            Ok(Value::Int(added)) => added > 0,
            Ok(_) => false,
            Err(trouble) if is_stranger(&trouble) => false,
            Err(trouble) => {
                self.lose(&trouble);
                return false;
            }
        };
        self.is_away = false;
        self.signed = Some(Instant::now());
        self.doubts |= was_away && !is_first;
        if is_new && !is_first {
            self.repair();
        }
        true
    }

    fn repair(&mut self) {
        tracing::info!("the directory is written anew");
        Gauges::add(&self.plan.gauges.repairs, 1);
        self.doubts = false;
        self.book.write_anew();
        self.sweeper.doubt_own();
    }

    async fn write(&mut self) {
        let mut sent = 0;
        while !self.is_away && !self.plan.handed.is_so() && sent < COMMANDS_MAX {
            let words = Words {
                node: self.plan.node,
                now_ms: now_ms(),
                keep: self.plan.renew.saturating_mul(RENEWALS_KEPT),
            };
            let Some(mut batch) = self.book.take(&words, PIPELINE) else {
                return;
            };
            sent += batch.commands.len() + batch.expiries.len();
            self.carry_out(&mut batch).await;
        }
    }

    /// The index names sockets before anything else does, and after everything else: whoever cleans up finds all.
    async fn carry_out(&mut self, batch: &mut Batch) {
        if !batch.new.is_empty() && !self.carried_out(vec![self.sweeper.enter(&batch.new)]).await {
            return self.book.failed(batch, false);
        }
        let commands = std::mem::take(&mut batch.commands);
        let Some(strange) = self.written(commands).await else {
            return self.book.failed(batch, true);
        };
        let expiries = std::mem::take(&mut batch.expiries).into_iter();
        let expiries = expiries.filter(|(at, _)| !strange.contains(at));
        if !self
            .carried_out(expiries.map(|(_, command)| command).collect())
            .await
        {
            return self.book.failed(batch, true);
        }
        if !batch.gone.is_empty() {
            // Names that stay there are cleaned up later.
            self.carried_out(vec![self.sweeper.strike(&batch.gone)])
                .await;
        }
        self.book.done(batch, self.mono_ms());
    }

    /// Whether all were carried out, but those about keys of others.
    async fn carried_out(&mut self, commands: Vec<Command>) -> bool {
        self.written(commands).await.is_some()
    }

    /// The places of those about keys of others; `None`: Redis did not carry all out.
    async fn written(&mut self, commands: Vec<Command>) -> Option<BTreeSet<usize>> {
        let (mut is_whole, mut strange) = (true, BTreeSet::new());
        for (at, answer) in self.port.carry_out(commands).await.into_iter().enumerate() {
            match answer {
                Ok(_) => Gauges::add(&self.plan.gauges.commands, 1),
                Err(trouble) if is_stranger(&trouble) => {
                    strange.insert(at);
                    self.meet_stranger(&trouble);
                }
                Err(trouble) => {
                    if is_whole {
                        self.lose(&trouble);
                    }
                    is_whole = false;
                }
            }
        }
        is_whole.then_some(strange)
    }

    async fn ask(&mut self, command: Command) -> Result<Value, Trouble> {
        let answers = self.port.carry_out(vec![command]).await;
        let answer = answers.into_iter().next();
        let answer = answer.unwrap_or_else(|| Err(Trouble::new("Redis gave no answer")));
        match &answer {
            Ok(_) => Gauges::add(&self.plan.gauges.commands, 1),
            Err(trouble) if is_stranger(trouble) => self.meet_stranger(trouble),
            Err(_) => {}
        }
        answer
    }

    /// It keeps its key. What would stand there is left out.
    fn meet_stranger(&mut self, trouble: &Trouble) {
        Gauges::add(&self.plan.gauges.strangers, 1);
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                %trouble,
                "another program keeps something else under a key of the directory: that entry is left out; nobody else may write keys that begin with ws:user:clients:, ws:guid:clients: or ws:client:"
            );
        }
    }

    fn lose(&mut self, trouble: &Trouble) {
        Gauges::add(&self.plan.gauges.failures, 1);
        if !std::mem::replace(&mut self.is_away, true) {
            tracing::warn!(%trouble, "the directory cannot be written: it is repaired when Redis is back");
        }
    }

    fn count(&self) {
        let gauges = &self.plan.gauges;
        for (cell, value) in [
            (&gauges.sockets, self.book.sockets() as u64),
            (&gauges.waiting, self.book.waiting() as u64),
            (&gauges.left_out, self.book.left_out()),
        ] {
            cell.store(value, Ordering::Relaxed);
        }
    }

    fn mono_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

impl Gauges {
    fn add(cell: &AtomicU64, count: u64) {
        cell.fetch_add(count, Ordering::Relaxed);
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
