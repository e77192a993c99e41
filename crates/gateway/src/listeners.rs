//! Listeners of the control plane: operators, workers.

use anyhow::{Context, Result};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Connections that the kernel holds until they are accepted. The standard library's 128 are used up by a burst of strangers, and the
/// connection of an operator is tried again after a second only. The system may allow fewer (`net.core.somaxconn`).
const BACKLOG: i32 = 4_096;

/// `setting`: the key that has the address, or none.
pub fn listen(addr: Option<SocketAddr>, setting: &str) -> Result<Option<TcpListener>> {
    let open = |addr| open(addr).with_context(|| format!("cannot listen on {addr} ({setting})"));
    addr.map(open).transpose()
}

fn open(addr: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(addr)?;
    #[cfg(unix)]
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
