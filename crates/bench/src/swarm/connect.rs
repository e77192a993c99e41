//! Owns the way into a server: the plan of a connect phase, sockets from many loopback addresses,
//! the upgrade request and the check of its answer.

use super::conn::Loss;
use crate::dialect::Target;
use crate::latency::{Distribution, Latency};
use anyhow::{Context, Result, anyhow};
use mio::net::TcpStream;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// Ports per source address stay far below the ephemeral range, where binding is still cheap.
const CONNECTIONS_PER_SOURCE: u32 = 4_000;
/// 127.1.0.1: clear of addresses that other programs on the machine like to bind.
const FIRST_SOURCE: u32 = 0x7f01_0001;

/// One connect phase of one worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConnectPlan {
    pub target: Target,
    /// Connections to add.
    pub count: u32,
    /// Number of the first one among all workers: decides room and source address.
    pub first_member: u32,
    /// Handshakes under way at a time.
    pub in_flight: u32,
    /// Joins room `member % rooms` before counting as ready; 0 joins none.
    pub rooms: u32,
}

/// How a connect phase went.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConnectReport {
    pub ready: u32,
    pub failed: u32,
    pub failures: BTreeMap<String, u64>,
    pub elapsed_ns: u64,
    /// From socket creation until ready.
    pub latency: Distribution,
}

/// A connect phase under way.
#[derive(Debug)]
pub struct Connecting {
    pub plan: ConnectPlan,
    pub opened: u32,
    pub ready: u32,
    pub failed: u32,
    pub failures: BTreeMap<String, u64>,
    pub started_ns: u64,
    pub latency: Latency,
}

impl Connecting {
    pub fn new(plan: ConnectPlan, started_ns: u64) -> Self {
        Connecting {
            plan,
            opened: 0,
            ready: 0,
            failed: 0,
            failures: BTreeMap::new(),
            started_ns,
            latency: Latency::default(),
        }
    }

    pub fn may_open(&self) -> bool {
        self.opened < self.plan.count
            && self.opened - self.ready - self.failed < self.plan.in_flight
    }

    pub fn is_done(&self) -> bool {
        self.ready + self.failed >= self.plan.count
    }

    pub fn report(&self, now_ns: u64) -> ConnectReport {
        ConnectReport {
            ready: self.ready,
            failed: self.failed,
            failures: self.failures.clone(),
            elapsed_ns: now_ns - self.started_ns,
            latency: self.latency.distribution(),
        }
    }
}

/// Opens a non-blocking socket towards the target, from a source address chosen by `member`.
pub fn open_socket(addr: SocketAddr, member: u32) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))
        .context("cannot create a socket (is the limit of open files reached?)")?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_linger(Some(Duration::ZERO))?;
    if addr.is_ipv4() && addr.ip().is_loopback() {
        let source = source_address(member);
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

const EINPROGRESS: i32 = 115;

fn source_address(member: u32) -> Ipv4Addr {
    Ipv4Addr::from(FIRST_SOURCE + member / CONNECTIONS_PER_SOURCE)
}

/// The upgrade request, the same for every connection of a target, and the answer it must get.
#[derive(Debug)]
pub struct Upgrade {
    pub request: Vec<u8>,
    accept: [u8; 28],
}

/// RFC 6455 §4.1 wants a random nonce; one per run is enough to tell a WebSocket server from a
/// cache, and it lets a whole run share one request and one expected answer.
pub const KEY: &[u8; 24] = b"c29ja2V5ZS1iZW5jaC0wMQ==";

impl Upgrade {
    pub fn new(target: &Target) -> Result<Self> {
        let mut request = Vec::new();
        let host = target.addr.to_string();
        wire::websocket::handshake::write_request(&mut request, &host, &target.path, KEY, b"");
        let head = wire::http::parse_head(&request)
            .map_err(|error| anyhow!("cannot use request target {:?}: {error:?}", target.path))?
            .context("cannot build an upgrade request: it has no end")?;
        let accept = wire::websocket::handshake::accept(&head)
            .map_err(|refusal| anyhow!("cannot build an upgrade request: {refusal:?}"))?;
        Ok(Upgrade { request, accept })
    }

    /// Length of the response head, once it is whole and right.
    pub fn check_response(&self, bytes: &[u8]) -> Result<Option<usize>, Loss> {
        let Some(end) = find(bytes, b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = &bytes[..end];
        let status = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let switched = status.starts_with(b"HTTP/1.1 101");
        if !switched || find(head, &self.accept).is_none() {
            return Err(Loss::RefusedUpgrade(
                String::from_utf8_lossy(status).into_owned(),
            ));
        }
        Ok(Some(end + 4))
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}
