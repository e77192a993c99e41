//! Stock clients in JavaScript or Python that come back whatever happens to servers: `conformance/cluster/roam.mjs` and `roam.py`.

use crate::{PATIENCE, node, python};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// The language of stock clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    JavaScript,
    Python,
}

#[derive(Debug)]
pub struct Roamers {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    clients: u64,
    connected: u64,
}

/// The fate of the clients.
#[derive(Debug)]
pub struct Report {
    /// How often each client has connected.
    pub connects: Vec<u64>,
    /// Faults, and how often each came.
    pub errors: Value,
}

impl Roamers {
    /// `transport`: `polling`, `upgrade` (from polling) or `websocket`.
    pub fn start(language: Language, url: &str, transport: &str, clients: u64) -> Roamers {
        let mut command = match language {
            Language::JavaScript => {
                let mut command = Command::new("node");
                command.arg(node::installed().join("roam.mjs"));
                command
            }
            Language::Python => {
                let folder = python::installed("cluster");
                let mut command = Command::new(folder.join(".venv/bin/python"));
                command.arg(folder.join("roam.py"));
                command
            }
        };
        command.args(["--url", url, "--transport", transport]);
        command.args(["--clients", &clients.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("cargo xtask test installs it");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = stdout.lines().map_while(Result::ok);
            let mut lines = lines.map(|line| serde_json::from_str(&line).unwrap_or_default());
            lines.try_for_each(|line| sender.send(line))
        });
        Roamers {
            child,
            stdin,
            lines,
            clients,
            connected: 0,
        }
    }

    /// Clients that are connected, by what it told until now.
    pub fn connected(&mut self) -> u64 {
        while let Ok(line) = self.lines.try_recv() {
            self.note(&line);
        }
        self.connected
    }

    /// Waits until all are connected.
    pub fn all_connected(&mut self) {
        let all = self.clients;
        if self.connected() < all {
            self.next(|line| line["connected"] == all);
        }
    }

    /// Each client publishes so often and waits for each ack; what failed.
    pub fn ask(&mut self, count: u64) -> Value {
        self.begin_ask(count);
        self.finish_ask()
    }

    pub fn begin_ask(&mut self, count: u64) {
        self.tell(&json!({"do": "ask", "count": count}));
    }

    pub fn finish_ask(&mut self) -> Value {
        self.next(|line| line.get("asked").is_some())["failed"].take()
    }

    pub fn report(&mut self) -> Report {
        self.tell(&json!({"do": "report"}));
        let mut line = self.next(|line| line.get("connects").is_some());
        let connects = line["connects"].as_array().expect("numbers").iter();
        Report {
            connects: connects.map(|n| n.as_u64().expect("a number")).collect(),
            errors: line["errors"].take(),
        }
    }

    fn tell(&mut self, command: &Value) {
        writeln!(self.stdin, "{command}").expect("the clients' program reads");
    }

    fn note(&mut self, line: &Value) {
        if let Some(connected) = line["connected"].as_u64() {
            self.connected = connected;
        }
    }

    fn next(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| {
                panic!(
                    "{} of {} clients are connected",
                    self.connected, self.clients
                )
            });
            self.note(&line);
            if wanted(&line) {
                return line;
            }
        }
    }
}

impl Drop for Roamers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
