//! Who is read, in which order, and what a read means to the hub.
//!
//! HOT PATH: no allocation (once warm), no lock, no dyn, no log.

use crate::effects::Hands;
use crate::reactor::Readiness;
use crate::streams::Got;
use hub::limits::Limits;
use hub::{ConnId, Strain, Turn, Written};
use std::collections::VecDeque;

/// Reads after which the mailboxes are looked at again.
const CONGESTION_READS: usize = 64;

pub(crate) struct Reader {
    /// Connections with something to read.
    ready: VecDeque<ConnId>,
    /// The same, for those that are not beyond the TLS handshake.
    pub(crate) handshakes: VecDeque<ConnId>,
    pub(crate) buf: Box<[u8]>,
    pub(crate) limits: Limits,
    /// Clients wait to be read until the mailbox of a peer is short again.
    held_back: bool,
}

impl Reader {
    pub(crate) fn new(limits: Limits) -> Self {
        // Bytes of one read; a connection with more waits for the next turn.
        let bytes = limits
            .read_bytes_per_turn
            .max(wire::proxy::PROXY_HEADER_BYTES_MAX);
        Self {
            ready: VecDeque::new(),
            handshakes: VecDeque::new(),
            buf: vec![0; bytes].into(),
            limits,
            held_back: false,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let waiting = self.ready.capacity() + self.handshakes.capacity();
        self.buf.len() + waiting * size_of::<ConnId>()
    }

    /// Connections with something to read.
    pub(crate) fn unread(&self) -> usize {
        self.ready.len() + self.handshakes.len()
    }

    /// The kernel tells of a connection.
    pub(crate) fn on_ready(
        &mut self,
        turn: &mut Turn<'_, Hands>,
        conn: ConnId,
        readiness: Readiness,
    ) {
        if readiness.writable {
            match turn.world().streams.resume(conn) {
                Written::Bytes(_) => turn.writable(conn),
                Written::Held(_) | Written::WouldBlock => {}
                Written::Gone => turn.broken(conn),
            }
        }
        let streams = &mut turn.world().streams;
        if readiness.ending {
            streams.set_ending(conn);
        }
        if readiness.readable && streams.set_ready(conn, true) {
            self.enqueue(turn, conn);
        }
    }

    /// Puts a connection with something to read into its line.
    pub(crate) fn enqueue(&mut self, turn: &mut Turn<'_, Hands>, conn: ConnId) {
        if turn.world().streams.is_handshaking(conn) {
            self.handshakes.push_back(conn);
        } else {
            self.ready.push_back(conn);
        }
    }

    /// A mailbox is so full that nobody is read: connections that send to a long one wait before that, one by one.
    pub(crate) fn is_congested(&self, hands: &Hands) -> bool {
        let shards = hands.me.shards;
        shards > 1 && (0..shards).any(|shard| hands.loads.is_overfull(shard, &self.limits))
    }

    /// Reads once from each connection that has something, until the turn is full; `true` if all had their turn.
    pub(crate) fn read_ready(&mut self, turn: &mut Turn<'_, Hands>) -> bool {
        for n in 0..self.ready.len() {
            if n % CONGESTION_READS == 0 && self.is_congested(turn.world()) {
                self.hold_back(turn);
                return false;
            }
            if turn.is_full() {
                return false;
            }
            let Some(conn) = self.ready.pop_front() else {
                break;
            };
            self.read(turn, conn);
        }
        self.held_back = false;
        true
    }

    /// Counts a pause once, however many turns it lasts.
    fn hold_back(&mut self, turn: &mut Turn<'_, Hands>) {
        if !std::mem::replace(&mut self.held_back, true) {
            turn.strained(Strain::LongMailbox);
        }
    }

    fn read(&mut self, turn: &mut Turn<'_, Hands>, conn: ConnId) {
        if turn.hub().is_stalled(conn) {
            self.ready.push_back(conn);
            return;
        }
        if turn.hub().is_ignored(conn) {
            return;
        }
        if turn.world().streams.expects_preface(conn) && !self.read_preface(turn, conn) {
            return;
        }
        if turn.world().streams.is_secure(conn) {
            return self.read_secure(turn, conn);
        }
        let streams = &mut turn.world().streams;
        let got = streams.read(conn, &mut self.buf);
        // Bytes and the end of the stream may come as one event: then the end is still to be read.
        let more = match got {
            Got::Bytes(n) => n == self.buf.len() || streams.is_ending(conn),
            Got::Nothing | Got::End | Got::Broken => false,
        };
        if more {
            self.ready.push_back(conn);
        } else {
            streams.set_ready(conn, false);
        }
        match got {
            Got::Bytes(n) => turn.bytes(conn, &mut self.buf[..n]),
            Got::Nothing => {}
            Got::End => turn.eof(conn),
            Got::Broken => turn.broken(conn),
        }
    }
}
