//! The sockets of a shard, by the hub's slot numbers.

use hub::{Sink, Written};
use mio::net::TcpStream;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

#[derive(Debug, Default)]
pub(crate) struct Sockets {
    slots: Vec<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    stream: Option<TcpStream>,
    /// In the list of connections to read.
    ready: bool,
    /// The end of the stream is in the kernel, perhaps behind bytes: no further event will tell.
    ending: bool,
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
    pub(crate) fn insert(&mut self, conn: u32, stream: TcpStream) {
        let at = conn as usize;
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, Slot::default);
        }
        self.slots[at] = Slot {
            stream: Some(stream),
            ready: false,
            ending: false,
        };
    }

    pub(crate) fn remove(&mut self, conn: u32) -> Option<TcpStream> {
        self.slots.get_mut(conn as usize)?.stream.take()
    }

    pub(crate) fn get_mut(&mut self, conn: u32) -> Option<&mut TcpStream> {
        self.slots.get_mut(conn as usize)?.stream.as_mut()
    }

    /// Notes that there is something to read; `true` if it was not noted yet.
    pub(crate) fn set_ready(&mut self, conn: u32, ready: bool) -> bool {
        match self.slots.get_mut(conn as usize) {
            Some(slot) => std::mem::replace(&mut slot.ready, ready) != ready,
            None => false,
        }
    }

    /// Notes that the peer has closed its side.
    pub(crate) fn set_ending(&mut self, conn: u32) {
        if let Some(slot) = self.slots.get_mut(conn as usize) {
            slot.ending = true;
        }
    }

    pub(crate) fn is_ending(&self, conn: u32) -> bool {
        self.slots
            .get(conn as usize)
            .is_some_and(|slot| slot.ending)
    }

    /// One read. Fewer bytes than asked for mean that the kernel has no more bytes (epoll(7), Q9); of the end of the stream
    /// they say nothing.
    pub(crate) fn read(&mut self, conn: u32, buf: &mut [u8]) -> Got {
        let Some(stream) = self.get_mut(conn) else {
            return Got::Nothing;
        };
        loop {
            match stream.read(buf) {
                Ok(0) => return Got::End,
                Ok(n) => return Got::Bytes(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Got::Nothing,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Got::Broken,
            }
        }
    }

    pub(crate) fn shutdown(&mut self, conn: u32) {
        if let Some(stream) = self.get_mut(conn) {
            // Fails only when the peer is gone already, which the next read tells.
            let _ = stream.shutdown(Shutdown::Write);
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
