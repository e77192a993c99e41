//! HOT PATH: the end of a turn. What it produced goes to the kernel, a few writes for each connection, and who can not take it
//! is dealt with.

use crate::books::close::CloseReason;
use crate::books::metrics::Limit;
use crate::hub::Hub;
use crate::output::outbox::{Flushed, Sink, Tally};
use crate::seam::effect::Effect;
use crate::tables::conn::State;
use crate::tables::slot::ConnId;

impl Hub {
    /// The kernel takes bytes again.
    pub(crate) fn writable(&mut self, conn: ConnId, sink: &mut dyn Sink) {
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        if !slot.outbox.is_blocked() {
            return;
        }
        let mut tally = Tally::default();
        let flushed = slot.outbox.flush_backlog(conn, sink, &mut tally);
        self.book(&tally);
        self.after_flush(conn, flushed);
        self.settle();
    }

    /// Writes what the turn produced: at most a few calls per connection.
    pub(crate) fn flush(&mut self, sink: &mut dyn Sink) {
        self.close_overflowed();
        self.answer_polls();
        self.settle();
        if !self.parts.line.log.dirty.is_empty() {
            // Before anything is said: whoever gets an answer of this shard finds counted what led to it.
            self.count_deliveries();
            self.publish();
        }
        while !self.parts.line.log.dirty.is_empty() {
            let dirty = std::mem::take(&mut self.parts.line.log.dirty);
            for conn in &dirty {
                self.flush_conn(*conn, sink);
            }
            self.settle();
            self.answer_polls();
            if self.parts.line.log.dirty.is_empty() {
                self.parts.line.log.dirty = dirty;
                break;
            }
        }
        self.parts.line.log.clear();
        self.count_deliveries();
    }

    #[inline]
    fn flush_conn(&mut self, conn: ConnId, sink: &mut dyn Sink) {
        let (mut bytes_max, squeezed) = self.parts.outbox_bytes_max();
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        if slot.flags.answering {
            // The answer was bounded when it was a queue; here it waits for the kernel.
            bytes_max = bytes_max.saturating_mul(4);
        }
        slot.flags.dirty = false;
        let mut tally = Tally::default();
        let flushed =
            slot.outbox
                .flush(&mut self.parts.line.log, conn, sink, bytes_max, &mut tally);
        let ends = slot.state == State::Finishing;
        self.book(&tally);
        if squeezed && (flushed == Flushed::Overflow || tally.dropped.iter().any(|n| *n > 0)) {
            self.parts.books.counts.hit(Limit::WaitingBytes);
        }
        if flushed != Flushed::Empty || ends {
            self.after_flush(conn, flushed);
        }
    }

    fn book(&mut self, tally: &Tally) {
        self.parts.books.counts.bytes_out += tally.bytes;
        self.parts.books.counts.writes += tally.writes;
        self.parts.count_losses(&tally.dropped);
    }

    fn after_flush(&mut self, conn: ConnId, flushed: Flushed) {
        match flushed {
            Flushed::Waiting => {}
            Flushed::Gone => self.lost(conn, CloseReason::TransportError),
            Flushed::Overflow => self.overflow(conn),
            Flushed::Empty => {
                let Some(slot) = self.parts.line.conns.get_mut(conn) else {
                    return;
                };
                // A backlog may end while this turn's last words still wait for the flush.
                if !slot.outbox.is_empty() {
                    return;
                }
                if slot.state == State::Finishing {
                    slot.state = State::Linger;
                    if slot.flags.eof {
                        self.parts.drop_conn(conn);
                    } else {
                        self.parts.outbound.effects.push(Effect::Shutdown { conn });
                    }
                }
            }
        }
    }

    /// A slow consumer: what it has not begun to receive is dropped and it is told why.
    fn overflow(&mut self, conn: ConnId) {
        self.parts.books.counts.hit(Limit::OutboxBytes);
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        let (state, session) = (slot.state, slot.session);
        if matches!(state, State::WebSocket | State::Stream) {
            slot.outbox.discard_unstarted();
            if let Some(session) = session {
                self.parts.close_session(session, CloseReason::SlowConsumer);
            }
        } else {
            self.lost(conn, CloseReason::SlowConsumer);
        }
    }

    fn close_overflowed(&mut self) {
        for session in self.parts.polls.take_overflowed() {
            // The slot may have changed hands since.
            if self.parts.queue_overflows(session) {
                self.parts.close_session(session, CloseReason::SlowConsumer);
            }
        }
    }
}
