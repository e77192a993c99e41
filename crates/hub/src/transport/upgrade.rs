//! The way of a polling session to a WebSocket: probe, upgrade, and what is carried over (protocol 3.5).

use crate::books::close::CloseReason;
use crate::hub::Hub;
use crate::tables::conn::State;
use crate::tables::session::Polling;
use crate::tables::slot::{ConnId, SessionId};
use crate::tables::timer::SessionTimer;
use wire::engineio::{self, PacketType, RequestError};
use wire::http::Head;
use wire::websocket::frame::{self, OpCode};
use wire::websocket::{close, handshake};

impl Hub {
    /// A WebSocket for a polling session: it probes; one for a session that has or is getting one is closed at once.
    pub(crate) fn open_probe(&mut self, conn: ConnId, head: &Head<'_>, session: SessionId) {
        let Ok(accept) = handshake::accept(head) else {
            return self.refuse(conn, head, RequestError::BadRequest);
        };
        let extra = self.extra_headers(conn, head, session, false);
        let subprotocol = handshake::first_subprotocol(head);
        self.accept_websocket(conn, head, &accept, subprotocol, extra);
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        if slot.polling.is_none() || slot.probe.is_some() || slot.flags.closing {
            self.parts.reply(conn, |out| close::write(out, None, ""));
            self.parts.finish_conn(conn);
            return;
        }
        slot.probe = Some(conn);
        slot.probed_ms = self.parts.clock.now.mono_ms as u32;
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.state = State::Probe;
            slot.session = Some(session);
        }
        let timeout = self.parts.books.config.upgrade_timeout;
        self.parts
            .arm_session(SessionTimer::Upgrade, timeout, session);
    }

    /// What a probing WebSocket says: `2probe`, then `5`. Anything else ends the probe, and polling goes on unharmed.
    pub(super) fn on_probe(&mut self, conn: ConnId, session: SessionId, text: &str) {
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        match text {
            "2probe" if !slot.flags.upgrading => {
                slot.flags.upgrading = true;
                self.parts.polls.note_ready(session, &mut slot.flags);
                self.parts
                    .reply(conn, |out| frame::write_frame(out, OpCode::Text, b"3probe"));
            }
            "5" if slot.flags.upgrading => self.upgrade(conn, session),
            _ => self.parts.abort_upgrade(session, conn),
        }
    }

    /// The WebSocket takes over: everything queued goes to it, in order.
    fn upgrade(&mut self, conn: ConnId, session: SessionId) {
        if self.parts.queue_overflows(session) {
            // Packets over the bound were not kept: there is no whole stream to carry over.
            return self.parts.close_session(session, CloseReason::SlowConsumer);
        }
        self.answer_poll(session, &[PacketType::Noop as u8], false);
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        slot.probe = None;
        slot.conn = Some(conn);
        slot.flags.upgrading = false;
        // The pong timer is cleared, the ping timer goes on (protocol 3.5).
        if std::mem::replace(&mut slot.flags.awaiting_pong, false) {
            let interval = self.parts.books.config.ping_interval;
            self.parts
                .arm_session(SessionTimer::Ping, interval, session);
        }
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        let (polling, base64) = (slot.polling.take(), slot.flags.b64);
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.state = State::WebSocket;
        }
        let (_, variant) = self.parts.route(session);
        self.parts.route_sockets(session, Some(conn), variant);
        if let Some(polling) = polling {
            self.carry_over(conn, session, *polling, base64);
        }
        self.close_upgraded(conn, session);
    }

    /// What waited for polls goes out on the WebSocket, and the requests of the old transport end.
    fn carry_over(&mut self, conn: ConnId, session: SessionId, mut polling: Polling, base64: bool) {
        // Clients upgrade when no poll of theirs is unanswered. (That one polls anew proves nothing: requests are also repeated.)
        if let Some(answered) = polling.answered {
            self.parts.answer_arrived(session, answered);
        }
        while let Some(unit) = polling.queue.pop() {
            self.parts
                .reply_message(conn, unit.exempt, unit.fate, |out| {
                    write_unit(out, unit.bytes(), base64);
                });
        }
        if let Some(post) = polling.post {
            self.parts.finish_conn(post);
        }
    }

    /// The client has had its time to say `5`.
    pub(super) fn upgrade_due(&mut self, session: SessionId) {
        let Some(slot) = self.parts.people.sessions.get(session) else {
            return;
        };
        let waited = (self.parts.clock.now.mono_ms as u32).wrapping_sub(slot.probed_ms);
        // The timer may be that of an earlier probe, which was given up.
        if let Some(probe) = slot.probe
            && u128::from(waited) >= self.parts.books.config.upgrade_timeout.as_millis()
        {
            self.parts.abort_upgrade(session, probe);
        }
    }

    /// The session ended while its client was upgrading: it has its packets now, and hears of the end.
    fn close_upgraded(&mut self, conn: ConnId, session: SessionId) {
        if self
            .parts
            .people
            .sessions
            .get(session)
            .is_some_and(|slot| slot.flags.closing)
        {
            self.parts.reply(conn, |out| close::write(out, None, ""));
            self.parts.finish_conn(conn);
            self.parts.remove_session(session);
        }
    }
}

/// Polling packets as WebSocket frames.
fn write_unit(out: &mut Vec<u8>, text: &[u8], base64: bool) {
    for packet in text.split(|byte| *byte == engineio::payload::SEPARATOR) {
        match packet {
            [b'b', encoded @ ..] if !base64 => {
                let encoded = std::str::from_utf8(encoded).unwrap_or_default();
                let mut bytes = Vec::new();
                if engineio::payload::decode_base64(encoded, &mut bytes).is_ok() {
                    frame::write_frame(out, OpCode::Binary, &bytes);
                }
            }
            _ => frame::write_frame(out, OpCode::Text, packet),
        }
    }
}

impl crate::parts::Parts {
    /// Drops a probing WebSocket; the session stays with polling.
    pub(crate) fn abort_upgrade(&mut self, session: SessionId, conn: ConnId) {
        if let Some(slot) = self.people.sessions.get_mut(session)
            && slot.probe == Some(conn)
        {
            slot.probe = None;
            slot.flags.upgrading = false;
        }
        if self
            .line
            .conns
            .get(conn)
            .is_some_and(|slot| slot.state == State::Probe)
        {
            self.reply(conn, |out| close::write(out, None, ""));
            self.finish_conn(conn);
        }
    }
}
