//! A Node Socket.IO server in a cluster, with clients and an emitter of its own: `conformance/cluster/peer.mjs`, which says what it
//! can be told.

use crate::one_at_a_time;
use crate::peer::Peer;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct NodePeer {
    program: Peer,
    /// Lines that nobody asked for yet.
    kept: VecDeque<Value>,
    commands: u64,
    port: u64,
}

impl NodePeer {
    /// Joins the cluster of `redis` with an adapter: `classic`, `sharded` or `streams`; `none` stays alone.
    pub fn start(redis: &str, adapter: &str, namespaces: &str) -> NodePeer {
        NodePeer::start_with(redis, adapter, namespaces, &[])
    }

    pub fn start_with(redis: &str, adapter: &str, namespaces: &str, args: &[&str]) -> NodePeer {
        let folder = installed();
        let mut command = Command::new("node");
        command
            .arg(folder.join("peer.mjs"))
            .args(["--redis", redis, "--adapter", adapter])
            .args(["--namespaces", namespaces])
            .args(args);
        let mut peer = NodePeer {
            program: Peer::start(&mut command),
            kept: VecDeque::new(),
            commands: 0,
            port: 0,
        };
        let first = peer.wait_for("its first line", |line| line.get("port").is_some());
        peer.port = first["port"].as_u64().expect("a port");
        peer
    }

    /// Where its clients connect.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Tells it to do something; the number is for [`Self::finish`].
    pub fn begin(&mut self, mut command: Value) -> u64 {
        self.commands += 1;
        command["id"] = json!(self.commands);
        self.program.tell(&command);
        self.commands
    }

    /// Waits for what came of a command.
    pub fn finish(&mut self, id: u64) -> Value {
        let mut line = self.wait_for("an answer", |line| line["id"] == id);
        assert!(line.get("error").is_none(), "the peer says {line}");
        line["ok"].take()
    }

    /// Waits for the error that came of a command.
    pub fn fails(&mut self, id: u64) -> String {
        let line = self.wait_for("an error", |line| line["id"] == id);
        let error = line["error"].as_str();
        error.unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    /// SIGSTOP: its connections stay, and nothing is answered.
    pub fn freeze(&self) {
        self.program.freeze();
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.program.signal(Signal::CONT);
    }

    /// Tells it to do something and waits until it is done.
    pub fn call(&mut self, command: Value) -> Value {
        let id = self.begin(command);
        self.finish(id)
    }

    /// The same, asked anew until an answer comes: its Redis client never answers a question that a restart of Redis took.
    pub fn call_until_answered(&mut self, command: &Value) -> Value {
        let deadline = Peer::deadline();
        let mut asked = Vec::new();
        while Instant::now() < deadline {
            asked.push(self.begin(command.clone()));
            let soon = Instant::now() + Duration::from_secs(6);
            while let Ok(mut line) = self.program.next(soon) {
                let is_answer = asked.iter().any(|id| line["id"] == *id);
                match line.get("ok") {
                    Some(_) if is_answer => return line["ok"].take(),
                    _ if is_answer => break,
                    _ => self.kept.push_back(line),
                }
            }
        }
        panic!("no answer to {command}; heard {:#?}", self.kept);
    }

    /// Arguments of the next event of that name that a client of it hears.
    pub fn hears(&mut self, client: &str, event: &str) -> Value {
        let what = format!("{client} hears {event}");
        let mut line = self.wait_for(&what, |line| {
            line["client"] == client && line["event"] == event
        });
        line["args"].take()
    }

    /// Arguments of the next event for servers that it hears in a namespace.
    pub fn is_told(&mut self, namespace: &str) -> Value {
        let mut line = self.wait_for("an event for servers", |line| line["server"] == namespace);
        line["args"].take()
    }

    /// What was heard and not asked for, in order.
    pub fn heard_else(&mut self) -> Vec<Value> {
        self.kept.extend(self.program.said());
        self.kept.drain(..).collect()
    }

    pub fn is_alive(&mut self) -> bool {
        self.program.is_alive()
    }

    fn wait_for(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Peer::deadline();
        if let Some(at) = self.kept.iter().position(&wanted) {
            return self.kept.remove(at).expect("it is there");
        }
        loop {
            match self.program.next(deadline) {
                Ok(line) if wanted(&line) => return line,
                Ok(line) => self.kept.push_back(line),
                Err(error) => panic!("waited for {what} ({error}); heard {:#?}", self.kept),
            }
        }
    }
}

/// The folder of the peer, with the packages that its lock file names.
pub(crate) fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/cluster");
    install(&folder);
    folder
}

/// Brings the packages that a folder's lock file names. npm writes its own list last: what `cargo xtask test` installed is not
/// installed anew.
pub(crate) fn install(folder: &Path) {
    let script = "test node_modules/.package-lock.json -nt package-lock.json && exit
        npm ci --no-audit --no-fund --ignore-scripts --loglevel=error >&2
        touch node_modules/.package-lock.json";
    one_at_a_time(folder, "package-lock.json", script);
}
