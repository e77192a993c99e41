//! Connections that come and go: the addresses that they are counted with, and what they leave behind.

use crate::books::close::CloseReason;
use crate::books::limits::CROWD_SLACK;
use crate::books::metrics::Limit;
use crate::clients::conn::{Flags, State};
use crate::parts::Parts;
use crate::seam::effect::Effect;
use crate::tables::slot::ConnId;
use std::net::IpAddr;
use wire::websocket::close;

/// Counts a newcomer with the address it comes from, which may have too many.
pub(crate) fn enter_address(parts: &mut Parts, conn: ConnId, peer: IpAddr) {
    let max = parts.books.config.limits.conns_per_address_max;
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    let count = parts.access.count(&parts.books.config, slot, peer);
    let share = parts.access.conns_max(&parts.books.config, peer, count);
    slot.flags.beyond = match slot.flags.beyond {
        None if count > share => Some(Limit::ConnsPerAddress),
        Some(Limit::ConnsPerAddress) if count <= share => None,
        beyond => beyond,
    };
    // Up to here a newcomer is told why it is refused, which costs more than a close: a flood gets no answer.
    if count > max.saturating_mul(2).saturating_add(CROWD_SLACK) {
        parts.books.counts.hit(Limit::ConnsPerAddress);
        parts.books.counts.close(CloseReason::TooManyConnections);
        drop_conn(parts, conn);
    }
}

/// Drops a connection now.
pub(crate) fn drop_conn(parts: &mut Parts, conn: ConnId) {
    parts.line.forget_answer(conn);
    if let Some(slot) = parts.line.remove(&mut parts.clock, conn) {
        parts.access.forget(conn, &slot);
        forget_transport(parts, &slot.flags);
        if slot.flags.inflates {
            parts.line.forget_deflate(&mut parts.books, conn);
        }
        parts.outbound.push(Effect::Close { conn });
    }
}

/// A connection is not counted among those of its transport any more.
pub(crate) fn forget_transport(parts: &mut Parts, flags: &Flags) {
    let counts = &mut parts.books.counts;
    counts.websockets -= u64::from(flags.websocket && !flags.carried);
    counts.webtransports -= u64::from(flags.websocket && flags.carried);
}

/// Drops the oldest connection from the reserve that has shown no session and no probe. It is silent, or it was refused and keeps its side
/// open.
pub(crate) fn make_way(parts: &mut Parts) -> bool {
    let conns = &parts.line.conns;
    let oldest = parts.access.reserve.give_way(|conn| {
        let slot = conns.live(conn)?;
        let idle = matches!(slot.state, State::Head | State::Finishing | State::Linger);
        Some(idle)
    });
    let Some(conn) = oldest else {
        return false;
    };
    if parts
        .line
        .conns
        .live(conn)
        .is_some_and(|slot| !slot.flags.served)
    {
        parts.books.counts.hit(Limit::Conns);
        parts.books.counts.shed += 1;
    }
    drop_conn(parts, conn.id());
    true
}

/// Takes a connection out of the hub without closing it (it goes elsewhere with its socket).
pub(crate) fn release_conn(parts: &mut Parts, conn: ConnId) {
    parts.line.forget_answer(conn);
    if let Some(slot) = parts.line.remove(&mut parts.clock, conn) {
        parts.access.forget(conn, &slot);
    }
}

/// Ends a connection once everything queued on it is written.
pub(crate) fn finish(parts: &mut Parts, conn: ConnId) {
    let limits = &parts.books.config.limits;
    parts.line.finish(&mut parts.clock, limits, conn);
}

/// Ends a WebSocket by a close frame.
pub(crate) fn say_goodbye(parts: &mut Parts, conn: ConnId, code: Option<u16>, reason: &str) {
    parts
        .line
        .reply(conn, |out| close::write(out, code, reason));
    finish(parts, conn);
}
