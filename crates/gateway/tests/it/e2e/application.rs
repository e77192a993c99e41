//! The conformance application as a child process: an in-process handler on the same data plane.

use crate::harness::Beside;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

#[derive(Debug)]
pub struct Application {
    pub addr: SocketAddr,
    child: Child,
    _beside: Beside,
    _stdout: BufReader<ChildStdout>,
}

/// Built by cargo beside the binary.
fn path() -> PathBuf {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_sockeye"));
    let folder = binary.parent().expect("a target folder").to_owned();
    folder.join("examples/conformance")
}

impl Application {
    /// Heartbeats are slow, so that a busy machine does not end sessions.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(more: &[&str]) -> Self {
        let beside = Beside::wait();
        let path = path();
        assert!(
            path.exists(),
            "{} is missing: `cargo build --release -p gateway --example conformance` makes it",
            path.display()
        );
        let flags = "--port 0 --shards 4 --ping-interval 20000 --ping-timeout 20000 --connect-timeout 20000";
        let mut child = Command::new(path)
            .args(flags.split(' '))
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the conformance application");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut line = String::new();
        stdout
            .read_line(&mut line)
            .expect("a line of the application");
        let addr = line
            .trim()
            .strip_prefix("listening on ")
            .and_then(|addr| addr.parse().ok());
        let addr = addr.unwrap_or_else(|| panic!("no address in {line:?}"));
        Self {
            addr,
            child,
            _beside: beside,
            _stdout: stdout,
        }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
