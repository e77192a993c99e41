//! Messages and descriptors between two processes. Each step has a deadline: a peer that says nothing, or little by little, holds up
//! nobody.

use handoff::Kind;
use handoff::backend::Piece;
use handoff::bounds::{BATCH_BYTES, DESCRIPTORS_MAX, MESSAGE_BYTES_MAX};
use prost::Message;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::fmt;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A byte that says what comes, and four of its length.
const HEADER_BYTES: usize = 5;
/// Room for descriptors in one message.
const SPACE: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// Why the other process is not understood any more. The line is of no use then.
#[derive(Debug)]
pub enum Broken {
    /// It has ended, or does not speak in time.
    Lost(String),
    /// It says something that it should not.
    Strange(String),
    /// It refuses, for this reason.
    Refused(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(text) => write!(f, "the other process is lost: {text}"),
            Self::Strange(text) => write!(f, "the other process is not understood: {text}"),
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Broken {}

/// The way to another process.
#[derive(Debug)]
pub struct Line(UnixStream);

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub uid: u32,
    pub pid: u32,
}

impl Line {
    pub fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    #[cfg(target_os = "linux")]
    pub fn caller(&self) -> std::io::Result<Caller> {
        let peer = rustix::net::sockopt::socket_peercred(&self.0)?;
        Ok(Caller {
            uid: peer.uid.as_raw(),
            pid: peer.pid.as_raw_nonzero().get().unsigned_abs(),
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub fn caller(&self) -> std::io::Result<Caller> {
        Err(std::io::Error::other(
            "only Linux says who is at the other end",
        ))
    }

    /// Sends a message.
    pub fn send(
        &mut self,
        kind: Kind,
        message: &impl Message,
        within: Duration,
    ) -> Result<(), Broken> {
        let len = message.encoded_len();
        if len > MESSAGE_BYTES_MAX {
            return Err(Broken::Strange(format!(
                "a message of {len} bytes is to be sent"
            )));
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + len);
        bytes.push(kind as u8);
        bytes.extend_from_slice(&(len as u32).to_be_bytes());
        // A vector takes all.
        let _ = message.encode(&mut bytes);
        let deadline = Instant::now() + within;
        let mut rest = &*bytes;
        while !rest.is_empty() {
            let left = left(deadline)?;
            self.0
                .set_write_timeout(Some(left))
                .map_err(|error| lost(&error))?;
            match self.0.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(&error)),
            }
        }
        Ok(())
    }

    /// A message that says all by its kind.
    pub fn say(&mut self, kind: Kind, within: Duration) -> Result<(), Broken> {
        self.send(kind, &(), within)
    }

    /// The next message, of whatever kind but a refusal.
    pub fn hear(&mut self, within: Duration) -> Result<(Kind, Vec<u8>), Broken> {
        let deadline = Instant::now() + within;
        let mut header = [0; HEADER_BYTES];
        self.read(&mut header, deadline)?;
        let [kind, len @ ..] = header;
        let len = u32::from_be_bytes(len) as usize;
        let kind = Kind::of(kind).filter(|_| len <= MESSAGE_BYTES_MAX);
        let kind = kind.ok_or_else(|| {
            Broken::Strange(format!(
                "its message begins with {header:02x?}, which begins none"
            ))
        })?;
        // It grows with what comes and not with what is announced.
        let mut body = Vec::new();
        while body.len() < len {
            let (at, step) = (body.len(), (len - body.len()).min(64 * 1024));
            body.resize(at + step, 0);
            self.read(&mut body[at..], deadline)?;
        }
        match kind {
            Kind::Refused => {
                let said = handoff::Said::decode(&*body).unwrap_or_default();
                Err(Broken::Refused(said.text))
            }
            kind => Ok((kind, body)),
        }
    }

    /// The next message, which must be of this kind.
    pub fn expect<M: Message + Default>(
        &mut self,
        kind: Kind,
        within: Duration,
    ) -> Result<M, Broken> {
        let (heard, body) = self.hear(within)?;
        if heard != kind {
            return Err(Broken::Strange(format!(
                "it says {heard:?} in place of {kind:?}"
            )));
        }
        decode(&body)
    }

    fn read(&mut self, buf: &mut [u8], deadline: Instant) -> Result<(), Broken> {
        let mut at = 0;
        while at < buf.len() {
            let left = left(deadline)?;
            self.0
                .set_read_timeout(Some(left))
                .map_err(|error| lost(&error))?;
            match self.0.read(&mut buf[at..]) {
                Ok(0) => return Err(Broken::Lost("it has ended".to_owned())),
                Ok(n) => at += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(&error)),
            }
        }
        Ok(())
    }

    /// Sends a record of any length, in pieces.
    pub fn send_record(
        &mut self,
        kind: Kind,
        name: &str,
        record: &[u8],
        within: Duration,
    ) -> Result<(), Broken> {
        let count = record.len().div_ceil(BATCH_BYTES).max(1);
        for number in 0..count {
            let from = number * BATCH_BYTES;
            let until = record.len().min(from + BATCH_BYTES);
            let piece = Piece {
                name: name.to_owned(),
                bytes: record[from..until].to_vec(),
                ends: number + 1 == count,
            };
            self.send(kind, &piece, within)?;
        }
        Ok(())
    }

    /// Sends copies of descriptors. Nothing else is said until the other side has told that it took them.
    pub fn send_descriptors(
        &mut self,
        sockets: &[OwnedFd],
        within: Duration,
    ) -> Result<(), Broken> {
        if sockets.is_empty() {
            return Ok(());
        }
        let borrowed: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
            return Err(Broken::Strange(format!(
                "{} descriptors are to be sent at once",
                sockets.len()
            )));
        }
        self.0
            .set_write_timeout(Some(within))
            .map_err(|error| lost(&error))?;
        loop {
            let sent =
                rustix::net::sendmsg(&self.0, &[IoSlice::new(&[0])], &mut ancillary, quiet());
            match sent {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(lost(&error.into())),
            }
        }
    }

    /// As many descriptors as were announced, none of which outlives an `exec`.
    pub fn take_descriptors(
        &mut self,
        count: usize,
        within: Duration,
    ) -> Result<Vec<OwnedFd>, Broken> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if count > DESCRIPTORS_MAX {
            return Err(Broken::Strange(format!(
                "it announces {count} descriptors at once"
            )));
        }
        self.0
            .set_read_timeout(Some(within))
            .map_err(|error| lost(&error))?;
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let got = loop {
            let mut slices = [IoSliceMut::new(&mut byte)];
            match rustix::net::recvmsg(&self.0, &mut slices, &mut ancillary, flags()) {
                Err(Errno::INTR) => {}
                got => break got.map_err(|error| lost(&error.into()))?,
            }
        };
        let mut sockets = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                sockets.extend(more);
            }
        }
        // Those for which there was no room have vanished (cmsg(3)).
        if got.flags.contains(ReturnFlags::CTRUNC) || sockets.len() != count {
            return Err(Broken::Strange(format!(
                "{} descriptors arrived of {count}; perhaps this process may not have more (ulimit -n)",
                sockets.len()
            )));
        }
        Ok(sockets)
    }
}

/// A peer that has gone is an error, and no signal. (Programs in Rust ignore that signal anyway.)
fn quiet() -> SendFlags {
    #[cfg(target_os = "linux")]
    return SendFlags::NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    SendFlags::empty()
}

#[cfg(target_os = "linux")]
fn flags() -> RecvFlags {
    RecvFlags::CMSG_CLOEXEC
}

#[cfg(not(target_os = "linux"))]
fn flags() -> RecvFlags {
    RecvFlags::empty()
}

pub fn decode<M: Message + Default>(body: &[u8]) -> Result<M, Broken> {
    M::decode(body).map_err(|error| Broken::Strange(format!("a message cannot be read: {error}")))
}

fn left(deadline: Instant) -> Result<Duration, Broken> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(Broken::Lost("it does not speak in time".to_owned())),
        // Zero would mean: for ever.
        false => Ok(left.max(Duration::from_millis(1))),
    }
}

fn lost(error: &std::io::Error) -> Broken {
    Broken::Lost(match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            "it does not speak in time".to_owned()
        }
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff::Said;

    const SOON: Duration = Duration::from_millis(200);

    fn pair() -> (Line, UnixStream) {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        (Line::new(one), other)
    }

    #[test]
    fn messages_and_descriptors_come_in_their_order() {
        let (mut here, there) = pair();
        let mut there = Line::new(there);
        let said = Said {
            text: "hello".into(),
        };
        let sockets: Vec<OwnedFd> = (0..DESCRIPTORS_MAX)
            .map(|_| UnixStream::pair().expect("a pair").0.into())
            .collect();
        here.send(Kind::Line, &said, SOON).expect("sent");
        here.send_descriptors(&sockets, SOON).expect("sent");
        here.say(Kind::Complete, SOON).expect("sent");
        assert_eq!(
            there.expect::<Said>(Kind::Line, SOON).expect("a line"),
            said
        );
        let taken = there
            .take_descriptors(DESCRIPTORS_MAX, SOON)
            .expect("taken");
        assert_eq!(taken.len(), DESCRIPTORS_MAX);
        there.expect::<()>(Kind::Complete, SOON).expect("the end");
    }

    #[test]
    fn a_peer_that_says_nothing_or_a_byte_now_and_then_is_not_waited_for() {
        let (mut here, mut there) = pair();
        let began = Instant::now();
        let trickle = std::thread::spawn(move || {
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(60));
                if there.write_all(&[1]).is_err() {
                    return;
                }
            }
        });
        assert!(matches!(here.hear(SOON), Err(Broken::Lost(_))));
        assert!(began.elapsed() < Duration::from_millis(550));
        drop(here);
        trickle.join().expect("the trickle ends");
    }

    #[test]
    fn garbage_is_told_from_messages_by_its_beginning() {
        for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[1, 0xff, 0xff, 0xff, 0xff]] {
            let (mut here, mut there) = pair();
            there.write_all(garbage).expect("written");
            assert!(
                matches!(here.hear(SOON), Err(Broken::Strange(_))),
                "{garbage:?}"
            );
        }
    }

    #[test]
    fn descriptors_that_were_not_announced_are_missed() {
        let (mut here, there) = pair();
        let mut there = Line::new(there);
        let sockets: Vec<OwnedFd> = vec![UnixStream::pair().expect("a pair").0.into()];
        here.send_descriptors(&sockets, SOON).expect("sent");
        assert!(matches!(
            there.take_descriptors(2, SOON),
            Err(Broken::Strange(_))
        ));
    }
}
