//! HOT PATH: the end of a turn. What it produced goes to the kernel, a few writes for each connection, and a client that cannot take
//! it is dealt with.

use crate::books::Books;
use crate::books::close::CloseReason;
use crate::books::metrics::Limit;
use crate::clients::conn::State;
use crate::clients::line::Line;
use crate::hearing::decisions;
use crate::life::{conns, ending, gaps};
use crate::output::outbox::{Flushed, Tally};
use crate::output::sink::Sink;
use crate::parts::Parts;
use crate::seam::effect::Effect;
use crate::seam::stage::Stage;
use crate::tables::slot::ConnId;
use crate::transport::polling;

/// Connections that are handed over at once. So many are worth a system call for all of them, and are still in the nearest cache
/// when their results come.
const BATCH: usize = 64;

/// Writes what the turn produced: at most a few calls per connection.
pub(crate) fn run(stage: &mut Stage, sink: &mut dyn Sink) {
    // Ends and released output come first: what they write leaves with this flush.
    close_overflowed(&mut stage.parts);
    for conn in stage.parts.line.take_released() {
        writable(&mut stage.parts, conn, sink);
    }
    polling::answer_polls(&mut stage.parts);
    decisions::settle(stage);
    if stage.parts.line.has_output() {
        // Counters are published before bytes leave: a client that has its answer finds counted what led to it.
        count_deliveries(&mut stage.parts.books, &mut stage.parts.line);
        publish(&mut stage.parts);
    }
    let (mut dirty, mut after) = (Vec::new(), Vec::new());
    // A flush may end sessions. What their handlers say then leaves in another round.
    while stage.parts.line.has_output() {
        dirty = stage.parts.line.take_dirty();
        for batch in dirty.chunks(BATCH) {
            let parts = &mut stage.parts;
            let books = (&parts.books.config.limits, &mut parts.books.counts);
            parts.line.flush(batch, sink, books, &mut after);
            // What follows a write waits until each outbox of the batch knows its own result (ADR 21).
            for (conn, flushed) in after.drain(..) {
                after_flush(parts, conn, flushed);
            }
        }
        decisions::settle(stage);
        polling::answer_polls(&mut stage.parts);
    }
    stage.parts.line.end_flush(dirty);
    count_deliveries(&mut stage.parts.books, &mut stage.parts.line);
}

/// Books the deliveries since the last flush and begins to count anew.
pub(crate) fn count_deliveries(books: &mut Books, line: &mut Line) {
    books.counts.deliveries += line.budget.flushed() as u64;
}

/// Shows the counters to other threads.
pub(crate) fn publish(parts: &mut Parts) {
    let counts = &mut parts.books.counts;
    counts.conns = parts.line.conns.len() as u64;
    counts.sessions = parts.people.sessions.len() as u64;
    counts.sockets = parts.people.sockets.listed() as u64;
    counts.rooms = parts.rooms.table.len() as u64;
    counts.waiting_bytes = parts.line.waiting_bytes();
    if let Some(recovery) = &mut parts.recovery {
        counts.parked = recovery.parked.len() as u64;
        counts.parked_bytes = recovery.parked.bytes() as u64;
        counts.parked_crowded += recovery.parked.take_crowded();
        counts.journal_bytes = recovery.journal.bytes() as u64;
    }
    parts.books.publish();
}

/// The kernel takes bytes again.
pub(crate) fn writable(parts: &mut Parts, conn: ConnId, sink: &mut dyn Sink) {
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    // Held output waits for other nodes, not for the kernel.
    if !slot.outbox.is_blocked() || slot.lag.is_held() {
        return;
    }
    let mut tally = Tally::default();
    let flushed = slot.outbox.flush_backlog(conn, sink, &mut tally);
    tally.count(&mut parts.books.counts);
    after_flush(parts, conn, flushed);
}

fn after_flush(parts: &mut Parts, conn: ConnId, flushed: Flushed) {
    if let Some(slot) = parts.line.conns.get_mut(conn)
        && !slot.lag.is_whole()
        && matches!(flushed, Flushed::Waiting | Flushed::Empty)
        && slot.lag.is_due(flushed == Flushed::Empty)
        && let Some(session) = slot.session
    {
        gaps::tell(parts, session);
    }
    match flushed {
        Flushed::Waiting => {}
        Flushed::Gone => ending::lost_in_writing(parts, conn),
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
                if slot.unread.has_ended() {
                    conns::drop_conn(parts, conn);
                } else {
                    // The peer closes first: a close of ours could destroy the last answer on its way (RFC 9112 §9.6).
                    parts.outbound.push(Effect::Shutdown { conn });
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
        // The close frame must follow a whole frame, so one that has begun to leave stays.
        slot.outbox.discard_unstarted();
        if let Some(session) = session {
            ending::close_session(parts, session, CloseReason::SlowConsumer);
        }
    } else {
        // Nothing can follow an answer that is cut.
        ending::lost(parts, conn, CloseReason::SlowConsumer);
    }
}

fn close_overflowed(parts: &mut Parts) {
    for session in parts.line.polls.take_gapped() {
        gaps::tell_due(parts, session);
    }
    for session in parts.line.polls.take_overflowed() {
        // The slot may have changed hands since.
        if parts.people.sessions.overflows(session) {
            ending::close_session(parts, session, CloseReason::SlowConsumer);
        }
    }
}
