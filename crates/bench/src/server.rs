//! Owns the servers under test: starting Sockeye, the Node peers and the floors as child
//! processes on free loopback ports, waiting until they answer, and stopping them.

use crate::dialect::{Protocol, Target};
use crate::process::Process;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that the suite can start (or that already runs).
#[derive(Clone, Debug)]
pub struct Contender {
    pub name: String,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Sockeye {
        bin: PathBuf,
        config: PathBuf,
        shards: u32,
    },
    /// `node script`; prints one JSON line with `port` and `pid`.
    Node { script: PathBuf, protocol: Protocol },
    /// `program prefix… floor mode`; prints the same line.
    Floor {
        program: PathBuf,
        prefix: Vec<String>,
        mode: String,
    },
    /// Runs elsewhere and is left alone.
    External { target: Target, pid: u32 },
}

/// A running server. Dropping it ends the process, if it is ours.
#[derive(Debug)]
pub struct Server {
    pub target: Target,
    pub process: Process,
    child: Option<Child>,
}

const START_TIMEOUT: Duration = Duration::from_secs(15);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// First line of a peer: where it listens.
#[derive(Debug, Deserialize)]
struct Announcement {
    port: u16,
    pid: u32,
}

impl Kind {
    pub fn speaks_socket_io(&self) -> bool {
        match self {
            Kind::Sockeye { .. } => true,
            Kind::Node { protocol, .. } => *protocol == Protocol::SocketIo,
            Kind::Floor { .. } => false,
            Kind::External { target, .. } => target.protocol == Protocol::SocketIo,
        }
    }
}

impl Contender {
    pub fn start(&self) -> Result<Server> {
        let server = match &self.kind {
            Kind::Sockeye {
                bin,
                config,
                shards,
            } => {
                let (port, admin) = (free_port()?, free_port()?);
                let mut command = Command::new(bin);
                command.arg("serve").arg("--config").arg(config);
                command.args(["--listen", &format!("127.0.0.1:{port}")]);
                command.args(["--admin", &format!("127.0.0.1:{admin}")]);
                command.args(["--shards", &shards.to_string()]);
                start_on_port(command, port)
            }
            Kind::Node { script, protocol } => {
                let mut command = Command::new("node");
                command.arg(script);
                start_announced(command, *protocol)
            }
            Kind::Floor {
                program,
                prefix,
                mode,
            } => {
                let mut command = Command::new(program);
                command.args(prefix).args(["floor", mode]);
                start_announced(command, Protocol::Bare)
            }
            Kind::External { target, pid } => {
                let process = Process { pid: *pid };
                Ok(Server {
                    target: target.clone(),
                    process,
                    child: None,
                })
            }
        };
        server.with_context(|| format!("cannot start server {}", self.name))
    }
}

fn start_announced(mut command: Command, protocol: Protocol) -> Result<Server> {
    let mut child = command
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()?;
    let stdout = child.stdout.take().context("server has no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let Ok(Announcement { port, pid }) = serde_json::from_str(&line) else {
        let _ = child.kill();
        let _ = child.wait();
        bail!("its first line is no {{\"port\":…,\"pid\":…}} but {line:?}");
    };
    let target = Target::new(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), protocol);
    let server = Server {
        target,
        process: Process { pid },
        child: Some(child),
    };
    server.await_listening()
}

fn start_on_port(mut command: Command, port: u16) -> Result<Server> {
    let child = command.stdout(Stdio::null()).stdin(Stdio::null()).spawn()?;
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let target = Target::new(addr, Protocol::SocketIo);
    let process = Process { pid: child.id() };
    Server {
        target,
        process,
        child: Some(child),
    }
    .await_listening()
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a port")?;
    Ok(listener.local_addr()?.port())
}

impl Server {
    /// The same server spoken to in another protocol.
    pub fn target_as(&self, protocol: Protocol) -> Target {
        Target::new(self.target.addr, protocol)
    }

    fn await_listening(mut self) -> Result<Self> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if TcpStream::connect_timeout(&self.target.addr, START_TIMEOUT).is_ok() {
                return Ok(self);
            }
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().ok()?) {
                bail!("it exited with {status}");
            }
            if Instant::now() > deadline {
                bail!(
                    "nothing listens on {} after {START_TIMEOUT:?}",
                    self.target.addr
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// `false` when the process has ended by itself.
    pub fn is_alive(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => self.process.cpu_ns().is_ok(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // Ask first: a clean end shows in the server's log if something is wrong with it.
        if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
