//! The lanes of a node as a record, and back.

use super::Lanes;
use super::lane::{Kept, Lane, Rest};
use crate::frame::{self, Epoch, Peer, bounded, node_id, own_frame};
use crate::outlet::limits::Limits;
use crate::outlet::queue::Channel;
use handoff::cluster as record;
use std::collections::BTreeMap;

impl Lanes {
    /// All frames that can be sent again.
    pub(in crate::outlet) fn record(&self, queue: Vec<record::Queued>) -> record::Sent {
        record::Sent {
            flood: Some(lane_record(&self.flood)),
            lanes: self.inboxes.values().map(lane_record).collect(),
            last_lane: self.last_id,
            resting: self.resting.iter().map(|node| u32::from(node.0)).collect(),
            queue,
        }
    }

    /// The lanes of a record.
    ///
    /// # Errors
    /// The record contradicts itself: in what.
    pub(in crate::outlet) fn restored(
        me: Peer,
        limits: Limits,
        sent: &record::Sent,
        now_us: u64,
    ) -> Result<Self, &'static str> {
        let mut lanes = Self::new(me, limits);
        let flood = sent.flood.as_ref().ok_or("no flood")?;
        lanes.flood = lane(me, flood, now_us)?;
        lanes.last_id = sent.last_lane.min(u32::MAX / 2);
        for found in &sent.lanes {
            let lane = lane(me, found, now_us)?;
            let peer = lane.to.ok_or("a lane to nobody")?;
            let fits =
                peer.node != me.node && lane.id <= lanes.last_id && lane.base <= lanes.flood.closed;
            if !fits || lanes.inboxes.values().any(|other| other.id == lane.id) {
                return Err("a lane that cannot be");
            }
            if lanes.inboxes.insert(peer.node, lane).is_some() {
                return Err("two lanes to one node");
            }
        }
        lanes.restore_open()?;
        lanes.rest_of(sent)?;
        lanes.age();
        Ok(lanes)
    }

    /// Lanes whose frames are open, the oldest one first.
    fn restore_open(&mut self) -> Result<(), &'static str> {
        let open = self.inboxes.iter().filter(|(_, lane)| lane.open_count > 0);
        let mut open: Vec<_> = open.map(|(node, lane)| (lane.opened_us, *node)).collect();
        if self.flood.open_count > 0 && !open.is_empty() {
            return Err("open letters in both sequences");
        }
        open.sort_unstable();
        self.open = open.into_iter().map(|(_, node)| node).collect();
        Ok(())
    }

    /// Peers that were given up.
    fn rest_of(&mut self, sent: &record::Sent) -> Result<(), &'static str> {
        for node in &sent.resting {
            let node = node_id(*node)?;
            let lane = self.inboxes.get(&node);
            let rests = lane.is_some_and(|lane| lane.rest != Rest::Awake);
            if !rests || self.resting.contains(&node) {
                return Err("a node that rests and does not");
            }
            self.resting.push(node);
        }
        Ok(())
    }

    /// The kept frames of all lanes in the order of their age.
    fn age(&mut self) {
        let mut ages = BTreeMap::<u64, Vec<(Channel, u32)>>::new();
        let inboxes = self.inboxes.iter();
        let inboxes = inboxes.map(|(node, lane)| (Channel::Inbox(*node), lane));
        for (channel, lane) in inboxes.chain([(Channel::Flood, &self.flood)]) {
            for kept in &lane.kept {
                self.kept_bytes += kept.frame.len();
                let same = ages.entry(kept.sent_us).or_default();
                same.push((channel, lane.id));
            }
        }
        self.ages = ages.into_values().flatten().collect();
    }
}

fn lane_record(lane: &Lane) -> record::Lane {
    let (rest, rests_us) = match lane.rest {
        Rest::Awake => (0, 0),
        Rest::Kept(since_us) => (1, since_us),
        Rest::Counted => (2, 0),
    };
    record::Lane {
        id: lane.id,
        node: lane.to.map_or(0, |peer| u32::from(peer.node.0)),
        epoch: lane.to.map_or(0, |peer| peer.epoch.0),
        base: lane.base,
        closed: lane.closed,
        open: lane.open.clone(),
        open_count: u32::from(lane.open_count),
        opened_us: lane.opened_us,
        kept: lane
            .kept
            .iter()
            .map(|kept| record::Kept {
                first: kept.first,
                last: kept.last,
                sent_us: kept.sent_us,
                frame: kept.frame.to_vec(),
            })
            .collect(),
        rest,
        rests_us,
    }
}

fn lane(me: Peer, record: &record::Lane, now_us: u64) -> Result<Lane, &'static str> {
    let to = match record.id {
        0 => None,
        _ => Some(Peer {
            node: node_id(record.node)?,
            epoch: Epoch(record.epoch),
        }),
    };
    let mut lane = Lane::new(record.id, to, record.base);
    lane.base = bounded(record.base)?;
    lane.closed = bounded(record.closed)?;
    lane.open_count = u16::try_from(record.open_count).map_err(|_| "too many open letters")?;
    if frame::count_letters(&record.open) != Some(record.open_count as usize) {
        return Err("open letters that are none");
    }
    lane.open.clone_from(&record.open);
    lane.opened_us = record.opened_us.min(now_us);
    lane.rest = match record.rest {
        0 => Rest::Awake,
        1 => Rest::Kept(record.rests_us.min(now_us)),
        _ => Rest::Counted,
    };
    let mut last = 0;
    for kept in &record.kept {
        if kept.first <= last || kept.last < kept.first || kept.last > record.closed {
            return Err("kept frames that are not in order");
        }
        last = kept.last;
        lane.kept.push_back(Kept {
            first: kept.first,
            last: kept.last,
            sent_us: kept.sent_us.min(now_us),
            frame: own_frame(me, &kept.frame)?,
        });
    }
    Ok(lane)
}
