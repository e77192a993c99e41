//! A connection's byte stream, whatever carries it: TCP, or a Unix socket of a proxy on the same machine.
//!
//! HOT PATH: every read and write of a client goes through here.

use hub::Proof;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::RecvFlags;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A stream that left its shard: non-blocking, watched by nobody.
#[derive(Debug)]
pub enum Detached {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Stream {
    /// Reads without taking: the bytes are there for the next read.
    pub(crate) fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let (len, _) = rustix::net::recv(self, buf, RecvFlags::PEEK)?;
        Ok(len)
    }

    /// The end of the stream, or an error: a reset behind it says that the peer refused what was written last.
    #[cold]
    fn ended(&self) -> io::Result<usize> {
        rustix::net::sockopt::socket_error(self)??;
        Ok(0)
    }

    /// Whether the peer, whose stream has ended, has all that was written: its system acknowledges it, or refuses it. As long as neither is
    /// known, our side is shut if it `shuts`, and an event is to come.
    #[cold]
    pub(crate) fn settle(&self, shuts: bool) -> Proof {
        let Stream::Tcp(stream) = self else {
            // On this machine nothing is on its way: the write or the read has failed.
            return Proof::Arrived;
        };
        // The end of our side counts as one byte.
        let refused = |bytes| match bytes > 1 {
            true => Proof::Lost,
            false => Proof::Arrived,
        };
        match unacknowledged(stream) {
            0 => Proof::Arrived,
            // It has a peer until a reset.
            bytes if stream.peer_addr().is_err() => refused(bytes),
            _ => {
                if shuts {
                    let _ = stream.shutdown(Shutdown::Write);
                }
                Proof::Pending
            }
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl From<Stream> for Detached {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Tcp(stream) => Detached::Tcp(stream.into()),
            Stream::Unix(stream) => Detached::Unix(stream.into()),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = match self {
            Stream::Tcp(stream) => stream.read(buf),
            Stream::Unix(stream) => stream.read(buf),
        };
        match got {
            Ok(0) if !buf.is_empty() => self.ended(),
            got => got,
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(buf),
            Stream::Unix(stream) => stream.write(buf),
        }
    }

    #[inline]
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write_vectored(slices),
            Stream::Unix(stream) => stream.write_vectored(slices),
        }
    }

    /// The kernel has all that was written.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, of: Interest) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.register(registry, token, of),
            Stream::Unix(stream) => stream.register(registry, token, of),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, of: Interest) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.reregister(registry, token, of),
            Stream::Unix(stream) => stream.reregister(registry, token, of),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.deregister(registry),
            Stream::Unix(stream) => stream.deregister(registry),
        }
    }
}

/// Bytes that were written and that the peer's system has not acknowledged, also when it has refused them (`SIOCOUTQ`, `tcp(7)`). 0 where
/// the system does not tell.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[expect(unsafe_code, reason = "no library has this call of the kernel")]
fn unacknowledged(stream: &TcpStream) -> usize {
    const SIOCOUTQ: rustix::ioctl::Opcode = 0x5411;
    // SAFETY: the call writes one `int`, and the descriptor is open as long as the stream is there.
    let bytes = unsafe {
        let getter = rustix::ioctl::Getter::<SIOCOUTQ, std::ffi::c_int>::new();
        rustix::ioctl::ioctl(stream, getter)
    };
    bytes.map_or(0, |bytes| bytes.max(0) as usize)
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn unacknowledged(_: &TcpStream) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::set_socket_linger;
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    /// Our end of a connection, and the peer's.
    fn pair() -> (Stream, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let peer = std::net::TcpStream::connect(listener.local_addr().expect("an address"));
        let (own, _) = listener.accept().expect("accept");
        own.set_nonblocking(true).expect("an option");
        let own = Stream::Tcp(TcpStream::from_std(own));
        (own, peer.expect("connect"))
    }

    /// The kernel is asked until it knows.
    fn known<T>(mut ask: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            assert!(Instant::now() < deadline, "nothing comes");
            std::thread::yield_now();
        }
    }

    /// Until the end, or a reset behind it.
    fn read_end(own: &mut Stream) {
        let ends = |own: &mut Stream| match own.read(&mut [0; 8]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            got => Some(got),
        };
        assert!(!matches!(known(|| ends(own)), Ok(1..)), "there is more");
    }

    fn settled(own: &Stream) -> Proof {
        known(|| Some(own.settle(false)).filter(|proof| *proof != Proof::Pending))
    }

    fn reset(peer: std::net::TcpStream) {
        set_socket_linger(&peer, Some(Duration::ZERO)).expect("an option");
    }

    #[test]
    fn what_a_peer_that_had_closed_refuses_is_lost() {
        for reads_the_end_first in [true, false] {
            let (mut own, peer) = pair();
            drop(peer);
            if reads_the_end_first {
                read_end(&mut own);
            }
            own.write_all(b"answer").expect("the kernel takes it");
            assert_eq!(settled(&own), Proof::Lost);
        }
    }

    #[test]
    fn what_is_on_its_way_is_lost_with_a_reset() {
        for ends_before in [true, false] {
            let (mut own, peer) = pair();
            while own.write(&[7; 65_536]).is_ok() {}
            if ends_before {
                peer.shutdown(Shutdown::Write).expect("half of an end");
                read_end(&mut own);
                assert_eq!(own.settle(true), Proof::Pending);
            }
            reset(peer);
            assert_eq!(settled(&own), Proof::Lost);
        }
    }

    /// Proxies end idle connections by a reset, some after an end.
    #[test]
    fn what_was_taken_before_the_end_has_arrived() {
        let ends: [fn(std::net::TcpStream); 3] = [drop, reset, |peer| {
            peer.shutdown(Shutdown::Write).expect("half of an end");
            reset(peer);
        }];
        for end in ends {
            for shuts in [false, true] {
                let (mut own, mut peer) = pair();
                own.write_all(b"answer").expect("room");
                peer.read_exact(&mut [0; 6]).expect("all of it");
                if shuts {
                    own.shutdown(Shutdown::Write).expect("half of an end");
                }
                end(peer);
                read_end(&mut own);
                assert_eq!(settled(&own), Proof::Arrived);
            }
        }
    }
}
