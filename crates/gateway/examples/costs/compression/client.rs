//! Socket.IO clients that count what they receive: one publisher, and a crowd on one thread.

use anyhow::{bail, ensure};
use rustix::event::epoll;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use wire::websocket::frame::{self, OpCode};

/// Masking is the client's duty, secrecy is not the point here.
const MASK: [u8; 4] = [1, 2, 3, 4];
const TARGET: &str = "/socket.io/?EIO=4&transport=websocket";

/// What a client asks for in its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    None,
    Deflate,
}

impl Offer {
    fn header(self) -> &'static str {
        match self {
            Offer::None => "",
            Offer::Deflate => {
                "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
            }
        }
    }
}

/// A frame: what it is, whether it is compressed, and its payload.
#[derive(Debug)]
pub struct Frame {
    pub compressed: bool,
    pub payload: Vec<u8>,
}

/// A WebSocket of a Socket.IO client; reads block.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    unread: Vec<u8>,
    /// Bytes in both directions so far.
    pub bytes: u64,
}

impl Link {
    /// Opens a session, joins the main namespace and a room there.
    pub fn join(addr: SocketAddr, room: &str, offer: Offer) -> anyhow::Result<Link> {
        let mut link = Link::begin(addr, room, offer)?;
        link.finish(offer)?;
        Ok(link)
    }

    /// Sends all that joining takes, without waiting for any answer.
    fn begin(addr: SocketAddr, room: &str, offer: Offer) -> anyhow::Result<Link> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut link = Link {
            stream,
            unread: Vec::new(),
            bytes: 0,
        };
        let mut bytes = format!(
            "GET {TARGET} HTTP/1.1\r\nHost: {addr}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{}\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            offer.header()
        )
        .into_bytes();
        for text in ["40".to_owned(), format!("421[\"join\",\"{room}\"]")] {
            frame::write_masked(&mut bytes, true, OpCode::Text, text.as_bytes(), MASK);
        }
        link.send(&bytes)?;
        Ok(link)
    }

    /// Reads the answers to what `begin` sent.
    fn finish(&mut self, offer: Offer) -> anyhow::Result<()> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.fill()?;
        };
        let head = String::from_utf8_lossy(&self.unread[..end]).into_owned();
        ensure!(head.starts_with("HTTP/1.1 101 "), "refused: {head}");
        let agreed = head.contains("permessage-deflate");
        ensure!(
            agreed == (offer == Offer::Deflate),
            "compression is not as asked: {head}"
        );
        self.unread.drain(..end);
        for expected in ["0{", "40{", "431["] {
            let answer = self.frame()?;
            ensure!(
                answer.payload.starts_with(expected.as_bytes()),
                "{answer:?} instead of {expected}"
            );
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.bytes += bytes.len() as u64;
        Ok(self.stream.write_all(bytes)?)
    }

    /// The next frame.
    pub fn frame(&mut self) -> anyhow::Result<Frame> {
        loop {
            if let Some((len, header)) = whole_frame(&self.unread)? {
                let payload = self.unread[header.len..len].to_vec();
                self.unread.drain(..len);
                return Ok(Frame {
                    compressed: header.rsv1,
                    payload,
                });
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> anyhow::Result<()> {
        let mut buf = [0; 16 * 1024];
        let n = self.stream.read(&mut buf)?;
        ensure!(n > 0, "the gateway ended the connection");
        self.bytes += n as u64;
        self.unread.extend_from_slice(&buf[..n]);
        Ok(())
    }
}

/// Length and header of the frame at the front, once it is all there.
fn whole_frame(bytes: &[u8]) -> anyhow::Result<Option<(usize, frame::Header)>> {
    let Some(header) = frame::parse_header(bytes).map_err(|error| anyhow::anyhow!("{error:?}"))?
    else {
        return Ok(None);
    };
    let len = header.len + usize::try_from(header.payload_len)?;
    Ok((len <= bytes.len()).then_some((len, header)))
}

/// Sends the messages of a room; it hears nothing itself.
#[derive(Debug)]
pub struct Publisher(Link);

impl Publisher {
    pub fn join(addr: SocketAddr, room: &str) -> anyhow::Result<Publisher> {
        Ok(Publisher(Link::join(addr, room, Offer::None)?))
    }

    /// Sends JSON messages in one write.
    pub fn publish(&mut self, messages: impl Iterator<Item = String>) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        for message in messages {
            let text = format!("42[\"say\",{message}]");
            frame::write_masked(&mut bytes, true, OpCode::Text, text.as_bytes(), MASK);
        }
        self.0.send(&bytes)
    }
}

/// Members that join at a time.
const JOINING: usize = 100;

/// The members of a room. Frames are counted, not kept.
#[derive(Debug)]
pub struct Crowd {
    epoll: OwnedFd,
    links: Vec<Link>,
    bytes: u64,
    /// Frames each member has received and nobody has asked for.
    frames: Vec<usize>,
}

impl Crowd {
    pub fn join(
        addr: SocketAddr,
        room: &str,
        offer: Offer,
        members: usize,
    ) -> anyhow::Result<Crowd> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut links: Vec<Link> = Vec::with_capacity(members);
        while links.len() < members {
            let (first, count) = (links.len(), JOINING.min(members - links.len()));
            for _ in 0..count {
                links.push(Link::begin(addr, room, offer)?);
            }
            for (n, link) in links.iter_mut().enumerate().skip(first) {
                link.finish(offer)?;
                link.stream.set_nonblocking(true)?;
                let data = epoll::EventData::new_u64(n as u64);
                epoll::add(&epoll, &link.stream, data, epoll::EventFlags::IN)?;
            }
        }
        let frames = vec![0; members];
        Ok(Crowd {
            epoll,
            links,
            bytes: 0,
            frames,
        })
    }

    /// Bytes received so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Waits until every member has received so many frames.
    pub fn receive(&mut self, count: usize, within: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + within;
        let mut missing = self.frames.iter().filter(|frames| **frames < count).count();
        let mut events = Vec::with_capacity(1_024);
        while missing > 0 {
            if Instant::now() > deadline {
                bail!("{missing} members miss messages after {within:?}");
            }
            events.clear();
            let timeout = rustix::event::Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            )?;
            for event in &events {
                let n = event.data.u64() as usize;
                let before = self.frames[n];
                self.read(n)?;
                missing -= usize::from(before < count && self.frames[n] >= count);
            }
        }
        for frames in &mut self.frames {
            ensure!(*frames == count, "{frames} frames instead of {count}");
            *frames = 0;
        }
        Ok(())
    }

    fn read(&mut self, n: usize) -> anyhow::Result<()> {
        let mut buf = [0; 64 * 1024];
        let link = &mut self.links[n];
        match link.stream.read(&mut buf) {
            Ok(0) => bail!("the gateway ended the connection"),
            Ok(len) => {
                self.bytes += len as u64;
                link.unread.extend_from_slice(&buf[..len]);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        let mut at = 0;
        while let Some((len, _)) = whole_frame(&link.unread[at..])? {
            at += len;
            self.frames[n] += 1;
        }
        link.unread.drain(..at);
        Ok(())
    }
}
