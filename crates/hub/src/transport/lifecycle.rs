//! A session's life: start, heartbeat, deadlines, end.

use crate::books::close::{CloseReason, Departure};
use crate::books::metrics::Limit;
use crate::hub::Hub;
use crate::parts::Parts;
use crate::seam::effect::{Effect, Notice};
use crate::tables::conn::State;
use crate::tables::slot::{ConnId, SessionId};
use crate::tables::timer::{ConnTimer, Due, SessionTimer};
use wire::websocket::close;

/// How long a peer is spared after a turn that could not read everything.
const BEHIND_GRACE_MS: u64 = 500;

/// Ends a connection for what it did not send, which may be waiting unread.
fn blames_the_peer(due: Due) -> bool {
    match due {
        Due::Session(kind, _) => !matches!(kind, SessionTimer::Ping | SessionTimer::PollClose),
        Due::Conn(kind, _) => kind != ConnTimer::Linger,
        Due::Ask(_) => false,
    }
}

impl Hub {
    pub(crate) fn on_timer(&mut self, due: Due) {
        let spares = self.parts.clock.behind && blames_the_peer(due);
        let (people, timers) = (&self.parts.people, &mut self.parts.clock.timers);
        let later = self.parts.clock.now.mono_ms + BEHIND_GRACE_MS;
        match due {
            Due::Session(kind, key) if spares => timers.sessions.arm_odd(kind, later, key),
            Due::Conn(kind, key) if spares => timers.conns.arm_odd(kind, later, key),
            Due::Session(kind, key) if people.sessions.live(key).is_some() => {
                self.on_session_timer(kind, key.id());
            }
            Due::Conn(kind, key) if self.parts.line.conns.live(key).is_some() => {
                self.on_conn_timer(kind, key.id());
            }
            Due::Ask(key) => self.ask_due(key),
            Due::Session(..) | Due::Conn(..) => {}
        }
    }

    fn on_session_timer(&mut self, kind: SessionTimer, session: SessionId) {
        if matches!(kind, SessionTimer::Ping | SessionTimer::PlainPing) {
            self.parts.look_at_tokens(session);
        }
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        match kind {
            SessionTimer::Ping => self.ping(session),
            SessionTimer::Pong => self.pong_due(session),
            SessionTimer::PlainPing => self.plain_ping_due(session),
            SessionTimer::Connect if !slot.flags.joined => {
                self.parts.books.counts.hit(Limit::ConnectTimeout);
                self.parts
                    .close_session(session, CloseReason::ConnectTimeout);
            }
            SessionTimer::Upgrade => self.upgrade_due(session),
            SessionTimer::Attachments => self.attachments_due(session),
            SessionTimer::PollClose if slot.flags.closing => {
                self.parts.remove_session(session);
            }
            _ => {}
        }
    }

    fn on_conn_timer(&mut self, kind: ConnTimer, conn: ConnId) {
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        match kind {
            ConnTimer::Handshake if slot.state == State::Held => self.opening_due(conn),
            ConnTimer::Handshake if !slot.flags.served => {
                self.parts.books.counts.hit(Limit::HandshakeTimeout);
                self.cut(conn, CloseReason::HandshakeTimeout);
            }
            ConnTimer::Message => self.message_due(conn),
            ConnTimer::KeepAlive => {
                slot.flags.keep_alive_timer = false;
                let active = std::mem::replace(&mut slot.flags.active, false);
                let timeout = self.parts.books.config.limits.keep_alive_timeout;
                match slot.state {
                    State::Head if !active => self.lost(conn, CloseReason::TransportClose),
                    State::Head | State::Poll | State::Body { .. } | State::ChunkedBody => {
                        slot.flags.keep_alive_timer = true;
                        self.parts.arm_conn(ConnTimer::KeepAlive, timeout, conn);
                    }
                    _ => {}
                }
            }
            ConnTimer::Linger if matches!(slot.state, State::Finishing | State::Linger) => {
                self.lost(conn, CloseReason::TransportClose);
            }
            _ => {}
        }
    }

    /// Something incomplete was seen a message timeout ago: is it that same message still?
    fn message_due(&mut self, conn: ConnId) {
        let timeout_ms = self.parts.books.config.limits.message_timeout.as_millis() as u64;
        let now = self.parts.clock.now.mono_ms;
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        slot.flags.message_timer = false;
        // What waits behind a poll waits for us, not for the peer.
        let waits_for_us = matches!(slot.state, State::Poll | State::Held) || slot.flags.stalled;
        if slot.since_ms == 0 || waits_for_us {
            return;
        }
        // Beginnings are noted in odd milliseconds (0 = none): this one may be ahead of the clock.
        let waited = u64::from((now as u32 | 1).wrapping_sub(slot.since_ms));
        if waited + 1 >= timeout_ms {
            self.parts.books.counts.hit(Limit::MessageTimeout);
            self.cut(conn, CloseReason::MessageTimeout);
            return;
        }
        slot.flags.message_timer = true;
        let key = self.parts.line.conns.key(conn);
        self.parts
            .clock
            .timers
            .conns
            .arm_odd(ConnTimer::Message, now + timeout_ms - waited, key);
    }

    /// Attachments were announced a message timeout ago: are they still missing?
    fn attachments_due(&mut self, session: SessionId) {
        let timeout_ms = self.parts.books.config.limits.message_timeout.as_millis() as u64;
        let now = self.parts.clock.now.mono_ms;
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        slot.flags.attachments_timer = false;
        let Some(due) = slot
            .binary
            .as_ref()
            .map(|partial| partial.since_ms + timeout_ms)
        else {
            return;
        };
        if now >= due {
            self.parts.books.counts.hit(Limit::MessageTimeout);
            self.parts
                .close_session(session, CloseReason::MessageTimeout);
            return;
        }
        slot.flags.attachments_timer = true;
        let key = self.parts.people.sessions.key(session);
        self.parts
            .clock
            .timers
            .sessions
            .arm_odd(SessionTimer::Attachments, due, key);
    }

    /// Ends a connection that took too long, with its session.
    fn cut(&mut self, conn: ConnId, reason: CloseReason) {
        let Some(slot) = self.parts.line.conns.get(conn) else {
            return;
        };
        let (state, session, peer) = (slot.state, slot.session, slot.peer);
        match state {
            State::WebSocket => {
                if let Some(session) = session {
                    self.parts.close_session(session, reason);
                }
            }
            State::Probe => {
                if let Some(session) = session {
                    self.parts.abort_upgrade(session, conn);
                }
            }
            State::Head => {
                self.parts.count_close(reason);
                self.parts
                    .outbound
                    .effects
                    .push(Effect::Log(Notice::Refused { peer, reason }));
                if let Some(slot) = self.parts.line.conns.get_mut(conn) {
                    slot.flags.keep_alive = false;
                }
                self.respond(conn, 408, "text/plain", &[], b"");
            }
            _ => self.lost(conn, reason),
        }
    }
}

/// The client will not come for a close packet, unless its poll is waiting.
fn is_gone(reason: CloseReason) -> bool {
    matches!(
        reason,
        CloseReason::TransportClose
            | CloseReason::TransportError
            | CloseReason::PingTimeout
            | CloseReason::ConnectTimeout
    )
}

impl Parts {
    /// Ends a session: its sockets leave, its transport is closed in an orderly way.
    pub(crate) fn close_session(&mut self, session: SessionId, reason: CloseReason) {
        let Some(slot) = self.people.sessions.get_mut(session) else {
            return;
        };
        if slot.flags.closing {
            // Second end of a polling session that waited for its last poll.
            if reason == CloseReason::TransportClose {
                self.remove_session(session);
            }
            return;
        }
        slot.flags.closing = true;
        if let Some(polling) = &mut slot.polling {
            polling.violated = reason == CloseReason::ParseError;
        }
        let (conn, probe, upgrading) = (slot.conn, slot.probe, slot.flags.upgrading);
        let (polls, joined) = (slot.polling.is_some(), slot.flags.joined);
        let polling = slot.polling.as_ref();
        let waiting = polling.is_some_and(|polling| polling.get.is_some());
        self.count_close(reason);
        self.log_refusal(session, reason);
        let slot = self.people.sessions.get(session);
        for socket in slot.map(|slot| slot.sockets.clone()).into_iter().flatten() {
            self.retire_socket(socket, Departure::Session(reason));
        }
        if let Some(conn) = conn {
            self.close_transport(conn, joined, reason);
        }
        let gone = !waiting && is_gone(reason);
        // Between `3probe` and `5` the client polls no more: what is queued, and the close, reach it by the new WebSocket.
        if let Some(probe) = probe
            && (gone || !upgrading)
        {
            self.abort_upgrade(session, probe);
        }
        if polls && !gone {
            self.close_polling(session);
        } else {
            self.remove_session(session);
        }
    }

    fn log_refusal(&mut self, session: SessionId, reason: CloseReason) {
        // Of who was in, a line tells that it left.
        let joined = self
            .people
            .sessions
            .get(session)
            .map(|slot| slot.flags.joined);
        if joined == Some(false) && reason != CloseReason::TransportClose {
            self.log_refused(session, reason);
        }
    }

    /// A line of the connection log: this client is not let in.
    pub(crate) fn log_refused(&mut self, session: SessionId, reason: CloseReason) {
        if let Some(slot) = self.people.sessions.get(session) {
            let peer = slot.peer;
            self.outbound
                .effects
                .push(Effect::Log(Notice::Refused { peer, reason }));
        }
    }

    fn close_transport(&mut self, conn: ConnId, joined: bool, reason: CloseReason) {
        let state = self.line.conns.get(conn).map(|slot| slot.state);
        let lost = matches!(
            reason,
            CloseReason::TransportClose | CloseReason::TransportError
        );
        match state {
            Some(State::WebSocket) if !lost => self.reply(conn, |out| {
                close::write(out, reason.close_code(), reason.text())
            }),
            // Programs are not told why a stream ends; people who look are. Before the client was let in there is none.
            Some(State::Stream) if joined && !lost => self.reply(conn, |out| {
                out.extend_from_slice(format!(": {}\n\n", reason.text()).as_bytes());
            }),
            Some(State::WebSocket | State::Stream) => {}
            _ => return,
        }
        self.finish_conn(conn);
    }

    /// The requests of a polling session that is gone need no session any more.
    pub(crate) fn release_polling(&mut self, session: SessionId) {
        let Some(slot) = self.people.sessions.get_mut(session) else {
            return;
        };
        let Some(polling) = slot.polling.take() else {
            return;
        };
        for conn in [polling.get, polling.post].into_iter().flatten() {
            let serves = self.line.conns.get(conn).is_some_and(|slot| {
                let asks = matches!(
                    slot.state,
                    State::Poll | State::Body { .. } | State::ChunkedBody
                );
                asks && slot.session == Some(session)
            });
            if serves {
                self.finish_conn(conn);
            }
        }
    }
}
