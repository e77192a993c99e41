//! Owns several workers and makes them act as one: connections divided among them, published
//! counts told to those who only listen, reports added up.

use crate::descriptors;
use crate::dialect::Target;
use crate::latency::Latency;
use crate::ledger::Account;
use crate::orders::Commander;
use crate::swarm::Counters;
use crate::swarm::connect::{ConnectPlan, ConnectReport};
use crate::swarm::load::{Load, Pace, PublishLoad};
use crate::worker::{Command, Notice, Worker};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// Where workers live.
#[derive(Clone, Debug)]
pub enum Launcher {
    /// In this process: small runs and tests.
    Threads,
    /// `program args…` must end in `worker::serve_stdio`.
    Processes { program: PathBuf, args: Vec<String> },
}

#[derive(Debug)]
pub struct Fleet {
    workers: Vec<Link>,
    quiet: bool,
    connections: u32,
}

#[derive(Debug)]
enum Link {
    Thread {
        commander: Commander<Command>,
        notices: Receiver<Notice>,
    },
    Process {
        child: Child,
        stdin: ChildStdin,
        stdout: BufReader<ChildStdout>,
    },
}

/// A load's result over all workers.
#[derive(Debug, Default)]
pub struct FleetReport {
    pub account: Account,
    pub latency: Latency,
    pub lag: Latency,
    pub stalls: u64,
    pub lost_connections: u64,
    pub losses: BTreeMap<String, u64>,
}

impl Fleet {
    pub fn launch(launcher: &Launcher, workers: usize, quiet: bool) -> Result<Self> {
        let workers = (0..workers.max(1))
            .map(|_| Link::launch(launcher))
            .collect::<Result<_>>()?;
        Ok(Fleet {
            workers,
            quiet,
            connections: 0,
        })
    }

    /// As many workers as `connections` need.
    pub fn for_connections(launcher: &Launcher, connections: u32, quiet: bool) -> Result<Self> {
        let workers = descriptors::workers_for(connections) as usize;
        Fleet::launch(launcher, workers, quiet)
    }

    /// Adds `count` connections in even shares. May be called again only by a fleet of one, where
    /// member numbers stay contiguous.
    pub fn connect(
        &mut self,
        target: &Target,
        count: u32,
        in_flight: u32,
        rooms: u32,
    ) -> Result<ConnectReport> {
        let workers = self.workers.len() as u32;
        if self.connections > 0 && workers > 1 {
            bail!("cannot add connections to a fleet of {workers} workers");
        }
        let mut first_member = self.connections;
        self.connections += count;
        for (number, link) in self.workers.iter_mut().enumerate() {
            let share = count / workers + u32::from((number as u32) < count % workers);
            let in_flight = (in_flight / workers).max(1);
            let target = target.clone();
            link.send(Command::Connect(ConnectPlan {
                target,
                count: share,
                first_member,
                in_flight,
                rooms,
            }))?;
            first_member += share;
        }
        self.await_connected(count)
    }

    fn await_connected(&mut self, count: u32) -> Result<ConnectReport> {
        let bar = self.progress_bar(count);
        let mut total = ConnectReport::default();
        let mut latency = Latency::default();
        for link in &mut self.workers {
            let before = total.ready;
            let report = link.await_connected(|ready| bar.set_position((before + ready).into()))?;
            latency.merge(&report.latency);
            total.ready += report.ready;
            total.failed += report.failed;
            total.elapsed_ns = total.elapsed_ns.max(report.elapsed_ns);
            add_counts(&mut total.failures, report.failures);
        }
        bar.finish_and_clear();
        total.latency = latency.distribution();
        Ok(total)
    }

    fn progress_bar(&self, count: u32) -> ProgressBar {
        if self.quiet {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("  connecting {bar:40} {pos}/{len} {per_sec}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(count.into()).with_style(style)
    }

    pub fn start(&mut self, load: &Load) -> Result<()> {
        if let Load::Publish(publish) = load {
            self.check_publish(publish)?;
        }
        // Listeners first, so that nothing arrives at a worker that does not expect it yet.
        for link in self.workers.iter_mut().rev() {
            match link.ask(Command::Start(load.clone()))? {
                Notice::Started => {}
                other => bail!("cannot start the load: worker answered {other:?}"),
            }
        }
        Ok(())
    }

    fn check_publish(&self, publish: &PublishLoad) -> Result<()> {
        let PublishLoad {
            rooms, publishers, ..
        } = *publish;
        if rooms == 0 || publishers == 0 || publishers % rooms != 0 {
            bail!("cannot publish from {publishers} publishers in {rooms} rooms: not a multiple");
        }
        if publishers > self.connections / self.workers.len() as u32 {
            bail!("cannot publish from {publishers} publishers: more than a worker's connections");
        }
        if matches!(publish.pace, Pace::Window(_)) && self.workers.len() > 1 {
            bail!(
                "cannot keep a window over {} workers: use a rate",
                self.workers.len()
            );
        }
        Ok(())
    }

    /// Counters of all workers; `reset` ends the warm-up.
    pub fn snapshot(&mut self, reset: bool) -> Result<Counters> {
        let mut total = Counters::default();
        for link in &mut self.workers {
            let Notice::Snapshot(counters) = link.ask(Command::Snapshot { reset })? else {
                bail!("cannot take a snapshot: worker answered something else");
            };
            total.at_ns = total.at_ns.max(counters.at_ns);
            total.own_cpu_ns += counters.own_cpu_ns;
            total.acks += counters.acks;
            total.deliveries += counters.deliveries;
            total.published += counters.published;
            total.bytes_in += counters.bytes_in;
            total.pings += counters.pings;
            total.open += counters.open;
            total.lost_connections += counters.lost_connections;
        }
        Ok(total)
    }

    /// Ends the load: stop, wait for stragglers, account.
    pub fn finish(&mut self, grace_ms: u64) -> Result<FleetReport> {
        let mut published = Vec::new();
        for link in &mut self.workers {
            let Notice::Stopped { published: own } = link.ask(Command::Stop)? else {
                bail!("cannot stop the load: worker answered something else");
            };
            if published.is_empty() {
                published = own;
            }
        }
        for link in &mut self.workers {
            link.send(Command::Settle {
                published: published.clone(),
                grace_ms,
            })?;
        }
        let mut total = FleetReport::default();
        for link in &mut self.workers {
            let Notice::Settled(report) = link.await_final()? else {
                bail!("cannot settle the load: worker answered something else");
            };
            total.account.add(&report.account);
            total.latency.merge(&report.latency);
            total.lag.merge(&report.lag);
            total.stalls += report.stalls;
            total.lost_connections += report.lost_connections;
            add_counts(&mut total.losses, report.losses);
        }
        Ok(total)
    }

    pub fn disconnect(&mut self) -> Result<()> {
        self.connections = 0;
        for link in &mut self.workers {
            link.ask(Command::Disconnect)?;
        }
        Ok(())
    }
}

impl Link {
    fn launch(launcher: &Launcher) -> Result<Link> {
        match launcher {
            Launcher::Threads => {
                let (worker, commander) = Worker::new()?;
                let (sender, notices) = channel();
                std::thread::spawn(move || {
                    // A failure is also a notice; here the thread just ends.
                    let _ = worker.run(|notice| drop(sender.send(notice)));
                });
                Ok(Link::Thread { commander, notices })
            }
            Launcher::Processes { program, args } => {
                let mut child = std::process::Command::new(program)
                    .args(args)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .with_context(|| format!("cannot start worker {}", program.display()))?;
                let stdin = child.stdin.take().context("worker has no stdin")?;
                let stdout = BufReader::new(child.stdout.take().context("worker has no stdout")?);
                Ok(Link::Process {
                    child,
                    stdin,
                    stdout,
                })
            }
        }
    }

    fn send(&mut self, command: Command) -> Result<()> {
        match self {
            Link::Thread { commander, .. } => {
                if !commander.send(command) {
                    bail!("worker thread is gone");
                }
            }
            Link::Process { stdin, .. } => {
                let line = serde_json::to_string(&command)?;
                writeln!(stdin, "{line}").context("worker process is gone")?;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Notice> {
        match self {
            Link::Thread { notices, .. } => notices.recv().context("worker thread is gone"),
            Link::Process { stdout, .. } => {
                let mut line = String::new();
                if stdout
                    .read_line(&mut line)
                    .context("worker process is gone")?
                    == 0
                {
                    bail!("worker process ended");
                }
                serde_json::from_str(&line).with_context(|| format!("odd notice {line:?}"))
            }
        }
    }

    fn await_final(&mut self) -> Result<Notice> {
        loop {
            match self.next()? {
                Notice::Progress { .. } => {}
                Notice::Failed(error) => bail!("worker: {error}"),
                notice => return Ok(notice),
            }
        }
    }

    fn ask(&mut self, command: Command) -> Result<Notice> {
        self.send(command)?;
        self.await_final()
    }

    fn await_connected(&mut self, progress: impl Fn(u32)) -> Result<ConnectReport> {
        loop {
            match self.next()? {
                Notice::Progress { ready, .. } => progress(ready),
                Notice::Connected(report) => return Ok(report),
                Notice::Failed(error) => bail!("worker: {error}"),
                other => bail!("cannot connect: worker answered {other:?}"),
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Best effort: a worker that is already gone needs no farewell.
        let _ = self.send(Command::Exit);
        if let Link::Process { child, .. } = self {
            let _ = child.wait();
        }
    }
}

fn add_counts(total: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (reason, count) in more {
        *total.entry(reason).or_default() += count;
    }
}
