//! Owns the floors: the least a single epoll thread must spend to do the work at all, with no
//! rooms, no sessions, no limits and no protocol above the WebSocket frame. What a real server
//! costs beyond its floor is what its features cost.
//!
//! Bare convention: `j` joins, `p…` goes to everyone who joined, anything else is echoed.

use crate::engine::socket::KEY;
use crate::loss::Loss;
use crate::stream::{Filled, Stream};
use anyhow::{Context, Result};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use std::io::ErrorKind;
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
    room: Room,
    /// The 101 answer: constant, because the generator's key is.
    switching: Vec<u8>,
    buf: Vec<u8>,
}

#[derive(Debug, Default)]
struct Room {
    members: Vec<usize>,
    /// Frames published in this turn, and where each ends.
    published: Vec<u8>,
    ends: Vec<usize>,
}

#[derive(Debug)]
struct Conn {
    stream: Stream,
    upgraded: bool,
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
                Token(index) => floor.on_ready(index, event.is_read_closed()),
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
            room: Room::default(),
            switching: switching_protocols()?,
            buf: vec![0; READ_BYTES],
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
            let index = self.conns.len();
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll
                .registry()
                .register(&mut stream, Token(index), interest)?;
            self.conns.push(Some(Conn {
                stream: Stream::new(stream, None),
                upgraded: false,
            }));
        }
    }

    fn on_ready(&mut self, index: usize, ends: bool) {
        let mut buf = std::mem::take(&mut self.buf);
        if self.read(index, &mut buf, ends).is_err() {
            self.conns[index] = None;
            self.room.members.retain(|&member| member != index);
        }
        self.buf = buf;
    }

    fn read(&mut self, index: usize, buf: &mut [u8], ends: bool) -> std::result::Result<(), Loss> {
        let Some(conn) = &mut self.conns[index] else {
            return Ok(());
        };
        conn.stream.flush()?;
        let mut kept = conn.stream.take_unread(buf);
        loop {
            let filled = conn.stream.fill(buf, kept, ends)?;
            let (Filled::Drained(end) | Filled::More(end)) = filled;
            let mut used = 0;
            if !conn.upgraded
                && let Some(blank) = buf[..end].windows(4).position(|four| four == b"\r\n\r\n")
            {
                used = blank + 4;
                conn.upgraded = true;
                conn.stream.send(&self.switching)?;
            }
            if conn.upgraded {
                let (frames, answer) = self.room.consume(index, &mut buf[used..end]);
                used += frames;
                conn.stream.send(&answer)?;
            }
            if filled == Filled::Drained(end) {
                conn.stream.keep_unread(&buf[used..end]);
                return Ok(());
            }
            buf.copy_within(used..end, 0);
            kept = end - used;
        }
    }

    fn broadcast(&mut self) {
        let mut start = 0;
        let room = &mut self.room;
        if self.mode == Mode::SendCoalesced {
            room.ends.drain(..room.ends.len().saturating_sub(1));
        }
        for end in room.ends.drain(..) {
            for &member in &room.members {
                if let Some(conn) = &mut self.conns[member] {
                    // A broken connection shows up as its own event.
                    let _ = conn.stream.send(&room.published[start..end]);
                }
            }
            start = end;
        }
        room.published.clear();
    }
}

impl Room {
    /// Handles every whole frame; returns the bytes used up, and the answers.
    fn consume(&mut self, index: usize, buf: &mut [u8]) -> (usize, Vec<u8>) {
        let (mut at, mut answer) = (0, Vec::new());
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
                (OpCode::Text, first) => {
                    self.members.extend((first == Some(&b'j')).then_some(index));
                    write_frame(&mut answer, OpCode::Text, payload);
                }
                _ => {}
            }
        }
        (at, answer)
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
