//! Owns the workers of a run: starting them, giving orders to all, and one queue of what they
//! tell.

use super::worker::{Notice, Order, Worker};
use crate::orders::Commander;
use crate::process::Process;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Where workers live.
#[derive(Clone, Debug)]
pub enum Launcher {
    /// In this process: small runs and tests.
    Threads,
    /// `program args…` must end in `worker::serve_stdio`.
    Processes { program: PathBuf, args: Vec<String> },
}

impl Launcher {
    /// The gateway's binary, where the workers are below its commands.
    pub fn gateway(&self) -> Option<PathBuf> {
        match self {
            Launcher::Processes { program, args } if args.len() > 1 => Some(program.clone()),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub struct Crew {
    links: Vec<Link>,
    notices: Receiver<(usize, Notice)>,
}

#[derive(Debug)]
enum Link {
    Thread(Commander<Order>),
    Process {
        child: Child,
        stdin: Option<ChildStdin>,
    },
}

impl Crew {
    pub fn launch(launcher: &Launcher, workers: usize) -> Result<Crew> {
        let (sender, notices) = channel();
        let links = (0..workers)
            .map(|number| Link::launch(launcher, number, sender.clone()))
            .collect::<Result<_>>()?;
        Ok(Crew { links, notices })
    }

    /// Workers.
    pub fn size(&self) -> usize {
        self.links.len()
    }

    /// Resident memory of all workers that are processes.
    pub fn rss_bytes(&self) -> u64 {
        let pids = self.links.iter().filter_map(|link| match link {
            Link::Process { child, .. } => Some(child.id()),
            Link::Thread(_) => None,
        });
        let rss = pids.filter_map(|pid| Process { pid }.rss_bytes_at_hand().ok());
        rss.sum()
    }

    pub fn order(&mut self, number: usize, order: Order) -> Result<()> {
        match &mut self.links[number] {
            Link::Thread(commander) => {
                if !commander.send(order) {
                    bail!("worker {number} is gone");
                }
            }
            Link::Process { stdin, .. } => {
                let line = serde_json::to_string(&order)?;
                let stdin = stdin.as_mut().context("worker has no stdin")?;
                writeln!(stdin, "{line}").with_context(|| format!("worker {number} is gone"))?;
            }
        }
        Ok(())
    }

    pub fn order_all(&mut self, order: &Order) -> Result<()> {
        (0..self.size()).try_for_each(|number| self.order(number, order.clone()))
    }

    /// The next thing a worker tells, if any comes in time.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<(usize, Notice)>> {
        match self.notices.recv_timeout(timeout) {
            Ok((number, Notice::Failed(error))) => bail!("worker {number}: {error}"),
            Ok(notice) => Ok(Some(notice)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("all workers are gone"),
        }
    }
}

impl Link {
    fn launch(
        launcher: &Launcher,
        number: usize,
        notices: Sender<(usize, Notice)>,
    ) -> Result<Link> {
        match launcher {
            Launcher::Threads => {
                let (worker, commander) = Worker::new()?;
                std::thread::spawn(move || {
                    // A failure is also a notice; here the thread just ends.
                    let _ = worker.run(|notice| drop(notices.send((number, notice))));
                });
                Ok(Link::Thread(commander))
            }
            Launcher::Processes { program, args } => {
                let mut child = Command::new(program)
                    .args(args)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    // Ctrl-C is for the conductor alone: it ends the run in order.
                    .process_group(0)
                    .spawn()
                    .with_context(|| format!("cannot start worker {}", program.display()))?;
                let stdin = child.stdin.take();
                let stdout = child.stdout.take().context("worker has no stdout")?;
                std::thread::spawn(move || listen(number, BufReader::new(stdout), &notices));
                Ok(Link::Process { child, stdin })
            }
        }
    }
}

/// Passes on what a worker process tells, until it ends.
fn listen(number: usize, stdout: impl BufRead, notices: &Sender<(usize, Notice)>) {
    for line in stdout.lines() {
        let Ok(line) = line else { break };
        let notice = serde_json::from_str(&line)
            .unwrap_or_else(|error| Notice::Failed(format!("cannot read {line:?}: {error}")));
        if notices.send((number, notice)).is_err() {
            return;
        }
    }
    let _ = notices.send((number, Notice::Failed("its process ended".into())));
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Best effort: a worker that is already gone needs no farewell.
        let _ = self.order_all(&Order::Exit);
        for link in &mut self.links {
            if let Link::Process { child, stdin } = link {
                drop(stdin.take());
                let _ = child.wait();
            }
        }
    }
}
