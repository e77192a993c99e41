//! One NATS server with JetStream: it can be stopped, killed, frozen and started again on the same port with the same streams.

use crate::{free_ports, freeze, program, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;
use tempfile::TempDir;

#[derive(Debug)]
pub struct Nats {
    port: u16,
    child: Option<Child>,
    folder: TempDir,
}

impl Nats {
    /// Anybody may do anything; there are no streams.
    pub fn start() -> Nats {
        Nats::with("")
    }

    /// With more in its configuration file.
    pub fn with(more: &str) -> Nats {
        let mut nats = Nats::stopped(more);
        nats.restart();
        nats
    }

    /// Whose JetStream others reach by a domain.
    pub fn with_domain(domain: &str, more: &str) -> Nats {
        let mut nats = Nats::keeping(&format!("domain: {domain}"), more);
        nats.restart();
        nats
    }

    /// Ready to be started with [`Nats::restart`]: nothing answers at its address.
    pub fn stopped(more: &str) -> Nats {
        Nats::keeping("", more)
    }

    fn keeping(words: &str, more: &str) -> Nats {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        let streams = format!("jetstream {{ store_dir: \"{}\"\n{words} }}", data.display());
        Nats::prepare(folder, &format!("{streams}\n{more}"))
    }

    /// A server behind another one's port for leaf nodes. It has no streams of its own.
    pub fn leaf_of(port: u16) -> Nats {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let remote = format!(
            "leafnodes {{ reconnect: 1, remotes: [ {{ url: \"nats://127.0.0.1:{port}\" }} ] }}"
        );
        let mut nats = Nats::prepare(folder, &remote);
        nats.restart();
        nats
    }

    /// Three servers that are one cluster.
    pub fn cluster() -> [Nats; 3] {
        let ports: [u16; 3] = free_ports();
        let routes = ports.map(|port| format!("nats://127.0.0.1:{port}"));
        let mut servers = [0, 1, 2].map(|at| {
            let port = ports[at];
            Nats::stopped(&format!(
                "server_name: n{at}\ncluster {{ name: c, listen: \"127.0.0.1:{port}\", routes: [{}] }}",
                routes.join(", ")
            ))
        });
        servers.iter_mut().for_each(Nats::restart);
        servers
    }

    fn prepare(folder: TempDir, more: &str) -> Nats {
        let [port] = free_ports();
        let settings = format!("listen: \"127.0.0.1:{port}\"\n{more}\n");
        std::fs::write(folder.path().join("nats.conf"), settings).expect("a file");
        Nats {
            port,
            child: None,
            folder,
        }
    }

    /// As clients name it.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Of the process that runs.
    ///
    /// # Panics
    /// It does not run.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// SIGKILL, as a machine that fails. What it had not written to its files yet is lost.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, as an operator stops it.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal(&child, Signal::TERM);
            let _ = child.wait();
        }
    }

    /// SIGSTOP: connections stay, and nothing answers.
    pub fn freeze(&self) {
        freeze(self.child.as_ref().expect("it runs").id());
    }

    /// Ends [`Nats::freeze`].
    pub fn thaw(&self) {
        signal(self.child.as_ref().expect("it runs"), Signal::CONT);
    }

    /// Starts it on the same port and with the files that are there; one that runs is killed first.
    pub fn restart(&mut self) {
        self.kill();
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .expect("a log file");
        let mut command = program("nats-server");
        command
            .arg("--config")
            .arg(self.folder.path().join("nats.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let started = command.spawn();
        self.child = Some(started.expect("start nats-server: cargo xtask test installs it"));
        wait_for("NATS answers", || {
            let child = self.child.as_mut().expect("it was started");
            let ended = child.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "NATS ended: {}", self.log());
            self.is_up().then_some(())
        });
    }

    /// It greets each connection.
    fn is_up(&self) -> bool {
        let mut greeting = [0; 5];
        let greeted = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut conn| {
            conn.set_read_timeout(Some(Duration::from_secs(1)))?;
            conn.read_exact(&mut greeting)
        });
        greeted.is_ok() && &greeting == b"INFO "
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn signal(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // One that has ended is as it should be.
    let _ = kill_process(id.expect("a process id"), signal);
}

impl Drop for Nats {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of NATS {}:\n{}", self.port, self.log());
        }
        self.kill();
    }
}
