//! Owns servers that a command starts: on a free port of loopback before a measurement, stopped behind it.

use crate::process::Process;
use crate::scenario::Protocol;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server by the name that tables give it.
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
    /// Prints its port and pid when it listens.
    Node { script: PathBuf, protocol: Protocol },
    /// `program prefix… floor mode`: this very binary.
    Floor {
        program: PathBuf,
        prefix: Vec<String>,
        mode: String,
    },
    /// It runs already.
    External {
        url: String,
        pid: u32,
        protocol: Protocol,
    },
}

/// A running server; dropping it stops it, if it was started here.
#[derive(Debug)]
pub struct Server {
    url: String,
    pid: u32,
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
    pub fn protocol(&self) -> Protocol {
        match self {
            Kind::Sockeye { .. } => Protocol::SocketIo,
            Kind::Floor { .. } => Protocol::Bare,
            Kind::Node { protocol, .. } | Kind::External { protocol, .. } => *protocol,
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
            Kind::Node { script, .. } => {
                let mut command = Command::new("node");
                command.arg(script);
                start_announced(command)
            }
            Kind::Floor {
                program,
                prefix,
                mode,
            } => {
                let mut command = Command::new(program);
                command.args(prefix).args(["floor", mode]);
                start_announced(command)
            }
            Kind::External { url, pid, .. } => Ok(Server {
                url: url.clone(),
                pid: *pid,
                child: None,
            }),
        };
        server.with_context(|| format!("cannot start server {}", self.name))
    }
}

fn start_announced(mut command: Command) -> Result<Server> {
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
    Ok(Server {
        url: url_of(port),
        pid,
        child: Some(child),
    })
}

fn start_on_port(mut command: Command, port: u16) -> Result<Server> {
    let child = command.stdout(Stdio::null()).stdin(Stdio::null()).spawn()?;
    Server {
        url: url_of(port),
        pid: child.id(),
        child: Some(child),
    }
    .await_listening(port)
}

fn url_of(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a port")?;
    Ok(listener.local_addr()?.port())
}

impl Server {
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    fn await_listening(mut self, port: u16) -> Result<Self> {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect_timeout(&addr, START_TIMEOUT).is_err() {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().ok()?) {
                bail!("it exited with {status}");
            }
            if Instant::now() > deadline {
                bail!("nothing listens on {addr} after {START_TIMEOUT:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(self)
    }

    /// `false` when the process has ended by itself.
    pub fn is_alive(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => Process { pid: self.pid }.cpu_ns().is_ok(),
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
