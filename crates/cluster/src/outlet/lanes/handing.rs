//! A node's outlet as a record, and back. Questions of peers are left out: they are asked again.

use super::lane::{Kept, Lane, Rest};
use super::{Channel, Limits, Outlet, Worth};
use crate::frame::{self, Epoch, Frame, NodeId, Peer, bounded};
use handoff::cluster as record;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Outlet {
    /// All frames that can be sent again, and those that wait.
    ///
    /// # Errors
    /// Some are under way to the engine: nobody knows of them.
    pub(crate) fn record(&self) -> Result<record::Sent, &'static str> {
        if self.under_way > 0 {
            return Err("frames are under way to the engine");
        }
        let kept = self.queue.iter().filter(|frame| frame.worth == Worth::Kept);
        Ok(record::Sent {
            flood: Some(lane_record(&self.flood)),
            lanes: self.lanes.values().map(lane_record).collect(),
            last_lane: self.last_lane,
            resting: self.resting.iter().map(|node| u32::from(node.0)).collect(),
            queue: kept
                .map(|publish| record::Queued {
                    node: match publish.channel {
                        Channel::Flood => None,
                        Channel::Inbox(node) => Some(u32::from(node.0)),
                    },
                    frame: publish.frame.to_vec(),
                })
                .collect(),
        })
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
        let flood = sent.flood.as_ref().ok_or("no flood")?;
        outlet.flood = lane(me, flood, now_us)?;
        outlet.last_lane = sent.last_lane.min(u32::MAX / 2);
        for found in &sent.lanes {
            let lane = lane(me, found, now_us)?;
            let peer = lane.to.ok_or("a lane to nobody")?;
            let fits = peer.node != me.node
                && lane.id <= outlet.last_lane
                && lane.base <= outlet.flood.closed;
            if !fits || outlet.lanes.values().any(|other| other.id == lane.id) {
                return Err("a lane that cannot be");
            }
            if lane.open_count > 0 {
                outlet.open.push(peer.node);
            }
            if outlet.lanes.insert(peer.node, lane).is_some() {
                return Err("two lanes to one node");
            }
        }
        let both = outlet.flood.open_count > 0 && !outlet.open.is_empty();
        if both {
            return Err("open letters in both sequences");
        }
        outlet.rest_of(sent)?;
        outlet.age();
        for queued in &sent.queue {
            let channel = match queued.node {
                None => Channel::Flood,
                Some(node) => Channel::Inbox(number(node)?),
            };
            outlet.enqueue(channel, own_frame(me, &queued.frame)?, Worth::Kept);
        }
        Ok(outlet)
    }

    /// Peers that were given up.
    fn rest_of(&mut self, sent: &record::Sent) -> Result<(), &'static str> {
        for node in &sent.resting {
            let node = number(*node)?;
            let rests = self
                .lanes
                .get(&node)
                .is_some_and(|lane| lane.rest != Rest::Awake);
            if !rests || self.resting.contains(&node) {
                return Err("a node that rests and does not");
            }
            self.resting.push(node);
        }
        Ok(())
    }

    /// The kept frames of all lanes in the order of their age.
    fn age(&mut self) {
        let mut ages = BTreeMap::<u64, Vec<(Option<NodeId>, u32)>>::new();
        let lanes = self.lanes.iter();
        let lanes = lanes.map(|(node, lane)| (Some(*node), lane));
        for (node, lane) in lanes.chain([(None, &self.flood)]) {
            for kept in &lane.kept {
                self.kept_bytes += kept.frame.len();
                ages.entry(kept.sent_us).or_default().push((node, lane.id));
            }
        }
        self.ages = ages.into_values().flatten().collect();
    }
}

fn number(node: u32) -> Result<NodeId, &'static str> {
    let node = u16::try_from(node).map_err(|_| "a number that no node can have")?;
    Ok(NodeId(node))
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
            node: number(record.node)?,
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

/// A frame that this node made.
fn own_frame(me: Peer, bytes: &[u8]) -> Result<Arc<[u8]>, &'static str> {
    match frame::read(bytes) {
        Ok((peer, Frame::Letters(_) | Frame::Bye { .. })) if peer == me => Ok(bytes.into()),
        _ => Err("a frame that this node did not make"),
    }
}
