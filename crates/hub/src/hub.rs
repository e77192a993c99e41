//! A hub between its turns: how it is made, and what can be asked of it.

use crate::access::trust::ProxyProtocol;
use crate::books::config::Config;
use crate::books::metrics::Cells;
use crate::cluster::shared::Process;
use crate::life::handing::{self, Handed, Handing};
use crate::life::keepsakes;
use crate::life::staying::{Crossing, Stays};
use crate::parts::Parts;
use crate::seam::handler::Handler;
use crate::seam::questions::Asked;
use crate::seam::stage::Stage;
use crate::tables::id::{Entropy, Identity};
use crate::tables::slot::ConnId;
use crate::transport::{drain, tick};
use std::net::IpAddr;
use std::sync::Arc;

/// All realtime state of one shard.
///
/// # The contract
///
/// **What it is.** A state machine without I/O, clock or dice: input and time go in, effects and bytes come out. The same input at
/// the same times with the same random bytes gives the same output, so production, simulation, fuzzing and transcripts run one code.
///
/// **How to drive it.** Only by turns. [`Hub::turn`] begins one at a time that never goes back; the [`Turn`](crate::Turn) takes input
/// in any order and ends it. Between turns a hub can only be looked at, which costs nothing and changes nothing.
///
/// **When to drive it.** When there is input, when a connection can be written again, at [`next_deadline`](Self::next_deadline), and at
/// once while [`has_stalled`](Self::has_stalled) says so: a turn ends before all its input is worked on when its share is spent.
///
/// **What it asks for.** Effects are carried out in the order given, before the next input: a slot that one of them freed may belong to
/// the next connection. An [`Effect::Ask`](crate::Effect::Ask) is answered once, at any later time, or never: each question has a
/// deadline. Letters to one other hub must arrive in the order in which they were sent. Letters between nodes may be lost; then the
/// sender is told.
///
/// **What it keeps.** A connection is named by its [`ConnId`] from `opened` until an effect takes it away. Bytes of input are kept only
/// while a message is incomplete or waits for its turn, and each of these buffers is bounded. What waits to be written is bounded per
/// connection and for the process.
///
/// **Faults.** Nothing that a peer sends makes a hub panic. A handler that panics costs the session for which it was called. If the
/// hub itself panics, its tables may be half changed: do not call it again.
pub struct Hub {
    pub(crate) stage: Stage,
    /// A turn was begun and has not ended.
    pub(crate) in_turn: bool,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stage.parts.fmt(f)
    }
}

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
        let mut parts = Parts::new(config, me, cells, entropy, process);
        // All shards take the first one's answer: they must agree on the homes of namespaces.
        let keeping = process.keeping.get_or_init(|| handler.keeping());
        parts.rooms.kept.keeping = Arc::clone(keeping);
        Self {
            stage: Stage::new(parts, handler),
            in_turn: false,
        }
    }

    /// When a turn has something to do next, on the clock of `Now::mono_ms`.
    pub fn next_deadline(&self) -> Option<u64> {
        tick::next_due(&self.stage.parts)
    }

    /// Whether the last turn left work that the next one can do.
    pub fn has_stalled(&self) -> bool {
        self.stage.parts.line.intake.has_stalled() || self.stage.parts.line.polls.has_ready()
    }

    /// Connections that wait for the mailbox of another shard to be short again.
    pub fn held_back(&self) -> usize {
        self.stage.parts.line.intake.held_back()
    }

    /// Whether the connection still has input that an earlier turn left: do not read more yet.
    pub fn is_stalled(&self, conn: ConnId) -> bool {
        self.stage
            .parts
            .line
            .conns
            .get(conn)
            .is_some_and(|slot| slot.unread.is_stalled())
    }

    /// Connections of this hub.
    pub fn conns(&self) -> usize {
        self.stage.parts.line.conns.len()
    }

    /// Whether every session of this hub has been told to go. Other shards may still have some.
    pub fn has_sent_all_away(&self) -> bool {
        self.stage.parts.access.drain.has_sent_all()
    }

    /// Whether every session of the process has been told to go: a client that comes now need not be told anything.
    pub fn has_let_go(&self) -> bool {
        self.stage.parts.access.drain.is_done()
    }

    /// Whether the hub drains, and nobody is left or waited for.
    pub fn is_drained(&self) -> bool {
        let is_empty = self.has_let_go() && self.conns() == 0;
        is_empty && drain::awaits_takers(&self.stage.parts).is_none()
    }

    /// Whether nothing matters that this connection still sends: leave it in the kernel.
    pub fn is_ignored(&self, conn: ConnId) -> bool {
        let slot = self.stage.parts.line.conns.get(conn);
        slot.is_some_and(|slot| slot.unread.is_flood())
    }

    /// Connections that came from the reserve; those that have gone count until the next call of [`Turn::make_way`](crate::Turn::make_way).
    pub fn in_reserve(&self) -> usize {
        self.stage.parts.access.reserve.len()
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
        let slot = self.stage.parts.line.conns.get(conn);
        let peer = slot.map(|slot| slot.origin.peer());
        peer.map_or(ProxyProtocol::Off, |peer| self.proxy_protocol(peer))
    }

    /// The sessions one after the other, as another process would get them that takes these ([`handoff::takes`]).
    pub fn handing(&self, takes: u64) -> Handing {
        Handing::new(&self.stage.parts, takes)
    }

    /// The next of them; `None`: there are no more. `is_secure`: whether a connection speaks TLS.
    pub fn hand(
        &self,
        handing: &mut Handing,
        is_secure: impl Fn(ConnId) -> bool,
    ) -> Option<Handed> {
        let mut handed = handing.next(&self.stage.parts, is_secure);
        if let Some(Handed::Goes(_, _, record)) = &mut handed {
            handing::note_owed(&self.stage.parts.people, record, self.stage.handler());
        }
        handed
    }

    /// Tells of each session whether it would go to such a process.
    pub fn count_handed(
        &self,
        takes: u64,
        is_secure: impl Fn(ConnId) -> bool,
        tell: impl FnMut(Result<Crossing, Stays>),
    ) {
        self.handing(takes)
            .count(&self.stage.parts, is_secure, tell);
    }

    /// Some of the journal after a place, for the next process; `None`: there is no more.
    pub fn journal_behind(&self, after: u64) -> Option<handoff::Keepsakes> {
        keepsakes::ahead(&self.stage.parts, after)
    }

    /// Rooms that keep events for those who join, and these events.
    pub fn count_kept(&self) -> (u64, u64) {
        self.stage.parts.rooms.kept.sizes()
    }

    /// Sockets without a connection that somebody claims just now: they do not go.
    pub fn count_claimed(&self) -> u64 {
        let recovery = self.stage.parts.recovery.as_ref();
        recovery.map_or(0, |recovery| recovery.parked.passing() as u64)
    }

    /// Sockets that can come back to what they missed, with a connection or without. Those of a stream that all nodes read are not counted.
    pub fn count_windows(&self) -> u64 {
        let recovery = self.stage.parts.recovery.as_ref();
        let recovery = recovery.filter(|recovery| recovery.streams.chronicle.is_none());
        recovery.map_or(0, |recovery| {
            (recovery.live.len() + recovery.parked.len()) as u64
        })
    }

    /// Questions of the handler to somebody outside that are open: about what clients said before.
    pub fn count_outside(&self) -> u64 {
        let asks = self.stage.parts.outbound.asks.iter();
        let outside = asks.filter(|(_, open)| matches!(open.asked, Asked::Outside { .. }));
        outside.count() as u64
    }

    /// What another process goes on with beside sessions.
    pub fn onward(&self) -> handoff::ShardWord {
        handoff::ShardWord {
            shard: u32::from(self.stage.parts.ids.me.shard),
            next_ack: self.stage.parts.rounds.upcoming(),
            numbers: self.stage.handler().last_number(),
        }
    }
}
