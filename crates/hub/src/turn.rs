//! The order of calls, as a type. A shard, a simulator and a test drive a hub by turns, and all turns are alike:
//!
//! 1. *Input*, in any order: mail, connections, bytes, writability. Each call ends with what the hub wants done: a slot that
//!    became free may belong to the next connection.
//! 2. *The end*: timers, effects (messages leave for other shards before a client is told of what they say), waking those shards,
//!    one flush, effects.
//!
//! Between turns a hub can only be looked at.

use crate::access::drain::Pace;
use crate::access::trust;
use crate::books::metrics::Limit;
use crate::bounds::MAILS_PER_TURN as MAILS;
use crate::clients::trace::LiveTrace;
use crate::cluster::letter::Letter;
use crate::cluster::mailbox::{Receiver, Weigh};
use crate::cluster::{receive, send};
use crate::hearing::decisions;
use crate::hub::Hub;
use crate::life::keepsakes::{self, Unable};
use crate::life::{arriving, chronicling, conns, handing};
use crate::output::sink::Sink;
use crate::seam::ask::Reply;
use crate::seam::effect::Effect;
use crate::seam::stage::Stage;
use crate::tables::clock::Now;
use crate::tables::slot::{AskKey, ConnId, SessionId};
use crate::transport::input::Moved;
use crate::transport::tick::{self, Spent};
use crate::transport::{drain, flush, input};
use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

/// What a hub acts on: the shard's sockets and mailboxes, or a simulation of them.
pub trait World: Sink {
    /// Does what the hub wants done.
    fn carry_out(&mut self, effect: Effect);

    /// Wakes the shards that messages were left for. It comes before each flush: a shard that was woken by the first message
    /// of a turn would work on each by itself, and write to each of its clients as often.
    fn wake(&mut self) {}
}

/// Why a shard does less than clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strain {
    /// It stopped accepting because no descriptor was free.
    NoDescriptor,
    /// It shed a connection over the process's bound.
    Full,
    /// It reads from nobody until a mailbox is shorter.
    LongMailbox,
}

/// A turn under way. A turn that is dropped before its end goes on with the next one.
#[derive(Debug)]
pub struct Turn<'a, W: World> {
    hub: &'a mut Hub,
    world: &'a mut W,
}

impl Hub {
    /// Begins a turn at this time.
    pub fn turn<'a, W: World>(&'a mut self, now: Now, world: &'a mut W) -> Turn<'a, W> {
        if !std::mem::replace(&mut self.in_turn, true) {
            tick::begin(&mut self.stage.parts, now);
        }
        Turn { hub: self, world }
    }
}

impl<W: World> Turn<'_, W> {
    /// The hub, to look at.
    pub fn hub(&self) -> &Hub {
        self.hub
    }

    /// Both, to look at.
    pub fn hub_and_world(&self) -> (&Hub, &W) {
        (self.hub, self.world)
    }

    /// What the turn acts on.
    pub fn world(&mut self) -> &mut W {
        self.world
    }

    /// One piece of input, and all that follows from it.
    #[inline]
    fn take_in<R>(&mut self, input: impl FnOnce(&mut Stage, &mut W) -> R) -> R {
        let stage = &mut self.hub.stage;
        let result = input(stage, self.world);
        // What the handler decided may have effects, too.
        decisions::settle(stage);
        self.carry_out();
        result
    }

    fn carry_out(&mut self) {
        while self.hub.stage.parts.outbound.has_effects() {
            let mut effects = self.hub.stage.parts.outbound.take_effects();
            for effect in effects.drain(..) {
                self.world.carry_out(effect);
            }
            self.hub.stage.parts.outbound.recycle(effects);
        }
    }

    /// A connection was accepted. `adopt` gives its stream the hub's name for it, which names it until `Effect::Close`, `Move` or
    /// `Handover`; `false`: that was not possible.
    pub fn opened(&mut self, peer: IpAddr, adopt: impl FnOnce(&mut W, ConnId) -> bool) -> ConnId {
        self.take_in(|stage, world| {
            let conn = input::open(&mut stage.parts, peer);
            if !adopt(world, conn) {
                input::broken(&mut stage.parts, conn);
            }
            conn
        })
    }

    /// The same for a connection beyond the process's bound, from the reserve.
    pub fn opened_beyond(
        &mut self,
        peer: IpAddr,
        adopt: impl FnOnce(&mut W, ConnId) -> bool,
    ) -> ConnId {
        self.take_in(|stage, world| {
            let conn = input::open_beyond(&mut stage.parts, peer);
            if !adopt(world, conn) {
                input::broken(&mut stage.parts, conn);
            }
            conn
        })
    }

    /// This connection, which was just opened, speaks TLS.
    pub fn speaks_tls(&mut self, conn: ConnId) {
        if let Some(slot) = self.hub.stage.parts.line.conns.get_mut(conn) {
            slot.origin.be_secure();
        }
    }

    /// The reserve is full, and somebody comes. A connection that has shown no session and no probe gives its place away; `false`: there is
    /// none.
    pub fn make_way(&mut self) -> bool {
        self.take_in(|stage, _| conns::make_way(&mut stage.parts))
    }

    /// Another shard accepted a connection and moved it here, or another node relays it.
    pub fn moved_here(&mut self, moved: Moved<'_>, adopt: impl FnOnce(&mut W, ConnId) -> bool) {
        self.take_in(|stage, world| {
            let conn = input::open_moved(&mut stage.parts, &moved);
            if !adopt(world, conn) {
                return input::broken(&mut stage.parts, conn);
            }
            input::bytes(stage, conn, moved.read);
            if moved.ended {
                // The bytes are settled before the end is heard, as if they had come in one after the other.
                decisions::settle(stage);
                input::eof(&mut stage.parts, conn);
            }
        });
    }

    /// A trusted proxy names the client, before all else.
    pub fn introduced(&mut self, conn: ConnId, client: IpAddr) {
        self.take_in(|stage, _| trust::introduced(&mut stage.parts, conn, client));
    }

    /// The proxy does not keep to its protocol.
    pub fn misintroduced(&mut self, conn: ConnId) {
        self.take_in(|stage, _| trust::misintroduced(&mut stage.parts, conn));
    }

    /// Bytes arrived. The buffer is scratch: frames are unmasked in it.
    #[inline]
    pub fn bytes(&mut self, conn: ConnId, buf: &mut [u8]) {
        self.take_in(|stage, _| input::bytes(stage, conn, buf));
    }

    /// The peer closed its sending side.
    pub fn eof(&mut self, conn: ConnId) {
        self.take_in(|stage, _| input::eof(&mut stage.parts, conn));
    }

    /// The connection broke.
    pub fn broken(&mut self, conn: ConnId) {
        self.take_in(|stage, _| input::broken(&mut stage.parts, conn));
    }

    /// The kernel takes bytes again.
    pub fn writable(&mut self, conn: ConnId) {
        self.take_in(|stage, world| flush::writable(&mut stage.parts, conn, world));
    }

    /// A message of another hub.
    pub fn letter(&mut self, letter: &Letter) {
        self.take_in(|stage, _| receive::letter(&mut stage.parts, letter));
    }

    /// The answer to `Effect::Ask`.
    pub fn answered(&mut self, key: AskKey, reply: Reply) {
        self.take_in(|stage, _| decisions::answered(stage, key, reply));
    }

    /// Something for the handler (`Handler::outside`).
    pub fn outside(&mut self, word: Box<dyn Any + Send>) {
        self.take_in(|stage, _| {
            stage.call(None, |handler, cx| handler.outside(cx, word));
        });
    }

    /// Somebody wants to see something as it passes, until that trace is over.
    pub fn trace(&mut self, trace: Arc<LiveTrace>) {
        let parts = &mut self.hub.stage.parts;
        let (shard, now) = (parts.ids.me.shard, parts.clock.now);
        parts.traces.begin(shard, now, trace);
    }

    /// Clients that poll are to ask again, wherever they are served then.
    pub fn answer_waiting_polls(&mut self) {
        self.take_in(|stage, _| handing::answer_waiting_polls(&mut stage.parts));
    }

    /// Polls that a hub which rested later has brought are answered, and clients that are to be told that they missed something are told.
    pub fn come_to_rest(&mut self) {
        self.answer_waiting_polls();
        // The flush may find one more client too slow: gaps are told after it.
        self.flush();
        self.take_in(|stage, _| handing::tell_gaps(&mut stage.parts));
    }

    /// What the process before has carried out of a bus.
    pub fn marks_arrived(&mut self, marks: &handoff::Marks) {
        let parts = &mut self.hub.stage.parts;
        parts
            .rooms
            .repeats
            .go_on_with(marks, parts.clock.now.mono_ms);
    }

    /// Moves the time of the turn on: what comes from the process before comes in one turn, which may take seconds.
    pub fn now_is(&mut self, now: Now) {
        self.hub.stage.parts.clock.now = now;
    }

    /// A piece of what the process before kept for those who come; how much of it has no place here.
    ///
    /// # Errors
    /// The piece does not follow the pieces before it: the hub is of no use any more.
    pub fn keepsakes_arrived(&mut self, piece: &handoff::Keepsakes) -> Result<u64, Unable> {
        self.take_in(|stage, _| keepsakes::arrive(&mut stage.parts, piece))
    }

    /// A session comes from the process before this one. `adopt` gives its streams, one after the other, the hub's names for its
    /// connections.
    ///
    /// # Errors
    /// It cannot be what it was: the hub is of no use any more.
    pub fn arrived(
        &mut self,
        record: &handoff::Session,
        mut adopt: impl FnMut(&mut W, ConnId),
    ) -> Result<(), Unable> {
        self.take_in(|stage, world| {
            for conn in arriving::arrive(&mut stage.parts, record)? {
                adopt(world, conn);
            }
            arriving::tell(stage, record);
            Ok(())
        })
    }

    /// A connection without a session comes from there.
    ///
    /// # Errors
    /// The same as of [`Self::arrived`].
    pub fn visitor_arrived(
        &mut self,
        record: &handoff::Visitor,
        adopt: impl FnOnce(&mut W, ConnId),
    ) -> Result<(), Unable> {
        self.take_in(|stage, world| {
            let conn = arriving::visit(&mut stage.parts, record)?;
            adopt(world, conn);
            Ok(())
        })
    }

    /// All have come from there; ids of acks and numbers of the handler go on.
    pub fn all_arrived(&mut self, onward: handoff::ShardWord) {
        self.take_in(|stage, _| {
            stage.parts.rounds.go_on_from(onward.next_ack);
            stage.parts.rooms.forget_changes();
            stage.call(None, |handler, _| handler.go_on_from(onward.numbers));
            // Other nodes were told of these members: that must be known before anything is said to them.
            send::post_parcel(&mut stage.parts);
        });
    }

    /// Connections have gone to another process, with their session if they have one; their streams are none of the hub's any more.
    pub fn handed_over(&mut self, session: Option<SessionId>, conns: &[ConnId]) {
        self.take_in(|stage, _| handing::forget(&mut stage.parts, session, conns));
    }

    /// Another process has what is kept for those who come. To be called before what goes is forgotten, because that may say something.
    pub fn all_handed_over(&mut self) {
        self.hub.stage.parts.rooms.kept.end();
        if let Some(recovery) = &mut self.hub.stage.parts.recovery {
            recovery.journal.end();
        }
    }

    /// Takes no more sessions and closes those that are here within this time, each in a pause of its client. One that never pauses
    /// has `patience_ms` more. `beside_others`: other shards drain, too, and a client that comes is told when to come back, until
    /// [`Turn::others_have_left`].
    pub fn drain(&mut self, window_ms: u64, patience_ms: u64, beside_others: bool) {
        let pace = Pace {
            window_ms,
            patience_ms,
        };
        self.take_in(|stage, _| drain::begin(stage, pace, beside_others));
    }

    /// No shard has a session that was not told to go.
    pub fn others_have_left(&mut self) {
        self.take_in(|stage, _| drain::others_have_left(&mut stage.parts.access));
    }

    /// Closes so many sessions in the same way, so that their clients go elsewhere; 0: none of those any more that are to.
    pub fn thin(&mut self, count: usize, window_ms: u64, patience_ms: u64) {
        let pace = Pace {
            window_ms,
            patience_ms,
        };
        self.take_in(|stage, _| drain::thin(&mut stage.parts, count, pace));
    }

    /// Goes on with what earlier turns left.
    pub fn resume(&mut self) {
        if self.hub.has_stalled() || self.hub.held_back() > 0 {
            self.take_in(|stage, _| input::resume(stage));
        }
    }

    /// The shard does less than clients ask for. That is counted.
    pub fn strained(&mut self, strain: Strain) {
        let counts = &mut self.hub.stage.parts.books.counts;
        match strain {
            Strain::NoDescriptor => counts.accept_pauses += 1,
            Strain::Full => counts.shed += 1,
            Strain::LongMailbox => return counts.hit(Limit::Mailbox),
        }
        counts.hit(Limit::Conns);
    }

    /// Works on mail until the turn has its share: what another shard's clients send must not starve ours.
    pub fn mail<M: Weigh>(
        &mut self,
        mailbox: fn(&W) -> &Receiver<M>,
        mut on_mail: impl FnMut(&mut Self, M),
    ) {
        for _ in 0..MAILS {
            let Some(mail) = mailbox(self.world).pop() else {
                return;
            };
            on_mail(self, mail);
            if self.flush_if_full() {
                return;
            }
        }
    }

    /// The turn has its share: what is still unread waits for the next one.
    pub fn is_full(&self) -> bool {
        let parts = &self.hub.stage.parts;
        parts.line.is_full(&parts.books.config.limits)
    }

    /// Writes what there is, if that is the turn's share; `true` if it was.
    pub fn flush_if_full(&mut self) -> bool {
        let full = self.is_full();
        if full {
            self.flush();
        }
        full
    }

    fn flush(&mut self) {
        // Records leave first: a session whose record finds no room ends with this flush.
        chronicling::save(&mut self.hub.stage.parts);
        send::post_parcel(&mut self.hub.stage.parts);
        self.carry_out();
        self.world.wake();
        flush::run(&mut self.hub.stage, self.world);
        self.carry_out();
    }

    /// Ends the turn. `behind`: somebody's input is still unread. `last` runs when everybody was served and says what that took;
    /// output of input that it brings is written, too.
    pub fn end(mut self, behind: bool, last: impl FnOnce(&mut Self) -> Spent) {
        tick::tick(&mut self.hub.stage, behind);
        self.carry_out();
        self.flush();
        let spent = last(&mut self);
        if self.hub.stage.parts.line.has_output() {
            self.flush();
        }
        // `last` may have left mail as well.
        self.world.wake();
        tick::end(&mut self.hub.stage.parts, spent);
        self.hub.in_turn = false;
    }
}
