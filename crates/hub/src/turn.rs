//! The order of calls, as a type. A shard, a simulator and a test drive a hub by turns, and all turns are alike:
//!
//! 1. *Input*, in any order: mail, connections, bytes, writability. Each call ends with what the hub wants done: a slot that
//!    became free may belong to the next connection.
//! 2. *The end*: timers, effects (messages leave for other shards before a client is told of what they say), waking those shards,
//!    one flush, effects.
//!
//! Between turns a hub can only be looked at.

use crate::books::limits::MAILS_PER_TURN as MAILS;
use crate::books::metrics::Limit;
use crate::cluster::letter::Letter;
use crate::cluster::mailbox::{Receiver, Weigh};
use crate::cluster::send;
use crate::hub::Hub;
use crate::output::outbox::Sink;
use crate::seam::ask::Reply;
use crate::seam::effect::Effect;
use crate::tables::clock::Now;
use crate::tables::slot::{AskKey, ConnId};
use std::net::IpAddr;

/// What a hub acts on: the shard's sockets and mailboxes, or a simulation of them.
pub trait World: Sink {
    /// Does what the hub wants done.
    fn carry_out(&mut self, effect: Effect);

    /// Wakes the shards that messages were left for. It comes before each flush: a shard that was woken by the first message
    /// of a turn would work on each by itself, and write to each of its clients as often.
    fn wake(&mut self) {}
}

/// A connection that another shard read and gave away.
#[derive(Debug)]
pub struct Moved<'a> {
    pub peer: IpAddr,
    /// The bound that it is beyond.
    pub beyond: Option<Limit>,
    /// What was read of it.
    pub read: &'a mut [u8],
    /// The end of the stream came behind that.
    pub ended: bool,
}

/// What a turn took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// From readiness to the end of the flush, microseconds.
    pub us: u64,
    /// Messages that wait in the shard's mailbox.
    pub mailbox: usize,
}

/// A turn under way. One that is dropped before its end goes on with the next.
#[derive(Debug)]
pub struct Turn<'a, W: World> {
    hub: &'a mut Hub,
    world: &'a mut W,
}

impl Hub {
    /// Begins a turn at this time.
    pub fn turn<'a, W: World>(&'a mut self, now: Now, world: &'a mut W) -> Turn<'a, W> {
        if !std::mem::replace(&mut self.in_turn, true) {
            self.begin_turn(now);
        }
        Turn { hub: self, world }
    }
}

impl<W: World> Turn<'_, W> {
    /// To look at.
    pub fn hub(&self) -> &Hub {
        self.hub
    }

    pub fn world(&mut self) -> &mut W {
        self.world
    }

    /// One piece of input.
    #[inline]
    fn take_in<R>(&mut self, input: impl FnOnce(&mut Hub, &mut W) -> R) -> R {
        let result = input(self.hub, self.world);
        self.carry_out();
        result
    }

    fn carry_out(&mut self) {
        while self.hub.has_effects() {
            let mut effects = self.hub.take_effects();
            for effect in effects.drain(..) {
                self.world.carry_out(effect);
            }
            self.hub.recycle_effects(effects);
        }
    }

    /// A connection was accepted. `adopt` gives its stream the hub's name for it; `false`: that was not possible.
    pub fn opened(&mut self, peer: IpAddr, adopt: impl FnOnce(&mut W, ConnId) -> bool) -> ConnId {
        self.take_in(|hub, world| {
            let conn = hub.opened(peer);
            if !adopt(world, conn) {
                hub.broken(conn);
            }
            conn
        })
    }

    /// The same of a connection beyond the process's bound, from the reserve.
    pub fn opened_beyond(
        &mut self,
        peer: IpAddr,
        adopt: impl FnOnce(&mut W, ConnId) -> bool,
    ) -> ConnId {
        self.take_in(|hub, world| {
            let conn = hub.opened_beyond(peer);
            if !adopt(world, conn) {
                hub.broken(conn);
            }
            conn
        })
    }

    /// Another shard accepted a connection and moved it here.
    pub fn moved_here(&mut self, moved: Moved<'_>, adopt: impl FnOnce(&mut W, ConnId) -> bool) {
        self.take_in(|hub, world| {
            let conn = hub.moved_here(moved.peer, moved.beyond);
            if !adopt(world, conn) {
                return hub.broken(conn);
            }
            hub.bytes(conn, moved.read);
            if moved.ended {
                hub.eof(conn);
            }
        });
    }

    /// A trusted proxy says who the client is, before all else.
    pub fn introduced(&mut self, conn: ConnId, client: IpAddr) {
        self.take_in(|hub, _| hub.introduced(conn, client));
    }

    /// The proxy does not keep to its protocol.
    pub fn misintroduced(&mut self, conn: ConnId) {
        self.take_in(|hub, _| hub.misintroduced(conn));
    }

    /// Bytes arrived. The buffer is scratch: frames are unmasked in it.
    #[inline]
    pub fn bytes(&mut self, conn: ConnId, buf: &mut [u8]) {
        self.take_in(|hub, _| hub.bytes(conn, buf));
    }

    /// The peer closed its sending side.
    pub fn eof(&mut self, conn: ConnId) {
        self.take_in(|hub, _| hub.eof(conn));
    }

    /// The connection broke.
    pub fn broken(&mut self, conn: ConnId) {
        self.take_in(|hub, _| hub.broken(conn));
    }

    /// The kernel takes bytes again.
    pub fn writable(&mut self, conn: ConnId) {
        self.take_in(|hub, world| hub.writable(conn, world));
    }

    /// A message of another hub.
    pub fn letter(&mut self, letter: &Letter) {
        self.take_in(|hub, _| hub.letter(letter));
    }

    /// The answer to `Effect::Ask`.
    pub fn answered(&mut self, key: AskKey, reply: Reply) {
        self.take_in(|hub, _| hub.answered(key, reply));
    }

    /// Takes no more sessions and closes those that are here within this time.
    pub fn drain(&mut self, window_ms: u64) {
        self.take_in(|hub, _| hub.drain(window_ms));
    }

    /// Goes on with what earlier turns left.
    pub fn resume(&mut self) {
        if self.hub.has_stalled() || self.hub.held_back() > 0 {
            self.take_in(|hub, _| hub.resume());
        }
    }

    /// The shard stopped accepting because no descriptor was free.
    pub fn accept_paused(&mut self) {
        self.hub.accept_paused();
    }

    /// The shard shed a connection over the process's bound.
    pub fn connection_shed(&mut self) {
        self.hub.connection_shed();
    }

    /// The shard reads from nobody until a mailbox is shorter.
    pub fn reading_paused(&mut self) {
        self.hub.reading_paused();
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
        self.hub.turn_is_full()
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
        send::post_parcel(&mut self.hub.stage.parts);
        self.carry_out();
        self.world.wake();
        self.hub.flush(self.world);
        self.carry_out();
    }

    /// Ends the turn. `behind`: somebody's input is still unread. `last` runs when everybody was served and says what that took;
    /// output of input that it brings is written, too.
    pub fn end(mut self, behind: bool, last: impl FnOnce(&mut Self) -> Spent) {
        self.hub.tick(behind);
        self.carry_out();
        self.flush();
        let spent = last(&mut self);
        if self.hub.has_output() {
            self.flush();
        }
        self.world.wake();
        self.hub.end_turn(spent.us, spent.mailbox);
        self.hub.in_turn = false;
    }
}
