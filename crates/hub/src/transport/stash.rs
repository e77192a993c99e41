//! Input that is incomplete or waits: kept with its connection, and its deadline seen to.

use crate::books::metrics::Limit;
use crate::clients::conn::State;
use crate::clients::line::Line;
use crate::parts::Parts;
use crate::tables::slot::ConnId;
use crate::tables::timer::ConnTimer;
use wire::growth;

/// Notes when an incomplete message began and sees to its deadline; one timer per connection.
pub(crate) fn watch_input(parts: &mut Parts, conn: ConnId) {
    let timeout = parts.books.config.limits.message_timeout;
    let now_ms = parts.clock.now.mono_ms;
    if let Some(slot) = parts.line.conns.get_mut(conn)
        && slot.unread.watch(now_ms)
    {
        parts
            .line
            .arm(&mut parts.clock, ConnTimer::Message, timeout, conn);
    }
}

/// A request or message is complete: what is incomplete from now on is another one.
pub(crate) fn input_complete(line: &mut Line, conn: ConnId) {
    if let Some(slot) = line.conns.get_mut(conn) {
        slot.unread.complete();
    }
}

pub(crate) fn stall(parts: &mut Parts, conn: ConnId, limit: Limit) {
    if let Some(slot) = parts.line.conns.get_mut(conn)
        && parts.line.intake.stall(conn, slot)
    {
        parts.books.counts.hit(limit);
    }
}

/// Keeps incomplete input.
pub(crate) fn stash(parts: &mut Parts, conn: ConnId, rest: &[u8]) {
    let mut input = Vec::new();
    growth::extend(&mut input, rest, usize::MAX);
    keep(parts, conn, Box::new(input));
}

#[expect(clippy::box_collection, reason = "it goes into the connection's slot")]
pub(crate) fn keep(parts: &mut Parts, conn: ConnId, rest: Box<Vec<u8>>) {
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    if matches!(slot.state, State::Finishing | State::Linger) {
        return;
    }
    slot.unread.keep(rest);
    watch_input(parts, conn);
}
