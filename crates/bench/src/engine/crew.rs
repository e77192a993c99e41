//! Owns the workers of a run: starting them, giving orders to all, and one queue of what they
//! tell.

use super::worker::{Notice, Order};
use crate::process::Process;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How workers are started: `program args…` must end in `worker::serve_stdio`.
#[derive(Clone, Debug)]
pub struct Launcher {
    pub program: PathBuf,
    pub args: Vec<String>,
}

impl Launcher {
    /// The gateway of the same build, if there is one.
    pub fn gateway(&self) -> Option<PathBuf> {
        let beside = self.program.with_file_name("sockeye");
        beside.exists().then_some(beside)
    }

    fn launch(&self) -> Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for the conductor alone: it ends the run in order.
        let child = command.process_group(0).spawn();
        child.with_context(|| format!("cannot start worker {}", self.program.display()))
    }
}

#[derive(Debug)]
pub struct Crew {
    workers: Vec<(Child, Option<ChildStdin>)>,
    notices: Receiver<(usize, Notice)>,
}

impl Crew {
    pub fn launch(launcher: &Launcher, workers: usize) -> Result<Crew> {
        let (sender, notices) = channel();
        let mut crew = Crew {
            workers: Vec::new(),
            notices,
        };
        for number in 0..workers {
            let mut child = launcher.launch()?;
            let stdout = child.stdout.take().context("worker has no stdout")?;
            let stdin = child.stdin.take();
            crew.workers.push((child, stdin));
            let sender = sender.clone();
            std::thread::spawn(move || listen(number, BufReader::new(stdout), &sender));
        }
        Ok(crew)
    }

    /// Workers.
    pub fn size(&self) -> usize {
        self.workers.len()
    }

    /// Resident memory of all workers.
    pub fn rss_bytes(&self) -> u64 {
        let pids = self.workers.iter().map(|(child, _)| child.id());
        let rss = pids.filter_map(|pid| Process { pid }.rss_bytes_at_hand().ok());
        rss.sum()
    }

    pub fn order(&mut self, number: usize, order: &Order) -> Result<()> {
        let line = serde_json::to_string(order)?;
        let stdin = self.workers[number].1.as_mut();
        let stdin = stdin.context("worker has no stdin")?;
        writeln!(stdin, "{line}").with_context(|| format!("worker {number} is gone"))
    }

    pub fn order_all(&mut self, order: &Order) -> Result<()> {
        (0..self.size()).try_for_each(|number| self.order(number, order))
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
        // A worker ends when nobody gives orders any more.
        self.workers.iter_mut().for_each(|(_, stdin)| *stdin = None);
        for (child, _) in &mut self.workers {
            let _ = child.wait();
        }
    }
}
