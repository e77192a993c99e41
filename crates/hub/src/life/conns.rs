//! Connections that come and go: the addresses that they are counted with, and what they leave behind.

use crate::books::close::CloseReason;
use crate::books::metrics::Limit;
use crate::bounds::CROWD_SLACK;
use crate::clients::conn::{Conn, State};
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
    slot.origin.be_crowded(count > share);
    // Up to here a newcomer is told why it is refused, which costs more than a close: a flood gets no answer.
    if count > max.saturating_mul(2).saturating_add(CROWD_SLACK) {
        parts.books.counts.hit(Limit::ConnsPerAddress);
        parts.books.counts.close(CloseReason::TooManyConnections);
        drop_conn(parts, conn);
    }
}

/// Drops a connection now.
pub(crate) fn drop_conn(parts: &mut Parts, conn: ConnId) {
    if forget_conn(parts, conn) {
        parts.outbound.push(Effect::Close { conn });
    }
}

/// A connection is gone from here, whoever has its stream, and is counted no more; `false` = it was not here.
pub(crate) fn forget_conn(parts: &mut Parts, conn: ConnId) -> bool {
    let Some(slot) = take_out(parts, conn) else {
        return false;
    };
    let (is_websocket, is_carried) = (slot.handshake.is_done(), slot.origin.is_carried());
    let counts = &mut parts.books.counts;
    counts.websockets -= u64::from(is_websocket && !is_carried);
    counts.webtransports -= u64::from(is_websocket && is_carried);
    if slot.handshake.inflates() {
        parts.line.forget_deflate(&mut parts.books, conn);
    }
    true
}

fn take_out(parts: &mut Parts, conn: ConnId) -> Option<Conn> {
    parts.line.forget_answer(conn);
    let slot = parts.line.remove(&mut parts.clock, conn)?;
    parts.access.forget(conn, &slot);
    Some(slot)
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
        .is_some_and(|slot| !slot.exchange.has_served())
    {
        parts.books.counts.hit(Limit::Conns);
        parts.books.counts.shed += 1;
    }
    drop_conn(parts, conn.id());
    true
}

/// Takes a connection that asks for something out of the hub without closing it (it goes elsewhere with its socket).
pub(crate) fn release_conn(parts: &mut Parts, conn: ConnId) {
    take_out(parts, conn);
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
