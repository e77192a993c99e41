//! How much of a connection's input is worked on before others have their turn.

use crate::books::metrics::Limit;
use crate::clients::line::Line;
use crate::clients::people::People;
use crate::parts::Parts;
use crate::tables::slot::ConnId;

/// Another connection's input is worked on from here.
pub(crate) fn begin(line: &mut Line) {
    line.budget.begin_conn();
    line.intake.begin();
}

/// Whether a session of this connection had messages rejected of late.
pub(crate) fn floods(line: &Line, people: &People, conn: ConnId) -> bool {
    let slot = line.conns.get(conn);
    let session = slot.and_then(|slot| people.sessions.get(slot.session));
    session.is_some_and(|slot| slot.dues.rejections > 0)
}

/// What makes the connection being worked on wait for the next turn.
pub(crate) fn why_yield(parts: &Parts, inflated: usize) -> Option<Limit> {
    let limits = &parts.books.config.limits;
    if parts.line.budget.conn_floods(limits) {
        return Some(Limit::RejectionsPerTurn);
    }
    if parts.line.intake.waits_for_mailbox() {
        return Some(Limit::Mailbox);
    }
    // Inflated bytes count as read: a few bytes of the peer's can be a turn's work.
    let full = parts.line.is_full(limits) || inflated > limits.read_bytes_per_turn;
    full.then_some(Limit::DeliveriesPerTurn)
}
