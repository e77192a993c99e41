//! Listening sockets. TCP: one per shard and address, sharing the port (SO_REUSEPORT), so that the kernel spreads
//! connections. Unix sockets know no such sharing: each belongs to one shard, which spreads them itself.

use crate::reactor::stream::Stream;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Connections the kernel may hold for us before we accept (cut down to net.core.somaxconn).
const BACKLOG: i32 = 65_535;

/// A client on a Unix socket is on this machine.
const UNIX_PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// A non-blocking Unix listener that is bound already.
    pub(crate) fn unix(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(UnixListener::from_std(listener)))
    }

    pub(crate) fn accept(&self) -> io::Result<(Stream, IpAddr)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                Ok((Stream::Tcp(stream), peer.ip().to_canonical()))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                Ok((Stream::Unix(stream), UNIX_PEER))
            }
        }
    }

    /// Whether somebody waits to be accepted.
    pub(crate) fn is_asked(&self) -> bool {
        let mut listeners = [PollFd::new(self, PollFlags::IN)];
        // Where that cannot be told, `accept` tells why.
        rustix::event::poll(&mut listeners, Some(&Timespec::default())) != Ok(0)
    }

    /// One that another process listened on.
    pub(crate) fn tcp(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp(TcpListener::from_std(listener)))
    }

    /// Another process listens on it from now on.
    pub(crate) fn forget(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.deregister(registry),
            Listener::Unix(listener) => listener.deregister(registry),
        }
    }

    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.register(registry, token, Interest::READABLE),
            Listener::Unix(listener) => listener.register(registry, token, Interest::READABLE),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

/// Opens a listener for one shard. The error names the address.
pub(crate) fn listen(addr: SocketAddr) -> io::Result<Listener> {
    open(addr)
        .map(Listener::Tcp)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {addr}: {error}")))
}

fn open(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if is_any_ipv6(addr) {
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

/// An address that is ours. A port that the kernel chose is held until the shards listen on it: another program may be given it
/// in the meantime.
pub(crate) struct Claim {
    pub(crate) addr: SocketAddr,
    _held: Option<Socket>,
}

/// The error names the address.
pub(crate) fn claim(addr: SocketAddr) -> io::Result<Claim> {
    let bound = bind(addr);
    bound.map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {addr}: {error}")))
}

/// Whether this address can be had now. Nothing stays bound.
///
/// # Errors
/// The system's own, such as that another program has the port.
pub fn can_listen(addr: SocketAddr) -> io::Result<()> {
    bind(addr).map(drop)
}

/// Binds without sharing first: a port that another process serves is refused, not silently split with it. Where there is no
/// IPv6, all addresses are those of IPv4.
fn bind(addr: SocketAddr) -> io::Result<Claim> {
    match probe(addr) {
        Err(error) if is_any_ipv6(addr) && lacks_ipv6(&error) => {
            probe((Ipv4Addr::UNSPECIFIED, addr.port()).into())
        }
        bound => bound,
    }
}

/// An address at which this process listens already.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands in the place of `claim`"
)]
pub(crate) fn share(addr: SocketAddr) -> io::Result<Claim> {
    Ok(Claim { addr, _held: None })
}

fn probe(addr: SocketAddr) -> io::Result<Claim> {
    let probe = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if is_any_ipv6(addr) {
        probe.set_only_v6(false)?;
    }
    // The kernel chooses no port that anybody has, so sharing this one is sharing with our shards only. With SO_REUSEADDR,
    // any program could bind to it until somebody listens.
    let chosen = addr.port() == 0;
    probe.set_reuse_address(!chosen)?;
    probe.set_reuse_port(chosen)?;
    probe.bind(&addr.into())?;
    let bound = probe.local_addr()?.as_socket();
    let bound = bound.ok_or_else(|| io::Error::other("not an IP address"))?;
    Ok(Claim {
        addr: bound,
        _held: chosen.then_some(probe),
    })
}

fn is_any_ipv6(addr: SocketAddr) -> bool {
    addr.is_ipv6() && addr.ip().is_unspecified()
}

/// Of a kernel that was built or started without it, or where the process may not use it.
fn lacks_ipv6(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address that is taken is no reason to listen elsewhere.
    #[test]
    fn only_missing_ipv6_is_replaced() {
        for (errno, is_missing) in [
            (Errno::AFNOSUPPORT, true),
            (Errno::ADDRNOTAVAIL, true),
            (Errno::ADDRINUSE, false),
            (Errno::ACCESS, false),
        ] {
            assert_eq!(lacks_ipv6(&errno.into()), is_missing, "{errno}");
        }
        let addr = |text: &str| text.parse::<SocketAddr>().expect(text);
        assert!(is_any_ipv6(addr("[::]:1")));
        assert!(!is_any_ipv6(addr("[::1]:1")) && !is_any_ipv6(addr("0.0.0.0:1")));
    }

    /// Between the choice and the first listener, the kernel gave the port to another program.
    #[test]
    fn a_chosen_port_was_nobodys_until_the_shards_listened() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let ours = claim(local).expect("claim a port");
        let other = std::net::TcpListener::bind(ours.addr).expect_err("the port is taken");
        assert_eq!(other.kind(), io::ErrorKind::AddrInUse);
        let listeners: Vec<_> = (0..2).map(|_| listen(ours.addr)).collect();
        assert!(listeners.iter().all(io::Result::is_ok));
        let taken = claim(ours.addr).map(|claim| claim.addr);
        let taken = taken.expect_err("somebody listens").kind();
        assert_eq!(taken, io::ErrorKind::AddrInUse);
    }
}
