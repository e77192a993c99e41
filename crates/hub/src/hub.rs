//! The entry points of a hub: everything a shard tells it and asks of it.

use crate::access::tokens;
use crate::access::trust::{self, ProxyProtocol};
use crate::books::close::CloseReason;
use crate::books::config::Config;
use crate::books::limits::{BEHIND_MAX_MS, IGNORED_BYTES_MAX, RESERVE_TIMEOUT};
use crate::books::metrics::{Cells, Limit};
use crate::cluster::asking;
use crate::cluster::letter::Letter;
use crate::cluster::receive;
use crate::cluster::send;
use crate::cluster::shared::Process;
use crate::hearing::{decisions, expiry};
use crate::life::{conns, ending, shedding};
use crate::output::outbox::{Sink, Tally};
use crate::parts::Parts;
use crate::rooms::membership::NewCount;
use crate::seam::ask::Reply;
use crate::seam::effect::Effect;
use crate::seam::handler::Handler;
use crate::seam::publish;
use crate::seam::question;
use crate::seam::stage::Stage;
use crate::tables::clock::Now;
use crate::tables::conn::State;
use crate::tables::id::{Entropy, Identity};
use crate::tables::slot::{AskKey, ConnId};
use crate::tables::timer::ConnTimer;
use crate::transport::{drain, flush, input, pace, polling, stash, timers};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::growth;
use wire::http::Head;

/// All realtime state of one shard.
pub struct Hub {
    pub(crate) stage: Stage,
    cells: Arc<Cells>,
    messages_before: u64,
    /// A turn was begun and has not ended.
    pub(crate) in_turn: bool,
    announce_due: u64,
    /// Since when each turn has left input unread.
    behind_since: Option<u64>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stage.parts.fmt(f)
    }
}

/// Room counts are told to handlers and other shards this often.
const ANNOUNCE_MS: u64 = 250;

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
            stage: Stage::new(Parts::new(config, me, entropy, process), handler),
            cells,
            messages_before: 0,
            in_turn: false,
            announce_due: 0,
            behind_since: None,
        }
    }

    /// Sets the time of the turn; call first.
    pub(crate) fn begin_turn(&mut self, now: Now) {
        let before = std::mem::replace(&mut self.stage.parts.clock.now, now);
        if now.leaps_from(before) {
            let parts = &mut self.stage.parts;
            tokens::look_at_all_tokens(&parts.books.config, &mut parts.clock, &mut parts.people);
        }
        self.cells.in_turn.store(true, Ordering::Relaxed);
        self.count_deliveries();
        self.stage.parts.line.budget.begin_turn();
    }

    /// Books the deliveries since the last flush and begins to count anew.
    pub(crate) fn count_deliveries(&mut self) {
        self.stage.parts.books.counts.deliveries += self.stage.parts.line.budget.flushed() as u64;
    }

    /// A connection was accepted; returns its slot, which names it until `Effect::Close`, `Move` or `Handover`.
    pub(crate) fn opened(&mut self, peer: IpAddr) -> ConnId {
        self.stage.parts.books.counts.accepted += 1;
        let conn = input::insert_conn(&mut self.stage.parts, peer);
        conns::enter_address(&mut self.stage.parts, conn, peer);
        conn
    }

    /// A connection was accepted beyond the process's bound, from the reserve. Sessions that exist come before newcomers, and
    /// health checks are answered on a full node; nobody else gets in. Its request must come soon, for the reserve is small.
    pub(crate) fn opened_beyond(&mut self, peer: IpAddr) -> ConnId {
        let conn = self.opened(peer);
        if let Some(slot) = self.stage.parts.line.conns.get_mut(conn) {
            slot.flags.beyond = Some(Limit::Conns);
            let key = self.stage.parts.line.conns.key(conn);
            let timeout = self.stage.parts.books.config.limits.handshake_timeout;
            let due = self.stage.parts.clock.after(timeout.min(RESERVE_TIMEOUT));
            let timers = &mut self.stage.parts.clock.timers.conns;
            timers.arm_odd(ConnTimer::Handshake, due, key);
        }
        conn
    }

    /// Another shard accepted the connection, perhaps beyond a bound, and moved it here. The address counts it once: a connection that
    /// took its place on the way is the one too many.
    pub(crate) fn moved_here(&mut self, peer: IpAddr, beyond: Option<Limit>) -> ConnId {
        let parts = &mut self.stage.parts;
        let conn = input::insert_conn(parts, peer);
        if let Some(slot) = parts.line.conns.get_mut(conn) {
            parts.access.count(&parts.books.config, slot, peer);
            slot.flags.beyond = beyond;
        }
        conn
    }

    /// Bytes arrived. The buffer is scratch: frames are unmasked in it.
    pub(crate) fn bytes(&mut self, conn: ConnId, buf: &mut [u8]) {
        self.stage.parts.books.counts.bytes_in += buf.len() as u64;
        let Some(slot) = self.stage.parts.line.conns.get_mut(conn) else {
            return;
        };
        if matches!(slot.state, State::Finishing | State::Linger) {
            return {
                let parts = &mut self.stage.parts;
                parts.line.ignore(&mut parts.books.counts, conn, buf.len())
            };
        }
        if let Some(mut input) = slot.input.take() {
            growth::extend(&mut input, buf, usize::MAX);
            input::process_owned(&mut self.stage, conn, input);
        } else {
            let used = input::process(&mut self.stage, conn, buf);
            if used < buf.len() {
                stash::stash(&mut self.stage.parts, conn, &buf[used..]);
            }
        }
        input::hold_publisher(&mut self.stage.parts, conn);
        self.settle();
    }

    /// Works on what an earlier turn left unread because it was full.
    pub(crate) fn resume(&mut self) {
        self.stage
            .parts
            .intake
            .release(&self.stage.parts.books.config.limits);
        let mut waiting = self.stage.parts.intake.take_stalled().into_iter();
        let mut passed_over = Vec::new();
        while !self
            .stage
            .parts
            .line
            .is_full(&self.stage.parts.books.config.limits)
            && let Some(conn) = waiting.next()
        {
            let flooded = self
                .stage
                .parts
                .line
                .budget
                .is_flooded(&self.stage.parts.books.config.limits);
            if flooded && pace::floods(&self.stage.parts, conn) {
                passed_over.push(conn);
                continue;
            }
            let Some(slot) = self.stage.parts.line.conns.get_mut(conn) else {
                continue;
            };
            slot.flags.stalled = false;
            if let Some(input) = slot.input.take() {
                input::process_owned(&mut self.stage, conn, input);
                input::hold_publisher(&mut self.stage.parts, conn);
            }
            input::end_if_read(&mut self.stage.parts, conn);
        }
        passed_over.extend(waiting);
        self.stage.parts.intake.put_back(passed_over);
        self.settle();
    }

    /// The last turn left work that the next one can do.
    pub fn has_stalled(&self) -> bool {
        self.stage.parts.intake.has_stalled() || self.stage.parts.line.polls.has_ready()
    }

    /// Connections wait for the mailbox of another shard to be short again.
    pub fn held_back(&self) -> usize {
        self.stage.parts.intake.held_back()
    }

    /// The connection still has input that an earlier turn left; do not read more yet.
    pub fn is_stalled(&self, conn: ConnId) -> bool {
        self.stage
            .parts
            .line
            .conns
            .get(conn)
            .is_some_and(|slot| slot.flags.stalled)
    }

    /// The turn has done its share of deliveries: flush before reading on.
    pub(crate) fn turn_is_full(&self) -> bool {
        self.stage
            .parts
            .line
            .is_full(&self.stage.parts.books.config.limits)
    }

    /// The peer closed its sending side. What it sent before and waits here is worked on first.
    pub(crate) fn eof(&mut self, conn: ConnId) {
        if let Some(slot) = self.stage.parts.line.conns.get_mut(conn) {
            slot.flags.eof = true;
            input::end_if_read(&mut self.stage.parts, conn);
        }
        self.settle();
    }

    /// The connection broke.
    pub(crate) fn broken(&mut self, conn: ConnId) {
        ending::lost(&mut self.stage.parts, conn, CloseReason::TransportError);
        self.settle();
    }

    /// Carries out what is due. `behind`: input of some connections is still unread, so their silence proves nothing and
    /// whatever would end them is put off.
    pub(crate) fn tick(&mut self, behind: bool) {
        let now = self.stage.parts.clock.now.mono_ms;
        // Connections are read in turn: after a while even a busy shard has heard everyone, and one flood must not keep
        // all the silent ones alive.
        let behind = behind || self.held_back() > 0;
        self.behind_since = behind.then(|| self.behind_since.unwrap_or(now));
        self.stage.parts.clock.behind = self
            .behind_since
            .is_some_and(|since| now - since < BEHIND_MAX_MS);
        while let Some(due) = self.stage.parts.clock.timers.pop_due(now) {
            timers::on_timer(&mut self.stage, due);
        }
        expiry::expire_tokens(&mut self.stage.parts);
        while let Some(id) = self.stage.parts.clock.timers.pop_ack_due(now) {
            asking::ack_due(&mut self.stage.parts, id);
        }
        send::late_joins(&mut self.stage.parts);
        // Announcing frees what is empty; handlers are told of the last socket while its namespace is still known.
        self.settle();
        if now >= self.announce_due && self.stage.parts.rooms.has_changes() {
            self.announce_due = now + ANNOUNCE_MS;
            for count in publish::announce_changes(&mut self.stage.parts) {
                let NewCount {
                    namespace,
                    room,
                    members,
                    ..
                } = count;
                self.stage.call(None, |handler, cx| {
                    handler.room_count_changed(cx, &namespace, &room, members);
                });
            }
        }
        drain::step(&mut self.stage.parts);
        shedding::shed_slowest(&mut self.stage.parts);
        self.settle();
    }

    /// When `tick` has something to do next, on the clock of `Now::mono_ms`.
    pub fn next_deadline(&self) -> Option<u64> {
        let announce = (self.stage.parts.rooms.has_changes()).then_some(self.announce_due);
        let now_ms = self.stage.parts.clock.now.mono_ms;
        let drain = self.stage.parts.access.drain.next_due(now_ms);
        let expiry = self.stage.parts.clock.expiries.next_due_s().map(|due_s| {
            let Now { mono_ms, wall_ms } = self.stage.parts.clock.now;
            mono_ms + (due_s * 1000).saturating_sub(wall_ms)
        });
        let join = send::next_late_join(&self.stage.parts);
        let due = self.stage.parts.clock.timers.next_due();
        [due, announce, drain, expiry, join]
            .into_iter()
            .flatten()
            .min()
    }

    /// What is to be done outside; call after each entry point that may close connections.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.stage.parts.outbound.effects)
    }

    /// Gives an emptied list back, so that it need not be allocated again.
    pub(crate) fn recycle_effects(&mut self, effects: Vec<Effect>) {
        if self.stage.parts.outbound.effects.is_empty() {
            self.stage.parts.outbound.effects = effects;
        }
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.stage.parts.line.log.dirty.is_empty()
    }

    pub(crate) fn has_effects(&self) -> bool {
        !self.stage.parts.outbound.effects.is_empty()
    }

    /// Books the turn and publishes the counters. `took_us`: from readiness to the end of the flush.
    pub(crate) fn end_turn(&mut self, took_us: u64, mailbox: usize) {
        let counts = &mut self.stage.parts.books.counts;
        let messages = counts.messages_in - self.messages_before;
        self.messages_before = counts.messages_in;
        counts.turn_took(took_us, messages);
        self.stage.parts.access.admission.turn_took(took_us);
        counts.mailbox = mailbox as u64;
        self.publish();
        self.cells.in_turn.store(false, Ordering::Relaxed);
    }

    pub(crate) fn publish(&mut self) {
        let counts = &mut self.stage.parts.books.counts;
        counts.conns = self.stage.parts.line.conns.len() as u64;
        counts.sessions = self.stage.parts.people.sessions.len() as u64;
        counts.sockets = self.stage.parts.people.live_sockets() as u64;
        counts.rooms = self.stage.parts.rooms.len() as u64;
        counts.waiting_bytes = self.stage.parts.line.pool.bytes();
        self.cells.publish(counts);
    }

    /// The shard stopped accepting because no descriptor was free.
    pub(crate) fn accept_paused(&mut self) {
        self.stage.parts.books.counts.accept_pauses += 1;
        self.stage.parts.books.counts.hit(Limit::Conns);
    }

    /// The shard shed a connection over the process's bound.
    pub(crate) fn connection_shed(&mut self) {
        self.stage.parts.books.counts.shed += 1;
        self.stage.parts.books.counts.hit(Limit::Conns);
    }

    /// The shard reads no more from its clients until the mailbox of another is shorter.
    pub(crate) fn reading_paused(&mut self) {
        self.stage.parts.books.counts.hit(Limit::Mailbox);
    }

    pub fn conns(&self) -> usize {
        self.stage.parts.line.conns.len()
    }

    /// Tells the handler what it must know and carries out what it decided, until nothing is left.
    pub(crate) fn settle(&mut self) {
        decisions::settle(&mut self.stage);
    }

    /// The kernel takes bytes again.
    pub(crate) fn writable(&mut self, conn: ConnId, sink: &mut dyn Sink) {
        let Some(slot) = self.stage.parts.line.conns.get_mut(conn) else {
            return;
        };
        if !slot.outbox.is_blocked() {
            return;
        }
        let mut tally = Tally::default();
        let flushed = slot.outbox.flush_backlog(conn, sink, &mut tally);
        flush::count_tally(&mut self.stage.parts, &tally);
        flush::after_flush(&mut self.stage.parts, conn, flushed);
        self.settle();
    }

    /// Writes what the turn produced: at most a few calls per connection.
    pub(crate) fn flush(&mut self, sink: &mut dyn Sink) {
        flush::close_overflowed(&mut self.stage.parts);
        polling::answer_polls(&mut self.stage.parts);
        self.settle();
        if !self.stage.parts.line.log.dirty.is_empty() {
            // Before anything is said: whoever gets an answer of this shard finds counted what led to it.
            self.count_deliveries();
            self.publish();
        }
        while !self.stage.parts.line.log.dirty.is_empty() {
            let dirty = std::mem::take(&mut self.stage.parts.line.log.dirty);
            for conn in &dirty {
                flush::flush_conn(&mut self.stage.parts, *conn, sink);
            }
            self.settle();
            polling::answer_polls(&mut self.stage.parts);
            if self.stage.parts.line.log.dirty.is_empty() {
                self.stage.parts.line.log.dirty = dirty;
                break;
            }
        }
        self.stage.parts.line.log.clear();
        self.count_deliveries();
    }

    /// Takes no more sessions, lets the handler tell the clients, and closes every session with 1001 within `window_ms`.
    pub(crate) fn drain(&mut self, window_ms: u64) {
        drain::begin(&mut self.stage, window_ms);
        self.settle();
    }

    /// Every session has been told to go: nobody who comes now needs to be told anything.
    pub fn has_let_go(&self) -> bool {
        self.stage.parts.access.drain.is_done()
    }

    /// Draining, and nobody is left.
    pub fn is_drained(&self) -> bool {
        self.has_let_go() && self.conns() == 0
    }

    /// Nothing that this connection still sends matters: leave it in the kernel.
    pub fn is_ignored(&self, conn: ConnId) -> bool {
        let slot = self.stage.parts.line.conns.get(conn);
        slot.is_some_and(|slot| slot.ignored > IGNORED_BYTES_MAX)
    }

    /// Whether a new connection from there may begin with a PROXY protocol header, and whether it must.
    pub fn proxy_protocol(&self, peer: IpAddr) -> ProxyProtocol {
        let proxies = &self.stage.parts.books.config.proxies;
        if proxies.protocol != ProxyProtocol::Off && proxies.trusts(peer) {
            proxies.protocol
        } else {
            ProxyProtocol::Off
        }
    }

    /// The same for a connection that is open.
    pub fn conn_proxy_protocol(&self, conn: ConnId) -> ProxyProtocol {
        let peer = self.stage.parts.line.conns.get(conn).map(|slot| slot.peer);
        peer.map_or(ProxyProtocol::Off, |peer| self.proxy_protocol(peer))
    }

    /// The client of a request that came from `peer`.
    pub fn client_address(&self, peer: IpAddr, head: &Head<'_>) -> IpAddr {
        self.stage
            .parts
            .books
            .config
            .proxies
            .client(peer, |name| head.values(name))
    }

    /// The answer to an `Effect::Ask`.
    pub(crate) fn answered(&mut self, key: AskKey, reply: Reply) {
        if let Some(pending) = question::settle_question(&mut self.stage.parts, key) {
            decisions::on_answer(&mut self.stage, pending, reply);
        }
        self.settle();
    }

    /// A letter from another hub.
    pub(crate) fn letter(&mut self, letter: &Letter) {
        receive::letter(&mut self.stage.parts, letter);
        self.settle();
    }

    /// A trusted proxy said for whom a connection is.
    pub(crate) fn introduced(&mut self, conn: ConnId, client: IpAddr) {
        trust::introduced(&mut self.stage.parts, conn, client);
    }

    /// A trusted proxy did not say it in the way it must.
    pub(crate) fn misintroduced(&mut self, conn: ConnId) {
        trust::misintroduced(&mut self.stage.parts, conn);
    }
}
