//! Owns the life of one worker: orders in, notices out, and the stage in between. It is a process, because a process holds a
//! limited number of files. Orders are JSON lines on stdin, notices on stdout.

use super::flight::Flights;
use super::membership::{Account, Clockwork};
use super::plan::Place;
use super::publications::Publications;
use super::stage::{Stage, WAKE};
use super::stopping::Missing;
use super::tally::Tally;
use crate::clock::{Used, now_ns, own_cpu_ns};
use crate::scenario::Source;
use anyhow::{Context, Result, bail};
use mio::{Poll, Waker};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

/// What a worker is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Read the scenario and get ready.
    Begin {
        source: Source,
        place: Place,
    },
    /// The run's clock began (or will begin) then; seconds are counted from it.
    Start {
        start_ns: u64,
    },
    Raise {
        users: u32,
    },
    Phase {
        phase: usize,
        begins_ns: u64,
    },
    /// Send nothing new.
    Stop,
    /// Write down when messages were sent.
    Save {
        path: PathBuf,
    },
    /// Wait for stragglers, then account, with the other workers' send times.
    Settle {
        logs: Vec<PathBuf>,
        flights: Flights,
        grace_ms: u64,
    },
    /// Wait for no more stragglers.
    Hurry,
}

/// What a worker tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    Ready,
    Second(Box<Tally>),
    Arrived {
        arrived: u64,
        absent: u64,
    },
    Stopped {
        flights: Flights,
    },
    Saved,
    Settled {
        account: Box<Account>,
        rest: Box<Tally>,
    },
    Failed(String),
}

const SECOND_NS: u64 = 1_000_000_000;
const TURN_TIMEOUT: Duration = Duration::from_millis(20);
const PROGRESS_NS: u64 = 100_000_000;
/// How often a settling worker looks whether everything is there.
const SETTLE_CHECK_NS: u64 = 100_000_000;
/// Stragglers are waited for while they keep coming, but not longer than so many grace periods.
const GRACES_MAX: u32 = 6;

/// Longest that a worker waits for stragglers.
pub fn longest_wait(grace: Duration) -> Duration {
    grace.saturating_mul(GRACES_MAX)
}

#[derive(Debug)]
struct Worker {
    orders: Receiver<Order>,
    stage: Stage,
    start_ns: u64,
    seconds_told: u64,
    /// Processor time and waiting for it, as seen last.
    used: Used,
    arrived_told: u64,
    progress_ns: u64,
    settling: Option<Settling>,
}

#[derive(Debug)]
struct Settling {
    others: Vec<Publications>,
    /// Of all workers when sending ended.
    flights: Flights,
    /// Silence after which nothing more is expected.
    grace_ns: u64,
    deadline_ns: u64,
    check_ns: u64,
    /// Deliveries that were there at the last check, and what was missing.
    seen: (u64, Missing),
    progress_ns: u64,
    is_hurried: bool,
}

/// The body of a worker process. It ends when stdin does, so that no worker outlives its conductor.
pub fn serve_stdio() -> Result<()> {
    let poll = Poll::new().context("cannot create an epoll instance")?;
    let waker = Waker::new(poll.registry(), WAKE)?;
    let (sender, orders) = channel();
    std::thread::spawn(move || hear_orders(sender, &waker));
    let result = work(poll, orders);
    if let Err(error) = &result {
        notify(&Notice::Failed(format!("{error:#}")));
    }
    result
}

fn hear_orders(orders: Sender<Order>, waker: &Waker) {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            // A receiver that is gone cannot be told.
            Ok(order) => drop(orders.send(order)),
            Err(error) => eprintln!("cannot read order {line:?}: {error}"),
        }
        let _ = waker.wake();
    }
    drop(orders);
    let _ = waker.wake();
}

/// A conductor that no longer listens also closes stdin, which ends the work.
fn notify(notice: &Notice) {
    if let Ok(line) = serde_json::to_string(notice) {
        let mut stdout = std::io::stdout().lock();
        let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }
}

fn work(poll: Poll, orders: Receiver<Order>) -> Result<()> {
    let (source, place) = match orders.recv() {
        Ok(Order::Begin { source, place }) => (source, place),
        Ok(other) => bail!("cannot begin with {other:?}"),
        Err(_) => return Ok(()),
    };
    let worker = Worker {
        orders,
        stage: Stage::new(poll, source.read()?, place)?,
        start_ns: u64::MAX,
        seconds_told: 0,
        used: Used::default(),
        arrived_told: 0,
        progress_ns: 0,
        settling: None,
    };
    notify(&Notice::Ready);
    worker.run()
}

impl Worker {
    fn run(mut self) -> Result<()> {
        let mut events = Stage::new_events();
        loop {
            self.stage.hear(&mut events, TURN_TIMEOUT)?;
            // What is due in a second belongs to it: the one before is closed first.
            let due_ns = now_ns();
            self.tell(due_ns);
            self.stage.act(due_ns);
            loop {
                match self.orders.try_recv() {
                    Ok(order) => self.obey(order)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            // Whole seconds are told before the rest is.
            self.tell(now_ns());
            self.settle();
        }
    }

    fn obey(&mut self, order: Order) -> Result<()> {
        let stage = &mut self.stage;
        match order {
            Order::Start { start_ns } => self.start_ns = start_ns,
            Order::Raise { users } => stage.raise(users),
            Order::Phase { phase, begins_ns } => stage.announce(phase, begins_ns),
            Order::Stop => {
                stage.stop();
                let flights = stage.tally().flights.clone();
                notify(&Notice::Stopped { flights });
            }
            Order::Save { path } => {
                stage.publications().save(&path)?;
                notify(&Notice::Saved);
            }
            Order::Settle {
                logs,
                flights,
                grace_ms,
            } => self.settling = Some(Settling::new(stage, &logs, flights, grace_ms)?),
            Order::Hurry => {
                if let Some(settling) = &mut self.settling {
                    settling.is_hurried = true;
                    settling.check_ns = 0;
                }
            }
            Order::Begin { .. } => bail!("begun twice"),
        }
        Ok(())
    }

    /// Reports seconds that have ended, and connects under way.
    fn tell(&mut self, now_ns: u64) {
        let ended = now_ns.saturating_sub(self.start_ns) / SECOND_NS;
        let (stage, used) = (&mut self.stage, Used::look());
        while self.seconds_told < ended {
            let mut report = stage.tally().take(self.seconds_told, 0);
            self.seconds_told += 1;
            // Seconds that one long turn went through share what it used: none of them was idle.
            let ends_ns = self.start_ns + self.seconds_told * SECOND_NS;
            [report.own_cpu_ns, report.own_wait_ns] = self.used.by(used, ends_ns);
            notify(&Notice::Second(Box::new(report)));
        }
        self.used = used;
        let arrived = stage.tally().arrived;
        if arrived != self.arrived_told && now_ns >= self.progress_ns + PROGRESS_NS {
            self.progress_ns = now_ns;
            self.arrived_told = arrived;
            let absent = stage.tally().absent;
            notify(&Notice::Arrived { arrived, absent });
        }
    }

    /// Ends the wait for stragglers as soon as nothing is missing, or when it was long enough.
    fn settle(&mut self) {
        let stage = &mut self.stage;
        let Some(settling) = &mut self.settling else {
            return;
        };
        let now_ns = now_ns();
        if now_ns < settling.check_ns {
            return;
        }
        settling.check_ns = now_ns + SETTLE_CHECK_NS;
        let mut flights = settling.flights.clone();
        flights.merge(&stage.tally().flights);
        let clockwork = Clockwork {
            start_ns: self.start_ns,
            flights,
        };
        let account = stage.settle(&settling.others, &clockwork);
        let received = account.totals.received + account.totals.either_received;
        let missing = stage.missing(&account);
        if (received, missing) != settling.seen {
            settling.seen = (received, missing);
            settling.progress_ns = now_ns;
        }
        let is_quiet = now_ns >= settling.progress_ns.saturating_add(settling.grace_ns);
        let is_over = is_quiet || now_ns >= settling.deadline_ns;
        let is_hurried = settling.is_hurried && !is_over;
        if missing.is_none() || is_over || is_hurried {
            self.settling = None;
            notify(&settled(stage, account, is_hurried.then_some(missing)));
        }
    }
}

impl Settling {
    fn new(stage: &Stage, logs: &[PathBuf], flights: Flights, grace_ms: u64) -> Result<Settling> {
        let rooms = stage.rooms();
        let own = stage.worker();
        let load = |(at, path): (usize, &PathBuf)| match at == own {
            true => Ok(Publications::default()),
            false => Publications::load(path, |room| rooms.contains(&room)),
        };
        let now_ns = now_ns();
        let grace = Duration::from_millis(grace_ms);
        let wait_ns = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Ok(Settling {
            others: logs.iter().enumerate().map(load).collect::<Result<_>>()?,
            flights,
            grace_ns: wait_ns(grace),
            deadline_ns: now_ns.saturating_add(wait_ns(longest_wait(grace))),
            check_ns: 0,
            seen: (0, Missing::default()),
            progress_ns: now_ns,
            is_hurried: false,
        })
    }
}

/// `hurried`: what is missing and has not been waited for long enough to be called lost.
fn settled(stage: &mut Stage, mut account: Account, hurried: Option<Missing>) -> Notice {
    let totals = &mut account.totals;
    match hurried {
        Some(missing) => {
            totals.lost = 0;
            totals.not_waited_for = missing.deliveries;
            totals.acks_not_waited_for = missing.answers;
            totals.connects_not_waited_for = missing.connects;
        }
        None => stage.fail_connects(),
    }
    Notice::Settled {
        account: Box::new(account),
        rest: Box::new(stage.tally().take(u64::MAX, own_cpu_ns())),
    }
}
