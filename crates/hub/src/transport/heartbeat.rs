//! Heartbeats: pings, the pongs that answer them, and other signs of life (protocol 3.4).

use crate::books::close::CloseReason;
use crate::hub::Hub;
use crate::tables::session::Protocol;
use crate::tables::slot::SessionId;
use crate::tables::timer::SessionTimer;
use wire::engineio::PacketType;
use wire::websocket::frame::{self, OpCode};

impl Hub {
    /// Arms what a new session needs.
    pub(crate) fn start_session(&mut self, session: SessionId) {
        let Some(slot) = self.parts.people.sessions.get(session) else {
            return;
        };
        let config = &self.parts.books.config;
        let (ping, plain, connect) = (
            config.ping_interval,
            config.plain_ping_interval,
            config.connect_timeout,
        );
        match slot.protocol {
            Protocol::SocketIo => {
                self.parts.arm_session(SessionTimer::Ping, ping, session);
                self.parts
                    .arm_session(SessionTimer::Connect, connect, session);
            }
            Protocol::EngineIo => self.parts.arm_session(SessionTimer::Ping, ping, session),
            _ => self
                .parts
                .arm_session(SessionTimer::PlainPing, plain, session),
        }
    }

    /// A sign of life that is not a pong.
    #[inline]
    pub(crate) fn heard(&mut self, session: SessionId) {
        if let Some(slot) = self.parts.people.sessions.get_mut(session) {
            slot.flags.heard = true;
        }
    }

    /// A pong; unsolicited ones are harmless. The next ping is due an interval after it (protocol 3.4).
    pub(crate) fn on_pong(&mut self, session: SessionId) {
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        if !std::mem::replace(&mut slot.flags.awaiting_pong, false) {
            slot.flags.heard = true;
            return;
        }
        slot.flags.heard = false;
        slot.flags.extended = false;
        let (kind, interval) = if slot.protocol.is_engineio() {
            (SessionTimer::Ping, self.parts.books.config.ping_interval)
        } else {
            (
                SessionTimer::PlainPing,
                self.parts.books.config.plain_ping_interval,
            )
        };
        self.parts.arm_session(kind, interval, session);
    }

    pub(super) fn ping(&mut self, session: SessionId) {
        let now = self.parts.clock.now.mono_ms as u32;
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        if slot.flags.awaiting_pong || slot.flags.closing {
            return;
        }
        slot.flags.awaiting_pong = true;
        slot.flags.heard = false;
        slot.flags.extended = false;
        slot.pinged_ms = now;
        let (engineio, conn) = (slot.protocol.is_engineio(), slot.conn);
        if engineio {
            self.parts.send_packet(session, &[PacketType::Ping as u8]);
        } else {
            self.parts
                .reply(conn, |out| frame::write_frame(out, OpCode::Ping, b""));
        }
        let timeout = self.parts.books.config.ping_timeout;
        self.parts.arm_session(SessionTimer::Pong, timeout, session);
    }

    pub(super) fn pong_due(&mut self, session: SessionId) {
        let (now, timeout) = (
            self.parts.clock.now.mono_ms as u32,
            self.parts.books.config.ping_timeout,
        );
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        let waited = now.wrapping_sub(slot.pinged_ms);
        if !slot.flags.awaiting_pong || u128::from(waited) < timeout.as_millis() {
            return;
        }
        // A pong may be stuck behind a large upload: one extension if anything else came (as engine.io 6.6.12 does).
        if slot.flags.heard && !slot.flags.extended {
            slot.flags.extended = true;
            slot.pinged_ms = now;
            self.parts.arm_session(SessionTimer::Pong, timeout, session);
            return;
        }
        self.parts.close_session(session, CloseReason::PingTimeout);
    }

    /// A plain client that talks is alive. One that talks and does not read has to show that a pong still gets out.
    pub(super) fn plain_ping_due(&mut self, session: SessionId) {
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        let heard = std::mem::replace(&mut slot.flags.heard, false);
        if slot.protocol == Protocol::EventStream {
            return self.beat_stream(session);
        }
        let conn = self.parts.line.conns.get(slot.conn);
        if !heard || conn.is_none_or(|conn| conn.outbox.is_blocked()) {
            return self.ping(session);
        }
        let interval = self.parts.books.config.plain_ping_interval;
        let timer = SessionTimer::PlainPing;
        self.parts.arm_session(timer, interval, session);
    }
}
