//! Stock clients in JavaScript or Python that come back whatever happens to servers: `conformance/cluster/roam.mjs` and `roam.py`.

use crate::crowd::Crowd;
use crate::{node, python};
use serde_json::{Value, json};
use std::process::Command;

/// The language of stock clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    JavaScript,
    Python,
}

#[derive(Debug)]
pub struct Roamers(Crowd);

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
        Roamers(Crowd::start(&mut command, clients))
    }

    /// Clients that are connected, by what it told until now.
    pub fn connected(&mut self) -> u64 {
        self.0.connected()
    }

    /// Waits until all are connected.
    pub fn all_connected(&mut self) {
        self.0.all_connected();
    }

    /// Each client publishes so often and waits for each ack; what failed.
    pub fn ask(&mut self, count: u64) -> Value {
        self.begin_ask(count);
        self.finish_ask()
    }

    pub fn begin_ask(&mut self, count: u64) {
        self.0.tell(&json!({"do": "ask", "count": count}));
    }

    pub fn finish_ask(&mut self) -> Value {
        self.0.next(|line| line.get("asked").is_some())["failed"].take()
    }

    pub fn report(&mut self) -> Report {
        self.0.tell(&json!({"do": "report"}));
        let mut line = self.0.next(|line| line.get("connects").is_some());
        let connects = line["connects"].as_array().expect("numbers").iter();
        Report {
            connects: connects.map(|n| n.as_u64().expect("a number")).collect(),
            errors: line["errors"].take(),
        }
    }
}

/// Stock clients that are cut and come back by way of `url`, while somebody speaks to them at `speaker`; what became of them.
///
/// # Panics
/// Node cannot be run, or the program fails.
pub fn stock_returns(url: &str, speaker: &str, clients: u64, rounds: u64) -> Value {
    let mut command = Command::new("node");
    command.arg(node::installed().join("returning.mjs"));
    command.args(["--url", url, "--speaker", speaker]);
    command.args([
        "--clients",
        &clients.to_string(),
        "--rounds",
        &rounds.to_string(),
    ]);
    let output = command.output().expect("run node");
    let said = String::from_utf8_lossy(&output.stdout);
    let trouble = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("it says {said:?}: {trouble}"))
}
