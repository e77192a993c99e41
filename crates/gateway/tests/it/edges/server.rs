//! A foreign server as a child process: its configuration in a folder of its own, a free port, and its end.

use crate::harness::{PATIENCE, eventually};
use servers::free_addr;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub addr: SocketAddr,
    child: Child,
    files: TempDir,
}

impl Server {
    /// Starts `program`; `args` and the configuration are made for its folder and address. Its output goes to `log` there.
    pub fn start(
        program: &str,
        args: impl Fn(&Path) -> Vec<String>,
        config: impl Fn(&Path, SocketAddr) -> String,
    ) -> Server {
        let files = tempfile::tempdir().expect("a temporary folder");
        let addr = free_addr();
        fs::write(files.path().join("config"), config(files.path(), addr)).expect("write");
        let log = fs::File::create(files.path().join("log")).expect("a log file");
        let mut command = Command::new(program);
        command
            .args(args(files.path()))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log twice"))
            .stderr(log);
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("cannot run {program} ({error}): cargo xtask test installs it")
        });
        let mut server = Server { addr, child, files };
        let up = eventually(PATIENCE, || {
            server.has_ended() || TcpStream::connect(addr).is_ok()
        });
        let up = up && !server.has_ended();
        assert!(up, "{program} did not start: {}", server.log());
        server
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.files.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the proxy:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
