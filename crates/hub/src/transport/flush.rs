//! HOT PATH: the end of a turn. What it produced goes to the kernel, a few writes for each connection, and a client that cannot take
//! it is dealt with.

use crate::books::close::CloseReason;
use crate::books::metrics::Limit;
use crate::life::conns;
use crate::life::ending;
use crate::output::outbox::{Flushed, Sink, Tally};
use crate::parts::Parts;
use crate::seam::effect::Effect;
use crate::tables::conn::State;
use crate::tables::slot::ConnId;

#[inline]
pub(crate) fn flush_conn(parts: &mut Parts, conn: ConnId, sink: &mut dyn Sink) {
    let (mut bytes_max, squeezed) = parts.line.outbox_bytes_max(&parts.books.config.limits);
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    if slot.flags.answering {
        // The answer was bounded when it was a queue; here it waits for the kernel.
        bytes_max = bytes_max.saturating_mul(4);
    }
    slot.flags.dirty = false;
    let mut tally = Tally::default();
    let flushed = slot
        .outbox
        .flush(&mut parts.line.log, conn, sink, bytes_max, &mut tally);
    let ends = slot.state == State::Finishing;
    count_tally(parts, &tally);
    if squeezed && (flushed == Flushed::Overflow || tally.dropped.iter().any(|n| *n > 0)) {
        parts.books.counts.hit(Limit::WaitingBytes);
    }
    if flushed != Flushed::Empty || ends {
        after_flush(parts, conn, flushed);
    }
}

pub(crate) fn count_tally(parts: &mut Parts, tally: &Tally) {
    parts.books.counts.bytes_out += tally.bytes;
    parts.books.counts.writes += tally.writes;
    parts.books.counts.lose(&tally.dropped);
}

pub(crate) fn after_flush(parts: &mut Parts, conn: ConnId, flushed: Flushed) {
    match flushed {
        Flushed::Waiting => {}
        Flushed::Gone => ending::lost(parts, conn, CloseReason::TransportError),
        Flushed::Overflow => overflow(parts, conn),
        Flushed::Empty => {
            let Some(slot) = parts.line.conns.get_mut(conn) else {
                return;
            };
            // A backlog may end while this turn's last words still wait for the flush.
            if !slot.outbox.is_empty() {
                return;
            }
            if slot.state == State::Finishing {
                slot.state = State::Linger;
                if slot.flags.eof {
                    conns::drop_conn(parts, conn);
                } else {
                    parts.outbound.effects.push(Effect::Shutdown { conn });
                }
            }
        }
    }
}

/// A slow consumer: what it has not begun to receive is dropped and it is told why.
fn overflow(parts: &mut Parts, conn: ConnId) {
    parts.books.counts.hit(Limit::OutboxBytes);
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    let (state, session) = (slot.state, slot.session);
    if matches!(state, State::WebSocket | State::Stream) {
        slot.outbox.discard_unstarted();
        if let Some(session) = session {
            ending::close_session(parts, session, CloseReason::SlowConsumer);
        }
    } else {
        ending::lost(parts, conn, CloseReason::SlowConsumer);
    }
}

pub(crate) fn close_overflowed(parts: &mut Parts) {
    for session in parts.line.polls.take_overflowed() {
        // The slot may have changed hands since.
        if parts.people.queue_overflows(session) {
            ending::close_session(parts, session, CloseReason::SlowConsumer);
        }
    }
}
