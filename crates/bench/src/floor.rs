//! Owns the floors: the least a single epoll thread must spend to do the work at all, with no
//! rooms, no sessions, no limits and no protocol above the WebSocket frame. What a real server
//! costs beyond its floor is what its features cost.
//!
//! Bare convention: `j` joins, `p…` goes to everyone who joined, anything else is echoed.

use crate::engine::socket::KEY;
use anyhow::{Context, Result};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use wire::websocket::frame::{OpCode, parse_header, unmask, write_frame};

/// What the floor does with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// One `send` per message and member.
    Send,
    /// One `send` per turn and member: all messages read in the turn together.
    SendCoalesced,
    /// Read and write.
    Echo,
    /// Accept, read the upgrade, answer it, keep the connection.
    Accept,
}

const LISTENER: Token = Token(usize::MAX);
const READ_BYTES: usize = 256 * 1024;
const EVENTS_PER_TURN: usize = 1024;
const BACKLOG: i32 = 4096;

#[derive(Debug)]
struct Floor {
    mode: Mode,
    poll: Poll,
    listener: TcpListener,
    conns: Vec<Option<Conn>>,
    free: Vec<usize>,
    members: Vec<usize>,
    /// The 101 answer: constant, because the generator's key is.
    switching: Vec<u8>,
    buf: Vec<u8>,
    /// Frames published in this turn, and where each ends.
    published: Vec<u8>,
    ends: Vec<usize>,
}

#[derive(Debug)]
struct Conn {
    stream: TcpStream,
    upgraded: bool,
    unread: Vec<u8>,
    unsent: Vec<u8>,
}

/// Serves until killed; calls `ready` with the address once it listens.
pub fn serve(mode: Mode, addr: SocketAddr, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let mut floor = Floor::bind(mode, addr)?;
    ready(floor.listener.local_addr()?);
    let mut events = Events::with_capacity(EVENTS_PER_TURN);
    loop {
        match floor.poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other.context("cannot wait for events")?,
        }
        for event in events.iter() {
            match event.token() {
                LISTENER => floor.accept()?,
                Token(index) => floor.on_ready(index),
            }
        }
        floor.broadcast();
    }
}

impl Floor {
    fn bind(mode: Mode, addr: SocketAddr) -> Result<Self> {
        use socket2::{Domain, SockAddr, Socket, Type};
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket
            .bind(&SockAddr::from(addr))
            .with_context(|| format!("cannot bind {addr}"))?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(socket.into());
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Floor {
            mode,
            poll,
            listener,
            conns: Vec::new(),
            free: Vec::new(),
            members: Vec::new(),
            switching: switching_protocols()?,
            buf: vec![0; READ_BYTES],
            published: Vec::new(),
            ends: Vec::new(),
        })
    }

    fn accept(&mut self) -> Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("cannot accept"),
            };
            stream.set_nodelay(true)?;
            let index = self.free.pop().unwrap_or(self.conns.len());
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll
                .registry()
                .register(&mut stream, Token(index), interest)?;
            let conn = Conn {
                stream,
                upgraded: false,
                unread: Vec::new(),
                unsent: Vec::new(),
            };
            if index == self.conns.len() {
                self.conns.push(Some(conn));
            } else {
                self.conns[index] = Some(conn);
            }
        }
    }

    fn on_ready(&mut self, index: usize) {
        let mut buf = std::mem::take(&mut self.buf);
        if !self.read(index, &mut buf).unwrap_or(false) {
            self.conns[index] = None;
            self.members.retain(|&member| member != index);
            self.free.push(index);
        }
        self.buf = buf;
    }

    /// `false` when the connection is over.
    fn read(&mut self, index: usize, buf: &mut [u8]) -> std::io::Result<bool> {
        let Some(conn) = &mut self.conns[index] else {
            return Ok(true);
        };
        conn.flush()?;
        let mut kept = conn.unread.len();
        buf[..kept].copy_from_slice(&conn.unread);
        conn.unread.clear();
        loop {
            let Some(conn) = &mut self.conns[index] else {
                return Ok(true);
            };
            let room = buf.len() - kept;
            let count = match conn.stream.read(&mut buf[kept..]) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    conn.unread.extend_from_slice(&buf[..kept]);
                    return Ok(true);
                }
                Err(error) => return Err(error),
            };
            let end = kept + count;
            let used = self.consume(index, &mut buf[..end])?;
            buf.copy_within(used..end, 0);
            kept = end - used;
            if count < room
                && let Some(conn) = &mut self.conns[index]
            {
                conn.unread.extend_from_slice(&buf[..kept]);
                return Ok(true);
            }
        }
    }

    fn consume(&mut self, index: usize, buf: &mut [u8]) -> std::io::Result<usize> {
        let Some(conn) = &mut self.conns[index] else {
            return Ok(0);
        };
        let mut at = 0;
        if !conn.upgraded {
            let Some(end) = buf.windows(4).position(|four| four == b"\r\n\r\n") else {
                return Ok(0);
            };
            at = end + 4;
            conn.upgraded = true;
            conn.send(&self.switching)?;
        }
        let mut answer = Vec::new();
        while let Ok(Some(header)) = parse_header(&buf[at..]) {
            let (start, len) = (at + header.len, header.payload_len as usize);
            let Some(payload) = buf.get_mut(start..start + len) else {
                break;
            };
            unmask(payload, header.mask.unwrap_or_default());
            at = start + len;
            match (header.opcode, payload.first()) {
                (OpCode::Text, Some(b'p')) => {
                    write_frame(&mut self.published, OpCode::Text, &payload[1..]);
                    self.ends.push(self.published.len());
                }
                (OpCode::Text, Some(b'j')) => {
                    self.members.push(index);
                    write_frame(&mut answer, OpCode::Text, payload);
                }
                (OpCode::Text, _) => write_frame(&mut answer, OpCode::Text, payload),
                _ => {}
            }
        }
        if !answer.is_empty() {
            conn.send(&answer)?;
        }
        Ok(at)
    }

    fn broadcast(&mut self) {
        let mut start = 0;
        if self.mode == Mode::SendCoalesced {
            self.ends.drain(..self.ends.len().saturating_sub(1));
        }
        for &end in &self.ends {
            for &member in &self.members {
                if let Some(conn) = &mut self.conns[member] {
                    // A broken connection shows up as its own event.
                    let _ = conn.send(&self.published[start..end]);
                }
            }
            start = end;
        }
        self.ends.clear();
        self.published.clear();
    }
}

impl Conn {
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return self.flush();
        }
        let taken = match self.stream.write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            other => other?,
        };
        self.unsent.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                other => drop(self.unsent.drain(..other?)),
            }
        }
        Ok(())
    }
}

fn switching_protocols() -> Result<Vec<u8>> {
    let mut request = Vec::new();
    wire::websocket::handshake::write_request(&mut request, "localhost", "/", KEY, b"");
    let head = wire::http::parse_head(&request)
        .ok()
        .flatten()
        .context("cannot parse the generator's own request")?;
    let accept = wire::websocket::handshake::accept(&head)
        .ok()
        .context("cannot accept the generator's own request")?;
    let mut response = Vec::new();
    wire::websocket::handshake::write_accept(&mut response, &accept, None, b"");
    Ok(response)
}
