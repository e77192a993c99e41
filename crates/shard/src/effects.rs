//! What a hub acts on: streams, mailboxes, the outside. Every effect is carried out here.

use crate::guests::{Guest, Guests};
use crate::mail::{Answerer, Handover, Mail, Outside, Post, Relay};
use crate::reactor::stream::Stream;
use crate::reactor::{Batch, Reactor, Ready};
use crate::streams::Streams;
use crate::tls::{SecureStream, Tls};
use hub::mailbox::{Loads, Receiver};
use hub::metrics::Cells;
use hub::{ConnId, Effect, Identity, Places, Sink, World, Writes, Written};
use std::io::IoSlice;
use std::net::IpAddr;
use std::sync::Arc;

pub(crate) struct Hands {
    pub(crate) me: Identity,
    pub(crate) reactor: Reactor,
    pub(crate) streams: Streams,
    pub(crate) mailbox: Receiver<Mail>,
    pub(crate) post: Post,
    pub(crate) loads: Arc<Loads>,
    pub(crate) places: Arc<Places>,
    pub(crate) cells: Arc<Cells>,
    pub(crate) outside: Arc<dyn Outside>,
    /// A descriptor became free since the door looked.
    pub(crate) released: bool,
    pub(crate) guests: Guests,
}

impl Sink for Hands {
    /// The kernel answers each write at once: nothing is left to reap.
    #[inline]
    fn write(&mut self, writes: Writes<'_>) {
        writes.one_by_one(|conn, slices| {
            let written = self.streams.send(conn, slices);
            match is_short(written, slices) {
                true => self.wait_for_room(conn, written),
                false => written,
            }
        });
    }
}

/// The rest is for later.
#[inline]
fn is_short(written: Written, slices: &[IoSlice<'_>]) -> bool {
    match written {
        Written::Bytes(bytes) => bytes < slices.iter().map(|slice| slice.len()).sum(),
        Written::Held(_) | Written::WouldBlock => true,
        Written::Gone => false,
    }
}

impl World for Hands {
    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Close { conn } => self.close(conn),
            Effect::Shutdown { conn } => self.streams.shutdown(conn),
            Effect::Send { shard, letter } => {
                self.post.leave(shard, Mail::Letter(letter));
            }
            Effect::Pass { shard, word, bytes } => {
                self.post.leave(shard, Mail::Outside { word, bytes });
            }
            Effect::Move {
                conn,
                shard,
                read,
                peer,
                beyond,
                relayed,
                carried,
            } => {
                debug_assert_ne!(shard, self.me.shard);
                let place = self.places.keep();
                if let Some((stream, tls)) = self.detach(conn) {
                    let conn = Mail::Conn {
                        place,
                        stream,
                        tls,
                        peer,
                        read,
                        beyond,
                        relayed,
                        carried,
                        new: false,
                    };
                    self.post.leave(shard, conn);
                }
            }
            Effect::Relay {
                conn,
                owner,
                read,
                peer,
                refusal,
            } => {
                if let Some(conn) = self.handover(conn, read, peer) {
                    self.outside.relay(Relay {
                        conn,
                        owner,
                        refusal,
                    });
                }
            }
            Effect::Handover { conn, read, peer } => {
                if let Some(conn) = self.handover(conn, read, peer) {
                    self.outside.handover(conn);
                }
            }
            Effect::Ask { key, ask } => {
                let mail = self.post.of(self.me.shard).clone();
                self.outside.ask(ask, Answerer { mail, key });
            }
            Effect::Away(parcel) => self.outside.away(parcel),
            Effect::Log(notice) => self.outside.log(notice),
        }
    }

    fn wake(&mut self) {
        self.post.wake();
    }
}

impl Hands {
    pub(crate) fn serve_guests(&mut self, batch: &Batch) {
        for ready in batch.iter() {
            if let Ready::Guest(number, readiness) = ready {
                self.guests.ready(number, readiness, &self.reactor);
            }
        }
        self.guests.call_again(&self.reactor);
    }

    pub(crate) fn host(&mut self, guest: Box<dyn Guest>) {
        self.guests.take(guest, &self.reactor);
    }

    pub(crate) fn call_guests(&mut self) {
        self.guests.call_all(&self.reactor);
    }

    /// Watches the stream of a connection that the hub knows; `false` if that is not possible.
    pub(crate) fn adopt(
        &mut self,
        mut stream: Stream,
        tls: Option<Box<Tls>>,
        conn: ConnId,
    ) -> bool {
        let tells_room = tls.is_some();
        let watched = match tells_room {
            // A handshake writes where it reads.
            true => self.reactor.watch(&mut stream, conn),
            false => self.reactor.watch_input(&mut stream, conn),
        };
        self.streams.insert(conn, stream, tls);
        if tells_room {
            self.streams.set_tells_room(conn);
        }
        self.places.enter();
        // Fails when epoll has no memory or watches left; then the connection cannot be served.
        watched.is_ok()
    }

    /// The kernel is to tell when it takes more of a connection that takes no more now.
    #[cold]
    fn wait_for_room(&mut self, conn: ConnId, written: Written) -> Written {
        if self.streams.tells_room(conn) {
            return written;
        }
        self.streams.set_tells_room(conn);
        let stream = self.streams.get_mut(conn);
        match stream.map(|stream| self.reactor.watch_output(stream, conn)) {
            Some(Ok(())) => written,
            // Nobody would ever tell.
            Some(Err(_)) | None => Written::Gone,
        }
    }

    /// Takes a stream that is watched later.
    pub(crate) fn seat(&mut self, stream: Stream, conn: ConnId) {
        self.streams.insert(conn, stream, None);
        self.places.enter();
    }

    /// Watches a stream that was seated; `false` if that is not possible.
    pub(crate) fn watch(&mut self, conn: ConnId) -> bool {
        self.streams.set_tells_room(conn);
        let stream = self.streams.get_mut(conn);
        stream.is_some_and(|stream| self.reactor.watch(stream, conn).is_ok())
    }

    fn close(&mut self, conn: ConnId) {
        self.streams.close_notify(conn);
        let Some((_, tls)) = self.release(conn) else {
            return;
        };
        if let Some(mut tls) = tls {
            tls.dropped(&self.cells.tls);
        }
        self.released = true;
    }

    fn release(&mut self, conn: ConnId) -> Option<(Stream, Option<Box<Tls>>)> {
        let released = self.streams.remove(conn)?;
        self.places.leave();
        Some(released)
    }

    /// Takes a connection off this shard's loop.
    pub(crate) fn detach(&mut self, conn: ConnId) -> Option<(Stream, Option<Box<Tls>>)> {
        let (mut stream, tls) = self.release(conn)?;
        self.reactor.forget(&mut stream).ok()?;
        Some((stream, tls))
    }

    /// Takes a connection off this shard for good.
    fn handover(&mut self, conn: ConnId, read: Vec<u8>, peer: IpAddr) -> Option<Handover> {
        let (stream, tls) = self.detach(conn)?;
        Some(Handover {
            stream: stream.into(),
            tls: tls.map(SecureStream::new),
            read,
            peer,
        })
    }
}
