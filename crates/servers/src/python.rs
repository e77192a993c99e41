//! python-socketio's Redis manager: `conformance/cluster/peer.py`, which says what it can be told.

use crate::one_at_a_time;
use crate::peer::Peer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub struct Python(Peer);

impl Python {
    /// A manager and an emitter on this Redis.
    pub fn start(redis: &str) -> Python {
        let folder = installed("cluster");
        let mut command = Command::new(folder.join(".venv/bin/python"));
        let peer = Python(Peer::start(command.arg(folder.join("peer.py")).arg(redis)));
        assert_eq!(peer.next_line(), json!({"ready": true}));
        peer
    }

    pub fn tell(&mut self, command: &Value) {
        self.0.tell(command);
    }

    /// What it says next.
    pub fn next_line(&self) -> Value {
        self.0.next(Peer::deadline()).expect("a line")
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
