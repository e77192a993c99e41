//! Listeners of the control plane: operators, workers.

use crate::config::{Listen, Resolved};
use crate::unix::{self, SocketFiles};
use anyhow::{Result, anyhow};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::slice;
use workers::Socket;

/// Connections that the kernel holds until they are accepted. The standard library's 128 are used up by a burst of strangers, and the
/// connection of an operator is tried again after a second only. The system may allow fewer (`net.core.somaxconn`).
const BACKLOG: i32 = 4_096;
/// Permissions of the workers' Unix socket. Workers show a key in any case.
const WORKERS_MODE: u32 = 0o600;

/// `setting`: the key that has the address, or none.
pub fn listen(addr: Option<SocketAddr>, setting: &str) -> Result<Option<TcpListener>> {
    let open = |addr| open(addr).map_err(|error| refused(addr, setting, &error));
    addr.map(open).transpose()
}

/// A listener that another process had.
pub fn adopted(listener: Option<TcpListener>) -> Result<Option<TcpListener>> {
    if let Some(listener) = &listener {
        listener.set_nonblocking(true)?;
    }
    Ok(listener)
}

/// That for workers, bound before anything begins, so that an address in use is a start that fails.
pub fn of_workers(config: &Resolved) -> Result<(Option<Socket>, SocketFiles)> {
    let (socket, files) = match &config.workers {
        None => (None, SocketFiles::default()),
        Some(Listen::Tcp(addr)) => {
            let listener = listen(Some(*addr), "workers.listen")?;
            (listener.map(Socket::Tcp), SocketFiles::default())
        }
        Some(Listen::Unix(path)) => {
            let (listeners, files) = unix::listen(slice::from_ref(path), WORKERS_MODE)?;
            (listeners.into_iter().next().map(Socket::Unix), files)
        }
    };
    Ok((socket, files))
}

/// The same of another process, whose configuration has the same address.
pub fn of_its_workers(config: &Resolved, socket: Option<OwnedFd>) -> Result<Option<Socket>> {
    Ok(match (&config.workers, socket) {
        (Some(Listen::Tcp(_)), Some(socket)) => adopted(Some(socket.into()))?.map(Socket::Tcp),
        (Some(Listen::Unix(_)), Some(socket)) => {
            let listener = UnixListener::from(socket);
            listener.set_nonblocking(true)?;
            Some(Socket::Unix(listener))
        }
        _ => None,
    })
}

/// Files of all Unix sockets.
pub fn socket_files(config: &Resolved) -> Vec<PathBuf> {
    let of_workers = config.workers.as_ref().and_then(Listen::unix);
    config
        .server
        .unix
        .iter()
        .chain(of_workers)
        .cloned()
        .collect()
}

/// The listener of operators, once it is known that the public addresses can be had. Nothing has begun yet that others notice: a port that
/// is taken is the first mistake of many.
pub fn first(config: &Resolved) -> Result<Option<TcpListener>> {
    let plain = config
        .server
        .listen
        .iter()
        .map(|addr| (addr, "server.listen"));
    let secure = config.tls.iter().flat_map(|tls| &tls.listen);
    for (addr, setting) in plain.chain(secure.map(|addr| (addr, "tls.listen"))) {
        shard::can_listen(*addr).map_err(|error| refused(*addr, setting, &error))?;
    }
    listen(config.server.admin, "server.admin")
}

/// With the next step, if somebody has the port: often the gateway that was just told to stop has it.
fn refused(addr: SocketAddr, setting: &str, error: &io::Error) -> anyhow::Error {
    let message = format!("cannot listen on {addr} ({setting}): {error}");
    if error.kind() != io::ErrorKind::AddrInUse {
        return anyhow!("{message}");
    }
    let whose = format!(
        "another program has this port, or a gateway that still drains: `ss -ltnp 'sport = :{}'` says which. Wait until it has ended",
        addr.port()
    );
    let (flag, step) = match setting {
        "server.listen" => ("--listen", 1),
        // Behind 9090 is the port of workers in every example.
        "server.admin" => ("--admin", 2),
        _ => return anyhow!("{message}; {whose}, or choose another port"),
    };
    let port = addr.port().checked_add(step).unwrap_or(3_001);
    let other = match addr.ip().is_unspecified() {
        true => format!(":{port}"),
        false => SocketAddr::new(addr.ip(), port).to_string(),
    };
    anyhow!("{message}; {whose}, or add `{flag} {other}` to the command")
}

fn open(addr: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(addr)?;
    #[cfg(unix)]
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
