//! A message of whatever protocol its session speaks.

use crate::books::metrics::Dropped;
use crate::clients::session::Protocol;
use crate::hearing::{plain, socketio};
use crate::seam::event::Data;
use crate::seam::stage::Stage;
use crate::tables::slot::SessionId;

/// A message of whatever protocol the session speaks.
#[inline]
pub(crate) fn on_data(stage: &mut Stage, session: SessionId, data: Data<'_>) {
    stage.parts.books.counts.messages_in += 1;
    let Some(slot) = stage.parts.people.sessions.get_mut(session) else {
        return;
    };
    if slot.flags.closing {
        // Only its last poll is waited for: nothing may join or send on its behalf.
        stage.parts.books.counts.drop_message(Dropped::Invalid);
        return;
    }
    slot.heart.hear();
    // Pauses of clients matter only while sessions are sent away (ADR 49).
    if stage.parts.access.sends_away() {
        let now_ms = stage.parts.clock.now.mono_ms;
        stage.parts.access.note_spoke(session, now_ms);
    }
    let interrupted = slot.binary.is_some();
    match (slot.language.protocol(), data) {
        (Protocol::SocketIo, _) if !slot.language.has_parser() => {
            let is_msgpack = matches!(data, Data::Binary(_));
            slot.language.settle_parser(is_msgpack);
            socketio::on_first(stage, session, data)
        }
        (Protocol::SocketIo, data) if slot.language.is_msgpack() => {
            socketio::on_msgpack(stage, session, data)
        }
        (Protocol::SocketIo, Data::Text(text)) => {
            socketio::on_packet_text(stage, session, text, interrupted);
        }
        (Protocol::SocketIo, Data::Binary(bytes)) => socketio::on_attachment(stage, session, bytes),
        (Protocol::PlainJson | Protocol::PlainMsgpack, data) => {
            plain::on_plain(stage, session, data)
        }
        (Protocol::PlainRaw, data) => plain::on_raw(stage, session, data),
        // A client of an event stream cannot speak.
        (Protocol::EventStream, _) => {}
        (Protocol::EngineIo | Protocol::Raw, data) => {
            let key = stage.parts.people.sessions.key(session);
            stage.call(session, |handler, cx| handler.message(cx, key, data));
        }
    }
}
