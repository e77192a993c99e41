//! The entry points of a hub: everything a shard tells it and asks of it.

use crate::books::close::CloseReason;
use crate::books::config::Config;
use crate::books::limits::RESERVE_TIMEOUT;
use crate::books::metrics::{Cells, Limit};
use crate::cluster::shared::Process;
use crate::parts::Parts;
use crate::rooms::membership::NewCount;
use crate::seam::context::Context;
use crate::seam::effect::Told;
use crate::seam::effect::{Effect, Notice};
use crate::seam::handler::Handler;
use crate::seam::inside::Inside;
use crate::tables::clock::Now;
use crate::tables::conn::{Conn, State};
use crate::tables::id::Entropy;
use crate::tables::id::Identity;
use crate::tables::slot::{ConnId, SessionId};
use crate::tables::timer::ConnTimer;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::growth;

/// A reset so long after the answer to a poll is not about that answer: proxies close idle connections like this.
const RESET_MS: u64 = 2_000;

/// What the next bytes of a connection are.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// Nobody's any more.
    Ignored,
    /// Something for another turn.
    Waits,
    /// Frames of a client that is being asked about.
    Undecided,
    Frames,
    Request(State),
}

/// All realtime state of one shard.
pub struct Hub {
    pub(crate) parts: Parts,
    pub(crate) handler: Box<dyn Handler>,
    /// The handler sees requests and may add to their answers.
    pub(crate) reads_requests: bool,
    cells: Arc<Cells>,
    messages_before: u64,
    /// A turn was begun and has not ended.
    pub(crate) in_turn: bool,
    announce_due: u64,
    /// Since when each turn has left input unread.
    behind_since: Option<u64>,
    pub(crate) draining: bool,
    pub(crate) drain: Option<crate::transport::drain::Drain>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parts.fmt(f)
    }
}

/// Room counts are told to handlers and other shards this often.
const ANNOUNCE_MS: u64 = 250;
/// Peers are spared for at most this long while input is left unread.
pub(crate) const BEHIND_MAX_MS: u64 = 10_000;

impl Hub {
    /// A hub that is alone in its process.
    pub fn new(
        config: Arc<Config>,
        me: Identity,
        handler: Box<dyn Handler>,
        cells: Arc<Cells>,
        entropy: Entropy,
    ) -> Self {
        let process = Process::new(&config.rates);
        Self::in_process(config, me, handler, cells, entropy, &process)
    }

    /// One of several hubs of a process.
    pub fn in_process(
        config: Arc<Config>,
        me: Identity,
        handler: Box<dyn Handler>,
        cells: Arc<Cells>,
        entropy: Entropy,
        process: &Process,
    ) -> Self {
        Self {
            parts: Parts::new(config, me, entropy, process),
            reads_requests: handler.reads_requests(),
            handler,
            cells,
            messages_before: 0,
            in_turn: false,
            announce_due: 0,
            behind_since: None,
            draining: false,
            drain: None,
        }
    }

    /// Sets the time of the turn; call first.
    pub(crate) fn begin_turn(&mut self, now: Now) {
        let before = std::mem::replace(&mut self.parts.clock.now, now);
        if now.leaps_from(before) {
            self.parts.look_at_all_tokens();
        }
        self.cells.in_turn.store(true, Ordering::Relaxed);
        self.count_deliveries();
        self.parts.line.budget.begin_turn();
    }

    /// Books the deliveries since the last flush and begins to count anew.
    pub(crate) fn count_deliveries(&mut self) {
        self.parts.books.counts.deliveries += self.parts.line.budget.flushed() as u64;
    }

    /// A connection was accepted; returns its slot, which names it until `Effect::Close`, `Move` or `Handover`.
    pub(crate) fn opened(&mut self, peer: IpAddr) -> ConnId {
        self.parts.books.counts.accepted += 1;
        let conn = self.insert_conn(peer);
        self.enter_address(conn, peer);
        conn
    }

    /// A connection was accepted beyond the process's bound, from the reserve. Sessions that exist come before newcomers, and
    /// health checks are answered on a full node; nobody else gets in. Its request must come soon, for the reserve is small.
    pub(crate) fn opened_beyond(&mut self, peer: IpAddr) -> ConnId {
        let conn = self.opened(peer);
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.beyond = Some(Limit::Conns);
            let key = self.parts.line.conns.key(conn);
            let timeout = self.parts.books.config.limits.handshake_timeout;
            let due = self.parts.after(timeout.min(RESERVE_TIMEOUT));
            let timers = &mut self.parts.clock.timers.conns;
            timers.arm_odd(ConnTimer::Handshake, due, key);
        }
        conn
    }

    /// Another shard accepted the connection, perhaps beyond a bound, and moved it here. The address counts it once: a connection that
    /// took its place on the way is the one too many.
    pub(crate) fn moved_here(&mut self, peer: IpAddr, beyond: Option<Limit>) -> ConnId {
        let conn = self.insert_conn(peer);
        self.parts.count_address(conn, peer);
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.beyond = beyond;
        }
        conn
    }

    fn insert_conn(&mut self, peer: IpAddr) -> ConnId {
        let conn = self.parts.line.conns.insert(Conn::new(peer)).id();
        let timeout = self.parts.books.config.limits.handshake_timeout;
        self.parts.arm_conn(ConnTimer::Handshake, timeout, conn);
        conn
    }

    /// Bytes arrived. The buffer is scratch: frames are unmasked in it.
    pub(crate) fn bytes(&mut self, conn: ConnId, buf: &mut [u8]) {
        self.parts.books.counts.bytes_in += buf.len() as u64;
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        if matches!(slot.state, State::Finishing | State::Linger) {
            return self.ignore(conn, buf.len());
        }
        if let Some(mut input) = slot.input.take() {
            growth::extend(&mut input, buf, usize::MAX);
            self.process_owned(conn, input);
        } else {
            let used = self.process(conn, buf);
            if used < buf.len() {
                self.stash(conn, &buf[used..]);
            }
        }
        self.hold_publisher(conn);
        self.settle();
    }

    /// Works on what an earlier turn left unread because it was full.
    pub(crate) fn resume(&mut self) {
        self.parts.release_held();
        let mut waiting = self.parts.intake.take_stalled().into_iter();
        let mut passed_over = Vec::new();
        while !self.parts.turn_is_full()
            && let Some(conn) = waiting.next()
        {
            let flooded = self
                .parts
                .line
                .budget
                .is_flooded(&self.parts.books.config.limits);
            if flooded && self.parts.floods(conn) {
                passed_over.push(conn);
                continue;
            }
            let Some(slot) = self.parts.line.conns.get_mut(conn) else {
                continue;
            };
            slot.flags.stalled = false;
            if let Some(input) = slot.input.take() {
                self.process_owned(conn, input);
                self.hold_publisher(conn);
            }
            self.end_if_read(conn);
        }
        passed_over.extend(waiting);
        self.parts.intake.put_back(passed_over);
        self.settle();
    }

    /// The last turn left work that the next one can do.
    pub fn has_stalled(&self) -> bool {
        self.parts.intake.has_stalled() || self.parts.polls.has_ready()
    }

    /// Connections wait for the mailbox of another shard to be short again.
    pub fn held_back(&self) -> usize {
        self.parts.intake.held_back()
    }

    /// The connection still has input that an earlier turn left; do not read more yet.
    pub fn is_stalled(&self, conn: ConnId) -> bool {
        self.parts
            .line
            .conns
            .get(conn)
            .is_some_and(|slot| slot.flags.stalled)
    }

    /// The turn has done its share of deliveries: flush before reading on.
    pub(crate) fn turn_is_full(&self) -> bool {
        self.parts.turn_is_full()
    }

    #[expect(
        clippy::box_collection,
        reason = "it comes from and goes back to the connection's slot"
    )]
    fn process_owned(&mut self, conn: ConnId, mut input: Box<Vec<u8>>) {
        let used = self.process(conn, &mut input);
        if used == input.len() {
            return;
        }
        if (input.len() - used) * 4 < input.capacity() {
            // What is left is little, and may have to wait for long.
            return self.stash(conn, &input[used..]);
        }
        input.drain(..used);
        self.keep(conn, input);
    }

    /// Keeps incomplete input.
    fn stash(&mut self, conn: ConnId, rest: &[u8]) {
        let mut input = Vec::new();
        growth::extend(&mut input, rest, usize::MAX);
        self.keep(conn, Box::new(input));
    }

    #[expect(clippy::box_collection, reason = "it goes into the connection's slot")]
    fn keep(&mut self, conn: ConnId, rest: Box<Vec<u8>>) {
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        if matches!(slot.state, State::Finishing | State::Linger) {
            return;
        }
        match &mut slot.input {
            // What a chunked body left comes first.
            Some(input) => growth::extend(input, &rest, usize::MAX),
            None => slot.input = Some(rest),
        }
        self.watch_input(conn);
    }

    /// Notes when an incomplete message began and sees to its deadline; one timer per connection.
    pub(crate) fn watch_input(&mut self, conn: ConnId) {
        let timeout = self.parts.books.config.limits.message_timeout;
        let now = self.parts.clock.now.mono_ms as u32 | 1;
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        if slot.since_ms == 0 {
            slot.since_ms = now;
        }
        if !std::mem::replace(&mut slot.flags.message_timer, true) {
            self.parts.arm_conn(ConnTimer::Message, timeout, conn);
        }
    }

    /// Takes complete requests or frames off the front of `data`; returns how many bytes that were.
    fn process(&mut self, conn: ConnId, data: &mut [u8]) -> usize {
        let mut at = 0;
        self.parts.begin_input();
        while at < data.len() {
            let used = match self.next_input(conn) {
                Input::Ignored => return data.len(),
                Input::Waits => break,
                Input::Undecided => return at + self.on_waiting(conn, data.len() - at),
                Input::Frames => return at + self.on_frames(conn, &mut data[at..]),
                Input::Request(state) => self.on_request(conn, state, &data[at..]),
            };
            if used == 0 {
                break;
            }
            at += used;
            if at == data.len() {
                self.watch_body(conn);
            }
        }
        at
    }

    /// What the next bytes of a connection are, and whether they may be worked on now.
    #[inline]
    fn next_input(&mut self, conn: ConnId) -> Input {
        let Some(slot) = self.parts.line.conns.get(conn) else {
            return Input::Ignored;
        };
        let state = slot.state;
        match state {
            State::Finishing | State::Linger => return Input::Ignored,
            State::Stream if !slot.flags.asking => return Input::Ignored,
            _ if slot.flags.stalled => return Input::Waits,
            _ if slot.flags.asking => return Input::Undecided,
            _ => {}
        }
        if let Some(limit) = self.parts.why_yield(0) {
            self.stall(conn, limit);
            return Input::Waits;
        }
        match state {
            State::WebSocket | State::Probe => Input::Frames,
            _ => Input::Request(state),
        }
    }

    /// One head or body of HTTP; returns its bytes, 0 if it is not whole or has to wait.
    fn on_request(&mut self, conn: ConnId, state: State, data: &[u8]) -> usize {
        let used = match state {
            State::Body { len } => self.on_body(conn, len as usize, data),
            State::ChunkedBody => return self.on_chunks(conn, data),
            State::Poll | State::Held => self.on_pipelined(conn, data.len()),
            _ => {
                let slot = self.parts.line.conns.get(conn);
                // A client that asks again has the answer, unless it asked before that was written.
                if slot.is_some_and(|slot| slot.outbox.is_empty()) {
                    self.parts.forget_answer(conn);
                }
                self.on_head(conn, data)
            }
        };
        if used > 0 {
            self.input_complete(conn);
        }
        used
    }

    /// A request or message is complete: what is incomplete from now on is another one.
    pub(crate) fn input_complete(&mut self, conn: ConnId) {
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.since_ms = 0;
        }
    }

    pub(crate) fn stall(&mut self, conn: ConnId, limit: Limit) {
        if let Some(slot) = self.parts.line.conns.get_mut(conn)
            && self.parts.intake.stall(conn, slot)
        {
            self.parts.books.counts.hit(limit);
        }
    }

    /// The input just worked on sent a message to a shard whose mailbox is long: its connection is read again when that is short.
    fn hold_publisher(&mut self, conn: ConnId) {
        if self.parts.intake.waits_for_mailbox() {
            self.stall(conn, Limit::Mailbox);
            self.parts.intake.begin();
        }
    }

    /// Frames of a client that is being asked about wait, within the size of a message.
    fn on_waiting(&mut self, conn: ConnId, len: usize) -> usize {
        if len > self.parts.books.config.plain_max_payload {
            self.parts.books.counts.hit(Limit::Payload);
            self.lost(conn, CloseReason::MessageTooBig);
            return len;
        }
        0
    }

    /// The peer closed its sending side. What it sent before and waits here is worked on first.
    pub(crate) fn eof(&mut self, conn: ConnId) {
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.eof = true;
            self.end_if_read(conn);
        }
        self.settle();
    }

    /// Nothing comes any more, and nothing waits for its turn or for a verdict: the end of the stream takes effect.
    fn end_if_read(&mut self, conn: ConnId) {
        let Some(slot) = self.parts.line.conns.get(conn) else {
            return;
        };
        let waits = slot.flags.stalled || slot.flags.asking && slot.input.is_some();
        if !slot.flags.eof || waits {
            return;
        }
        match slot.state {
            // Answer what was asked before the end, then close.
            State::Head if slot.input.is_none() && !slot.outbox.is_empty() => {
                self.parts.finish_conn(conn);
            }
            State::Finishing if !slot.outbox.is_empty() => {}
            _ => self.lost(conn, CloseReason::TransportClose),
        }
    }

    /// The connection broke.
    pub(crate) fn broken(&mut self, conn: ConnId) {
        self.lost(conn, CloseReason::TransportError);
        self.settle();
    }

    /// A connection is gone; so is the session that needed it.
    pub(crate) fn lost(&mut self, conn: ConnId, reason: CloseReason) {
        let Some(slot) = self.parts.line.conns.get(conn) else {
            return;
        };
        let (state, session) = (slot.state, slot.session);
        // Packets in an answer that was not delivered whole are lost, and with them the stream (protocol 3.3).
        let broken = reason == CloseReason::TransportError;
        let (unsent, now_ms) = (!slot.outbox.is_empty(), self.parts.clock.now.mono_ms);
        let sent = self.parts.polls.sent_on(conn);
        self.parts.drop_conn(conn);
        if let Some(sent) = sent
            && (unsent || broken && now_ms - sent.at_ms <= RESET_MS)
            && self.parts.people.sessions.live(sent.session).is_some()
        {
            self.parts.close_session(sent.session.id(), reason);
        }
        let Some(session) = session else { return };
        match state {
            State::WebSocket | State::Stream => self.parts.close_session(session, reason),
            State::Poll | State::Body { .. } | State::ChunkedBody => {
                self.forget_request(session, conn);
                self.parts.close_session(session, reason);
            }
            State::Probe => self.parts.abort_upgrade(session, conn),
            State::Head | State::Held | State::Finishing | State::Linger => {}
        }
    }

    /// Carries out what is due. `behind`: input of some connections is still unread, so their silence proves nothing and
    /// whatever would end them is put off.
    pub(crate) fn tick(&mut self, behind: bool) {
        let now = self.parts.clock.now.mono_ms;
        // Connections are read in turn: after a while even a busy shard has heard everyone, and one flood must not keep
        // all the silent ones alive.
        let behind = behind || self.held_back() > 0;
        self.behind_since = behind.then(|| self.behind_since.unwrap_or(now));
        self.parts.clock.behind = self
            .behind_since
            .is_some_and(|since| now - since < BEHIND_MAX_MS);
        while let Some(due) = self.parts.clock.timers.pop_due(now) {
            self.on_timer(due);
        }
        self.expire_tokens();
        while let Some(id) = self.parts.clock.timers.pop_ack_due(now) {
            self.parts.ack_due(id);
        }
        // Announcing frees what is empty; handlers are told of the last socket while its namespace is still known.
        self.settle();
        if now >= self.announce_due && self.parts.rooms.has_changes() {
            self.announce_due = now + ANNOUNCE_MS;
            for count in self.parts.announce_changes() {
                let NewCount {
                    namespace,
                    room,
                    members,
                    ..
                } = count;
                self.call(None, |handler, cx| {
                    handler.room_count_changed(cx, &namespace, &room, members);
                });
            }
        }
        self.drain_step();
        self.shed_slowest();
        self.settle();
    }

    /// When `tick` has something to do next, on the clock of `Now::mono_ms`.
    pub fn next_deadline(&self) -> Option<u64> {
        let announce = (self.parts.rooms.has_changes()).then_some(self.announce_due);
        let drain = self
            .drain
            .as_ref()
            .map(|_| self.parts.clock.now.mono_ms + crate::transport::drain::STEP_MS);
        let expiry = self.parts.clock.expiries.next_due_s().map(|due_s| {
            let Now { mono_ms, wall_ms } = self.parts.clock.now;
            mono_ms + (due_s * 1000).saturating_sub(wall_ms)
        });
        [self.parts.clock.timers.next_due(), announce, drain, expiry]
            .into_iter()
            .flatten()
            .min()
    }

    /// What is to be done outside; call after each entry point that may close connections.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.parts.outbound.effects)
    }

    /// Gives an emptied list back, so that it need not be allocated again.
    pub(crate) fn recycle_effects(&mut self, effects: Vec<Effect>) {
        if self.parts.outbound.effects.is_empty() {
            self.parts.outbound.effects = effects;
        }
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.parts.line.log.dirty.is_empty()
    }

    pub(crate) fn has_effects(&self) -> bool {
        !self.parts.outbound.effects.is_empty()
    }

    /// Books the turn and publishes the counters. `took_us`: from readiness to the end of the flush.
    pub(crate) fn end_turn(&mut self, took_us: u64, mailbox: usize) {
        let counts = &mut self.parts.books.counts;
        let messages = counts.messages_in - self.messages_before;
        self.messages_before = counts.messages_in;
        counts.turn_took(took_us, messages);
        self.parts.access.admission.turn_took(took_us);
        counts.mailbox = mailbox as u64;
        self.publish();
        self.cells.in_turn.store(false, Ordering::Relaxed);
    }

    pub(crate) fn publish(&mut self) {
        let counts = &mut self.parts.books.counts;
        counts.conns = self.parts.line.conns.len() as u64;
        counts.rooms = self.parts.rooms.len() as u64;
        counts.waiting_bytes = self.parts.line.pool.bytes();
        self.cells.publish(counts);
    }

    /// The shard stopped accepting because no descriptor was free.
    pub(crate) fn accept_paused(&mut self) {
        self.parts.books.counts.accept_pauses += 1;
        self.parts.books.counts.hit(Limit::Conns);
    }

    /// The shard shed a connection over the process's bound.
    pub(crate) fn connection_shed(&mut self) {
        self.parts.books.counts.shed += 1;
        self.parts.books.counts.hit(Limit::Conns);
    }

    /// The shard reads no more from its clients until the mailbox of another is shorter.
    pub(crate) fn reading_paused(&mut self) {
        self.parts.books.counts.hit(Limit::Mailbox);
    }

    pub fn conns(&self) -> usize {
        self.parts.line.conns.len()
    }

    // ---- handler --------------------------------------------------------------------------------------------------------

    /// Calls the handler; if it panics, the session it was called for ends and the rest go on.
    #[inline]
    pub(crate) fn call<R>(
        &mut self,
        session: impl Into<Option<SessionId>>,
        f: impl FnOnce(&mut dyn Handler, &mut Context<'_>) -> R,
    ) -> Option<R> {
        // What happened before is told before.
        if !self.parts.outbound.told.is_empty() {
            self.tell();
        }
        self.call_now(session, f)
    }

    #[inline]
    pub(crate) fn call_now<R>(
        &mut self,
        session: impl Into<Option<SessionId>>,
        f: impl FnOnce(&mut dyn Handler, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let (parts, handler) = (&mut self.parts, &mut *self.handler);
        match catch_unwind(AssertUnwindSafe(|| f(handler, &mut Context { parts }))) {
            Ok(result) => Some(result),
            Err(panic) if Inside::broke() => resume_unwind(panic),
            Err(_) => {
                self.handler_failed(session.into());
                None
            }
        }
    }

    #[cold]
    fn handler_failed(&mut self, session: Option<SessionId>) {
        self.parts.books.counts.handler_panics += 1;
        if let Some(session) = session
            && let Some(slot) = self.parts.people.sessions.get(session)
        {
            let peer = slot.peer;
            self.parts
                .outbound
                .effects
                .push(Effect::Log(Notice::HandlerPanic { peer }));
            self.parts
                .close_session(session, CloseReason::InternalError);
        }
    }

    /// Tells the handler what it must know and carries out what it decided, until nothing is left.
    pub(crate) fn settle(&mut self) {
        self.tell();
        while let Some((key, decision)) = self.parts.outbound.decided.pop_front() {
            self.decided(key, decision);
            self.tell();
        }
    }

    fn tell(&mut self) {
        while let Some(told) = self.parts.outbound.told.pop_front() {
            match told {
                Told::Disconnected { socket, reason } => {
                    self.call_now(None, |handler, cx| {
                        handler.disconnecting(cx, socket, reason)
                    });
                    self.parts.part_socket(socket.id());
                    self.call_now(None, |handler, cx| handler.disconnected(cx, socket, reason));
                    self.parts.people.sockets.remove(socket.id());
                }
                Told::Answered { token, answer } => {
                    self.call_now(None, |handler, cx| {
                        handler.answered(cx, token, answer.as_deref());
                    });
                }
                Told::AckTimedOut { socket, token } => {
                    self.call_now(None, |handler, cx| handler.ack_timed_out(cx, socket, token));
                }
                Told::Collected { token, collected } => {
                    self.call_now(None, |handler, cx| handler.collected(cx, token, collected));
                }
                Told::Found { token, found } => {
                    self.call_now(None, |handler, cx| handler.found(cx, token, found));
                }
            }
        }
    }
}
