//! The conformance application on Socket.IO's own Node server: `conformance/reference`.

use crate::node::install;
use crate::peer::Running;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

#[derive(Debug)]
pub struct Reference {
    /// Where its clients connect.
    pub addr: SocketAddr,
    running: Running,
    _stdout: BufReader<ChildStdout>,
}

impl Reference {
    /// Joins the cluster at these addresses of Redis with an adapter: `classic`, `sharded` or `streams`. Heartbeats are slow, so that a
    /// busy machine ends no sessions.
    pub fn start(redis: &[String], adapter: &str, args: &[&str]) -> Reference {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/reference");
        install(&folder);
        let flags = "--port 0 --ping-interval 20000 --ping-timeout 20000 --connect-timeout 20000";
        let mut command = Command::new("node");
        command
            .arg(folder.join("server.js"))
            .args(flags.split(' '))
            .args(["--redis", &redis.join(","), "--adapter", adapter])
            .args(args)
            .stdin(Stdio::null());
        let mut running = Running::start(&mut command);
        let mut stdout = BufReader::new(running.0.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line of the server");
        let addr = line.trim().strip_prefix("listening http://");
        let addr = addr.and_then(|addr| addr.parse().ok());
        let addr = addr.unwrap_or_else(|| panic!("no address in {line:?}"));
        Reference {
            addr,
            running,
            _stdout: stdout,
        }
    }

    pub fn is_alive(&mut self) -> bool {
        self.running.is_alive()
    }
}
