//! The sockets of a shard, by the hub's slot numbers.

use crate::stream::Stream;
use hub::{Sink, Written};
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

#[derive(Debug, Default)]
pub(crate) struct Sockets {
    streams: Vec<Option<Stream>>,
    /// One byte each, apart from the streams: beside them they would be padded to four.
    marks: Vec<Marks>,
}

/// What the loop knows of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Marks(u8);

impl Marks {
    /// In the list of connections to read.
    const READY: u8 = 1;
    /// The end of the stream is in the kernel, perhaps behind bytes: no further event will tell.
    const ENDING: u8 = 2;
    /// What comes first may be a proxy's word about the client.
    const PREFACE: u8 = 4;

    fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }

    /// Sets or clears a mark; `true` if that changed it.
    fn set(&mut self, mark: u8, on: bool) -> bool {
        let before = self.0;
        self.0 = if on { before | mark } else { before & !mark };
        self.0 != before
    }
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Bytes(usize),
    Nothing,
    End,
    Broken,
}

impl Sockets {
    pub(crate) fn insert(&mut self, conn: u32, stream: Stream) {
        let at = conn as usize;
        if at >= self.streams.len() {
            self.streams.resize_with(at + 1, || None);
            self.marks.resize(at + 1, Marks::default());
        }
        self.streams[at] = Some(stream);
        self.marks[at] = Marks::default();
    }

    pub(crate) fn remove(&mut self, conn: u32) -> Option<Stream> {
        self.streams.get_mut(conn as usize)?.take()
    }

    pub(crate) fn get_mut(&mut self, conn: u32) -> Option<&mut Stream> {
        self.streams.get_mut(conn as usize)?.as_mut()
    }

    fn mark(&mut self, conn: u32, mark: u8, on: bool) -> bool {
        self.marks
            .get_mut(conn as usize)
            .is_some_and(|marks| marks.set(mark, on))
    }

    fn is_marked(&self, conn: u32, mark: u8) -> bool {
        self.marks
            .get(conn as usize)
            .is_some_and(|marks| marks.has(mark))
    }

    /// Notes that there is something to read; `true` if it was not noted yet.
    pub(crate) fn set_ready(&mut self, conn: u32, ready: bool) -> bool {
        self.mark(conn, Marks::READY, ready)
    }

    /// Notes that the peer has closed its side.
    pub(crate) fn set_ending(&mut self, conn: u32) {
        self.mark(conn, Marks::ENDING, true);
    }

    pub(crate) fn is_ending(&self, conn: u32) -> bool {
        self.is_marked(conn, Marks::ENDING)
    }

    /// The connection may begin with a PROXY protocol header, which is not for the hub.
    pub(crate) fn set_preface(&mut self, conn: u32, expected: bool) {
        self.mark(conn, Marks::PREFACE, expected);
    }

    pub(crate) fn expects_preface(&self, conn: u32) -> bool {
        self.is_marked(conn, Marks::PREFACE)
    }

    /// One read. Fewer bytes than asked for mean that the kernel has no more bytes (epoll(7), Q9); of the end of the stream
    /// they say nothing.
    pub(crate) fn read(&mut self, conn: u32, buf: &mut [u8]) -> Got {
        self.get_mut(conn)
            .map_or(Got::Nothing, |stream| got(|| stream.read(buf)))
    }

    /// The same without taking the bytes.
    pub(crate) fn peek(&mut self, conn: u32, buf: &mut [u8]) -> Got {
        self.get_mut(conn)
            .map_or(Got::Nothing, |stream| got(|| stream.peek(buf)))
    }

    /// One write of a few bytes to somebody who is turned away: whoever has no room for them is gone.
    pub(crate) fn tell(&mut self, conn: u32, bytes: &[u8]) {
        if let Some(stream) = self.get_mut(conn) {
            let _ = stream.write(bytes);
        }
    }

    pub(crate) fn shutdown(&mut self, conn: u32) {
        if let Some(stream) = self.get_mut(conn) {
            // Fails only when the peer is gone already, which the next read tells.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
}

fn got(mut read: impl FnMut() -> io::Result<usize>) -> Got {
    loop {
        match read() {
            Ok(0) => return Got::End,
            Ok(n) => return Got::Bytes(n),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Got::Nothing,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Got::Broken,
        }
    }
}

impl Sink for Sockets {
    fn write(&mut self, conn: u32, slices: &[IoSlice<'_>]) -> Written {
        let Some(stream) = self.get_mut(conn) else {
            return Written::Gone;
        };
        loop {
            let written = match slices {
                [one] => stream.write(one),
                many => stream.write_vectored(many),
            };
            match written {
                Ok(n) => return Written::Bytes(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Written::WouldBlock;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Written::Gone,
            }
        }
    }
}
