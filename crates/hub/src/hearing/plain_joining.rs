//! The way of a plain session to its one socket: its token, and the handler's decision.

use crate::access::tokens;
use crate::books::claims::{Claims, Denied};
use crate::clients::session::RequestToken;
use crate::cluster::waiting;
use crate::hearing::plain_gate::{deny_plain, keep_out_plain, namespace_of, set_asking};
use crate::hearing::{booking, joining, plain, plain_gate};
use crate::life::{opening, stream};
use crate::rooms::log::Kept;
use crate::seam::ask::Token;
use crate::seam::event::{Caller, Decision, Refusal};
use crate::seam::publish;
use crate::seam::question;
use crate::seam::questions::Waiting;
use crate::seam::stage::Stage;
use crate::tables::slot::{SessionId, SocketKey};
use wire::base64url::Id20;

/// A plain session begins: its token came with the request.
fn authenticate_plain(stage: &mut Stage, session: SessionId) {
    let Some(slot) = stage.parts.people.sessions.get_mut(session) else {
        return;
    };
    // A plain session has one socket, so its token is asked about once.
    let token = slot.joining.token.take().map(|token| *token);
    let Some(RequestToken::Unread(token)) = token else {
        return if stage.parts.books.config.auth.required {
            tokens::note_denied(&mut stage.parts, session, Denied::Missing.into());
            deny_plain(&mut stage.parts, session, Denied::Missing);
        } else {
            begin_plain(stage, session, None);
        };
    };
    let waiting = Waiting::Begin(None, None);
    match question::ask_about(&mut stage.parts, session, Token::from(token), waiting) {
        Ok(()) => drop(set_asking(&mut stage.parts, session, true)),
        Err(denied) => {
            tokens::note_denied(&mut stage.parts, session, denied.into());
            deny_plain(&mut stage.parts, session, denied);
        }
    }
}

/// A plain session begins. It has one socket at once, or when its token was found good. A client that may come back gets its socket when
/// it has said whether it does.
pub(crate) fn open_plain(stage: &mut Stage, session: SessionId) {
    if plain_gate::waits_for_resume(&stage.parts.people, session) {
        return;
    }
    if stage.parts.books.config.auth.enabled {
        authenticate_plain(stage, session);
    } else {
        begin_plain(stage, session, None);
    }
}

pub(crate) fn begin_plain(stage: &mut Stage, session: SessionId, claims: Option<&Claims>) {
    let Some(namespace) = namespace_of(&stage.parts, session) else {
        return;
    };
    let id = stage.parts.new_socket_id();
    match joining::ask_handler(stage, session, (id, None), &namespace, "{}", claims) {
        Some(Decision::Admit) => enter_plain(stage, session, Some(id), claims),
        Some(Decision::Refuse(refusal)) => keep_out_plain(&mut stage.parts, session, &refusal),
        Some(Decision::Later) => match stage.parts.outbound.asks.take_ticket() {
            // The handler ended the session in the same call.
            Some(key) if !stage.parts.people.sessions.is_open(session) => {
                question::close_question(&mut stage.parts, key);
            }
            Some(key) => {
                let claims = claims.cloned().map(Box::new);
                question::wait_for(&mut stage.parts, key, Waiting::Begin(claims, Some(id)));
                set_asking(&mut stage.parts, session, true);
            }
            None => keep_out_plain(&mut stage.parts, session, &Refusal::unavailable()),
        },
        None => {}
    }
}

/// The handler decided about a plain session that waited.
pub(crate) fn on_beginning_decided(
    stage: &mut Stage,
    session: SessionId,
    claims: Option<Box<Claims>>,
    socket: Option<Id20>,
    decision: Result<(), Refusal>,
) {
    let conn = set_asking(&mut stage.parts, session, false);
    match decision {
        Ok(()) => enter_plain(stage, session, socket, claims.as_deref()),
        Err(refusal) => keep_out_plain(&mut stage.parts, session, &refusal),
    }
    // Frames that waited are read once the socket is there.
    if let Some(conn) = conn {
        stage
            .parts
            .line
            .intake
            .revive(&mut stage.parts.line.conns, conn);
    }
}

fn enter_plain(stage: &mut Stage, session: SessionId, id: Option<Id20>, claims: Option<&Claims>) {
    if !stage.parts.people.sessions.is_open(session) {
        return;
    }
    let Some(namespace) = namespace_of(&stage.parts, session) else {
        return;
    };
    let parts = &mut stage.parts;
    let Some(socket) = opening::add_socket(parts, session, id, &namespace, "{}", claims) else {
        return;
    };
    if let Some(claims) = claims {
        tokens::grant(&mut stage.parts, socket, claims);
    }
    // The answer begins before the handler can say anything in it.
    let stream = stream::begin_stream(&mut stage.parts, session);
    stage.call(session, |handler, cx| handler.connected(cx, socket, "{}"));
    if let Some(rooms) = stream {
        join_stream(stage, session, socket, &rooms);
    }
    // The turn has not been flushed yet, so all of this waits until other nodes know of the socket.
    waiting::hold_welcome(&mut stage.parts, session, socket);
}

/// Joins the rooms that a stream asked for, as a plain client does by its own word. A client that comes back is told of each room of
/// which nobody knows what it missed there.
fn join_stream(stage: &mut Stage, session: SessionId, socket: SocketKey, rooms: &[Box<str>]) {
    let from = Caller { session, socket };
    for room in rooms {
        // The handler may end the session at each of these joins.
        if !stage.parts.people.sessions.is_open(session)
            || !booking::within_rates(&mut stage.parts, from, None)
        {
            break;
        }
        plain::on_room_request(stage, from, "join", room, None);
    }
    let unknown = Kept {
        resumed: Some(false),
        ..Kept::default()
    };
    for room in &stream::unknown_rooms(&mut stage.parts.people, session) {
        publish::tell_history(&mut stage.parts, socket, room, &unknown);
    }
}
