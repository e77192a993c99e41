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

    /// Whether the peer, whose stream has ended, has all that was written. Its system tells by how it takes the end of our side, which this
    /// shuts if it `shuts`. As long as that is not known, an event is to come.
    #[cold]
    pub(crate) fn settle(&mut self, shuts: bool) -> Proof {
        let Stream::Tcp(stream) = self else {
            // On this machine nothing is on its way: the write or the read has failed.
            return Proof::Arrived;
        };
        // It has a peer until both ends are acknowledged, or until a reset.
        if stream.peer_addr().is_ok() {
            if shuts {
                let _ = stream.shutdown(Shutdown::Write);
            }
            return Proof::Pending;
        }
        // A peer that closed and then refuses what it gets did not have it. A reset without that end fails the read, and says nothing:
        // proxies end idle connections so.
        let had_ended = matches!(stream.read(&mut [0]), Ok(0));
        match had_ended && !matches!(stream.take_error(), Ok(None)) {
            true => Proof::Lost,
            false => Proof::Arrived,
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
        match self {
            Stream::Tcp(stream) => stream.read(buf),
            Stream::Unix(stream) => stream.read(buf),
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

    fn read_end(own: &mut Stream) {
        assert_eq!(known(|| own.read(&mut [0; 8]).ok()), 0);
    }

    fn settled(own: &mut Stream) -> Proof {
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
            assert_eq!(settled(&mut own), Proof::Lost);
        }
    }

    #[test]
    fn what_is_on_its_way_is_lost_with_a_reset_behind_the_end() {
        let (mut own, peer) = pair();
        while own.write(&[7; 65_536]).is_ok() {}
        peer.shutdown(Shutdown::Write).expect("half of an end");
        read_end(&mut own);
        assert_eq!(own.settle(true), Proof::Pending);
        reset(peer);
        assert_eq!(settled(&mut own), Proof::Lost);
    }

    #[test]
    fn what_was_taken_before_the_end_has_arrived() {
        let (mut own, mut peer) = pair();
        own.write_all(b"answer").expect("room");
        peer.read_exact(&mut [0; 6]).expect("all of it");
        drop(peer);
        read_end(&mut own);
        assert_eq!(own.settle(true), Proof::Pending, "our end is open");
        assert_eq!(settled(&mut own), Proof::Arrived);
    }

    /// Proxies end idle connections so.
    #[test]
    fn a_reset_without_an_end_says_nothing() {
        let (mut own, mut peer) = pair();
        own.write_all(b"answer").expect("room");
        peer.read_exact(&mut [0; 6]).expect("all of it");
        reset(peer);
        assert_eq!(settled(&mut own), Proof::Arrived);
    }
}
