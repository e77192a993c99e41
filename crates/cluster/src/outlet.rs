//! What a node publishes: letters batched per receiver, positions, and the ring from which lost frames are sent again.
//!
//! Batches clock themselves. While nothing is under way to the engine a letter leaves at once; while a batch is under way the next
//! one fills. Under load batches keep a [`Pace`], because each costs the engine as much as many letters do. A letter never waits
//! longer than [`Limits::linger_us`].

mod counts;
mod lanes;
mod limits;
mod pace;
mod queue;
mod repairs;

pub use counts::{Closed, Sent};
pub use limits::Limits;
pub use queue::{Channel, Publish};

use crate::frame::{self, NodeId, Peer, Stream, node_id, own_frame};
use handoff::cluster as record;
use lanes::Lanes;
use pace::Pace;
pub(crate) use queue::{Queue, Worth};
use repairs::Repairs;

/// Everything a node publishes.
#[derive(Debug)]
pub(crate) struct Outlet {
    me: Peer,
    linger_us: u64,
    lanes: Lanes,
    repairs: Repairs,
    pace: Pace,
    sent: Sent,
    pub(crate) queue: Queue,
}

impl Outlet {
    /// An outlet without peers.
    pub(crate) fn new(me: Peer, limits: Limits) -> Self {
        Self {
            me,
            linger_us: limits.linger_us,
            lanes: Lanes::new(me, limits),
            repairs: Repairs::new(limits.repair_bytes),
            pace: Pace::default(),
            sent: Sent::default(),
            queue: Queue::new(limits.queue_bytes),
        }
    }

    /// What was said, and is kept for repair.
    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Counters.
    pub(crate) fn sent(&self) -> Sent {
        self.sent
    }

    /// Begins a lane to a peer, unless it has one. Floods from now on are owed to it.
    pub(crate) fn add(&mut self, peer: Peer, now_us: u64) {
        if !self.lanes.wake(peer) {
            self.remove(peer.node);
            self.close(Channel::Flood, Closed::Order, now_us);
            self.lanes.begin(peer);
        }
    }

    /// A peer was given up. It was there at this time, and may come back: what is for all is kept for it as long as the ring holds it,
    /// and counted after that.
    pub(crate) fn rest(&mut self, node: NodeId, since_us: u64) {
        if let Some(first) = self.lanes.rests_too_long() {
            self.remove(first);
        }
        self.lanes.rest(node, since_us);
        self.repairs.forget(node);
    }

    /// Forgets a peer and what was kept for it.
    pub(crate) fn remove(&mut self, node: NodeId) {
        self.lanes.remove(node);
        self.repairs.forget(node);
    }

    /// Sends a letter to some peers; one that is not known is passed over. See [`Queue::has_room`].
    pub(crate) fn send(&mut self, to: &[NodeId], letter: &[u8], now_us: u64) {
        for node in to {
            self.post(Channel::Inbox(*node), letter, now_us);
        }
    }

    /// Keeps or counts a letter for peers that were given up.
    pub(crate) fn send_resting(&mut self, without: &[NodeId], letter: &[u8], now_us: u64) {
        for at in 0..self.lanes.resting().len() {
            let node = self.lanes.resting()[at];
            if !without.contains(&node) && !self.lanes.count(node) {
                self.post(Channel::Inbox(node), letter, now_us);
            }
        }
    }

    /// Sends a letter to all nodes. Returns its position. See [`Queue::has_room`].
    pub(crate) fn flood(&mut self, letter: &[u8], now_us: u64) -> u64 {
        self.post(Channel::Flood, letter, now_us);
        self.lanes.flood_last()
    }

    fn post(&mut self, to: Channel, letter: &[u8], now_us: u64) {
        // One order over both sequences: a frame never holds letters from before and after a letter of the other one.
        match to {
            Channel::Inbox(_) => self.close(Channel::Flood, Closed::Order, now_us),
            Channel::Flood => self.close_inboxes(Closed::Order, now_us),
        }
        let Some(is_full) = self.lanes.push(to, letter, now_us) else {
            return;
        };
        self.sent.letters += 1;
        if is_full {
            self.close(to, Closed::Full, now_us);
        }
    }

    /// Closes all frames: no letter comes behind these, and what is for all counts as flooded from now on.
    pub(crate) fn close_all(&mut self, why: Closed, now_us: u64) {
        self.close(Channel::Flood, why, now_us);
        self.close_inboxes(why, now_us);
    }

    fn close_inboxes(&mut self, why: Closed, now_us: u64) {
        while let Some(node) = self.lanes.next_open() {
            self.close(Channel::Inbox(node), why, now_us);
        }
    }

    /// Closes a frame: what it holds counts as sent from now on.
    pub(crate) fn close(&mut self, channel: Channel, why: Closed, now_us: u64) {
        if let Some(frame) = self.lanes.close(channel, now_us) {
            self.sent.bytes += frame.len() as u64;
            self.sent.frames[why as usize] += 1;
            self.queue.push(channel, frame, Worth::Kept);
        }
    }

    /// A peer misses letters: they are sent again with the next batches, as far as they are kept.
    pub(crate) fn nack(
        &mut self,
        asker: NodeId,
        stream: Stream,
        lane: u32,
        (from, to): (u64, u64),
        now_us: u64,
    ) {
        self.sent.questions += 1;
        let from = self.repairs.unanswered((asker, stream), from, now_us);
        let Some((oldest, last)) = self.lanes.range(asker, lane, stream) else {
            return;
        };
        let to = to.min(last);
        if from > to {
            return;
        }
        if from < oldest {
            let gone = frame::write_gone(self.me, stream, lane, to.min(oldest - 1));
            self.sent.gone += 1;
            self.queue.push(Channel::Inbox(asker), gone, Worth::Once);
        }
        let next = from.max(oldest);
        if next <= to {
            self.repairs.ask((asker, stream), next, to);
        }
    }

    /// Moves what is to be published now to `batch`; empty = nothing yet. Each batch that is not empty ends with [`Self::ended`].
    pub(crate) fn take(&mut self, batch: &mut Vec<Publish>, now_us: u64) {
        self.close_ready(now_us);
        self.sent.repairs += self.repairs.leave(&self.lanes, &mut self.queue);
        self.queue.take(batch, now_us);
    }

    /// Closes the frames that leave now.
    fn close_ready(&mut self, now_us: u64) {
        let Some(opened_us) = self.lanes.opened_us() else {
            return;
        };
        let is_idle = self.queue.is_idle() && self.pace.next_us(self.linger_us) <= now_us;
        if is_idle || now_us >= opened_us + self.linger_us {
            let why = if is_idle {
                Closed::Idle
            } else {
                Closed::Waited
            };
            self.close_all(why, now_us);
            self.pace.step(self.linger_us, now_us);
        }
    }

    /// A batch ended. Frames that the engine did not take, or nobody knows, are published again before all others of their
    /// channels, which wait for them. Receivers drop what they have.
    pub(crate) fn ended(
        &mut self,
        batch: Vec<Publish>,
        taken: impl Fn(usize) -> bool,
        now_us: u64,
    ) {
        self.repairs.ended(&batch, &taken, now_us);
        self.queue.ended(batch, taken, now_us);
    }

    /// When [`Self::take`] has something, if nothing happens before.
    pub(crate) fn due_us(&self, now_us: u64) -> Option<u64> {
        let queued = self.queue.due_us(now_us);
        if queued == Some(now_us) || self.repairs.may_leave() {
            return Some(now_us);
        }
        let opened = self.lanes.opened_us();
        let lingers = opened.map(|opened_us| opened_us + self.linger_us);
        let idle = opened.filter(|_| self.queue.is_idle());
        let idle = idle.map(|_| self.pace.next_us(self.linger_us).max(now_us));
        [queued, lingers, idle].into_iter().flatten().min()
    }

    /// All frames that can be sent again, and those that wait. Questions of peers are left out: they are asked again.
    ///
    /// # Errors
    /// Some are under way to the engine: nobody knows of them.
    pub(crate) fn record(&self) -> Result<record::Sent, &'static str> {
        Ok(self.lanes.record(self.queue.record()?))
    }

    /// The outlet of a record.
    ///
    /// # Errors
    /// The record contradicts itself: in what.
    pub(crate) fn restored(
        me: Peer,
        limits: Limits,
        sent: &record::Sent,
        now_us: u64,
    ) -> Result<Self, &'static str> {
        let mut outlet = Self::new(me, limits);
        outlet.lanes = Lanes::restored(me, limits, sent, now_us)?;
        for queued in &sent.queue {
            let channel = match queued.node {
                None => Channel::Flood,
                Some(node) => Channel::Inbox(node_id(node)?),
            };
            let frame = own_frame(me, &queued.frame)?;
            outlet.queue.push(channel, frame, Worth::Kept);
        }
        Ok(outlet)
    }
}

#[cfg(test)]
mod tests;
