//! A token's life after its client was let in: refreshed, soon to end, at its end.

use crate::access::gcra::Gcra;
use crate::access::rates;
use crate::access::tokens::{self, shown_token};
use crate::books::claims::{Claims, Denied};
use crate::books::close::CloseReason;
use crate::books::config::Rate;
use crate::bounds::{CHORES_PER_TURN, REFRESHES, REFRESHES_PER};
use crate::cluster::waiting;
use crate::dialect::notices;
use crate::dialect::speech::Emit;
use crate::life::ending;
use crate::parts::Parts;
use crate::seam::ask::Token;
use crate::seam::event::{AckTo, Caller, Event};
use crate::seam::member::Member;
use crate::seam::question;
use crate::seam::questions::Waiting;
use crate::tables::slot::SocketKey;
use std::fmt::Write;
use std::sync::Arc;
use wire::json;

/// Takes the event that shows a new token, by its argument or as `{"token": …}`; `false` = it is another event.
#[inline]
pub(crate) fn on_refresh(parts: &mut Parts, from: Caller, event: &Event<'_>) -> bool {
    let shows = parts.books.config.auth.enabled && event.name == notices::REFRESH;
    if shows {
        refresh(parts, from, event);
    }
    shows
}

fn refresh(parts: &mut Parts, from: Caller, event: &Event<'_>) {
    let Caller { session, socket } = from;
    let ack = event.ack.as_ref().map(AckTo::id);
    let token = json::first(event.args).and_then(shown_token);
    let sockets_max = parts.books.config.limits.sockets_per_session_max as u32;
    let rate = Gcra::new(Rate::new(REFRESHES.max(sockets_max), REFRESHES_PER));
    let (people, now_us) = (&mut parts.people, parts.clock.now_us());
    let in_time = rates::spend(people, now_us, socket, REFRESHES_NUMBER, rate).is_ok();
    let token = token.filter(|_| in_time).ok_or(Denied::Invalid);
    let asked = token.and_then(|token| {
        let token = Token::from(Arc::from(token));
        let waiting = Waiting::Refresh { socket, ack };
        question::ask_about(parts, session, token, waiting)
    });
    if let Err(denied) = asked {
        tokens::note_denied(parts, session, denied.into());
        on_refresh_verdict(parts, socket, ack, Err(denied));
    }
}

pub(crate) fn on_refresh_verdict(
    parts: &mut Parts,
    socket: SocketKey,
    ack: Option<u64>,
    verdict: Result<Claims, Denied>,
) {
    let answer = match verdict {
        Ok(claims) => tokens::refresh(&mut parts.people, socket, &claims),
        Err(denied) => Err(denied),
    };
    let args = match answer {
        Ok(Some(expires_s)) => format!("{{\"expiresAt\":{}}}", expires_s * 1000),
        Ok(None) => "{}".to_owned(),
        Err(denied) => format!("{{\"error\":\"{}\"}}", denied.message()),
    };
    match ack {
        Some(id) => waiting::ack(parts, AckTo { socket, id }, &args, &[]),
        None => Member::new(parts, socket).emit(&Emit::new(notices::REFRESH, &args)),
    }
}

/// Warns the sockets whose token ends soon and ends those whose token has ended: the turn's share of them. It goes by the wall clock,
/// because the times in tokens are such times.
pub(crate) fn expire_tokens(parts: &mut Parts) {
    let now_s = parts.clock.now.wall_ms / 1000;
    for _ in 0..CHORES_PER_TURN {
        let Some(socket) = parts.clock.expiries.pop_due(now_s) else {
            return;
        };
        let slot = parts.people.sockets.live_mut(socket);
        let Some(slot) = slot.filter(|slot| !slot.flags.gone) else {
            continue;
        };
        // The entry is used up: a socket that waits again gets another one.
        slot.flags.ending = false;
        let expires_s = slot.expires_s;
        match u64::from(expires_s).saturating_sub(now_s) {
            0 => token_ended(parts, socket),
            left_s => token_ends(parts, socket, expires_s, left_s),
        }
    }
}

fn token_ended(parts: &mut Parts, socket: SocketKey) {
    let Some(session) = parts.people.sockets.here(socket).map(|slot| slot.session) else {
        return;
    };
    parts.books.counts.denied[Denied::Expired as usize] += 1;
    let engineio = parts
        .people
        .sessions
        .get(session)
        .is_some_and(|slot| slot.language.protocol().is_engineio());
    // A plain session has one socket and ends with it.
    if !engineio {
        tokens::say_denied(parts, session, Denied::Expired);
        return ending::close_session(parts, session, CloseReason::TokenExpired);
    }
    let ended = Emit::new(notices::ERROR, "{\"message\":\"Token expired\"}");
    Member::new(parts, socket).emit(&ended);
    ending::disconnect_socket(parts, socket.id(), false, Some(CloseReason::TokenExpired));
    if parts
        .people
        .sessions
        .get(session)
        .is_some_and(|slot| slot.sockets.is_empty())
    {
        ending::close_session(parts, session, CloseReason::TokenExpired);
    }
}

/// The token of a socket ends in `left_s` seconds. Its client is warned, unless a refresh has put the end off.
fn token_ends(parts: &mut Parts, socket: SocketKey, expires_s: u32, left_s: u64) {
    let expires_s = u64::from(expires_s);
    if left_s > parts.books.config.auth.warn_before.as_secs() {
        return tokens::look_at_token(
            &parts.books.config,
            &mut parts.clock,
            &mut parts.people,
            socket.id(),
        );
    }
    // The socket waits a second time, for the end itself.
    tokens::await_end(&mut parts.clock, &mut parts.people, socket.id(), expires_s);
    let mut args = String::new();
    let at_ms = expires_s * 1000;
    let _ = write!(args, "{{\"expiresAt\":{at_ms},\"expiresIn\":{left_s}}}");
    Member::new(parts, socket).emit(&Emit::new(notices::EXPIRING, &args));
}

/// The number of the limiter of refreshes. Limiters of rules count from one.
const REFRESHES_NUMBER: u32 = 0;
