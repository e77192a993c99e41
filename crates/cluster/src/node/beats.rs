//! Heartbeats: that this node lives, how far it is, and what those of others say.

use super::{Event, Node, SILENCE_US};
use crate::frame::{self, Beat, Known, Peer};
use crate::inlet::Output;
use crate::letter::WANT;
use crate::numbers::EPOCHS_TOLD;
use crate::outlet::{Channel, Closed, Worth};
use crate::pulse::WORKING_US;

impl Node {
    pub(super) fn beat(&mut self) {
        // It names a position, and all keys up to now must be told there.
        (self.outlet).close(Channel::Flood, Closed::Waited, self.now_us);
        let is_told = self.keys.told().is_some();
        let known: Vec<Known> = self
            .outlet
            .lanes()
            .known()
            .map(|known| {
                let neighbour = self.neighbours.get(known.peer.node);
                let (got_flood, heard) = neighbour.map_or((0, 0), |neighbour| {
                    (neighbour.inlet.got_flood(), neighbour.beat())
                });
                let heard = if is_told { heard } else { 0 };
                Known {
                    got_flood,
                    heard,
                    ..known
                }
            })
            .collect();
        let beat = Beat {
            number: self.pulse.beat(self.now_us),
            flood: self.outlet.lanes().flood_position(),
            hears: self.pulse.hears(self.now_us),
        };
        let mut say = |version| {
            let heartbeat = frame::write_heartbeat(self.me, version, beat, &known);
            (self.outlet.queue).push(Channel::Flood, heartbeat, Worth::Once);
        };
        say(frame::NEWEST);
        // Of two that are one heartbeat, a node that reads both takes the first.
        if self.pulse.says_old(self.now_us) {
            say(frame::VERSION);
        }
        let probe = frame::write_probe(self.me);
        let mine = Channel::Inbox(self.me.node);
        self.outlet.queue.push(mine, probe, Worth::Once);
    }

    pub(super) fn on_heartbeat(
        &mut self,
        peer: Peer,
        flood: u64,
        known: &[Known],
        out: &mut Vec<Output>,
    ) {
        let us = known.iter().find(|known| known.peer == self.me).copied();
        let later = |known: &&Known| {
            let Peer { node, epoch } = known.peer;
            node == self.me.node && epoch > self.me.epoch && epoch < EPOCHS_TOLD
        };
        if let Some(later) = known.iter().find(later) {
            self.events.push_back(Event::Superseded(later.peer));
        }
        let Some(neighbour) = self.neighbours.get_mut(peer.node) else {
            return;
        };
        let silence_us = neighbour.speaks(self.now_us);
        if silence_us > SILENCE_US && neighbour.is_up() {
            self.pulse.hurry(self.now_us);
        }
        if silence_us > WORKING_US && neighbour.is_up() {
            neighbour.inlet.slow_down(self.now_us);
        }
        neighbour.inlet.heartbeat(flood, us, out);
        if let Some(us) = us {
            let sent_us = self.pulse.sent_us(us.heard, self.now_us);
            neighbour.claim(us, flood, sent_us, self.now_us);
        }
        if neighbour.comes() {
            self.outlet.add(peer, self.now_us);
            self.interest.add(peer.node);
            self.events.push_back(Event::Up(peer));
            // The peer must know its lane before letters come in it.
            self.beat();
            self.tell(peer.node, &[WANT]);
        }
    }
}
