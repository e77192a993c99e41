//! A program with many stock clients, by what it says of them.

use crate::peer::Peer;
use serde_json::Value;
use std::process::Command;

#[derive(Debug)]
pub(crate) struct Crowd {
    program: Peer,
    clients: u64,
    connected: u64,
}

impl Crowd {
    pub(crate) fn start(command: &mut Command, clients: u64) -> Self {
        command.args(["--clients", &clients.to_string()]);
        Self {
            program: Peer::start(command),
            clients,
            connected: 0,
        }
    }

    /// Clients that are connected, by what it told until now.
    pub(crate) fn connected(&mut self) -> u64 {
        for line in self.program.said() {
            self.connected = line["connected"].as_u64().unwrap_or(self.connected);
        }
        self.connected
    }

    /// Waits until all are connected.
    pub(crate) fn all_connected(&mut self) {
        let all = self.clients;
        if self.connected() < all {
            self.next(|line| line["connected"] == all);
        }
    }

    pub(crate) fn tell(&mut self, word: &Value) {
        self.program.tell(word);
    }

    /// Waits for a line of this kind.
    pub(crate) fn next(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Peer::deadline();
        loop {
            let line = self.program.next(deadline).unwrap_or_else(|_| {
                panic!(
                    "{} of {} clients are connected",
                    self.connected, self.clients
                )
            });
            self.connected = line["connected"].as_u64().unwrap_or(self.connected);
            if wanted(&line) {
                return line;
            }
        }
    }
}
