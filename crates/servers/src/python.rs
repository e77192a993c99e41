//! python-socketio's Redis manager: `conformance/cluster/peer.py`, which says what it can be told.

use crate::PATIENCE;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

#[derive(Debug)]
pub struct Python {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
}

impl Python {
    /// A manager and an emitter on this Redis.
    pub fn start(redis: &str) -> Python {
        let folder = installed("cluster");
        let mut child = Command::new(folder.join(".venv/bin/python"))
            .arg(folder.join("peer.py"))
            .arg(redis)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python was installed a moment ago");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = stdout.lines().map_while(Result::ok);
            let mut lines = lines.map(|line| serde_json::from_str(&line).unwrap_or_default());
            lines.try_for_each(|line| sender.send(line))
        });
        let peer = Python {
            child,
            stdin,
            lines,
        };
        assert_eq!(peer.next_line(), json!({"ready": true}));
        peer
    }

    pub fn tell(&mut self, command: &Value) {
        writeln!(self.stdin, "{command}").expect("the peer reads");
    }

    /// What it says next.
    pub fn next_line(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder of `conformance`, with the Python packages that its list names in `.venv`.
pub fn installed(folder: &str) -> PathBuf {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock();
    let conformance = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let folder = conformance.join(folder);
    // Of several test programs that install at once, all but the first find it done.
    let script = "cmp -s requirements.txt .venv/.complete && exit
        python3 -m venv --clear .venv
        .venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
        cp requirements.txt .venv/.complete";
    let done = Command::new("flock")
        .args(["requirements.txt", "sh", "-ec", script])
        .current_dir(&folder)
        .status();
    assert!(done.is_ok_and(|status| status.success()), "pip failed");
    folder
}
