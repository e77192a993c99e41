//! Engine.IO packets, whatever transport brought them (protocol 3.3).

use crate::books::close::CloseReason;
use crate::hearing::message;
use crate::life::{conns, ending, heartbeat};
use crate::parts::Parts;
use crate::seam::event::Data;
use crate::seam::stage::Stage;
use crate::tables::slot::SessionId;
use crate::transport::polling;
use wire::engineio::{self, PacketType as EnginePacket, Revision, payload3};
use wire::websocket::close;

/// One Engine.IO packet; `false` = a violation, the session ends with `parse error`.
#[inline]
pub(crate) fn on_engine_packet(
    stage: &mut Stage,
    session: SessionId,
    kind: EnginePacket,
    data: &str,
) -> bool {
    match kind {
        EnginePacket::Message => message::on_data(stage, session, Data::Text(data)),
        EnginePacket::Pong => return heartbeat::on_pong(&mut stage.parts, session),
        EnginePacket::Close => on_close_packet(&mut stage.parts, session),
        // Pings go from server to client (protocol 3.4), but for clients of protocol 3.
        EnginePacket::Ping => return heartbeat::on_ping(&mut stage.parts, session),
        EnginePacket::Open => return false,
        EnginePacket::Upgrade | EnginePacket::Noop => {}
    }
    true
}

fn on_close_packet(parts: &mut Parts, session: SessionId) {
    let Some(slot) = parts.people.sessions.get(session) else {
        return;
    };
    let conn = slot.conn;
    if slot.polling.is_some() {
        client_closed_polling(parts, session);
    } else {
        // The client said goodbye in Engine.IO's words; RFC 6455 §7.1.1 wants a close frame before the end of TCP all the same.
        parts.line.reply(conn, |out| close::write(out, None, ""));
        ending::close_session(parts, session, CloseReason::TransportClose);
        if let Some(conn) = conn {
            conns::finish(parts, conn);
        }
    }
}

/// The client closed a polling session by packet: the waiting poll gets a noop (protocol 3.6).
fn client_closed_polling(parts: &mut Parts, session: SessionId) {
    // The end of the session takes its poll along, so the noop leaves first.
    polling::answer_poll(parts, session, b"6", false);
    ending::close_session(parts, session, CloseReason::TransportClose);
}

/// `b` + base64 in a text frame: binary from clients that cannot send it. Those of protocol 3 say its type too.
pub(crate) fn on_base64(stage: &mut Stage, session: SessionId, text: &str) -> bool {
    let slot = stage.parts.people.sessions.get(session);
    let prefix = match slot.map(|slot| slot.language.revision()) {
        Some(Revision::Three) => "b4",
        _ => "b",
    };
    let Some(text) = text.strip_prefix(prefix) else {
        return false;
    };
    take_base64(stage, session, text)
}

/// A binary message of protocol 3; `false` = it is none, and the session ends.
pub(crate) fn on_binary3(stage: &mut Stage, session: SessionId, message: &[u8]) -> bool {
    let content = payload3::split_binary(message);
    if let Some(bytes) = content {
        message::on_data(stage, session, Data::Binary(bytes));
    }
    content.is_some()
}

/// A binary message as base64; `false` = it is none, and the session ends.
pub(crate) fn take_base64(stage: &mut Stage, session: SessionId, text: &str) -> bool {
    let mut bytes = Vec::new();
    if engineio::payload::decode_base64(text, &mut bytes).is_err() {
        return false;
    }
    message::on_data(stage, session, Data::Binary(&bytes));
    true
}
