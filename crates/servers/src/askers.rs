//! Stock clients that ask all the time while nodes send them away: `conformance/cluster/drain.mjs`.

use crate::crowd::Crowd;
use crate::node;
use serde_json::{Value, json};
use std::process::Command;

#[derive(Debug)]
pub struct Askers(Crowd);

/// What became of all that they asked.
#[derive(Debug)]
pub struct Answers {
    pub asked: u64,
    pub answered: u64,
    /// Answered by an error.
    pub refused: u64,
    /// Their library told them that the connection was lost.
    pub told: u64,
    pub unanswered: u64,
    /// How often each client has connected.
    pub connects: Vec<u64>,
    /// Why connections ended, in the words of their library.
    pub disconnects: Value,
}

/// How clients ask.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// `polling`, `upgrade` (from polling) or `websocket`.
    pub transport: &'static str,
    pub clients: u64,
    pub pause_ms: u64,
    /// `steady`, `chance`, or `loop`: behind each answer.
    pub how: &'static str,
    /// `nothing`, `timeout`, `retries` or `notice`.
    pub with: &'static str,
}

impl Askers {
    pub fn start(url: &str, manners: Manners) -> Askers {
        let mut command = Command::new("node");
        command.arg(node::installed().join("drain.mjs"));
        command.args(["--url", url, "--transport", manners.transport]);
        command.args(["--how", manners.how, "--with", manners.with]);
        command.args(["--pause", &manners.pause_ms.to_string()]);
        Askers(Crowd::start(&mut command, manners.clients))
    }

    /// Waits until all are connected.
    pub fn all_connected(&mut self) {
        self.0.all_connected();
    }

    /// Nobody asks any more; what became of what they asked.
    pub fn stop(&mut self) -> Answers {
        self.0.tell(&json!({"do": "stop"}));
        let mut line = self.0.next(|line| line.get("asked").is_some());
        let number = |name: &str| line[name].as_u64().expect("a number");
        let connects = line["connects"].as_array().expect("numbers").iter();
        Answers {
            asked: number("asked"),
            answered: number("answered"),
            refused: number("refused"),
            told: number("told"),
            unanswered: number("unanswered"),
            connects: connects.map(|n| n.as_u64().expect("a number")).collect(),
            disconnects: line["disconnects"].take(),
        }
    }
}
