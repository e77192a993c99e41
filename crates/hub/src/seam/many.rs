//! What a handler can do with many sockets at once, on every shard and node.

use crate::cluster::letter::{Address, Order, Target, owned};
use crate::cluster::wire::Ask;
use crate::cluster::{asking, send};
use crate::rooms::outgoing::Outgoing;
use crate::seam::context::{Context, Emit, millis};
use crate::seam::inside::Inside;
use crate::seam::orders;
use crate::seam::told::{Collected, Told};
use std::time::Duration;

impl Context<'_> {
    /// Sends an event to this shard's sockets of a target only.
    pub fn broadcast_here(&mut self, target: &Target<'_>, emit: &Emit<'_>) {
        let _inside = Inside::enter();
        if self.may_emit(emit) {
            let mut out = Outgoing::event(target, emit);
            self.parts.audience().fan_out(target, &mut out);
        }
    }

    /// Sends an event that wants an ack to everyone the target means; `Handler::collected` follows.
    pub fn collect(&mut self, target: &Target<'_>, emit: &Emit<'_>, timeout: Duration, token: u64) {
        let _inside = Inside::enter();
        if !self.may_emit(emit) {
            let collected = Collected::default();
            self.parts
                .outbound
                .tell(Told::Collected { token, collected });
            return;
        }
        let mut out = Outgoing::event(target, emit);
        asking::collect(self.parts, target, &mut out, millis(timeout), token);
    }

    /// Asks all shards for the sockets a target means; `Handler::found` follows.
    pub fn fetch(&mut self, target: &Target<'_>, timeout: Duration, token: u64) {
        let _inside = Inside::enter();
        asking::fetch(self.parts, target, millis(timeout), token);
    }

    /// Lets all sockets of a target join rooms.
    pub fn join_all(&mut self, of: &Target<'_>, rooms: &[&str]) {
        let _inside = Inside::enter();
        let shards = send::shards_of(self.parts, of);
        if !shards.is_empty() {
            let letter = Order::Join {
                of: Address::from(of),
                rooms: owned(rooms),
                expected: self.parts.rooms.expect(of.namespace, rooms),
            };
            send::send_all(self.parts, shards, letter);
        }
        send::send_away(self.parts, of, Ask::Join(rooms));
        orders::join_selected(self.parts, of, rooms);
    }

    /// Lets all sockets of a target leave rooms.
    pub fn leave_all(&mut self, of: &Target<'_>, rooms: &[&str]) {
        let _inside = Inside::enter();
        let shards = send::shards_of(self.parts, of);
        if !shards.is_empty() {
            let letter = Order::Leave {
                of: Address::from(of),
                rooms: owned(rooms),
            };
            send::send_all(self.parts, shards, letter);
        }
        send::send_away(self.parts, of, Ask::Leave(rooms));
        orders::leave_selected(self.parts, of, rooms);
    }

    /// Ends the memberships of all sockets of a target; with `close` their sessions.
    pub fn disconnect_all(&mut self, of: &Target<'_>, close: bool) {
        let _inside = Inside::enter();
        orders::disconnect_all(self.parts, of, close);
    }
}
