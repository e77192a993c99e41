//! Owns all client connections of one process: one epoll, one slab, one read buffer, no task and
//! no timer per connection. A turn reads what is readable, reacts, and writes once per connection.

mod conn;
pub mod connect;
mod exchange;
pub mod load;
mod running;
pub(crate) mod wakeup;

pub use conn::Loss;

use crate::clock::{now_ns, own_cpu_ns};
use crate::dialect::Target;
use crate::latency::Distribution;
use crate::ledger::Account;
use anyhow::{Result, bail};
use conn::Conn;
use connect::{ConnectPlan, ConnectReport, Connecting, Upgrade, open_socket};
use load::Load;
use mio::{Events, Interest, Poll, Token};
use running::Running;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use wakeup::Wakeup;

/// Token of the worker's waker; connections use their index.
pub const WAKE: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);
const EVENTS_PER_TURN: usize = 1024;
const READ_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub struct Swarm {
    poll: Poll,
    wakeup: Wakeup,
    conns: Vec<Conn>,
    first_member: u32,
    target: Option<Target>,
    upgrade: Option<Upgrade>,
    connecting: Option<Connecting>,
    running: Option<Running>,
    losses: BTreeMap<String, u64>,
    counters: Counters,
    /// Shared read buffer.
    buf: Vec<u8>,
    scratch: exchange::Scratch,
    now_ns: u64,
}

/// Work done since the worker began; rates are differences of two snapshots.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    pub at_ns: u64,
    pub own_cpu_ns: u64,
    pub acks: u64,
    pub deliveries: u64,
    pub published: u64,
    pub bytes_in: u64,
    pub pings: u64,
    pub open: u64,
    pub lost_connections: u64,
}

/// The settled result of a load in one worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadReport {
    pub account: Account,
    pub latency: Distribution,
    pub lag: Distribution,
    pub stalls: u64,
    pub lost_connections: u64,
    pub losses: BTreeMap<String, u64>,
}

impl Swarm {
    pub fn new(poll: Poll) -> Result<Self> {
        let wakeup = Wakeup::new(poll.registry(), TIMER)?;
        Ok(Swarm {
            poll,
            wakeup,
            conns: Vec::new(),
            first_member: 0,
            target: None,
            upgrade: None,
            connecting: None,
            running: None,
            losses: BTreeMap::new(),
            counters: Counters::default(),
            buf: vec![0; READ_BYTES],
            scratch: exchange::Scratch::default(),
            now_ns: now_ns(),
        })
    }

    /// Begins a connect phase; more turns carry it out.
    pub fn connect(&mut self, plan: ConnectPlan) -> Result<()> {
        self.upgrade = Some(Upgrade::new(&plan.target)?);
        self.target = Some(plan.target.clone());
        if self.conns.is_empty() {
            self.first_member = plan.first_member;
        }
        self.connecting = Some(Connecting::new(plan, now_ns()));
        self.open_more()
    }

    /// (ready, failed) of the phase under way.
    pub fn connect_progress(&self) -> Option<(u32, u32)> {
        self.connecting
            .as_ref()
            .map(|connecting| (connecting.ready, connecting.failed))
    }

    /// The report of a connect phase that has just ended.
    pub fn take_connected(&mut self) -> Option<ConnectReport> {
        self.connecting
            .take_if(|connecting| connecting.is_done())
            .map(|c| c.report(now_ns()))
    }

    /// Begins a load on the ready connections.
    pub fn start(&mut self, load: Load) -> Result<()> {
        if self.connecting.is_some() {
            bail!("cannot start a load while connections are being made");
        }
        for conn in &mut self.conns {
            conn.sent = 0;
        }
        self.running = Some(Running::new(
            load.clone(),
            self.first_member,
            self.conns.len(),
        ));
        self.now_ns = now_ns();
        if let Load::Echo { depth, .. } = load {
            self.start_echoes(depth);
        }
        self.send_due();
        Ok(())
    }

    /// Stops publishing; returns what each publisher sent.
    pub fn stop(&mut self) -> Vec<u64> {
        let Some(running) = &mut self.running else {
            return Vec::new();
        };
        running.stopped = true;
        running.published()
    }

    /// `true` when everything published has arrived.
    pub fn is_settled(&self, published: &[u64]) -> bool {
        self.running.as_ref().is_none_or(|running| {
            running.received() >= running.expected(published, |index| self.conns[index].sent)
        })
    }

    /// Ends the load and accounts for it.
    pub fn settle(&mut self, published: &[u64]) -> LoadReport {
        let Some(running) = self.running.take() else {
            return LoadReport::default();
        };
        LoadReport {
            account: running.account(published, |index| self.conns[index].sent),
            latency: running.latency.distribution(),
            lag: running.lag.distribution(),
            stalls: running.stalls,
            lost_connections: self.counters.lost_connections,
            losses: self.losses.clone(),
        }
    }

    /// Counters so far; `reset` forgets the latencies of the warm-up.
    pub fn snapshot(&mut self, reset: bool) -> Counters {
        if let Some(running) = self.running.as_mut().filter(|_| reset) {
            running.latency.take();
            running.lag.take();
        }
        let open = self.conns.iter().filter(|conn| conn.is_open()).count() as u64;
        Counters {
            at_ns: now_ns(),
            own_cpu_ns: own_cpu_ns(),
            open,
            ..self.counters
        }
    }

    pub fn disconnect(&mut self) {
        self.conns.clear();
        self.connecting = None;
        self.running = None;
        self.losses.clear();
        self.counters.lost_connections = 0;
    }

    /// One turn: wait, read, react, send what is due.
    pub fn turn(&mut self, events: &mut Events, timeout: Duration) -> Result<()> {
        let due_ns = self.running.as_ref().and_then(Running::next_due_ns);
        self.wakeup.wait(&mut self.poll, events, due_ns, timeout)?;
        for event in events.iter() {
            match event.token() {
                WAKE => {}
                TIMER => self.wakeup.drain(),
                Token(index) => self.on_event(index, event),
            }
        }
        self.now_ns = now_ns();
        if let Some(running) = &mut self.running {
            running.abandon_stalled(self.now_ns);
        }
        self.send_due();
        self.open_more()
    }

    pub fn new_events() -> Events {
        Events::with_capacity(EVENTS_PER_TURN)
    }

    fn open_more(&mut self) -> Result<()> {
        while let Some(connecting) = self.connecting.as_mut().filter(|c| c.may_open()) {
            connecting.opened += 1;
            let index = self.conns.len();
            let member = self.first_member + index as u32;
            let mut stream = open_socket(connecting.plan.target.addr, member)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll
                .registry()
                .register(&mut stream, Token(index), interest)?;
            self.conns.push(Conn::new(stream, now_ns()));
        }
        Ok(())
    }

    fn lose(&mut self, index: usize, loss: Loss) {
        let was_ready = self.conns[index].phase == conn::Phase::Ready;
        self.conns[index].close();
        let reasons = match &mut self.connecting {
            Some(connecting) if !was_ready => {
                connecting.failed += 1;
                &mut connecting.failures
            }
            _ => {
                self.counters.lost_connections += 1;
                &mut self.losses
            }
        };
        *reasons.entry(loss.to_string()).or_default() += 1;
    }
}
