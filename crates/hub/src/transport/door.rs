//! The door for newcomers: whether a request may open a session now, what its handler says to that, and the session made for it.

use crate::access::auth::request_token;
use crate::books::metrics::Limit;
use crate::hub::Hub;
use crate::seam::opening::{AnswerHeaders, HeaderLines, Opening, Request};
use crate::tables::conn::State;
use crate::tables::id;
use crate::tables::session::{Protocol, RequestToken, Session};
use crate::tables::slot::{ConnId, SessionId};
use crate::tables::timer::ConnTimer;
use wire::engineio::{Query, RequestError};
use wire::http::Head;
use wire::websocket::handshake;

impl Hub {
    /// The door for newcomers, whatever they speak: whether this one gets in now. If not, it was told when to come again.
    pub(super) fn admits(&mut self, conn: ConnId, head: &Head<'_>, protocol: Protocol) -> bool {
        if self.draining {
            self.refuse_draining(conn);
            return false;
        }
        if let Some(decision) = self.parts.access.held.take_decision(conn) {
            return self.carry_out(conn, head, decision);
        }
        // A polling session needs no connection to live: sessions have a bound of their own, which is the process's.
        let full =
            self.parts.access.admission.sessions() >= self.parts.books.config.limits.conns_max;
        let slot = self.parts.line.conns.get(conn);
        let beyond = slot.and_then(|slot| slot.flags.beyond);
        if let Some(bound) = beyond.or(full.then_some(Limit::Conns)) {
            self.refuse_beyond(conn, head, bound);
            return false;
        }
        if self.parts.asks.is_empty() {
            // Nobody waits for an answer any more: how long one takes now, only the next one shows.
            self.parts.access.admission.forget_answers();
        }
        let Some(limit) = self
            .parts
            .access
            .admission
            .closed_by(&self.parts.books.config.admission)
        else {
            return self.admit_connect(conn) && self.handler_admits(conn, head, protocol);
        };
        self.parts.books.counts.hit(limit);
        self.parts.books.counts.admission_refused += 1;
        self.refuse_unavailable(conn, b"Server is busy");
        false
    }

    pub(super) fn request<'a>(
        &self,
        conn: ConnId,
        head: &'a Head<'a>,
        protocol: Protocol,
    ) -> Request<'a> {
        let slot = self.parts.line.conns.get(conn);
        Request {
            head,
            conn: self.parts.line.conns.key(conn),
            protocol,
            peer: slot.map_or([0, 0, 0, 0].into(), |slot| slot.peer),
        }
    }

    /// Asks the handler about an opening request, if it wants to be asked.
    fn handler_admits(&mut self, conn: ConnId, head: &Head<'_>, protocol: Protocol) -> bool {
        if !self.reads_requests {
            return true;
        }
        let request = self.request(conn, head, protocol);
        let decision = self.call(None, |handler, cx| handler.opening(cx, &request));
        let failed = || Opening::Refuse("Internal error".to_owned());
        self.carry_out(conn, head, decision.unwrap_or_else(failed))
    }

    /// Does to an opening request what the handler decided; `true` = it may go on.
    fn carry_out(&mut self, conn: ConnId, head: &Head<'_>, decision: Opening) -> bool {
        match decision {
            Opening::Accept => return true,
            Opening::Refuse(message) => self.refuse_opening(conn, head, &message),
            Opening::Later => {
                let due_ms = self
                    .parts
                    .after(self.parts.books.config.limits.handshake_timeout);
                let key = self.parts.line.conns.key(conn);
                let timers = &mut self.parts.clock.timers.conns;
                timers.arm_odd(ConnTimer::Handshake, due_ms, key);
                self.parts.access.held.hold(conn, due_ms);
                if let Some(slot) = self.parts.line.conns.get_mut(conn) {
                    slot.state = State::Held;
                }
            }
        }
        false
    }

    /// The reference server's answer where `allowRequest` says no: 403 and the application's own words.
    fn refuse_opening(&mut self, conn: ConnId, head: &Head<'_>, message: &str) {
        self.parts.books.counts.refused += 1;
        let extra = self.cors_headers(head);
        let websocket = handshake::wants_upgrade(head);
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.keep_alive &= !websocket;
        }
        if websocket {
            return self.respond(conn, 403, "text/html", &extra, message.as_bytes());
        }
        let mut body = Vec::new();
        RequestError::Forbidden.write_json_saying(message, &mut body);
        self.respond(conn, 403, "application/json", &extra, &body);
    }

    /// Nobody has decided about a held request in time.
    pub(crate) fn opening_due(&mut self, conn: ConnId) {
        let now_ms = self.parts.clock.now.mono_ms;
        if !self.parts.access.held.is_due(conn, now_ms) {
            return;
        }
        self.parts.access.held.forget(conn);
        self.parts.books.counts.hit(Limit::AskTimeout);
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.input = None;
        }
        self.refuse_unavailable(conn, b"Server is busy");
    }

    /// Header lines beyond the usual ones for the answer to a session's request: CORS, and what the handler adds.
    pub(crate) fn extra_headers(
        &mut self,
        conn: ConnId,
        head: &Head<'_>,
        session: SessionId,
        opens: bool,
    ) -> Vec<u8> {
        let mut extra = self.cors_headers(head);
        let slot = self.parts.people.sessions.get(session);
        let Some(slot) = slot.filter(|_| self.reads_requests) else {
            return extra;
        };
        let (protocol, sid) = (slot.protocol, slot.sid.encode());
        let sid = std::str::from_utf8(&sid).ok().filter(|_| opens);
        let request = self.request(conn, head, protocol);
        let mut headers = AnswerHeaders::default();
        self.call_now(None, |handler, _| {
            handler.answering(&request, sid, &mut headers)
        });
        extra.append(&mut headers.lines);
        extra
    }

    /// Makes a session for a request; the caller attaches its transport.
    pub(crate) fn new_session(
        &mut self,
        conn: ConnId,
        head: &Head<'_>,
        protocol: Protocol,
    ) -> SessionId {
        let random = self.parts.random();
        let sid = id::session_id(self.parts.ids.me, random);
        let peer = self
            .parts
            .line
            .conns
            .get(conn)
            .map_or([0, 0, 0, 0].into(), |slot| slot.peer);
        let mut session = Session::new(sid, protocol, None, peer);
        if self.parts.books.config.keep_handshake || self.reads_requests {
            let rare = session.rare.get_or_insert_default();
            if self.parts.books.config.keep_handshake {
                rare.query = head.query.into();
            }
            if self.reads_requests {
                rare.headers = HeaderLines::of(head);
            }
        }
        if self.parts.books.config.auth.enabled {
            let token = request_token(head, &self.parts.books.config.auth.query_parameter);
            session.token = token.map(|token| Box::new(RequestToken::Unread(token)));
        }
        session.flags.b64 = protocol.is_engineio() && Query::parse(head.query).base64;
        self.parts.insert_session(session)
    }
}
