//! Owns the Node peer as tests start it: npm's socket.io, installed once.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

pub struct Node {
    child: Child,
    pub url: String,
}

impl Node {
    pub fn start() -> Node {
        Node::with("MAX_REQUESTS", "0")
    }

    /// With a setting of the peer's.
    pub fn with(name: &str, value: &str) -> Node {
        Node::with_all(&[(name, value)])
    }

    pub fn with_all(settings: &[(&str, &str)]) -> Node {
        let folder =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/node-socketio");
        {
            static INSTALLING: Mutex<()> = Mutex::new(());
            let _one_at_a_time = INSTALLING.lock().unwrap();
            bench::suite::install_node_peer(&folder).unwrap();
        }
        let mut child = Command::new("node")
            .arg(folder.join("server.js"))
            .env("POLLING", "1")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let announced: serde_json::Value = serde_json::from_str(&line).unwrap();
        let is_tls = settings.iter().any(|(name, _)| *name == "TLS_CERT");
        let scheme = if is_tls { "https" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{}", announced["port"]);
        Node { child, url }
    }
}

impl Node {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
