//! The first word of a plain client that asked for recovery: `resume`, with the name of the socket that it had, or without one. Its socket
//! begins, or goes on, after it.

use crate::books::close::CloseReason;
use crate::clients::session::Protocol;
use crate::hearing::plain_gate::{namespace_of, set_asking, waits_for_resume};
use crate::hearing::{joining, plain_gate};
use crate::life::ending;
use crate::recovery::shown::{self, Shown};
use crate::seam::event::Data;
use crate::seam::stage::Stage;
use crate::tables::slot::SessionId;
use wire::plain;

/// A message of a session without a socket.
pub(crate) fn on_first(stage: &mut Stage, session: SessionId, data: Data<'_>) {
    if !waits_for_resume(&stage.parts.people, session)
        || !stage.parts.people.sessions.is_open(session)
    {
        return;
    }
    let Some(protocol) = stage
        .parts
        .people
        .sessions
        .get(session)
        .map(|slot| slot.language.protocol())
    else {
        return;
    };
    let Some(shown) = read(protocol, data) else {
        return refuse(stage, session);
    };
    let Some(namespace) = namespace_of(&stage.parts, session) else {
        return;
    };
    match stage.parts.books.config.auth.enabled {
        true => joining::authenticate(stage, session, &namespace, "{}", shown),
        false => joining::join_namespace(stage, session, &namespace, "{}", None, shown),
    }
    let slot = stage.parts.people.sessions.get(session);
    if slot.is_some_and(|slot| slot.joining.gates.len() > 0) {
        set_asking(&mut stage.parts, session, true);
    }
}

/// What a `resume` shows of the socket to go on with; `None`: it is another message.
fn read(protocol: Protocol, data: Data<'_>) -> Option<Option<Shown>> {
    match (protocol, data) {
        (Protocol::PlainMsgpack, Data::Binary(bytes)) => {
            let text = plain::resumes_msgpack(bytes)?;
            Some(shown::take_out(&text).1)
        }
        (_, Data::Text(text)) => plain::resumes_json(text).then(|| shown::take_out(text).1),
        _ => None,
    }
}

fn refuse(stage: &mut Stage, session: SessionId) {
    let parts = &mut stage.parts;
    parts.books.counts.invalid_messages += 1;
    let error = plain::Error {
        code: "INVALID_MESSAGE_FORMAT",
        message: "Invalid message format: with `recovery=1` the first message is {\"type\":\"resume\"}, with `pid` and `offset` of the socket to go on with",
        field: Some("type"),
        timestamp_ms: parts.clock.now.wall_ms,
        ..plain::Error::default()
    };
    parts.speaker().say_error(session, &error);
    plain_gate::go_on(stage, session);
    ending::close_session(&mut stage.parts, session, CloseReason::ParseError);
}
