//! Who sends too much, and who comes too often: the rates that hold for all messages, and the bounds per address.

use crate::access::addresses::holder;
use crate::access::gcra::{Exceeded, Gcra, Sender};
use crate::books::close::CloseReason;
use crate::books::limits::{CROWD_SLACK, IGNORED_BYTES_MAX};
use crate::books::metrics::{Limit, Scope};
use crate::life::conns;
use crate::parts::Parts;
use crate::tables::slot::{ConnId, SessionId, SocketId, SocketKey};
use std::net::IpAddr;

/// The first of the rates that has nothing left for this message, which then costs none of them anything.
#[inline]
pub(crate) fn book_message(
    parts: &mut Parts,
    session: SessionId,
    socket: Option<SocketKey>,
) -> Result<(), (Scope, Exceeded)> {
    let now_us = now_us(parts);
    parts.intake.set_forgiven(false);
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return Ok(());
    };
    let before_us = slot.rate;
    if let Some(meter) = &parts.access.meters.session {
        let booked = meter.gcra.check(&mut slot.rate, now_us);
        booked.map_err(|exceeded| (Scope::Session, exceeded))?;
    }
    if slot.granted == 0 && parts.access.meters.are_shared() {
        let booked = book(parts, session, socket);
        let Some(slot) = parts.people.sessions.get_mut(session) else {
            return Ok(());
        };
        if booked.is_err() {
            slot.rate = before_us;
            return booked;
        }
        parts.intake.set_forgiven(slot.forgive());
        return Ok(());
    }
    slot.unbooked += u8::from(slot.granted > 0);
    slot.granted = slot.granted.saturating_sub(1);
    parts.intake.set_forgiven(slot.forgive());
    Ok(())
}

/// Bytes behind the end. What was on its way when the peer was told is no offence. Who goes on is a flood: it is not read any
/// more, which costs nothing, and not cut before its time, for then it would be back at once.
pub(crate) fn ignore(parts: &mut Parts, conn: ConnId, len: usize) {
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    let before = slot.ignored;
    slot.ignored = before.saturating_add(len as u32);
    if before <= IGNORED_BYTES_MAX && slot.ignored > IGNORED_BYTES_MAX {
        parts.books.counts.hit(Limit::Ignored);
    }
}

/// Counts a newcomer with the address it comes from, which may have too many.
pub(crate) fn enter_address(parts: &mut Parts, conn: ConnId, peer: IpAddr) {
    let max = parts.books.config.limits.conns_per_address_max;
    let count = count_address(parts, conn, peer);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.flags.beyond = match slot.flags.beyond {
            None if count > max => Some(Limit::ConnsPerAddress),
            Some(Limit::ConnsPerAddress) if count <= max => None,
            beyond => beyond,
        };
    }
    if count > max.saturating_mul(2).saturating_add(CROWD_SLACK) {
        parts.books.counts.hit(Limit::ConnsPerAddress);
        parts.books.counts.close(CloseReason::TooManyConnections);
        conns::drop_conn(parts, conn);
    }
}

/// Counts a connection with an address; how many that makes, or 0 if nobody counts them.
pub(crate) fn count_address(parts: &mut Parts, conn: ConnId, peer: IpAddr) -> u32 {
    let max = parts.books.config.limits.conns_per_address_max;
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return 0;
    };
    if slot.flags.counted {
        parts.access.addresses.leave(slot.peer);
    }
    slot.peer = peer;
    // A proxy is many clients: each of its connections counts for one of them as soon as that one is known.
    slot.flags.counted = max > 0 && !parts.books.config.proxies.trusts(peer);
    match slot.flags.counted {
        true => parts.access.addresses.enter(peer),
        false => 0,
    }
}

/// Books an event with a limiter of the socket's session.
pub(crate) fn spend(
    parts: &mut Parts,
    socket: SocketKey,
    number: u32,
    gcra: Gcra,
) -> Result<(), Exceeded> {
    let now_us = now_us(parts);
    let session = parts.people.socket(socket).map(|slot| slot.session);
    let slot = session.and_then(|session| parts.people.sessions.get_mut(session));
    slot.map_or(Ok(()), |slot| {
        let rare = slot.rare.get_or_insert_default();
        gcra.check(rare.rate(number), now_us)
    })
}

/// The time as limiters count it.
pub(crate) fn now_us(parts: &Parts) -> u64 {
    parts.clock.now.mono_ms * 1000 + 1
}

/// Books a message of a session with its user and address, or says which of them has nothing left.
fn book(
    parts: &mut Parts,
    session: SessionId,
    socket: Option<SocketKey>,
) -> Result<(), (Scope, Exceeded)> {
    let now_us = now_us(parts);
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return Ok(());
    };
    let owed = std::mem::take(&mut slot.unbooked);
    let address = holder(slot.peer);
    let user = user_to_charge(parts, session, socket.map(|socket| socket.id()));
    let sender = Sender { user, address };
    let granted = parts.access.meters.book(sender, now_us, owed)?;
    if let Some(slot) = parts.people.sessions.get_mut(session) {
        slot.granted = granted;
    }
    Ok(())
}

/// Books what a session still owes, before it ends or one of its sockets is nobody's or another's. From then on it is
/// granted nothing.
pub(crate) fn book_rest(parts: &mut Parts, session: SessionId, socket: Option<SocketId>) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    slot.granted = 0;
    let owed = std::mem::take(&mut slot.unbooked);
    if owed == 0 {
        return;
    }
    let address = holder(slot.peer);
    let user = user_to_charge(parts, session, socket);
    parts
        .access
        .meters
        .owe(Sender { user, address }, now_us(parts), owed);
}

/// Makes a socket one of a user's. What its session owes is booked with the user that it had.
pub(crate) fn set_user(parts: &mut Parts, socket: SocketId, name: &str) {
    if let Some(session) = parts.people.sockets.get(socket).map(|slot| slot.session) {
        book_rest(parts, session, Some(socket));
    }
    parts.people.set_user(socket, name);
}

/// The socket's user, else the one whom the session's other sockets belong to: it answers for the whole session.
fn user_to_charge(parts: &Parts, session: SessionId, socket: Option<SocketId>) -> Option<&str> {
    parts.access.meters.user.as_ref()?;
    let own = socket.and_then(|socket| parts.people.user_of(socket));
    own.or_else(|| {
        let sockets = &parts.people.sessions.get(session)?.sockets;
        sockets
            .iter()
            .find_map(|socket| parts.people.user_of(*socket))
    })
}
