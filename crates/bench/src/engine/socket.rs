//! Owns sockets on their way to a server: many source addresses on loopback, and the key of every handshake.

use anyhow::{Context, Result, anyhow};
use mio::net::TcpStream;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// Ports per source address stay far below the ephemeral range, where binding is still cheap.
const CONNECTIONS_PER_SOURCE: u32 = 4_000;
/// 127.1.0.1: clear of addresses that other programs on the machine like to bind.
const FIRST_SOURCE: u32 = 0x7f01_0001;
/// Each server has sources of its own: a bound port is taken for all servers, also from generators beside this one. All of it is in 127.0.0.0/8.
const SOURCES_PER_PORT: u32 = 254;
const EINPROGRESS: i32 = 115;

/// RFC 6455 §4.1 wants a random nonce; one per run is enough to tell a WebSocket server from a
/// cache, and it lets a whole run share one expected answer.
pub const KEY: &[u8; 24] = b"c29ja2V5ZS1iZW5jaC0wMQ==";

/// Opens a non-blocking socket towards the server, from a source address chosen by the user's number.
pub fn open_socket(addr: SocketAddr, user: u32) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))
        .context("cannot create a socket (is the limit of open files reached?)")?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_linger(Some(Duration::ZERO))?;
    if addr.is_ipv4() && addr.ip().is_loopback() {
        let source = source(addr.port(), user);
        socket
            .bind(&SockAddr::from(SocketAddrV4::new(source, 0)))
            .with_context(|| format!("cannot bind source address {source}"))?;
    }
    match socket.connect(&SockAddr::from(addr)) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(EINPROGRESS) => {}
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(error) => return Err(anyhow!("cannot connect to {addr}: {error}")),
    }
    Ok(TcpStream::from_std(socket.into()))
}

fn source(port: u16, user: u32) -> Ipv4Addr {
    let of_port = u32::from(port) * SOURCES_PER_PORT;
    let of_user = user / CONNECTIONS_PER_SOURCE % SOURCES_PER_PORT;
    Ipv4Addr::from(FIRST_SOURCE + of_port + of_user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_servers_have_a_source_in_common() {
        let of = |port| {
            let users = (0..=u32::MAX).step_by(CONNECTIONS_PER_SOURCE as usize);
            users.take(1_000).map(|user| source(port, user)).collect()
        };
        let (first, second, last): (BTreeSet<_>, BTreeSet<_>, BTreeSet<_>) =
            (of(0), of(1), of(u16::MAX));
        assert_eq!((first.len(), second.len(), last.len()), (254, 254, 254));
        assert!(first.is_disjoint(&second));
        let all = first.union(&last);
        assert!(
            all.into_iter()
                .all(|source| source.octets()[0] == 127 && source.octets()[1] > 0)
        );
    }
}
