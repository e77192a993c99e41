//! Owns the Node peer as tests start it: npm's socket.io, installed once.

use bench::server::{Contender, Server};
use std::path::Path;
use std::sync::Mutex;

pub struct Node {
    server: Server,
    pub url: String,
}

impl Node {
    pub fn start() -> Node {
        Node::with_all(&[])
    }

    /// With a setting of the peer's.
    pub fn with(name: &str, value: &str) -> Node {
        Node::with_all(&[(name, value)])
    }

    pub fn with_all(settings: &[(&str, &str)]) -> Node {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/node-socketio");
        {
            static INSTALLING: Mutex<()> = Mutex::new(());
            let _one_at_a_time = INSTALLING.lock().unwrap();
            bench::suite::install_node_peer(&folder).unwrap();
        }
        let script = folder.join("server.js").display().to_string();
        let mut node = Contender::new("node", Path::new("node"), &[script], None);
        let settings = settings.iter().chain([&("POLLING", "1")]);
        let settings = settings.map(|(name, value)| (name.to_string(), value.to_string()));
        node.settings = settings.collect();
        let server = node.start().unwrap();
        let is_tls = node.settings.iter().any(|(name, _)| name == "TLS_CERT");
        let scheme = if is_tls { "https:" } else { "http:" };
        let url = server.url().replace("http:", scheme);
        Node { server, url }
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }
}
