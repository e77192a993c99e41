//! TLS in the turn: whose handshake goes on and when, and what a read of records means to the hub. Handshakes are arithmetic, a
//! quarter of a millisecond each: they have a line of their own, and their time is bounded by what the turn took without them.

use crate::accept::Door;
use crate::effects::Hands;
use crate::read::Reader;
use crate::tls::End;
use hub::tls::TlsCells;
use hub::{ConnId, Turn};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Reader {
    /// Goes on with handshakes when everybody else was served and flushed: for as long as that took, but at least one step and
    /// at most so many. So who is established waits for one step, or twice as long as without newcomers.
    pub(crate) fn shake_hands(&mut self, turn: &mut Turn<'_, Hands>, took: Duration) {
        if self.handshakes.is_empty() || self.is_congested(turn.world()) {
            return;
        }
        let started = Instant::now();
        for _ in 0..self.limits.tls_handshakes_per_turn.max(1) {
            let Some(conn) = self.handshakes.pop_front() else {
                break;
            };
            // What a proxy says of the client comes in the clear, before the hello.
            if !turn.world().streams.expects_preface(conn) || self.read_preface(turn, conn) {
                self.read_secure(turn, conn);
            }
            if started.elapsed() >= took {
                break;
            }
        }
    }

    /// Reads records once and tells the hub what they say.
    pub(crate) fn read_secure(&mut self, turn: &mut Turn<'_, Hands>, conn: ConnId) {
        let hands = turn.world();
        let Some(received) = hands.streams.receive(conn, &hands.cells.tls) else {
            return;
        };
        // Records and the end of the stream may come as one event: then the end is still to be read.
        let again = received.end.is_none() && !received.blocked;
        if again && (received.more || hands.streams.is_ending(conn)) {
            self.enqueue(turn, conn);
        } else {
            hands.streams.set_ready(conn, false);
        }
        let mut plain = turn.world().streams.take_plaintext();
        if !plain.is_empty() {
            turn.bytes(conn, &mut plain);
        }
        turn.world().streams.give_back(plain);
        match received.end {
            Some(End::Eof) => turn.eof(conn),
            Some(End::Broken) => {
                turn.world().streams.shutdown(conn);
                turn.broken(conn);
            }
            None => {}
        }
    }

    /// Publishes what the TLS connections of this shard are and hold.
    pub(crate) fn publish_tls(&self, hands: &Hands, door: &Door) {
        if !door.speaks_tls() {
            return;
        }
        let (sessions, bytes) = hands.streams.sessions();
        let cells: &TlsCells = &hands.cells.tls;
        cells.sessions.store(sessions as u64, Ordering::Relaxed);
        cells.bytes.store(bytes as u64, Ordering::Relaxed);
        let waiting = self.handshakes.len() as u64;
        cells.waiting.store(waiting, Ordering::Relaxed);
    }
}
