//! TLS in the turn: whose handshake goes on and when, and what a read of records means to the hub. Handshakes are arithmetic, a
//! quarter of a millisecond each: they have a line of their own, and their time is bounded by what the turn took without them.

use super::Shard;
use crate::tls::{End, Session};
use hub::ConnId;
use hub::tls::TlsCells;
use rustls::ServerConfig;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Shard {
    /// The session of a new connection, if its listener speaks TLS; `Err` if it cannot have one.
    pub(super) fn secure(&self, listener: usize) -> Result<Option<Box<Session>>, ()> {
        let secure = self.parts.secure_from..self.parts.addrs.len();
        if !secure.contains(&listener) {
            return Ok(None);
        }
        let config = self.tls.as_ref().ok_or(())?;
        Session::new(config).map(Some).ok_or(())
    }

    /// New handshakes use this; what is under way and what is established stay as they are.
    pub(super) fn set_tls(&mut self, config: Arc<ServerConfig>) {
        self.tls = Some(config);
    }

    /// Goes on with handshakes when everybody else was served and flushed: for as long as that took, but at least one step and
    /// at most so many. So who is established waits for one step, or twice as long as without newcomers.
    pub(super) fn shake_hands(&mut self, turn: Duration) {
        if self.handshakes.is_empty() || self.congested() {
            return;
        }
        let started = Instant::now();
        for _ in 0..self.parts.handshakes_per_turn {
            let Some(conn) = self.handshakes.pop_front() else {
                break;
            };
            // What a proxy says of the client comes in the clear, before the hello.
            if !self.sockets.expects_preface(conn) || self.read_preface(conn) {
                self.read_secure(conn);
            }
            if started.elapsed() >= turn {
                break;
            }
        }
        self.parts.hub.flush(&mut self.sockets);
        self.apply_effects();
    }

    /// Reads records once and tells the hub what they say.
    pub(super) fn read_secure(&mut self, conn: ConnId) {
        let Some(received) = self.sockets.receive(conn, &self.parts.cells.tls) else {
            return;
        };
        // Records and the end of the stream may come as one event: then the end is still to be read.
        let again = received.end.is_none() && !received.blocked;
        if again && (received.more || self.sockets.is_ending(conn)) {
            self.enqueue(conn);
        } else {
            self.sockets.set_ready(conn, false);
        }
        let plain = self.sockets.plaintext();
        if !plain.is_empty() {
            self.parts.hub.bytes(conn, plain);
        }
        match received.end {
            Some(End::Eof) => self.parts.hub.eof(conn),
            Some(End::Broken) => {
                self.sockets.shutdown(conn);
                self.parts.hub.broken(conn);
            }
            None => {}
        }
        if self.parts.hub.has_effects() {
            self.apply_effects();
        }
    }

    /// Puts a connection with something to read into its line.
    pub(super) fn enqueue(&mut self, conn: ConnId) {
        if self.sockets.is_handshaking(conn) {
            self.handshakes.push_back(conn);
        } else {
            self.ready.push_back(conn);
        }
    }

    /// Publishes what the TLS connections of this shard are and hold.
    pub(super) fn publish_tls(&self) {
        if self.tls.is_none() {
            return;
        }
        let (sessions, bytes) = self.sockets.sessions();
        let cells: &TlsCells = &self.parts.cells.tls;
        cells.sessions.store(sessions as u64, Ordering::Relaxed);
        cells.bytes.store(bytes as u64, Ordering::Relaxed);
        let waiting = self.handshakes.len() as u64;
        cells.waiting.store(waiting, Ordering::Relaxed);
    }
}
