//! Shutting down politely: everyone is told, then connections are closed evenly over a window.

use crate::books::close::CloseReason;
use crate::clients::conn::State;
use crate::dialect::notices;
use crate::dialect::speech::Emit;
use crate::dialect::speech::{Dialect, Framing};
use crate::life::{conns, ending, stream};
use crate::parts::Parts;
use crate::seam::member::Member;
use crate::seam::stage::Stage;
use crate::tables::slot::{ConnId, SocketId};
use wire::plain;

const MESSAGE: &str = "Server is shutting down";
/// Takes no more sessions, lets the handler tell the clients, and closes every session with 1001 within `window_ms`.
pub(crate) fn begin(stage: &mut Stage, window_ms: u64) {
    if stage.parts.access.drain.is_on() {
        return;
    }
    let parts = &mut stage.parts;
    let sessions = parts.people.sessions.iter().map(|(session, _)| session);
    let sessions = sessions.collect();
    let now_ms = parts.clock.now.mono_ms;
    parts.access.drain.begin(now_ms, window_ms, sessions);
    stage.call(None, |handler, cx| handler.draining(cx));
    notify_shutdown(&mut stage.parts);
}

/// Every client is told in its protocol's words, and when to come back: the one closed last has left by then.
fn notify_shutdown(parts: &mut Parts) {
    let sockets: Vec<SocketId> = parts
        .people
        .sockets
        .iter()
        .map(|(index, _)| index)
        .collect();
    for index in sockets {
        let retry_after_ms = delay_ms(parts);
        let Some(socket) = parts.people.sockets.get(index) else {
            continue;
        };
        let (variant, conn) = (socket.variant, socket.conn);
        let members = format!("\"message\":\"{MESSAGE}\",\"retry_after_ms\":{retry_after_ms}");
        match variant.dialect {
            Dialect::PlainJson => {
                let notice = format!("{{\"type\":\"{}\",{members}}}", notices::SHUTDOWN);
                parts.line.reply(conn, |out| {
                    if variant.framing == Framing::EventStream {
                        stream::write_retry(out, retry_after_ms);
                    }
                    variant.wrap(out, notice.as_bytes(), &[]);
                });
            }
            Dialect::PlainMsgpack => {
                let notice = plain::shutdown_msgpack(notices::SHUTDOWN, MESSAGE, retry_after_ms);
                parts
                    .line
                    .reply(conn, |out| variant.wrap(out, &notice, &[]));
            }
            _ => {
                let key = parts.people.socket_key(index);
                let args = format!("{{{members}}}");
                Member::new(parts, key).emit(&Emit::new(notices::SHUTDOWN, &args));
            }
        }
    }
}

/// In how many milliseconds a client may come back.
pub(crate) fn delay_ms(parts: &mut Parts) -> u64 {
    let dice = parts.ids.random();
    let now_ms = parts.clock.now.mono_ms;
    parts.access.drain.delay_ms(now_ms, dice)
}

/// Closes the sessions whose time has come.
pub(crate) fn step(parts: &mut Parts) {
    let now_ms = parts.clock.now.mono_ms;
    let Some((due, last)) = parts.access.drain.step(now_ms) else {
        return;
    };
    for session in due {
        ending::close_session(parts, session, CloseReason::ShuttingDown);
    }
    if last {
        parts.access.drain.finish();
        parts.line.answers_are_last = true;
        close_idle_conns(parts);
    }
}

/// Connections without a session: kept-alive HTTP and half-made requests.
fn close_idle_conns(parts: &mut Parts) {
    let idle: Vec<ConnId> = parts
        .line
        .conns
        .iter()
        .filter(|(_, slot)| slot.state == State::Head)
        .map(|(index, _)| index)
        .collect();
    idle.into_iter().for_each(|conn| conns::finish(parts, conn));
}
