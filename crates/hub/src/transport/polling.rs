//! HTTP long-polling: one GET waits for packets, POSTs bring them (protocol 3.3, 3.6).

use crate::books::close::CloseReason;
use crate::books::limits::LOG_BYTES_PER_TURN;
use crate::hub::Hub;
use crate::tables::conn::State;
use crate::tables::session::{Polling, Protocol};
use crate::tables::slot::{ConnId, SessionId};
use crate::tables::timer::SessionTimer;
use crate::transport::polls::Sent;
use wire::engineio::{self, PacketType, RequestError, payload};
use wire::http::{Encoding, Head};

const TEXT: &str = "text/plain; charset=UTF-8";

impl Hub {
    /// A handshake over polling: the open packet is the answer.
    pub(crate) fn open_polling(&mut self, conn: ConnId, head: &Head<'_>, protocol: Protocol) {
        let session = self.new_session(conn, head, protocol);
        if let Some(slot) = self.parts.people.sessions.get_mut(session) {
            slot.polling = Some(Box::default());
        }
        self.start_session(session);
        let mut body = Vec::new();
        self.write_open(session, &mut body);
        let mut extra = self.extra_headers(conn, head, session, true);
        extra.extend_from_slice(b"cache-control: no-store\r\n");
        self.respond(conn, 200, TEXT, &extra, &body);
    }

    /// Appends the open packet of a session.
    pub(crate) fn write_open(&self, session: SessionId, out: &mut Vec<u8>) {
        let Some(slot) = self.parts.people.sessions.get(session) else {
            return;
        };
        let config = &self.parts.books.config;
        let upgrades: &[&str] = if slot.polling.is_some() && config.transports.websocket {
            &["websocket"]
        } else {
            &[]
        };
        let sid = slot.sid.encode();
        engineio::Open {
            sid: std::str::from_utf8(&sid).unwrap_or_default(),
            upgrades,
            ping_interval_ms: config.ping_interval.as_millis() as u64,
            ping_timeout_ms: config.ping_timeout.as_millis() as u64,
            max_payload: config.max_payload as u64,
        }
        .write(out);
    }

    /// A GET for packets. A second one while the first waits ends the session.
    pub(crate) fn poll(&mut self, conn: ConnId, head: &Head<'_>, session: SessionId) {
        let cors = self.extra_headers(conn, head, session, false);
        let encoding = Encoding::accepted(head);
        let Some(polling) = self.polling(session) else {
            return;
        };
        if polling.get.is_some() {
            self.end_violated(session);
            self.refuse(conn, head, RequestError::BadRequest);
            return;
        }
        polling.get = Some(conn);
        polling.takes_all = is_javascript(head);
        polling.encoding = encoding;
        polling.cors = (!cors.is_empty()).then(|| cors.into_boxed_slice());
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.state = State::Poll;
            slot.session = Some(session);
        }
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        let waiting = slot
            .polling
            .as_ref()
            .is_some_and(|polling| !polling.queue.is_empty());
        let due = waiting || slot.flags.upgrading || slot.flags.closing;
        if due {
            self.parts.polls.note_ready(session, &mut slot.flags);
        }
    }

    pub(super) fn polling(&mut self, session: SessionId) -> Option<&mut Polling> {
        self.parts
            .people
            .sessions
            .get_mut(session)?
            .polling
            .as_deref_mut()
    }

    /// Bytes behind a request whose poll is still waiting: they wait too, within the size of a head.
    pub(crate) fn on_pipelined(&mut self, conn: ConnId, len: usize) -> usize {
        if len > wire::http::HEAD_BYTES_MAX {
            self.lost(conn, CloseReason::ProtocolError);
            return len;
        }
        0
    }

    /// The connection of a request of this session is gone: its slot may soon be another's.
    pub(crate) fn forget_request(&mut self, session: SessionId, conn: ConnId) {
        let Some(polling) = self.polling(session) else {
            return;
        };
        for request in [&mut polling.get, &mut polling.post] {
            if *request == Some(conn) {
                *request = None;
            }
        }
    }

    /// Ends waiting polls that have something to bring; packets of a turn travel together. Answers that the turn's log has no
    /// room for come with the next turn.
    pub(crate) fn answer_polls(&mut self) {
        while self.parts.line.log.len() < LOG_BYTES_PER_TURN
            && let Some(session) = self.parts.polls.next_ready()
        {
            let packets_max = self.parts.books.config.limits.poll_packets_max;
            let Some(slot) = self.parts.people.sessions.get_mut(session) else {
                continue;
            };
            slot.flags.poll_ready = false;
            let (upgrading, closing) = (slot.flags.upgrading, slot.flags.closing);
            let Some(polling) = slot.polling.as_deref_mut() else {
                continue;
            };
            if polling.get.is_none() {
                continue;
            }
            let packets_max = match polling.takes_all {
                true => usize::MAX,
                false => packets_max,
            };
            let (mut body, exempt) = take_payload(polling, packets_max);
            // The close packet travels alone: clients carry it out before what is in the same payload (protocol 3.6).
            let close = closing && body.is_empty();
            if close {
                body.push(PacketType::Close as u8);
            } else if body.is_empty() && upgrading {
                body.push(PacketType::Noop as u8);
            }
            if body.is_empty() {
                continue;
            }
            self.answer_poll(session, &body, exempt);
            if close {
                self.parts.remove_session(session);
            }
        }
    }

    /// Ends the waiting poll, if there is one, with this payload.
    pub(crate) fn answer_poll(&mut self, session: SessionId, body: &[u8], exempt: bool) {
        let Some(polling) = self.polling(session) else {
            return;
        };
        let Some(conn) = polling.get.take() else {
            return;
        };
        let encoding = polling.encoding.filter(|_| !exempt);
        let mut extra = polling.cors.take().map_or_else(Vec::new, Vec::from);
        extra.extend_from_slice(b"cache-control: no-store\r\n");
        let coded = self.parts.encode_body(encoding, body, &mut extra);
        self.respond(conn, 200, TEXT, &extra, &coded);
        // A lost noop or close packet is no loss, and for a lost ping there is the pong timeout.
        if body.len() > 1
            && let Some(slot) = self.parts.line.conns.get_mut(conn)
        {
            slot.flags.answering = true;
            let sent = Sent {
                session: self.parts.people.sessions.key(session),
                at_ms: self.parts.clock.now.mono_ms,
            };
            self.parts.polls.note_sent(conn, sent);
            if let Some(polling) = self.polling(session) {
                polling.answered = Some(conn);
            }
        }
        self.revive(conn);
    }

    /// Goes on with what was pipelined behind an answered poll.
    pub(crate) fn revive(&mut self, conn: ConnId) {
        if let Some(slot) = self.parts.line.conns.get_mut(conn)
            && slot.input.is_some()
        {
            self.parts.intake.go_on(conn, slot);
        }
    }

    /// The client closed a polling session by packet: the waiting poll gets a noop (protocol 3.6).
    pub(crate) fn client_closed_polling(&mut self, session: SessionId) {
        self.answer_poll(session, b"6", false);
        self.parts
            .close_session(session, CloseReason::TransportClose);
    }
}

/// Clients that take any number of packets in one answer say so by their name: browsers, and the JavaScript client's own requests
/// in Node. Others may be python-engineio, which breaks off at the seventeenth.
fn is_javascript(head: &Head<'_>) -> bool {
    head.header("user-agent").is_some_and(|agent| {
        agent.starts_with(b"Mozilla/") || agent.starts_with(b"node-XMLHttpRequest")
    })
}

/// Takes packets off the queue: at most `packets_max`, but never less than one whole unit. With the body comes whether any of
/// it must not be compressed.
fn take_payload(polling: &mut Polling, packets_max: usize) -> (Vec<u8>, bool) {
    let (mut body, mut exempt) = (Vec::new(), false);
    let mut packets = 0;
    while let Some(unit) = polling.queue.front() {
        let more = unit.packets as usize;
        if packets > 0 && packets + more > packets_max {
            break;
        }
        packets += more;
        exempt |= unit.exempt;
        if let Some(unit) = polling.queue.pop() {
            if !body.is_empty() {
                body.push(payload::SEPARATOR);
            }
            body.extend_from_slice(unit.bytes());
        }
    }
    (body, exempt)
}

impl crate::parts::Parts {
    /// Ends a polling session's transport: the waiting poll is told, or the next one within thirty seconds.
    pub(crate) fn close_polling(&mut self, session: SessionId) {
        const POLL_CLOSE: std::time::Duration = std::time::Duration::from_secs(30);
        let Some(slot) = self.people.sessions.get_mut(session) else {
            return;
        };
        slot.flags.closing = true;
        self.polls.note_ready(session, &mut slot.flags);
        self.arm_session(SessionTimer::PollClose, POLL_CLOSE, session);
    }
}
