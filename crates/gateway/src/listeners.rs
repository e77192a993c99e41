//! Listeners of the control plane: operators, workers.

use crate::config::Resolved;
use anyhow::{Result, anyhow};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Connections that the kernel holds until they are accepted. The standard library's 128 are used up by a burst of strangers, and the
/// connection of an operator is tried again after a second only. The system may allow fewer (`net.core.somaxconn`).
const BACKLOG: i32 = 4_096;

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

/// With the next step, if another program has the port.
fn refused(addr: SocketAddr, setting: &str, error: &io::Error) -> anyhow::Error {
    let message = format!("cannot listen on {addr} ({setting}): {error}");
    if error.kind() != io::ErrorKind::AddrInUse {
        return anyhow!("{message}");
    }
    let flag = match setting {
        "server.listen" => "--listen",
        "server.admin" => "--admin",
        _ => return anyhow!("{message}; another program has this port: choose another one"),
    };
    let port = addr.port().checked_add(1).unwrap_or(3_001);
    let other = match addr.ip().is_unspecified() {
        true => format!(":{port}"),
        false => SocketAddr::new(addr.ip(), port).to_string(),
    };
    anyhow!("{message}; another program has this port: try `sockeye {flag} {other}`")
}

fn open(addr: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(addr)?;
    #[cfg(unix)]
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
