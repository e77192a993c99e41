//! What a token says, as long as its socket is there: rooms, grants, its end. Nothing here asks anybody.

use crate::books::claims::{Claims, Denied, Refused};
use crate::books::config::Config;
use crate::books::heartbeat::Step;
use crate::clients::people::People;
use crate::clients::session::RequestToken;
use crate::clients::socket::Extra;
use crate::life::memberships;
use crate::parts::Parts;
use crate::seam::effect::Notice;
use crate::tables::clock::Clock;
use crate::tables::slot::{SessionId, SocketId, SocketKey};
use std::borrow::Cow;
use std::sync::Arc;
use wire::http::{self, Head};
use wire::{json, plain};

/// Gives a socket what its token says.
pub(crate) fn grant(parts: &mut Parts, socket: SocketKey, claims: &Claims) {
    let index = socket.id();
    memberships::set_user(parts, index, &claims.uid);
    for room in &claims.rooms {
        // Names and numbers have bounds, which are counted where they bite.
        let _ = memberships::join(parts, index, room);
    }
    renew(parts, socket, claims);
}

/// Gives a socket what its token says beside rooms and user.
pub(crate) fn renew(parts: &mut Parts, socket: SocketKey, claims: &Claims) {
    set_rights(&mut parts.people, socket, claims);
    parts.people.note_claims(socket, claims.kinds.as_deref());
    if let Some(expires_s) = claims.expires_s {
        let expires_s = u32::try_from(expires_s).unwrap_or(u32::MAX);
        if let Some(slot) = parts.people.sockets.live_mut(socket) {
            slot.expires_s = expires_s;
        }
        look_at_token(
            &parts.books.config,
            &mut parts.clock,
            &mut parts.people,
            socket.id(),
        );
    }
}

fn set_rights(people: &mut People, socket: SocketKey, claims: &Claims) {
    let Some(slot) = people.sockets.live_mut(socket) else {
        return;
    };
    // A new token without grants takes the old ones away.
    if claims.grants.is_some() || claims.label.is_some() || slot.extra.is_some() {
        let extra: &mut Extra = slot.extra.get_or_insert_default();
        extra.grants = claims.grants.clone().map(Box::new);
        extra.label = claims.label.as_deref().map(Box::from);
    }
}

/// Takes a new token for a socket: it has to be of the same user and must not end sooner. Returns when it ends.
pub(crate) fn refresh(
    people: &mut People,
    socket: SocketKey,
    claims: &Claims,
) -> Result<Option<u64>, Denied> {
    let slot = people.sockets.here(socket).ok_or(Denied::Invalid)?;
    let (session, before_s) = (slot.session, u64::from(slot.expires_s));
    // For a socket without an end any end comes sooner.
    let later = claims
        .expires_s
        .is_none_or(|expires_s| before_s > 0 && expires_s >= before_s);
    if people.user_of(socket.id()) != Some(&*claims.uid) || !later {
        return Err(Denied::Invalid);
    }
    refresh_request_token(people, session, claims);
    set_rights(people, socket, claims);
    people.note_claims(socket, claims.kinds.as_deref());
    // A socket without an end stays without one. A socket that waits for its old end is looked at then; the others, at a heartbeat.
    if let Some(slot) = people.sockets.live_mut(socket)
        && before_s > 0
    {
        let expires_s = claims.expires_s.unwrap_or(u64::from(u32::MAX));
        slot.expires_s = u32::try_from(expires_s).unwrap_or(u32::MAX);
    }
    Ok(claims.expires_s)
}

/// A client showed no token, or one that grants nothing: counted, and told to the log with the cause.
pub(crate) fn note_denied(parts: &mut Parts, session: SessionId, refused: Refused) {
    parts.books.counts.denied[refused.denied as usize] += 1;
    if let Some(slot) = parts.people.sessions.get(session) {
        let (peer, Refused { cause, why, .. }) = (slot.client.peer(), refused);
        let notice = Notice::TokenRefused { peer, cause, why };
        parts.outbound.log(notice);
    }
}

/// A token that was shown anew holds for the namespaces that the session is yet to join, too.
fn refresh_request_token(people: &mut People, session: SessionId, claims: &Claims) {
    let slot = people.sessions.get_mut(session);
    if let Some(RequestToken::Good(known)) = slot.and_then(|slot| slot.joining.token.as_deref_mut())
        && known.uid == claims.uid
        && claims.outlast(known)
    {
        known.clone_from(claims);
    }
}

/// The wall clock went ahead of time: what heartbeats would find is to be found now.
#[cold]
pub(crate) fn look_at_all_tokens(config: &Config, clock: &mut Clock, people: &mut People) {
    let all = people.sockets.iter().map(|(socket, _)| socket);
    for socket in all.collect::<Vec<_>>() {
        look_at_token(config, clock, people, socket);
    }
}

/// Finds, at a heartbeat, the sockets of a session that must be warned before the next heartbeat.
pub(crate) fn look_at_tokens(
    config: &Config,
    clock: &mut Clock,
    people: &mut People,
    session: SessionId,
) {
    if !config.auth.enabled {
        return;
    }
    // Each look borrows the tables, so the sockets are counted and not iterated.
    for n in 0.. {
        let sockets = people.sessions.get(session).map(|slot| &slot.sockets);
        let Some(socket) = sockets.and_then(|sockets| sockets.get(n).copied()) else {
            return;
        };
        look_at_token(config, clock, people, socket);
    }
}

/// Lets a socket wait for its warning, if that is due before the next heartbeat of its session.
pub(crate) fn look_at_token(
    config: &Config,
    clock: &mut Clock,
    people: &mut People,
    index: SocketId,
) {
    let Some(slot) = people.sockets.get(index) else {
        return;
    };
    let warn_s = config.auth.warn_before.as_secs();
    let due_s = u64::from(slot.expires_s).saturating_sub(warn_s);
    let session = people.sessions.get(slot.session);
    let step = session.map_or(Step::LAST, |session| session.heart.step());
    let gap_s = config.heartbeat_gap_max(step).as_secs();
    let next_s = (clock.now.wall_ms / 1000 + 1).saturating_add(gap_s);
    if slot.expires_s > 0 && !slot.flags.ending && due_s <= next_s {
        await_end(clock, people, index, due_s);
    }
}

pub(crate) fn await_end(clock: &mut Clock, people: &mut People, index: SocketId, due_s: u64) {
    let key = people.sockets.key(index);
    if let Some(slot) = people.sockets.get_mut(index) {
        // The mark keeps the next heartbeat from a second entry.
        slot.flags.ending = true;
        clock.expiries.add(due_s, key);
    }
}

/// A socket that may have waited for the end of its token is gone.
pub(crate) fn forget_expiry(clock: &mut Clock, people: &People, index: SocketId) {
    if people
        .sockets
        .get(index)
        .is_some_and(|slot| slot.flags.ending)
    {
        let sockets = &people.sockets;
        let is_live = |key| sockets.live(key).is_some_and(|slot| !slot.flags.gone);
        clock.expiries.forget_one(is_live);
    }
}

/// Tells a plain client why it is sent off.
pub(crate) fn say_denied(parts: &mut Parts, session: SessionId, denied: Denied) {
    let error = plain::Error {
        code: denied.code(),
        message: denied.message(),
        timestamp_ms: parts.clock.now.wall_ms,
        ..plain::Error::default()
    };
    parts.speaker().say_error(session, &error);
}

/// The token a request shows: `Authorization: Bearer`, or the query parameter of that name.
pub(crate) fn request_token(head: &Head<'_>, parameter: &str) -> Option<Arc<str>> {
    let bearer = head.header("authorization").and_then(|value| {
        let (scheme, token) = std::str::from_utf8(value).ok()?.trim().split_once(' ')?;
        // RFC 9110 §11.1: the name of a scheme is case-insensitive.
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let token: Option<Cow<'_, str>> = bearer.map(Cow::Borrowed);
    let token = token.or_else(|| http::query_param(head.query, parameter));
    token.filter(|token| !token.is_empty()).map(Arc::from)
}

/// The member `token` of a JSON object, or a JSON string.
pub(crate) fn shown_token(raw: &str) -> Option<Cow<'_, str>> {
    let raw = raw.trim();
    let value = if raw.starts_with('{') {
        json::member(raw, "\"token\"")?
    } else {
        raw
    };
    json::unquote(value).filter(|token| !token.is_empty())
}
