//! The sockets of a shard, by the hub's slot numbers.

use crate::kernel;
use crate::reactor::stream::Stream;
use crate::tls::{Buffers, Received, Tls};
use hub::Written;
use hub::tls::TlsCells;
use hub::{ConnId, Kernel};
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: Vec<Option<Stream>>,
    /// One byte each, apart from the streams: beside them they would be padded to four.
    marks: Vec<Marks>,
    secure: Secure,
}

/// What TLS adds; nothing as long as there is no TLS connection.
#[derive(Debug, Default)]
struct Secure {
    /// By the same numbers; no longer than the highest that ever spoke TLS.
    sessions: Vec<Option<Box<Tls>>>,
    /// How many of them there are.
    open: usize,
    /// Bytes of records that they keep.
    kept_bytes: usize,
    /// Made for the first.
    buffers: Option<Box<Buffers>>,
    read_bytes: usize,
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
    /// The kernel tells when it takes bytes again.
    const TELLS_ROOM: u8 = 8;

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

impl Streams {
    /// Reads of TLS connections take up to `read_bytes`.
    pub(crate) fn new(read_bytes: usize) -> Self {
        let mut streams = Self::default();
        streams.secure.read_bytes = read_bytes;
        streams
    }

    pub(crate) fn insert(&mut self, conn: ConnId, stream: Stream, tls: Option<Box<Tls>>) {
        let at = conn.index();
        if at >= self.streams.len() {
            self.streams.resize_with(at + 1, || None);
            self.marks.resize(at + 1, Marks::default());
        }
        self.streams[at] = Some(stream);
        self.marks[at] = Marks::default();
        if let Some(tls) = tls {
            self.secure.insert(at, tls);
        }
    }

    /// Bytes of the table.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<Option<Stream>>() + self.marks.capacity()
    }

    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<(Stream, Option<Box<Tls>>)> {
        let stream = self.streams.get_mut(conn.index())?.take()?;
        Some((stream, self.secure.remove(conn.index())))
    }

    pub(crate) fn get_mut(&mut self, conn: ConnId) -> Option<&mut Stream> {
        self.streams.get_mut(conn.index())?.as_mut()
    }

    /// The kernel's figures of a connection.
    pub(crate) fn kernel(&self, conn: ConnId) -> Option<Kernel> {
        kernel::figures(self.streams.get(conn.index())?.as_ref()?)
    }

    fn mark(&mut self, conn: ConnId, mark: u8, on: bool) -> bool {
        self.marks
            .get_mut(conn.index())
            .is_some_and(|marks| marks.set(mark, on))
    }

    fn is_marked(&self, conn: ConnId, mark: u8) -> bool {
        self.marks
            .get(conn.index())
            .is_some_and(|marks| marks.has(mark))
    }

    /// Notes that there is something to read; `true` if it was not noted yet.
    pub(crate) fn set_ready(&mut self, conn: ConnId, ready: bool) -> bool {
        self.mark(conn, Marks::READY, ready)
    }

    /// Notes that the peer has closed its side.
    pub(crate) fn set_ending(&mut self, conn: ConnId) {
        self.mark(conn, Marks::ENDING, true);
    }

    pub(crate) fn is_ending(&self, conn: ConnId) -> bool {
        self.is_marked(conn, Marks::ENDING)
    }

    /// The connection may begin with a PROXY protocol header, which is not for the hub.
    pub(crate) fn set_preface(&mut self, conn: ConnId, expected: bool) {
        self.mark(conn, Marks::PREFACE, expected);
    }

    pub(crate) fn expects_preface(&self, conn: ConnId) -> bool {
        self.is_marked(conn, Marks::PREFACE)
    }

    pub(crate) fn set_tells_room(&mut self, conn: ConnId) {
        self.mark(conn, Marks::TELLS_ROOM, true);
    }

    pub(crate) fn tells_room(&self, conn: ConnId) -> bool {
        self.is_marked(conn, Marks::TELLS_ROOM)
    }

    /// One read. Fewer bytes than asked for mean that the kernel has no more bytes (epoll(7), Q9); of the end of the stream
    /// they say nothing.
    pub(crate) fn read(&mut self, conn: ConnId, buf: &mut [u8]) -> Got {
        self.get_mut(conn)
            .map_or(Got::Nothing, |stream| got(|| stream.read(buf)))
    }

    /// The same without taking the bytes.
    pub(crate) fn peek(&mut self, conn: ConnId, buf: &mut [u8]) -> Got {
        self.get_mut(conn)
            .map_or(Got::Nothing, |stream| got(|| stream.peek(buf)))
    }

    /// One write of a few bytes to somebody who is turned away: whoever has no room for them is gone.
    pub(crate) fn tell(&mut self, conn: ConnId, bytes: &[u8]) {
        if let Some(stream) = self.get_mut(conn) {
            let _ = stream.write(bytes);
        }
    }

    /// The same of a TLS connection: what was read is in `plaintext`. `None` if it is none.
    pub(crate) fn receive(&mut self, conn: ConnId, cells: &TlsCells) -> Option<Received> {
        let stream = self.streams.get_mut(conn.index())?.as_mut()?;
        self.secure.with(conn.index(), |tls, buffers| {
            tls.receive(stream, buffers, cells)
        })
    }

    /// Plaintext of the last `receive`; `give_back` the buffer.
    pub(crate) fn take_plaintext(&mut self) -> Vec<u8> {
        let buffers = self.secure.buffers.as_mut();
        buffers.map_or_else(Vec::new, |buffers| std::mem::take(&mut buffers.plain))
    }

    pub(crate) fn give_back(&mut self, plaintext: Vec<u8>) {
        if let Some(buffers) = &mut self.secure.buffers {
            buffers.plain = plaintext;
        }
    }

    pub(crate) fn is_secure(&self, conn: ConnId) -> bool {
        self.secure.get(conn).is_some()
    }

    pub(crate) fn is_handshaking(&self, conn: ConnId) -> bool {
        self.secure.get(conn).is_some_and(Tls::is_handshaking)
    }

    /// The kernel takes bytes again: records that wait come first. `Written::Bytes(0)` if none waits any more.
    pub(crate) fn resume(&mut self, conn: ConnId) -> Written {
        let stream = self.streams.get_mut(conn.index());
        let Some(stream) = stream.and_then(Option::as_mut) else {
            return Written::Bytes(0);
        };
        let resumed = self.secure.with(conn.index(), |tls, _| {
            let had_waited = tls.has_output();
            let resumed = tls.resume(stream);
            // Once: the kernel reports each time, and that is an event as well.
            if had_waited && tls.is_closing() && matches!(resumed, Ok(true)) {
                let _ = stream.shutdown(Shutdown::Write);
            }
            resumed
        });
        match resumed {
            None | Some(Ok(true)) => Written::Bytes(0),
            Some(Ok(false)) => Written::WouldBlock,
            Some(Err(_)) => Written::Gone,
        }
    }

    /// Says goodbye for a connection that is about to be dropped, if it is TLS and all else is out.
    pub(crate) fn close_notify(&mut self, conn: ConnId) {
        let stream = self.streams.get_mut(conn.index());
        if let Some(stream) = stream.and_then(Option::as_mut) {
            self.secure
                .with(conn.index(), |tls, buffers| tls.close(stream, buffers));
        }
    }

    /// How many TLS connections there are, and the bytes they hold.
    pub(crate) fn sessions(&self) -> (usize, usize) {
        let secure = &self.secure;
        let states = secure.open * Tls::STATE_BYTES;
        (secure.open, states + secure.kept_bytes)
    }

    /// Shuts the sending side: at once, or when the records before it are out.
    pub(crate) fn shutdown(&mut self, conn: ConnId) {
        let stream = self.streams.get_mut(conn.index());
        let Some(stream) = stream.and_then(Option::as_mut) else {
            return;
        };
        let said = self
            .secure
            .with(conn.index(), |tls, buffers| tls.close(stream, buffers));
        if said != Some(false) {
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

impl Secure {
    fn insert(&mut self, at: usize, tls: Box<Tls>) {
        if at >= self.sessions.len() {
            self.sessions.resize_with(at + 1, || None);
        }
        let read_bytes = self.read_bytes;
        self.buffers
            .get_or_insert_with(|| Box::new(Buffers::new(read_bytes)));
        self.open += 1;
        self.kept_bytes += tls.kept_bytes();
        self.sessions[at] = Some(tls);
    }

    fn remove(&mut self, at: usize) -> Option<Box<Tls>> {
        let tls = self.sessions.get_mut(at)?.take()?;
        self.open -= 1;
        self.kept_bytes -= tls.kept_bytes();
        Some(tls)
    }

    fn get(&self, conn: ConnId) -> Option<&Tls> {
        self.sessions.get(conn.index())?.as_deref()
    }

    /// Works on the session of a connection, if it has one, and keeps the books.
    #[inline]
    fn with<R>(&mut self, at: usize, f: impl FnOnce(&mut Tls, &mut Buffers) -> R) -> Option<R> {
        let tls = self.sessions.get_mut(at)?.as_mut()?;
        let buffers = self.buffers.as_mut()?;
        let before = tls.kept_bytes();
        let result = f(tls, buffers);
        self.kept_bytes = self.kept_bytes + tls.kept_bytes() - before;
        Some(result)
    }
}

impl Streams {
    /// Hands bytes to the kernel, through TLS if the connection has it.
    #[inline]
    pub(crate) fn send(&mut self, conn: ConnId, slices: &[IoSlice<'_>]) -> Written {
        let stream = self.streams.get_mut(conn.index());
        let Some(stream) = stream.and_then(Option::as_mut) else {
            return Written::Gone;
        };
        if let Some(written) = self.secure.with(conn.index(), |tls, buffers| {
            tls.write(stream, slices, buffers)
        }) {
            return written;
        }
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
