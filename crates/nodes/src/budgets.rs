//! Limits that nodes keep together: this node shows what it has of them on a board in Redis, sees what the others have, and tells its
//! shards their shares. One command does both, so often in a second, however many messages and connections there are. What the
//! shares are is decided by [`cluster::budget`].

use super::arrival::clock;
use super::engine::{Board, Engine, Name, Trouble};
use super::gauges::Gauges;
use super::roster::Roster;
use super::seal::Seal;
use cluster::budget::{
    Change, KINDS, Key, Ledger, Limit, NAMED_MAX, SHEET_BYTES_MAX, SHEET_US, Sheet, Source, Usage,
};
use cluster::frame::Peer;
use hub::budgets::Budgets;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

// A kind of one crate is the same kind of the other.
const _: () = assert!(KINDS == hub::budgets::KINDS);

/// Between two exchanges in a small cluster.
const PERIOD: Duration = Duration::from_millis(100);
/// A key that comes near its limit is told at once, but no more often.
const PAUSE: Duration = Duration::from_millis(25);
/// Large sheets are shown less often: so many keys of others a second are enough.
const ENTRIES_PER_SECOND: usize = 50_000;
/// They stand for longer than that.
const PERIOD_MAX: Duration = Duration::from_millis(1_500);
/// Above so many nodes the period grows with their number.
const NODES_AT_FULL_PACE: usize = 10;
/// A node that leaves waits so long for its last sheet.
const LAST_SHEET: Duration = Duration::from_millis(300);

/// The shards' side of it.
pub struct Shares {
    pub budgets: Arc<Budgets>,
    /// Microseconds, as the shards' limiters count them.
    pub now_us: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}

/// The parts of the exchange.
pub(super) struct Exchange {
    pub(super) engine: Engine,
    pub(super) seal: Seal,
    pub(super) prefix: String,
    pub(super) me: Peer,
    pub(super) roster: Arc<Roster>,
    pub(super) gauges: Arc<Gauges>,
}

/// The exchange as it goes on; it ends with this.
pub(super) struct Running {
    leave: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Gives back what this node has.
    pub(super) async fn leave(self) {
        let _ = self.leave.send(());
        let _ = timeout(LAST_SHEET, self.task).await;
    }
}

impl Exchange {
    /// Begins to share limits with the other nodes.
    pub(super) fn start(self, shares: Shares) -> Running {
        let (leave, left) = oneshot::channel();
        let marked = Arc::new(Notify::new());
        let wakes = Arc::clone(&marked);
        shares.budgets.on_mark(Box::new(move || wakes.notify_one()));
        let mut trader = Trader::new(self, shares);
        let task = tokio::spawn(async move { trader.trade(left, &marked).await });
        Running { leave, task }
    }
}

struct Trader {
    exchange: Exchange,
    shares: Shares,
    ledger: Ledger,
    board: Board,
    started: Instant,
    /// The last exchange came back.
    up: Option<bool>,
}

impl Trader {
    fn new(exchange: Exchange, shares: Shares) -> Self {
        let limits = shares.budgets.kinds();
        let limits: [Limit; KINDS] = std::array::from_fn(|kind| {
            let (budget, flows) = limits.get(kind).copied().unwrap_or_default();
            Limit { budget, flows }
        });
        // One tag, so that all of them are on one server.
        let name = |tail: &str| -> Name {
            let name = format!("{}{{limits}}{tail}", exchange.prefix);
            name.into_bytes().into()
        };
        let board = Board {
            list: name(":nodes"),
            stem: name(":"),
            number: exchange.me.node.0,
            time: Duration::from_micros(SHEET_US),
            bytes_max: SHEET_BYTES_MAX + 64,
        };
        let mut trader = Self {
            ledger: Ledger::new(exchange.me, limits).behind(clock()),
            board,
            exchange,
            shares,
            started: Instant::now(),
            up: None,
        };
        trader.go_on();
        trader.carry_out();
        trader
    }

    /// With what the process before had, if there was one: the board shows it as this node's.
    fn go_on(&mut self) {
        let (budgets, now_us) = (Arc::clone(&self.shares.budgets), self.now_us());
        if !budgets.goes_on() {
            return;
        }
        for (kind, share) in budgets.rests() {
            self.ledger.go_on_with_rest(kind, share);
        }
        for ((kind, holder), share, _) in budgets.named_shares() {
            self.ledger.go_on_with(Key { kind, holder }, share, now_us);
        }
    }

    async fn trade(&mut self, mut left: oneshot::Receiver<()>, marked: &Notify) {
        loop {
            let began = Instant::now();
            self.exchange().await;
            let (soon, due) = (began + PAUSE, began + self.period());
            tokio::select! {
                asked = &mut left => {
                    // Otherwise the number is another process's.
                    if asked.is_ok() {
                        self.leave().await;
                    }
                    return;
                }
                () = marked.notified() => sleep_until(soon.into()).await,
                () = sleep_until(due.into()) => {}
            }
        }
    }

    fn period(&self) -> Duration {
        let nodes = (self.ledger.others() + 1).div_ceil(NODES_AT_FULL_PACE);
        let by_nodes = PERIOD * u32::try_from(nodes).unwrap_or(u32::MAX);
        let by_size =
            Duration::from_secs(self.ledger.entries_seen() as u64) / ENTRIES_PER_SECOND as u32;
        by_nodes.max(by_size).min(PERIOD_MAX)
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    async fn exchange(&mut self) {
        let now_us = self.now_us();
        for (kind, holder) in self.shares.budgets.take_marks() {
            self.ledger.note(Key { kind, holder }, now_us);
        }
        let sheet = self.ledger.propose(now_us, &mut self.shares);
        // What is given back is not used any more when the others see it.
        self.carry_out();
        match self.show(&sheet).await {
            Ok(sheets) => {
                let now_us = self.now_us();
                let heard = self.exchange.roster.heard();
                self.ledger.learn(now_us, sheets.into_iter(), &heard);
                self.carry_out();
                self.tell(Ok(()));
            }
            Err(trouble) => {
                self.ledger.failed();
                self.tell(Err(&trouble));
            }
        }
        let gauges = &self.exchange.gauges;
        Gauges::set(&gauges.budget_keys, self.ledger.named() as u64);
        Gauges::set(&gauges.budget_unnamed, self.ledger.unnamed());
    }

    /// Shows a sheet, and returns those of all nodes. What is no sheet of the node under whose number it stands is skipped.
    async fn show(&self, sheet: &Sheet) -> Result<Vec<Sheet>, Trouble> {
        let (seal, gauges) = (&self.exchange.seal, &self.exchange.gauges);
        let key = self.board.key(self.board.number);
        let body = seal.close_sheet(&key, &sheet.write());
        let found = self.exchange.engine.show(&self.board, &body).await?;
        let read = |(number, body): (u16, Vec<u8>)| {
            let body = seal.open_sheet(&self.board.key(number), &body)?;
            Sheet::read(body).filter(|sheet| sheet.of.node.0 == number)
        };
        let sheets = found.into_iter().map(read);
        Ok(sheets
            .filter_map(|sheet| {
                if sheet.is_none() {
                    Gauges::add(&gauges.unreadable, 1);
                }
                sheet
            })
            .collect())
    }

    fn carry_out(&mut self) {
        let (budgets, now_us) = (&self.shares.budgets, (self.shares.now_us)());
        for change in self.ledger.changes() {
            match change {
                Change::Share(key, share) => {
                    budgets.set_share((key.kind, key.holder), share, now_us);
                }
                Change::Forget(key) => budgets.forget((key.kind, key.holder), now_us),
                Change::Rest(kind, share) => budgets.set_rest(kind, share),
            }
        }
    }

    /// Each change is told once.
    fn tell(&mut self, outcome: Result<(), &Trouble>) {
        let gauges = &self.exchange.gauges;
        let cell = match outcome {
            Ok(()) => &gauges.budget_exchanges,
            Err(_) => &gauges.budget_failures,
        };
        Gauges::add(cell, 1);
        gauges.budget_up.store(outcome.is_ok(), Ordering::Relaxed);
        let before = self.up.replace(outcome.is_ok());
        match outcome {
            Err(trouble) if before != Some(false) => tracing::warn!(
                %trouble,
                "limits of the cluster cannot be divided anew: this node goes on with its share of each"
            ),
            Ok(()) if before == Some(false) => {
                tracing::info!("limits of the cluster are divided among all nodes again");
            }
            _ => {}
        }
    }

    async fn leave(&mut self) {
        let sheet = self.ledger.leave();
        let _ = self.show(&sheet).await;
    }
}

impl Source for Shares {
    fn usage(&mut self, key: Key) -> Usage {
        let now_us = (self.now_us)();
        let (used, refused) = self.budgets.usage((key.kind, key.holder), now_us);
        Usage { used, refused }
    }

    fn above(&mut self, kind: u8, used: u32) -> Vec<Key> {
        let crowded = self.budgets.crowded(kind, used, NAMED_MAX);
        let keys = crowded.into_iter();
        keys.map(|(kind, holder)| Key { kind, holder }).collect()
    }
}
