//! Owns sockets on their way to a server: many source addresses on loopback, and the key of every handshake.

use anyhow::{Context, Result, anyhow};
use mio::net::TcpStream;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// Ports per source address stay far below the ephemeral range, where binding is still cheap.
const CONNECTIONS_PER_SOURCE: u32 = 4_000;
/// Of 127.0.0.0/8.
const LOOPBACK: u32 = 0x7f00_0000;
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

/// Of each server others, or generators beside each other would take each other's ports.
fn source(port: u16, user: u32) -> Ipv4Addr {
    let of_user = 1 + user / CONNECTIONS_PER_SOURCE;
    Ipv4Addr::from(LOOPBACK | ((u32::from(port) << 8).wrapping_add(of_user) & 0x00ff_ffff))
}
