//! Programs beside a test: they end with their handle, are told things by lines of JSON, and say things in the same way.

use crate::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

/// A process that ends with its handle.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        let child = command.stdout(Stdio::piped()).spawn();
        Running(child.unwrap_or_else(|error| {
            panic!(
                "cannot run {:?} ({error}): cargo xtask test installs it",
                command.get_program()
            )
        }))
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Peer {
    running: Running,
    stdin: ChildStdin,
    lines: Receiver<Value>,
}

impl Peer {
    pub(crate) fn start(command: &mut Command) -> Peer {
        let mut running = Running::start(command.stdin(Stdio::piped()));
        let stdin = running.0.stdin.take().expect("piped");
        let stdout = BufReader::new(running.0.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut lines = stdout.lines().map_while(Result::ok);
            let value = |line: String| serde_json::from_str(&line).unwrap_or(Value::String(line));
            lines.try_for_each(|line| sender.send(value(line)))
        });
        Peer {
            running,
            stdin,
            lines,
        }
    }

    pub(crate) fn tell(&mut self, command: &Value) {
        writeln!(self.stdin, "{command}").expect("the program reads");
    }

    /// What it has said and nobody has taken.
    pub(crate) fn said(&self) -> impl Iterator<Item = Value> {
        self.lines.try_iter()
    }

    /// What it says next.
    pub(crate) fn next(&self, deadline: Instant) -> Result<Value, RecvTimeoutError> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.lines.recv_timeout(left)
    }

    /// The moment from which waiting for it is in vain.
    pub(crate) fn deadline() -> Instant {
        Instant::now() + PATIENCE
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.running.is_alive()
    }

    pub(crate) fn freeze(&self) {
        crate::freeze(self.running.0.id());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.running.0.id()).ok();
        let pid = pid.and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("the process is ours");
    }
}
