//! What a node publishes: letters batched per receiver, positions, and the ring from which lost frames are sent again.
//!
//! Batches clock themselves. While nothing is under way to the engine a letter leaves at once; while a batch is under way the next
//! one fills. Under load batches keep a [`Pace`], because each costs the engine as much as many letters do. A letter never waits
//! longer than [`Limits::linger_us`].

mod counts;
mod handing;
mod lane;
mod pace;

pub use counts::{Closed, Sent};

use crate::frame::{self, Known, NodeId, Peer, Stream};
use lane::{Lane, Rest, close, is_full};
use pace::Pace;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bounds of an outlet.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A frame of this many bytes of letters is closed. A larger letter has a frame of its own.
    pub frame_bytes: usize,
    /// A frame of this many letters is closed.
    pub frame_letters: u16,
    /// Microseconds a letter waits at most for company, and the time from one batch to the next under load.
    pub linger_us: u64,
    /// Bytes of sent frames kept for repair, over all receivers.
    pub ring_bytes: usize,
    /// Bytes of frames that wait for the engine. See [`Outlet::has_room`].
    pub queue_bytes: usize,
    /// Bytes of repairs in one batch, so that repairs do not hold up new letters.
    pub repair_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 16 * 1024,
            frame_letters: 64,
            linger_us: 500,
            ring_bytes: 64 * 1024 * 1024,
            queue_bytes: 32 * 1024 * 1024,
            repair_bytes: 64 * 1024,
        }
    }
}

/// The channel of the engine that a frame is published to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// A node's own channel.
    Inbox(NodeId),
    /// The channel that all nodes read.
    Flood,
}

/// A message for the engine.
#[derive(Clone, Debug)]
pub struct Publish {
    /// Where to.
    pub channel: Channel,
    /// The frame.
    pub frame: Arc<[u8]>,
    /// Its place in the order of publishing.
    number: u64,
    worth: Worth,
}

/// The fate of a frame that the engine did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// It is published again.
    Kept,
    /// Nothing: a later one says more.
    Once,
    /// Nothing: it was sent again, and is asked for again.
    Repair,
}

/// Letters of a lane that a peer asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repair {
    asker: NodeId,
    stream: Stream,
    next: u64,
    to: u64,
}

/// A repair whose last frame has left: the same question may still be on its way.
#[derive(Clone, Copy, Debug)]
struct Answered {
    asker: NodeId,
    stream: Stream,
    to: u64,
    /// The frame's.
    number: u64,
    /// When the engine had taken it.
    taken_us: Option<u64>,
}

/// Frames that the engine did not take wait so long for the next try, and with them all others of their channel.
const PAUSE_US: u64 = 50_000;
/// A question that comes so soon after its answer was sent crossed it on the way.
const CROSSING_US: u64 = 100_000;

/// Repairs of so many bytes may be under way to one peer: a server that stands still is not sent all that its peers miss.
const REPAIRS_BYTES_MAX: usize = 1024 * 1024;

/// Peers that were given up and are remembered.
const RESTING_MAX: usize = 16;

/// Everything a node publishes.
#[derive(Debug)]
pub struct Outlet {
    me: Peer,
    limits: Limits,
    flood: Lane,
    lanes: BTreeMap<NodeId, Lane>,
    /// Lanes with an open frame.
    open: Vec<NodeId>,
    /// Peers that were given up and may come back, longest ago first.
    resting: Vec<NodeId>,
    last_lane: u32,
    /// Lanes of kept frames, oldest first.
    ages: VecDeque<(Option<NodeId>, u32)>,
    kept_bytes: usize,
    queue: VecDeque<Publish>,
    queued_bytes: usize,
    /// Frames that were ever queued.
    numbered: u64,
    under_way: usize,
    pace: Pace,
    /// Repairs have left since a batch ended: the next ones wait for the end of one. It need not be the same: behind a server that
    /// stands still, the others go on.
    repairing: bool,
    /// Bytes of repairs that the engine has not taken, by peer.
    resent: BTreeMap<NodeId, usize>,
    repairs: VecDeque<Repair>,
    answered: Vec<Answered>,
    /// Channels whose frames the engine did not take, until when.
    paused: Vec<(Channel, u64)>,
    sent: Sent,
    /// Batches taken, and how many there were at the last heartbeat.
    taken: u64,
    beaten: Option<u64>,
}

impl Outlet {
    /// An outlet without peers.
    pub fn new(me: Peer, limits: Limits) -> Self {
        Self {
            me,
            limits,
            flood: Lane::new(0, None, 0),
            lanes: BTreeMap::new(),
            open: Vec::new(),
            resting: Vec::new(),
            last_lane: 0,
            ages: VecDeque::new(),
            kept_bytes: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            numbered: 0,
            under_way: 0,
            pace: Pace::default(),
            repairing: false,
            resent: BTreeMap::new(),
            repairs: VecDeque::new(),
            answered: Vec::new(),
            paused: Vec::new(),
            sent: Sent::default(),
            taken: 0,
            beaten: None,
        }
    }

    /// Begins a lane to a peer, unless it has one. Floods from now on are owed to it.
    pub fn add(&mut self, peer: Peer, now_us: u64) {
        if let Some(lane) = self.lanes.get_mut(&peer.node)
            && lane.to == Some(peer)
        {
            lane.rest = Rest::Awake;
            self.resting.retain(|node| *node != peer.node);
            return;
        }
        self.remove(peer.node);
        self.close_flood(Closed::Order, now_us);
        self.last_lane += 1;
        let lane = Lane::new(self.last_lane, Some(peer), self.flood.closed);
        self.lanes.insert(peer.node, lane);
    }

    /// A peer was given up. It was there at this time, and may come back: what is for all is kept for it as long as the ring holds it,
    /// and counted after that.
    pub fn rest(&mut self, node: NodeId, since_us: u64) {
        if self.resting.len() >= RESTING_MAX
            && let Some(first) = self.resting.first().copied()
        {
            self.remove(first);
        }
        if let Some(lane) = self.lanes.get_mut(&node) {
            lane.rest = Rest::Kept(since_us);
            self.resting.push(node);
        }
        self.repairs.retain(|repair| repair.asker != node);
        self.answered.retain(|answered| answered.asker != node);
    }

    /// Keeps or counts a letter for peers that were given up.
    pub fn send_resting(&mut self, without: &[NodeId], letter: &[u8], now_us: u64) {
        for at in 0..self.resting.len() {
            let node = self.resting[at];
            let Some(lane) = self
                .lanes
                .get_mut(&node)
                .filter(|_| !without.contains(&node))
            else {
                continue;
            };
            match lane.rest {
                // Between two frames of the lane: none holds a position that was counted.
                Rest::Counted => lane.closed += 1,
                _ => self.post(node, letter, now_us),
            }
        }
    }

    /// Forgets a peer and what was kept for it.
    pub fn remove(&mut self, node: NodeId) {
        self.resting.retain(|resting| *resting != node);
        if let Some(lane) = self.lanes.remove(&node) {
            self.kept_bytes -= lane.kept.iter().map(|kept| kept.frame.len()).sum::<usize>();
        }
        self.open.retain(|open| *open != node);
        self.repairs.retain(|repair| repair.asker != node);
        self.answered.retain(|answered| answered.asker != node);
    }

    /// Sends a letter to some peers; one that is not known is passed over. See [`Self::has_room`].
    pub fn send(&mut self, to: &[NodeId], letter: &[u8], now_us: u64) {
        to.iter().for_each(|node| self.post(*node, letter, now_us));
    }

    fn post(&mut self, to: NodeId, letter: &[u8], now_us: u64) {
        // One order over both sequences: a frame never holds letters from before and after a letter of the other one.
        self.close_flood(Closed::Order, now_us);
        let limits = self.limits;
        let Some(lane) = self.lanes.get_mut(&to) else {
            return;
        };
        if lane.open_count == 0 {
            self.open.push(to);
        }
        lane.push(letter, now_us);
        self.sent.letters += 1;
        if is_full(lane, &limits) {
            self.close_inbox(to, Closed::Full, now_us);
            self.open.retain(|open| *open != to);
        }
    }

    /// Sends a letter to all nodes. Returns its position. See [`Self::has_room`].
    pub fn flood(&mut self, letter: &[u8], now_us: u64) -> u64 {
        self.close_inboxes(Closed::Order, now_us);
        let position = self.flood.next();
        self.flood.push(letter, now_us);
        self.sent.letters += 1;
        if is_full(&self.flood, &self.limits) {
            self.close_flood(Closed::Full, now_us);
        }
        position
    }

    /// Whether a letter of so many bytes keeps the bound. Its sender asks before: here nothing is refused, so nothing that was let in
    /// gets lost. A letter larger than the bound has room when nothing else waits: it could never be sent otherwise.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.queued_bytes == 0 || self.queued_bytes + bytes <= self.limits.queue_bytes
    }

    /// A heartbeat is about to be queued. `false`: nothing has left since the last one.
    pub(crate) fn moved_since_beat(&mut self) -> bool {
        let before = self.beaten.replace(self.taken);
        before != Some(self.taken) || self.queue.is_empty()
    }

    /// Queues a frame that is never repaired.
    pub(crate) fn push_unsequenced(&mut self, channel: Channel, frame: Vec<u8>) {
        self.enqueue(channel, frame.into(), Worth::Once);
    }

    /// Closes all frames: no letter comes behind these.
    pub(crate) fn close_all(&mut self, now_us: u64) {
        self.close_flood(Closed::Waited, now_us);
        self.close_inboxes(Closed::Waited, now_us);
    }

    /// Queues a frame for all that is the last of this life.
    pub(crate) fn push_last_word(&mut self, frame: Vec<u8>) {
        self.enqueue(Channel::Flood, frame.into(), Worth::Kept);
    }

    fn enqueue(&mut self, channel: Channel, frame: Arc<[u8]>, worth: Worth) {
        self.queued_bytes += frame.len();
        self.numbered += 1;
        self.queue.push_back(Publish {
            channel,
            frame,
            number: self.numbered,
            worth,
        });
    }

    fn close_inboxes(&mut self, why: Closed, now_us: u64) {
        let mut open = std::mem::take(&mut self.open);
        open.drain(..)
            .for_each(|node| self.close_inbox(node, why, now_us));
        self.open = open;
    }

    fn close_inbox(&mut self, node: NodeId, why: Closed, now_us: u64) {
        let Some(lane) = self.lanes.get_mut(&node) else {
            return;
        };
        if lane.open_count == 0 {
            return;
        }
        let to = lane.to.map(|peer| (peer, lane.id));
        let frame = close(self.me, lane, to, self.flood.closed, &[], now_us);
        let (id, rest) = (lane.id, lane.rest);
        self.keep(Some(node), id, frame.len());
        if rest != Rest::Awake {
            return;
        }
        self.sent.bytes += frame.len() as u64;
        self.sent.frames[why as usize] += 1;
        self.enqueue(Channel::Inbox(node), frame, Worth::Kept);
    }

    fn close_flood(&mut self, why: Closed, now_us: u64) {
        if self.flood.open_count == 0 {
            return;
        }
        // All of them, not only those with news: the flood frame that brought the news may be lost for good.
        let linked = self.lanes.values().filter(|lane| lane.closed > 0);
        let links: Vec<_> = linked.map(|lane| (lane.id, lane.closed)).collect();
        let frame = close(self.me, &mut self.flood, None, 0, &links, now_us);
        self.keep(None, 0, frame.len());
        self.sent.bytes += frame.len() as u64;
        self.sent.frames[why as usize] += 1;
        self.enqueue(Channel::Flood, frame, Worth::Kept);
    }

    fn keep(&mut self, node: Option<NodeId>, lane: u32, bytes: usize) {
        self.kept_bytes += bytes;
        self.ages.push_back((node, lane));
        while self.kept_bytes > self.limits.ring_bytes
            && let Some((node, lane)) = self.ages.pop_front()
        {
            let oldest = match node {
                None => Some(&mut self.flood),
                // A lane that was removed took its frames along.
                Some(node) => self.lanes.get_mut(&node).filter(|found| found.id == lane),
            };
            if let Some(lane) = oldest {
                self.kept_bytes -= lane.forget_oldest();
            }
        }
    }

    /// A peer misses letters: they are sent again with the next batches, as far as they are kept.
    pub fn nack(
        &mut self,
        asker: NodeId,
        stream: Stream,
        lane_id: u32,
        (from, to): (u64, u64),
        now_us: u64,
    ) {
        self.sent.questions += 1;
        let from = self.unanswered(asker, stream, from, now_us);
        let Some(lane) = self.lanes.get(&asker).filter(|lane| lane.id == lane_id) else {
            return;
        };
        let asked = match stream {
            Stream::Inbox => lane,
            Stream::Flood => &self.flood,
        };
        let to = to.min(asked.closed);
        if from > to {
            return;
        }
        let oldest = asked
            .kept
            .front()
            .map_or(asked.closed + 1, |kept| kept.first);
        if from < oldest {
            let upto = to.min(oldest - 1);
            let gone = frame::write_gone(self.me, stream, lane_id, upto);
            self.sent.gone += 1;
            self.push_unsequenced(Channel::Inbox(asker), gone);
        }
        let next = from.max(oldest);
        // The peer asks again for what does not come: one question at a time is enough.
        let asking = |repair: &Repair| repair.asker == asker && repair.stream == stream;
        if next <= to && !self.repairs.iter().any(asking) {
            self.repairs.push_back(Repair {
                asker,
                stream,
                next,
                to,
            });
        }
    }

    /// The first position of a question that was not answered a moment ago.
    fn unanswered(&mut self, asker: NodeId, stream: Stream, from: u64, now_us: u64) -> u64 {
        let waits = |taken_us: u64| now_us < taken_us + CROSSING_US;
        self.answered
            .retain(|answered| answered.taken_us.is_none_or(waits));
        let same = |answered: &&Answered| answered.asker == asker && answered.stream == stream;
        let answered = self.answered.iter().filter(same);
        let upto = answered.map(|answered| answered.to).max();
        upto.map_or(from, |upto| from.max(upto + 1))
    }

    /// Queues the next repairs, within their share of a batch.
    fn repair(&mut self) {
        let (mut share, mut later) = (self.limits.repair_bytes, Vec::new());
        while share > 0
            && let Some(mut repair) = self.repairs.pop_front()
        {
            if !self.takes_repairs(repair.asker) {
                later.push(repair);
                continue;
            }
            let lane = match repair.stream {
                Stream::Flood => Some(&self.flood),
                Stream::Inbox => self.lanes.get(&repair.asker),
            };
            let kept = lane.and_then(|lane| {
                let at = lane.kept.partition_point(|kept| kept.last < repair.next);
                lane.kept.get(at).filter(|kept| kept.first <= repair.to)
            });
            let Some(kept) = kept else { continue };
            let (frame, last) = (Arc::clone(&kept.frame), kept.last);
            share = share.saturating_sub(frame.len());
            self.sent.repairs += 1;
            self.repairing = true;
            *self.resent.entry(repair.asker).or_default() += frame.len();
            self.enqueue(Channel::Inbox(repair.asker), frame, Worth::Repair);
            repair.next = last + 1;
            // In turns: a receiver needs both sequences, and others wait as well.
            if repair.next <= repair.to {
                self.repairs.push_back(repair);
            } else {
                self.answered.push(Answered {
                    asker: repair.asker,
                    stream: repair.stream,
                    to: repair.to,
                    number: self.numbered,
                    taken_us: None,
                });
            }
        }
        self.repairs.extend(later);
    }

    fn takes_repairs(&self, asker: NodeId) -> bool {
        self.resent.get(&asker) < Some(&REPAIRS_BYTES_MAX)
    }

    /// A repair was taken, or was not.
    fn note_resent(&mut self, publish: &Publish) {
        if let (Worth::Repair, Channel::Inbox(asker)) = (publish.worth, publish.channel)
            && let Some(bytes) = self.resent.get_mut(&asker)
        {
            *bytes -= publish.frame.len();
            if *bytes == 0 {
                self.resent.remove(&asker);
            }
        }
    }

    /// Moves what is to be published now to `batch`; empty = nothing yet. Each batch that is not empty ends with [`Self::ended`].
    pub fn take(&mut self, batch: &mut Vec<Publish>, now_us: u64) {
        self.close_ready(now_us);
        if !self.repairing {
            self.repair();
        }
        self.paused.retain(|(_, until_us)| now_us < *until_us);
        let before = batch.len();
        if self.paused.is_empty() {
            batch.extend(self.queue.drain(..));
        } else {
            let all = std::mem::take(&mut self.queue).into_iter();
            let (wait, go): (Vec<_>, Vec<_>) = all.partition(|one| self.is_paused(one.channel));
            self.queue = wait.into();
            batch.extend(go);
        }
        if batch.len() > before {
            self.under_way += 1;
            self.taken += 1;
        }
    }

    /// Closes the frames that leave now.
    fn close_ready(&mut self, now_us: u64) {
        let linger_us = self.limits.linger_us;
        let idle = self.under_way == 0 && self.pace.next_us(linger_us) <= now_us;
        let waited = |lane: &Lane| lane.open_count > 0 && now_us >= lane.opened_us + linger_us;
        let why = if idle { Closed::Idle } else { Closed::Waited };
        let mut closed = false;
        if self.flood.open_count > 0 && (idle || waited(&self.flood)) {
            self.close_flood(why, now_us);
            closed = true;
        }
        let mut lanes = self.open.iter().filter_map(|node| self.lanes.get(node));
        if idle && !self.open.is_empty() || lanes.any(waited) {
            self.close_inboxes(why, now_us);
            closed = true;
        }
        if closed {
            self.pace.step(linger_us, now_us);
        }
    }

    fn is_paused(&self, channel: Channel) -> bool {
        self.paused.iter().any(|(paused, _)| *paused == channel)
    }

    /// A batch ended. Frames that the engine did not take, or nobody knows, are published again before all others of their
    /// channels, which wait for them. Receivers drop what they have.
    pub fn ended(&mut self, batch: Vec<Publish>, taken: impl Fn(usize) -> bool, now_us: u64) {
        self.under_way -= 1;
        self.repairing = false;
        let mut failed = false;
        for (at, publish) in batch.into_iter().enumerate() {
            self.note_resent(&publish);
            if taken(at) {
                self.queued_bytes -= publish.frame.len();
                self.note_answer(publish.number, Some(now_us));
                continue;
            }
            self.pause(publish.channel, now_us);
            if publish.worth != Worth::Kept {
                self.queued_bytes -= publish.frame.len();
                self.note_answer(publish.number, None);
            } else {
                failed = true;
                self.queue.push_back(publish);
            }
        }
        if failed {
            // Another batch may have failed before: the oldest frame comes first again.
            let queue = self.queue.make_contiguous();
            queue.sort_by_key(|publish| publish.number);
        }
    }

    fn pause(&mut self, channel: Channel, now_us: u64) {
        self.paused.retain(|(paused, _)| *paused != channel);
        self.paused.push((channel, now_us + PAUSE_US));
    }

    /// The last frame of a repair was taken, or was not.
    fn note_answer(&mut self, number: u64, taken_us: Option<u64>) {
        let Some(at) = (self.answered.iter()).position(|answered| answered.number == number) else {
            return;
        };
        match taken_us {
            Some(_) => self.answered[at].taken_us = taken_us,
            None => drop(self.answered.swap_remove(at)),
        }
    }

    /// When [`Self::take`] has something, if nothing happens before.
    pub fn due_us(&self, now_us: u64) -> Option<u64> {
        let some_open = self.flood.open_count > 0 || !self.open.is_empty();
        let may_leave = |repair: &Repair| self.takes_repairs(repair.asker);
        let repairs = !self.repairing && self.repairs.iter().any(may_leave);
        let ready = |publish: &Publish| !self.is_paused(publish.channel);
        if self.queue.iter().any(ready) || repairs {
            return Some(now_us);
        }
        let linger_us = self.limits.linger_us;
        let idle =
            (self.under_way == 0 && some_open).then(|| self.pace.next_us(linger_us).max(now_us));
        let opened = self.open.iter().filter_map(|node| self.lanes.get(node));
        let flood = Some(&self.flood).filter(|lane| lane.open_count > 0);
        let lingers = opened.chain(flood);
        let lingers = lingers.map(|lane| lane.opened_us + linger_us);
        let paused = self.paused.iter().filter(|_| !self.queue.is_empty());
        let paused = paused.map(|(_, until_us)| *until_us);
        lingers.chain(paused).chain(idle).min()
    }

    /// Position of the last letter in a flood frame.
    pub fn flood_position(&self) -> u64 {
        self.flood.closed
    }

    /// Closes the open flood frame: what it holds counts as flooded from now on.
    pub(crate) fn end_flood_frame(&mut self, now_us: u64) {
        self.close_flood(Closed::Waited, now_us);
    }

    /// What the heartbeat says of each peer; `got_flood` and `heard` are filled in by the caller.
    pub(crate) fn known(&self) -> impl Iterator<Item = Known> + '_ {
        self.lanes.values().filter_map(|lane| {
            Some(Known {
                peer: lane.to?,
                lane: lane.id,
                base: lane.base,
                sent: lane.closed,
                got_flood: 0,
                heard: 0,
            })
        })
    }

    /// Microseconds of traffic that the ring holds now: the longest outage that is repaired in full.
    pub fn ring_us(&self, now_us: u64) -> u64 {
        let lanes = self.lanes.values().chain([&self.flood]);
        let oldest = lanes
            .filter_map(|lane| lane.kept.front())
            .map(|kept| kept.sent_us);
        oldest.min().map_or(0, |sent_us| now_us - sent_us)
    }

    /// Bytes kept for repair.
    pub fn ring_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Bytes of frames that the engine has not taken yet.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Counters.
    pub fn sent(&self) -> Sent {
        self.sent
    }
}

#[cfg(test)]
mod tests;
