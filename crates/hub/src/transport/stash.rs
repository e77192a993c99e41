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
    // Zero says that nothing is incomplete, so times are made odd.
    let now = parts.clock.now.mono_ms as u32 | 1;
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    // The deadline counts from the first byte: a client that drips bytes gains no time.
    if slot.since_ms == 0 {
        slot.since_ms = now;
    }
    if !std::mem::replace(&mut slot.flags.message_timer, true) {
        parts
            .line
            .arm(&mut parts.clock, ConnTimer::Message, timeout, conn);
    }
}

/// A request or message is complete: what is incomplete from now on is another one.
pub(crate) fn input_complete(line: &mut Line, conn: ConnId) {
    if let Some(slot) = line.conns.get_mut(conn) {
        slot.since_ms = 0;
    }
}

pub(crate) fn stall(parts: &mut Parts, conn: ConnId, limit: Limit) {
    if let Some(slot) = parts.line.conns.get_mut(conn)
        && parts.intake.stall(conn, slot)
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
    match &mut slot.input {
        // What a chunked body left comes first.
        Some(input) => growth::extend(input, &rest, usize::MAX),
        None => slot.input = Some(rest),
    }
    watch_input(parts, conn);
}
