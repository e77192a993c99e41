//! Listening sockets: one per shard and address, sharing the port (SO_REUSEPORT), so that the kernel spreads connections.

use mio::net::TcpListener;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// Connections the kernel may hold for us before we accept (cut down to net.core.somaxconn).
const BACKLOG: i32 = 65_535;

/// Opens a listener for one shard. The error names the address.
pub(crate) fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    open(addr)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {addr}: {error}")))
}

fn open(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() && addr.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    // Accepted sockets inherit it: packets are coalesced per turn by us, not by the kernel.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Binds without sharing first: a port that another process serves is refused, not silently split with it.
pub(crate) fn claim(addr: SocketAddr) -> io::Result<SocketAddr> {
    let probe = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() && addr.ip().is_unspecified() {
        probe.set_only_v6(false)?;
    }
    probe.set_reuse_address(true)?;
    let bound = probe.bind(&addr.into()).and_then(|()| probe.local_addr());
    let bound = bound.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {addr}: {error}"))
    })?;
    bound
        .as_socket()
        .ok_or_else(|| io::Error::other("not an IP address"))
}
