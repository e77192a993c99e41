//! All sequences of letters of a node, one to each peer and one to all, and the ring of the frames that are kept of them.

mod handing;
mod lane;

use super::limits::Limits;
use super::queue::Channel;
use crate::bounds::RESTING_MAX;
use crate::frame::{Known, NodeId, Peer, Stream};
use lane::{Lane, Rest};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Lanes {
    me: Peer,
    limits: Limits,
    flood: Lane,
    inboxes: BTreeMap<NodeId, Lane>,
    /// Lanes to peers with an open frame, the oldest one first.
    open: VecDeque<NodeId>,
    /// Peers that were given up and may come back, longest ago first.
    resting: Vec<NodeId>,
    last_id: u32,
    /// Lanes of kept frames, oldest first.
    ages: VecDeque<(Channel, u32)>,
    kept_bytes: usize,
}

impl Lanes {
    pub(super) fn new(me: Peer, limits: Limits) -> Self {
        Self {
            me,
            limits,
            flood: Lane::new(0, None, 0),
            inboxes: BTreeMap::new(),
            open: VecDeque::new(),
            resting: Vec::new(),
            last_id: 0,
            ages: VecDeque::new(),
            kept_bytes: 0,
        }
    }

    /// A peer is there. `false`: it has no lane.
    pub(super) fn wake(&mut self, peer: Peer) -> bool {
        let lane = self.inboxes.get_mut(&peer.node);
        let Some(lane) = lane.filter(|lane| lane.to == Some(peer)) else {
            return false;
        };
        lane.rest = Rest::Awake;
        if lane.open_count == 0 {
            self.open.retain(|node| *node != peer.node);
        }
        self.resting.retain(|node| *node != peer.node);
        true
    }

    /// Begins a lane. Floods from now on are owed to its peer.
    pub(super) fn begin(&mut self, peer: Peer) {
        self.last_id += 1;
        let lane = Lane::new(self.last_id, Some(peer), self.flood.closed);
        self.inboxes.insert(peer.node, lane);
    }

    /// The peer to forget before another one may rest.
    pub(super) fn rests_too_long(&self) -> Option<NodeId> {
        let is_full = self.resting.len() >= RESTING_MAX;
        self.resting.first().copied().filter(|_| is_full)
    }

    pub(super) fn rest(&mut self, node: NodeId, since_us: u64) {
        if let Some(lane) = self.inboxes.get_mut(&node) {
            lane.rest = Rest::Kept(since_us);
            self.resting.push(node);
        }
    }

    pub(super) fn resting(&self) -> &[NodeId] {
        &self.resting
    }

    /// A letter for a peer that misses too much is only counted. `false`: it is to be kept.
    pub(super) fn count(&mut self, node: NodeId) -> bool {
        let lane = self.inboxes.get_mut(&node);
        let counted = lane.filter(|lane| lane.rest == Rest::Counted);
        // Between two frames of the lane: none holds a position that was counted.
        counted.map(|lane| lane.closed += 1).is_some()
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.resting.retain(|resting| *resting != node);
        if let Some(lane) = self.inboxes.remove(&node) {
            self.kept_bytes -= lane.kept.iter().map(|kept| kept.frame.len()).sum::<usize>();
        }
        self.open.retain(|open| *open != node);
    }

    fn get_mut(&mut self, channel: Channel) -> Option<&mut Lane> {
        match channel {
            Channel::Flood => Some(&mut self.flood),
            Channel::Inbox(node) => self.inboxes.get_mut(&node),
        }
    }

    /// Adds a letter to a lane. Whether its frame must be closed now; `None`: there is no such lane.
    pub(super) fn push(&mut self, to: Channel, letter: &[u8], now_us: u64) -> Option<bool> {
        let limits = self.limits;
        let lane = self.get_mut(to)?;
        let is_first = lane.open_count == 0;
        lane.push(letter, now_us);
        let is_full =
            lane.open.len() >= limits.frame_bytes || lane.open_count >= limits.frame_letters;
        if let Channel::Inbox(node) = to {
            match is_full {
                true if !is_first => self.open.retain(|open| *open != node),
                false if is_first => self.open.push_back(node),
                _ => {}
            }
        }
        Some(is_full)
    }

    /// A lane to a peer whose frame is open: it is to be closed.
    pub(super) fn next_open(&mut self) -> Option<NodeId> {
        self.open.pop_front()
    }

    /// When the first letter came of those in open frames. Frames of both kinds are never open at once.
    pub(super) fn opened_us(&self) -> Option<u64> {
        let inboxes = self.open.iter().filter_map(|node| self.inboxes.get(node));
        let mut lanes = inboxes.chain([&self.flood]);
        let open = lanes.find(|lane| lane.open_count > 0);
        open.map(|lane| lane.opened_us)
    }

    /// Makes a frame of a lane's open letters and keeps it. `None`: there is none, or it is not published, because its peer rests.
    pub(super) fn close(&mut self, channel: Channel, now_us: u64) -> Option<Arc<[u8]>> {
        let (me, mut flood_before, mut links) = (self.me, self.flood.closed, Vec::new());
        if channel == Channel::Flood {
            if self.flood.open_count == 0 {
                return None;
            }
            // All of them, not only those with news: the flood frame that brought the news may be lost for good.
            let linked = self.inboxes.values().filter(|lane| lane.closed > 0);
            links.extend(linked.map(|lane| (lane.id, lane.closed)));
            flood_before = 0;
        }
        let lane = self.get_mut(channel).filter(|lane| lane.open_count > 0)?;
        let frame = lane.close(me, flood_before, &links, now_us);
        let (id, is_awake) = (lane.id, lane.rest == Rest::Awake);
        self.keep(channel, id, frame.len());
        is_awake.then_some(frame)
    }

    fn keep(&mut self, channel: Channel, id: u32, bytes: usize) {
        self.kept_bytes += bytes;
        self.ages.push_back((channel, id));
        while self.kept_bytes > self.limits.ring_bytes
            && let Some((channel, id)) = self.ages.pop_front()
        {
            // A lane that was removed took its frames along.
            if let Some(lane) = self.get_mut(channel).filter(|lane| lane.id == id) {
                self.kept_bytes -= lane.forget_oldest();
            }
        }
    }

    fn get(&self, node: NodeId, stream: Stream) -> Option<&Lane> {
        match stream {
            Stream::Flood => Some(&self.flood),
            Stream::Inbox => self.inboxes.get(&node),
        }
    }

    /// The first position of a sequence that is kept, and its last one. `None`: the peer's lane is another one.
    pub(super) fn range(&self, node: NodeId, id: u32, stream: Stream) -> Option<(u64, u64)> {
        self.inboxes.get(&node).filter(|lane| lane.id == id)?;
        let lane = self.get(node, stream)?;
        let oldest = lane.kept.front().map(|kept| kept.first);
        Some((oldest.unwrap_or(lane.closed + 1), lane.closed))
    }

    /// The first kept frame with one of these positions, and the last position in it.
    pub(super) fn find(
        &self,
        node: NodeId,
        stream: Stream,
        from: u64,
        to: u64,
    ) -> Option<(u64, Arc<[u8]>)> {
        let kept = &self.get(node, stream)?.kept;
        let at = kept.partition_point(|kept| kept.last < from);
        let found = kept.get(at).filter(|kept| kept.first <= to)?;
        Some((found.last, Arc::clone(&found.frame)))
    }

    /// Position of the last letter for all.
    pub(super) fn flood_last(&self) -> u64 {
        self.flood.last()
    }

    /// The same of those in closed frames.
    pub(crate) fn flood_position(&self) -> u64 {
        self.flood.closed
    }

    /// What the heartbeat says of each peer; `got_flood` and `heard` are filled in by the caller.
    pub(crate) fn known(&self) -> impl Iterator<Item = Known> + '_ {
        self.inboxes.values().filter_map(|lane| {
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
    pub(crate) fn ring_us(&self, now_us: u64) -> u64 {
        let lanes = self.inboxes.values().chain([&self.flood]);
        let oldest = lanes.filter_map(|lane| lane.kept.front());
        let oldest = oldest.map(|kept| kept.sent_us).min();
        oldest.map_or(0, |sent_us| now_us - sent_us)
    }
}
