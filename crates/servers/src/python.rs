//! A python-socketio server with its Redis manager: `conformance/cluster/peer.py`, which says what it can be told.

use crate::one_at_a_time;
use crate::peer::Peer;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub struct Python {
    program: Peer,
    /// Lines that nobody asked for yet.
    kept: VecDeque<Value>,
}

impl Python {
    /// A server and an emitter on this Redis.
    pub fn start(redis: &str) -> Python {
        let folder = installed("cluster");
        let mut command = Command::new(folder.join(".venv/bin/python"));
        let mut peer = Python {
            program: Peer::start(command.arg(folder.join("peer.py")).arg(redis)),
            kept: VecDeque::new(),
        };
        peer.wait_for(|line| line["ready"] == true);
        peer
    }

    /// A client in rooms, of this server or of another one; its id. Clients of this server use polling, others WebSocket.
    pub fn client(&mut self, name: &str, rooms: &[&str], url: Option<&str>) -> String {
        self.tell(&json!({"do": "client", "name": name, "rooms": rooms, "url": url}));
        let line = self.wait_for(|line| line.get("id").is_some());
        line["id"].as_str().expect("an id").to_owned()
    }

    /// Arguments of the next event of that name that a client of it hears.
    pub fn hears(&mut self, client: &str, event: &str) -> Value {
        let mut line = self.wait_for(|line| line["client"] == client && line["event"] == event);
        line["args"].take()
    }

    /// What was heard and not asked for, in order.
    pub fn heard_else(&mut self) -> Vec<Value> {
        self.kept.extend(self.program.said());
        self.kept.drain(..).collect()
    }

    fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.kept.iter().position(&wanted) {
            return self.kept.remove(at).expect("it is there");
        }
        let deadline = Peer::deadline();
        loop {
            match self.program.next(deadline) {
                Ok(line) if wanted(&line) => return line,
                Ok(line) => self.kept.push_back(line),
                Err(error) => panic!("{error}; heard {:#?}", self.kept),
            }
        }
    }

    pub fn tell(&mut self, command: &Value) {
        self.program.tell(command);
    }

    /// Arguments of the next answer to a question.
    pub fn callback(&mut self) -> Value {
        let mut line = self.wait_for(|line| line.get("callback").is_some());
        line["callback"].take()
    }
}

/// A folder of `conformance`, with the Python packages that its list names in `.venv`.
pub fn installed(folder: &str) -> PathBuf {
    let conformance = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let folder = conformance.join(folder);
    let script = "cmp -s requirements.txt .venv/.complete && exit
        python3 -m venv --clear .venv
        .venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
        cp requirements.txt .venv/.complete";
    one_at_a_time(&folder, "requirements.txt", script);
    folder
}
