//! Owns servers that a command starts: on a free port of loopback before a measurement, stopped behind it.

use crate::scenario::Protocol;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server by the name that tables give it, and how it is started.
#[derive(Clone, Debug)]
pub struct Contender {
    pub name: String,
    pub program: PathBuf,
    /// `{port}` stands for a free port. A server that is told none says in its first line where it listens.
    pub args: Vec<String>,
    pub settings: Vec<(String, String)>,
    /// What it speaks instead of the scenario's protocol.
    pub protocol: Option<Protocol>,
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct Server {
    url: String,
    child: Child,
}

const PORT: &str = "{port}";
/// Stands for a free port that answers `/ready`.
const ADMIN: &str = "{admin}";
const START_TIMEOUT: Duration = Duration::from_secs(15);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// First line of a server that chooses its port.
#[derive(Debug, Deserialize)]
struct Announcement {
    port: u16,
}

impl Contender {
    pub fn new(
        name: &str,
        program: &Path,
        args: &[String],
        protocol: Option<Protocol>,
    ) -> Contender {
        Contender {
            name: name.to_owned(),
            program: program.to_owned(),
            args: args.to_vec(),
            settings: Vec::new(),
            protocol,
        }
    }

    /// A gateway with so many shards.
    pub fn sockeye(bin: &Path, config: &Path, shards: u32) -> Contender {
        let name = match shards {
            1 => "sockeye".to_owned(),
            shards => format!("sockeye-{shards}"),
        };
        let config = config.display();
        let args =
            format!("serve --listen 127.0.0.1:{PORT} --admin 127.0.0.1:{ADMIN} --shards {shards}");
        let args = args.split(' ').map(str::to_owned);
        let args = args.chain([format!("--config={config}")]);
        Contender::new(&name, bin, &args.collect::<Vec<_>>(), None)
    }

    pub fn start(&self) -> Result<Server> {
        let server = self.try_start();
        server.with_context(|| format!("cannot start server {}", self.name))
    }

    fn try_start(&self) -> Result<Server> {
        let (port, admin) = (free_port()?, free_port()?);
        let is_told = self.args.iter().any(|arg| arg.contains(PORT));
        let args = self
            .args
            .iter()
            .map(|arg| arg.replace(PORT, &port.to_string()))
            .map(|arg| arg.replace(ADMIN, &admin.to_string()));
        let mut command = Command::new(&self.program);
        command.args(args).envs(self.settings.iter().cloned());
        command.stdin(Stdio::null()).stdout(match is_told {
            true => Stdio::null(),
            false => Stdio::piped(),
        });
        let mut server = Server {
            url: String::new(),
            child: command.spawn()?,
        };
        let port = match server.child.stdout.take() {
            None => server.await_listening(port)?,
            Some(stdout) => {
                let mut line = String::new();
                BufReader::new(stdout).read_line(&mut line)?;
                let said = serde_json::from_str(&line);
                let said: Announcement = said
                    .with_context(|| format!("its first line is no {{\"port\":…}} but {line:?}"))?;
                said.port
            }
        };
        if self.args.iter().any(|arg| arg.contains(ADMIN)) {
            server.await_ready(admin)?;
        }
        server.url = format!("http://127.0.0.1:{port}");
        Ok(server)
    }
}

fn is_ready(admin: u16) -> Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, admin))?;
    stream.set_read_timeout(Some(START_TIMEOUT))?;
    stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status)?;
    Ok(status.starts_with("HTTP/1.1 200"))
}

/// The kernel gives none of these to a client, which might have it before the server does; tests take theirs below.
fn free_port() -> Result<u16> {
    let mut ports = std::iter::repeat_with(|| fastrand::u16(32_000..32_768)).take(1_000);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).context("cannot find a free port")
}

impl Server {
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn await_listening(&mut self, port: u16) -> Result<u16> {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect_timeout(&addr, START_TIMEOUT).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("it exited with {status}");
            }
            if Instant::now() > deadline {
                bail!("nothing listens on {addr} after {START_TIMEOUT:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(port)
    }

    /// A node of a cluster listens before the others know it, and what it is sent then waits.
    fn await_ready(&mut self, admin: u16) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !is_ready(admin).unwrap_or(false) {
            if Instant::now() > deadline || !self.is_alive() {
                bail!("it does not answer /ready with 200 on port {admin} after {START_TIMEOUT:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// `false` when the process has ended by itself.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ask first: a clean end shows in the server's log if something is wrong with it.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if !self.is_alive() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
